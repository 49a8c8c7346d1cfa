"""Round finished sums exactly, from a fine lattice to the noise's.

Let two sums differ by x before rounding, in units of the noise lattice. Afterwards they differ by at most |x| + 1 in
each coordinate, because the nearest integer moves by at most one more than its argument. This holds only for *exact*
rounding. In floating point the error of a product grows with the sum, and so with the private number of records. So the
factor is a fraction p / 2^k, and all arithmetic is on integers.
"""

import math
from dataclasses import dataclass

import numpy as np

_BITS = 31
_CHUNK = 1 << 15


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
        return cls(math.floor(math.ldexp(mantissa, _BITS)), _BITS - exponent)

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
