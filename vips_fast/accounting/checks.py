"""Check arguments of accounting at the door: each value by one of these, or one line with its name.

Every public function passes each of its numbers to one of these first. What is not finite or out of its range never
reaches a formula: `max(0.0, nan)` would be a perfect guarantee.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

#: Largest and least positive magnitude: the square of one, and their ratio, are doubles.
LARGEST, LEAST = 1e100, 1e-100
#: Noise multipliers in this range have accurate answers, or infinity, from every accountant.
LEAST_NOISE, LARGEST_NOISE = 1e-9, 1e12
#: The largest count: the next integer is no double.
MOST = 2**53


def real(name: str, value: Any, low: float, high: float, ends: str = "[]", *, wanted: str = "") -> float:
    """Return ``value`` as a float from ``low`` to ``high``; round ``ends`` do not belong to the range."""
    number, is_number = math.nan, isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    if is_number:
        with suppress(OverflowError):  # an integer beyond doubles is in no range
            number = float(value)
        above = number >= low if ends[0] == "[" else number > low
        if above and (number <= high if ends[1] == "]" else number < high):
            return number
    wanted = wanted or f"in {ends[0]}{low:g}, {high:g}{ends[1]}"
    if not is_number:
        raise TypeError(f"{name}={_shown(value)}: expected a number {wanted}")
    raise ValueError(f"{name}={number!r}: expected a number {wanted}")


#: Each is called with a name and a value. The squares of the first two are doubles.
positive = partial(real, low=LEAST, high=LARGEST)
non_negative = partial(real, low=0.0, high=LARGEST)
probability = partial(real, low=0.0, high=1.0)
open_probability = partial(real, low=0.0, high=1.0, ends="()")
#: Called with a value alone.
noise_multiplier = partial(real, "noise_multiplier", low=LEAST_NOISE, high=LARGEST_NOISE)


def count(name: str, value: Any, minimum: int = 0, most: int = MOST) -> int:
    """Return `value` as an int in [minimum, most]."""
    wanted = f"an integer in [{minimum}, {most:.4g}]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise TypeError(f"{name}={_shown(value)}: expected {wanted}")
    number = int(value)
    if not minimum <= number <= most:
        raise ValueError(f"{name}={_shown(number)}: expected {wanted}")
    return number


def _shown(value: Any) -> str:
    """Print a value in one short line, or only its type."""
    plain = isinstance(value, (str, float, np.generic)) or value is None or value is True or value is False
    if isinstance(value, int) and abs(value) < 10**30 or plain and len(repr(value)) < 60:
        return repr(value)
    return type(value).__name__


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


def one_of(name: str, value: str, names: Sequence[str]) -> str:
    """Return `value`, one of `names`."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={_shown(value)}: expected {' or '.join(map(repr, names))}")
    if value not in names:
        raise ValueError(f"{name}={_shown(value)}: expected {' or '.join(map(repr, names))}")
    return value
