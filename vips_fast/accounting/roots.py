"""Solve for the point at which a monotone function or condition changes, from the safe side."""

import math
from collections.abc import Callable


def right_end(f: Callable[[float], float], lo: float, hi: float, f_lo: float, f_hi: float, tol: float) -> float:
    """Right end of a bracket of width <= tol around the root of a decreasing f, f(lo) > 0 >= f(hi).

    Illinois steps, and bisection where a value is infinite.
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


def largest_integer(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest n in [low, high] that fits, if every smaller one does; ``low`` is taken to fit.

    ``fits`` is called with ``high`` first.
    """
    n = high
    while low < high:
        low, high = (n, high) if fits(n) else (low, n - 1)
        n = (low + high + 1) // 2
    return low
