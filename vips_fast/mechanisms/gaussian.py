"""Gaussian noise on an integer sum: one draw for each release."""

import math
from dataclasses import dataclass

import numpy as np

from ..kernels import add_rounded_gaussian
from ..kernels.lattice import MAX_NORM_UNITS, noise_spacing

#: Bounds outside this range could under- or overflow when they are squared.
LEAST_BOUND, LARGEST_BOUND = 1e-100, 1e100


@dataclass(frozen=True)
class GaussianMechanism:
    """Gaussian noise for a sum of clipped contributions on a lattice.

    The sum is an int64 array in units of ``spacing``. The noise that is added is round(N(0, (noise_sd / spacing)^2))
    for each entry. As the sum is an integer this equals round(sum + N(0, ...)), post-processing of the exact Gaussian
    mechanism. So every bound for the Gaussian holds.

    ``noise_multiplier`` is the standard deviation over ``sensitivity``, the L2 sensitivity of the sum under the
    sampler's neighboring relation; 0 adds nothing (not private). ``clip_norm`` is the L2 bound of one contribution,
    below 2^31 lattice units. Sums of up to 2^31 contributions then stay below 2^62, and so does the noise.

    Raises ValueError if a number is out of range, or the noise too large for a contribution to be seen on its lattice.
    """

    noise_multiplier: float
    sensitivity: float
    clip_norm: float

    def __post_init__(self) -> None:
        for name in ("sensitivity", "clip_norm"):
            value = getattr(self, name)
            if not LEAST_BOUND <= value <= LARGEST_BOUND:
                raise ValueError(f"{name}={value!r}: expected a number in [{LEAST_BOUND:g}, {LARGEST_BOUND:g}]")
        z = self.noise_multiplier
        if not (math.isfinite(z) and z >= 0):
            raise ValueError(f"noise_multiplier={z!r}: expected a finite number >= 0")
        units = self.clip_norm / self.spacing
        if not 1 <= units < MAX_NORM_UNITS:
            raise ValueError(
                f"noise_multiplier={z!r}: the noise is {self.noise_sd / self.clip_norm:.3g} times a whole "
                "contribution; expected at most 2^21 times"
            )

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise, in the units of the statistics."""
        return self.noise_multiplier * self.sensitivity

    @property
    def spacing(self) -> float:
        """Lattice spacing, a power of two, from public numbers."""
        return noise_spacing(self.noise_sd, self.clip_norm)

    def add_noise(self, sums: np.ndarray, key: bytes | None, n_threads: int = 1) -> None:
        """Add this release's noise to the int64 sum, in one draw.

        With `key` None a fresh one comes from the operating system; 32 bytes make the noise reproducible, and worthless
        (tests only).
        """
        if self.noise_multiplier > 0:
            add_rounded_gaussian(sums, self.noise_sd / self.spacing, unsafe_test_key=key, n_threads=n_threads)
