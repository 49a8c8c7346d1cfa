"""Check arguments of accounting at the door: each value by one of these, or one line with its name.

Every public function passes each of its numbers to one of these first. What is not finite or out of its range never
reaches a formula: `max(0.0, nan)` would be a perfect guarantee.
"""

import math
from collections.abc import Callable, Sequence
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


def real(name: str, value: Any, wanted: str, holds: Callable[[float], bool]) -> float:
    """Return `value` as a float that meets a condition, which `wanted` says in words."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name}={_shown(value)}: expected a number {wanted}")
    try:
        number = float(value)
    except OverflowError:
        # An integer beyond doubles.
        number = math.nan
    if not holds(number):
        raise ValueError(f"{name}={number!r}: expected a number {wanted}")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a float > 0 whose square is a double."""
    return real(name, value, f"in [{LEAST:g}, {LARGEST:g}]", lambda x: LEAST <= x <= LARGEST)


def noise_multiplier(value: Any, name: str = "noise_multiplier") -> float:
    """Return `value` as a noise multiplier that accountants can answer for."""
    return real(name, value, f"in [{LEAST_NOISE:g}, {LARGEST_NOISE:g}]", lambda x: LEAST_NOISE <= x <= LARGEST_NOISE)


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float >= 0 whose square is a double."""
    return real(name, value, f"in [0, {LARGEST:g}]", lambda x: 0.0 <= x <= LARGEST)


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1]."""
    return real(name, value, "in [0, 1]", lambda x: 0.0 <= x <= 1.0)


def open_probability(name: str, value: Any) -> float:
    """Return `value` as a float in (0, 1)."""
    return real(name, value, "in (0, 1)", lambda x: 0.0 < x < 1.0)


def between(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float in [low, high]."""
    return real(name, value, f"in [{low:g}, {high:g}]", lambda x: low <= x <= high)


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


def numbers(name: str, value: ArrayLike, wanted: str, holds: Callable[[FloatArray], NDArray[np.bool_]]) -> FloatArray:
    """Return `value` as a float64 array, not empty, of finite numbers that all meet a condition."""
    try:
        given = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: expected numbers {wanted} in one array") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers {wanted}, got dtype {given.dtype}")
    array = given.astype(np.float64)
    if not array.size:
        raise ValueError(f"{name}: expected numbers {wanted}, at least one")
    bad = ~(np.isfinite(array) & holds(array))
    if bad.any():
        raise ValueError(f"{name}={float(array[bad][0])!r}: expected a finite number {wanted}")
    return array


def renyi_orders(name: str, value: ArrayLike) -> FloatArray:
    """Return orders of Renyi divergences, in (1, 1e15]."""
    return numbers(name, value, "in (1, 1e15]", lambda x: (x > 1.0) & (x <= 1e15))


def one_of(name: str, value: str, names: Sequence[str]) -> str:
    """Return `value`, one of `names`."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={_shown(value)}: expected {' or '.join(map(repr, names))}")
    if value not in names:
        raise ValueError(f"{name}={_shown(value)}: expected {' or '.join(map(repr, names))}")
    return value
