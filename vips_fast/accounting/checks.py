"""Check numbers from callers: a plain number, or a named error.

The error has the argument's name.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def _real(name: str, value: Any, wanted: str, holds: Callable[[float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    number = float(value)
    if not holds(number):
        raise ValueError(f"{name} must be {wanted}, got {number!r}")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a finite float > 0."""
    return _real(name, value, "a finite number > 0", lambda x: 0.0 < x < math.inf)


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a finite float >= 0."""
    return _real(name, value, "a finite number >= 0", lambda x: 0.0 <= x < math.inf)


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1]."""
    return _real(name, value, "in [0, 1]", lambda x: 0.0 <= x <= 1.0)


def open_probability(name: str, value: Any) -> float:
    """Return `value` as a float in (0, 1)."""
    return _real(name, value, "in (0, 1)", lambda x: 0.0 < x < 1.0)


def count(name: str, value: Any, minimum: int = 0) -> int:
    """Return `value` as an int >= `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    return int(value)


def one_of(name: str, value: str, names: Sequence[str]) -> str:
    """Return `value`, one of `names`."""
    if value not in names:
        raise ValueError(f"{name} must be {' or '.join(map(repr, names))}, got {value!r}")
    return value
