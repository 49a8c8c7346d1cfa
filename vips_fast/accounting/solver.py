"""Solvers for monotone functions and conditions; every solver returns the safe side.

A solver returns a point that it has tried, or an end that the caller vouches for; never a point in between. The answer
is therefore safe even if rounding makes the function not quite monotone: then it is only less tight.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .checks import FloatArray


def find_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer in [low, high] that meets a condition.

    ``holds`` is true up to some integer and false beyond it. `high` is tried first. `low` is never tried: it is the
    answer if nothing larger holds, or if `high` is not larger.

    >>> find_integer(lambda n: n * n <= 50, 0, 100)
    7
    """
    middle = high
    while low < high:
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
        middle = (low + high + 1) // 2
    return low


def find_threshold(
    holds: Callable[[float], bool],
    unsafe: float,
    safe: float,
    atol: float = 0.0,
    rtol: float = 0.0,
    geometric: bool = False,
) -> float:
    """Return a point that meets a condition, close to its threshold.

    ``holds`` is false at `unsafe`, true at `safe`, and changes once between them. Neither end is tried; either may be
    the larger one. The answer t is `safe` or has been tried. Within max(`atol`, `rtol` |t|) of it, or at the next
    floating-point number, the condition fails. `geometric` halves the ratio of two positive ends instead of their
    difference.

    >>> 2.0 <= find_threshold(lambda x: x * x >= 4.0, 0.0, 3.0, rtol=1e-9) <= 2.0 + 2e-9
    True
    """
    while abs(safe - unsafe) > max(atol, rtol * abs(safe)):
        middle = math.sqrt(unsafe * safe) if geometric else 0.5 * (unsafe + safe)
        if middle in (unsafe, safe):
            break
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe


def find_root(f: Callable[[float], float], lo: float, hi: float, f_lo: float, f_hi: float, tol: float) -> float:
    """Return a point at most `tol` above the root of a decreasing function.

    The caller knows f(lo) = `f_lo` > 0 >= f(hi) = `f_hi`. The answer is `hi` or a point tried with f <= 0. It takes
    Illinois steps, which save calls of an expensive function, and halves the interval if a value is infinite.
    """
    side = 0
    while hi - lo > tol:
        x = 0.5 * (lo + hi)
        if math.isfinite(f_lo) and math.isfinite(f_hi) and f_lo > f_hi:
            x = (lo * -f_hi + hi * f_lo) / (f_lo - f_hi)
            # Stay away from both ends, so that both close in.
            x = min(max(x, lo + 0.45 * tol), hi - 0.45 * tol)
        value = f(x)
        if value <= 0.0:
            hi, f_hi = x, value
            if side == -1:
                f_lo *= 0.5
            side = -1
        else:
            lo, f_lo = x, value
            if side == 1:
                f_hi *= 0.5
            side = 1
    return hi


def halve_brackets(
    below: Callable[[FloatArray], NDArray[np.bool_]], low: FloatArray, high: FloatArray, halvings: int
) -> tuple[FloatArray, FloatArray]:
    """Halve the brackets of many roots at once.

    ``below`` takes an array of points, shaped like `low` and `high`, and returns True for points below their roots. The
    result is the two arrays of ends after `halvings` rounds, with the dtype of `low` and `high`; the caller picks the
    safe one.
    """
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        short = below(middle)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return low, high
