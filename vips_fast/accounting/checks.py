"""Check arguments of accounting at the door: each value by one of these, or one line with its name.

Every public function passes each of its numbers to one of these first. What is not finite or out of its range never
reaches a formula: `max(0.0, nan)` would be a perfect guarantee.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check_number

FloatArray = NDArray[np.float64]

#: Largest and least positive magnitude: the square of one, and their ratio, are doubles.
LARGEST, LEAST = 1e100, 1e-100
#: Noise multipliers in this range have accurate answers, or infinity, from every accountant.
LEAST_NOISE, LARGEST_NOISE = 1e-9, 1e12
#: The largest count: the next integer is no double.
MOST = 2**53

#: Each is called with a name and a value. The squares of the first two are doubles: below `LEAST`, a record could seem
#: short that is far longer than its bound.
positive: Callable[[str, Any], float] = partial(check_number, low=LEAST, high=LARGEST)
non_negative: Callable[[str, Any], float] = partial(check_number, low=0.0, high=LARGEST)
probability: Callable[[str, Any], float] = partial(check_number, low=0.0, high=1.0)
open_probability: Callable[[str, Any], float] = partial(check_number, low=0.0, high=1.0, low_open=True, high_open=True)
count: Callable[..., int] = partial(check_number, low=0, high=MOST, integer=True)
#: Called with a value alone.
noise_multiplier: Callable[[Any], float] = partial(
    check_number, "noise_multiplier", low=LEAST_NOISE, high=LARGEST_NOISE
)


def renyi_orders(name: str, value: ArrayLike) -> FloatArray:
    """Return orders of Renyi divergences as a float64 array, not empty, of numbers in (1, 1e15]."""
    wanted = "in (1, 1e15]"
    try:
        given = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: expected numbers {wanted} in one array") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers {wanted}, got dtype {given.dtype}")
    array = given.astype(np.float64)
    if not array.size:
        raise ValueError(f"{name}: expected numbers {wanted}, at least one")
    bad = ~((array > 1.0) & (array <= 1e15))
    if bad.any():
        raise ValueError(f"{name}={float(array[bad][0])!r}: expected a finite number {wanted}")
    return array
