"""The noise lattice: round finished sums to it, exactly, and add Gaussian noise, one draw for each release.

*Rounding.* Let two sums differ by x before rounding, in units of the noise lattice. Afterwards they differ by at most
|x| + 1 in each coordinate, because the nearest integer moves by at most one more than its argument. This holds only for
*exact* rounding. In floating point the error of a product grows with the sum, and so with the private number of
records. So the factor is a fraction p / 2^k, and all arithmetic is on integers.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from .accounting.checks import positive
from .checks import check_number
from .kernels import add_rounded_gaussian
from .kernels.lattice import MAX_NORM_UNITS, noise_spacing

#: Entries that are rounded at a time.
_CHUNK = 1 << 15


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
    #: Standard deviation of the noise, in the units of the statistics.
    noise_sd: float = field(init=False, repr=False)
    #: Lattice spacing, a power of two, from public numbers.
    spacing: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("sensitivity", "clip_norm"):
            positive(name, getattr(self, name))
        z = check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True)
        object.__setattr__(self, "noise_sd", z * self.sensitivity)
        object.__setattr__(self, "spacing", noise_spacing(self.noise_sd, self.clip_norm))
        units = self.clip_norm / self.spacing
        if not 1 <= units < MAX_NORM_UNITS:
            raise ValueError(
                f"noise_multiplier={z!r}: the noise is {self.noise_sd / self.clip_norm:.3g} times a whole "
                "contribution; expected at most 2^21 times"
            )

    def add_noise(self, sums: np.ndarray, key: bytes | None, n_threads: int = 1) -> None:
        """Add this release's noise to the int64 sum, in one draw.

        With `key` None a fresh one comes from the operating system; 32 bytes make the noise reproducible, and worthless
        (tests only).
        """
        if self.noise_multiplier > 0:
            add_rounded_gaussian(sums, self.noise_sd / self.spacing, unsafe_test_key=key, n_threads=n_threads)


@dataclass(frozen=True)
class Fraction:
    """The number numerator / 2^shift, with a numerator below 2^31."""

    numerator: int
    shift: int

    @classmethod
    def below(cls, value: float) -> "Fraction":
        """Find the largest such fraction that is not above a positive number."""
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"value={value!r}: expected a finite number > 0")
        mantissa, exponent = math.frexp(value)
        return cls(math.floor(math.ldexp(mantissa, 31)), 31 - exponent)

    @property
    def value(self) -> float:
        """The fraction as a double; exact."""
        return math.ldexp(self.numerator, -self.shift)


def rounded(fine: np.ndarray, factor: Fraction) -> np.ndarray:
    """Round ``fine * factor`` to the nearest integers, exactly; halves go up.

    ``floor(fine * factor + 1/2)`` in rational numbers, as int64, for an array of int64 or of Python's integers. The
    caller ensures that results are below 2^62.
    """
    p, k = factor.numerator, factor.shift
    if fine.dtype != np.int64:
        half = 1 << (k - 1) if k > 0 else 0
        exact = (fine * p + half) >> k if k >= 0 else (fine * p) << -k
        return exact.astype(np.int64)
    flat = np.ascontiguousarray(fine).reshape(-1)
    out = np.empty(flat.size, dtype=np.int64)
    for first in range(0, flat.size, _CHUNK):
        part = flat[first : first + _CHUNK]
        # x = high 2^32 + low with 0 <= low < 2^32, and so for x p: no product leaves int64.
        high, low = (part >> 32) * p, (part & 0xFFFFFFFF) * p
        high += low >> 32
        low &= 0xFFFFFFFF
        if k >= 95:
            out[first : first + _CHUNK] = 0  # |x p| < 2^94
        elif k > 32:
            # Half of 2^k is a multiple of 2^32, so the low part only matters below it.
            high += 1 << (k - 33)
            out[first : first + _CHUNK] = high >> (k - 32)
        elif k > 0:
            low += 1 << (k - 1)
            high += low >> 32
            out[first : first + _CHUNK] = (high << (32 - k)) + ((low & 0xFFFFFFFF) >> k)
        else:
            out[first : first + _CHUNK] = ((high << 32) + low) << -k
    return out.reshape(fine.shape)
