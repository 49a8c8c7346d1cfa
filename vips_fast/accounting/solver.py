"""Solvers for monotone functions; all but `brent_root` return the safe side.

Such a solver returns a point that it has tried, or an end that the caller vouches for; never a point in between. The
answer is therefore safe even if rounding makes the function not quite monotone: then it is only less tight.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .checks import FloatArray

#: Most steps of `brent_root`, which takes about a dozen.
_MOST_STEPS = 300


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
    holds: Callable[[float], bool], unsafe: float, safe: float, rtol: float = 0.0, geometric: bool = False
) -> float:
    """Return a point that meets a condition, close to its threshold.

    ``holds`` is false at `unsafe`, true at `safe`, and changes once between them. Neither end is tried; either may be
    the larger one. The answer t is `safe` or has been tried. Within `rtol` |t| of it, or at the next floating-point
    number, the condition fails. `geometric` halves the ratio of two positive ends instead of their difference.

    >>> 2.0 <= find_threshold(lambda x: x * x >= 4.0, 0.0, 3.0, rtol=1e-9) <= 2.0 + 2e-9
    True
    """
    while abs(safe - unsafe) > rtol * abs(safe):
        middle = math.sqrt(unsafe * safe) if geometric else 0.5 * (unsafe + safe)
        if middle in (unsafe, safe):
            break
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe


def close_bracket(
    f: Callable[[float], float], lo: float, hi: float, f_lo: float, f_hi: float, tol: float
) -> tuple[float, float, float, float]:
    """Bring the ends of a decreasing function's root to within `tol`; return both, and the values there.

    The caller knows f(lo) = `f_lo` > 0 >= f(hi) = `f_hi`. An end is the caller's or a point that was tried. It takes
    Illinois steps, which save calls of an expensive function: the value of an end that stays twice in a row is halved.
    It halves the interval if a value is infinite.
    """
    near_lo, near_hi, side = f_lo, f_hi, 0
    while hi - lo > tol:
        if math.isfinite(near_lo) and math.isfinite(near_hi) and near_lo > near_hi:
            # On the line between the ends, but away from both, so that both close in.
            x = min(max((lo * -near_hi + hi * near_lo) / (near_lo - near_hi), lo + 0.45 * tol), hi - 0.45 * tol)
        else:
            x = 0.5 * (lo + hi)
        value = f(x)
        if value <= 0.0:
            hi, f_hi, near_hi = x, value, value
            near_lo *= 0.5 if side == -1 else 1.0
            side = -1
        else:
            lo, f_lo, near_lo = x, value, value
            near_hi *= 0.5 if side == 1 else 1.0
            side = 1
    return lo, hi, f_lo, f_hi


def brent_root(f: Callable[[float], float], lo: float, hi: float, atol: float, rtol: float) -> float:
    """Find a point near a root of a function, on either side.

    The caller sees to it that f has different signs at `lo` and `hi`. The answer is within `atol` + `rtol` |root| of a
    root. This is Brent's method (1973, chapter 4). It takes the steps of ``scipy.optimize.brentq`` to the last bit, but
    importing scipy.optimize takes longer than a small fit.

    >>> round(brent_root(lambda x: 2.0 - x * x, 0.0, 2.0, 1e-15, 1e-14), 12)
    1.414213562373
    """
    before, x, f_before, fx = lo, hi, f(lo), f(hi)
    far, f_far, step_before, step = lo, f_before, hi - lo, hi - lo
    for _ in range(_MOST_STEPS):
        if f_before != 0.0 and fx != 0.0 and (f_before > 0.0) != (fx > 0.0):
            far, f_far, step_before, step = before, f_before, x - before, x - before
        if abs(f_far) < abs(fx):
            before, x, far = x, far, x
            f_before, fx, f_far = fx, f_far, fx
        tol, half = 0.5 * (atol + rtol * abs(x)), 0.5 * (far - x)
        if fx == 0.0 or abs(half) < tol:
            return x
        try_step = math.inf
        if abs(step_before) > tol and abs(fx) < abs(f_before):
            if before == far:
                try_step = -fx * (x - before) / (fx - f_before)
            else:
                slope, far_slope = (f_before - fx) / (before - x), (f_far - fx) / (far - x)
                curved = far_slope * slope * (f_far - f_before)
                # Values whose product underflows have no curve to follow: the step halves the bracket.
                try_step = -fx * (f_far * far_slope - f_before * slope) / curved if curved else math.inf
        if 2.0 * abs(try_step) < min(abs(step_before), 3.0 * abs(half) - tol):
            step_before, step = step, try_step
        else:
            step_before = step = half
        before, f_before = x, fx
        x += step if abs(step) > tol else math.copysign(tol, half)
        fx = f(x)
    return x


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
