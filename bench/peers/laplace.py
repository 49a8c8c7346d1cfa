"""Add Laplace noise to an integer sum; sample with such releases. The sampler's releases are made with this noise."""

import math
from dataclasses import dataclass

import numpy as np

from peers.textbook import rounded_laplace
from vips_fast.accounting import LaplaceEvent, PrivacyEvent, WithoutReplacementEvent
from vips_fast.engine.sampling import FixedSizeSampler
from vips_fast.kernels.lattice import MAX_NORM_UNITS, noise_spacing


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
        """Add this release's noise to the int64 sum, in place.

        It comes from the operating system's generator.
        """
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
