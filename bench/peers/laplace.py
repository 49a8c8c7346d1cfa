"""Add Laplace noise to an integer sum; sample with such releases. The sampler's releases are made with this noise.

Float noise of the usual samplers leaks (Mironov 2012), so the noise is an exactly rounded sample. Random bits come from
the operating system.
"""

import math
import secrets
from dataclasses import dataclass

import numpy as np

from vips_fast.accounting import LaplaceEvent, PrivacyEvent, WithoutReplacementEvent
from vips_fast.engine.sampling import FixedSizeSampler
from vips_fast.kernels.lattice import MAX_NORM_UNITS, noise_spacing


def bernoulli_exp(a: int, b: int) -> bool:
    """Draw True with probability e^(-a/b) (Canonne et al. 2020, alg. 1).

    The first k with a failed Bernoulli(a / (b k)) is odd with probability exp(-a / b).
    """
    k = 1
    while secrets.randbelow(b * k) < a:
        k += 1
    return k % 2 == 1


def _exponential_floor(scale: int) -> int:
    """Draw floor of an exponential variate with integer mean `scale`, exactly.

    Let u be uniform below `scale`, accepted with probability exp(-u / scale), and v geometric with ratio 1/e. Then u +
    scale v has mass proportional to exp(-(u + scale v) / scale).
    """
    u = secrets.randbelow(scale)
    while not bernoulli_exp(u, scale):
        u = secrets.randbelow(scale)
    v = 0
    while bernoulli_exp(1, 1):
        v += 1
    return u + scale * v


def rounded_laplace(scale: int) -> int:
    """Draw a Laplace variate of integer scale, rounded exactly.

    For the exponential magnitude E of scale t, P(E >= 1/2) = exp(-1/(2t)). Given that, E - 1/2 is exponential again,
    and rounding E is 1 + its floor.
    """
    if not bernoulli_exp(1, 2 * scale):
        return 0
    magnitude = 1 + _exponential_floor(scale)
    return magnitude if secrets.randbits(1) else -magnitude


@dataclass(frozen=True)
class LaplaceMechanism:
    """Rounded Laplace noise for an integer sum of clipped contributions.

    The twin of `vips_fast.mechanisms.GaussianMechanism` for the L1 norm. An integer plus a rounded Laplace variate is
    post-processing of the Laplace mechanism, whose scale here is at least noise_multiplier * sensitivity in lattice
    units: epsilon = 1 / noise_multiplier. ``sensitivity`` is the sum's and ``clip_norm`` bounds one contribution, both
    in the L1 norm; a ``noise_multiplier`` of 0 adds nothing (not private).
    """

    noise_multiplier: float
    sensitivity: float
    clip_norm: float

    def __post_init__(self) -> None:
        scale = self.noise_multiplier * self.sensitivity
        if not 1 <= self.clip_norm / self.spacing < MAX_NORM_UNITS:
            raise ValueError(
                f"noise_multiplier={self.noise_multiplier!r}: the noise is {scale / self.clip_norm:.3g} times a whole "
                "contribution; expected at most 2^21 times"
            )

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise: sqrt(2) times its scale."""
        return math.sqrt(2.0) * self.noise_multiplier * self.sensitivity

    @property
    def spacing(self) -> float:
        """Lattice spacing, a power of two, from public numbers only."""
        return noise_spacing(self.noise_multiplier * self.sensitivity, self.clip_norm)

    def add_noise(self, sums: np.ndarray, key: bytes | None, n_threads: int = 1) -> None:
        """Add this release's noise to the int64 sum, in place. It comes from the operating system's generator."""
        if self.noise_multiplier == 0:
            return
        if key is not None:
            raise ValueError("the Laplace mechanism takes no key")
        # Rounded up to a whole number of lattice steps: more noise, never less.
        scale = math.ceil(self.noise_multiplier * self.sensitivity / self.spacing * (1.0 + 2.0**-50))
        flat = sums.reshape(-1)
        for i in range(flat.size):
            flat[i] += rounded_laplace(scale)


class LaplaceSampler(FixedSizeSampler):
    """Batches of a fixed size whose releases are Laplace mechanisms."""

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier."""
        inner = LaplaceEvent(noise_multiplier, self.relation)
        if self.batch_size == self.n_records:
            return inner
        return WithoutReplacementEvent(self.batch_size, self.n_records, inner)
