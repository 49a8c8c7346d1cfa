"""Exact Laplace noise on an integer sum, and the sampler whose releases are made with it."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass

import numpy as np

from ..accounting import LaplaceEvent, PrivacyEvent, WithoutReplacementEvent
from ..engine.sampling import FixedSizeSampler
from ..kernels.lattice import MAX_NORM_UNITS, noise_spacing


@dataclass(frozen=True)
class LaplaceMechanism:
    """Discrete Laplace noise for an integer sum of clipped contributions.

    The twin of `vips_fast.mechanisms.GaussianMechanism` for the L1 norm: with
    P(k) in proportion to exp(-|k| / s), s >= noise_multiplier * sensitivity in lattice units, a sum
    that moves by at most the sensitivity is released with epsilon = 1 / noise_multiplier.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise over ``sensitivity``; 0 adds nothing (not private).
    sensitivity : float
        L1 sensitivity of the sum.
    clip_norm : float
        L1 bound of one contribution.
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
        """Lattice spacing, a power of two, from public numbers alone."""
        return noise_spacing(self.noise_multiplier * self.sensitivity, self.clip_norm)

    def add_noise(self, sums: np.ndarray, key: bytes | None, n_threads: int = 1) -> None:
        """Add this release's noise to the int64 sum, in place, from the operating system's generator."""
        if self.noise_multiplier == 0:
            return
        if key is not None:
            raise ValueError("the Laplace mechanism takes no key")
        # Rounded up to a whole number of lattice steps: more noise, never less.
        scale = math.ceil(self.noise_multiplier * self.sensitivity / self.spacing * (1.0 + 2.0**-50))
        flat = sums.reshape(-1)
        for i in range(flat.size):
            flat[i] += discrete_laplace(scale)


def discrete_laplace(scale: int) -> int:
    """k with a probability in proportion to exp(-|k| / scale), exactly (Canonne, Kamath & Steinke 2020)."""

    def happens(numerator: int, denominator: int) -> bool:
        """With probability exp(-numerator / denominator), numerator <= denominator: von Neumann's series."""
        k = 1
        while secrets.randbelow(denominator * k) < numerator:
            k += 1
        return k % 2 == 1

    while True:
        rest = secrets.randbelow(scale)
        if not happens(rest, scale):
            continue
        whole = 0
        while happens(1, 1):
            whole += 1
        value = rest + scale * whole
        negative = secrets.randbits(1)
        if value or not negative:
            return -value if negative else value


class LaplaceSampler(FixedSizeSampler):
    """Batches of a fixed size whose releases are Laplace mechanisms."""

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Event of one release with this noise multiplier."""
        inner = LaplaceEvent(noise_multiplier, self.neighbors)
        if self.batch_size == self.n_records:
            return inner
        return WithoutReplacementEvent(self.batch_size, self.n_records, inner)
