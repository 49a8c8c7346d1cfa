"""Calibration: the noise, the steps, or the sampling rate for a target.

Every search returns a value that the accountant has confirmed, never an
interpolated one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral

from .accountants import check_delta, check_epsilon, epsilon
from .events import PrivacyEvent

__all__ = [
    "calibrate_noise_multiplier",
    "calibrate_sampling_probability",
    "calibrate_steps",
]

_Z_MAX = 1e9
_Z_MIN = 1e-6


def _targets(target_epsilon: float, target_delta: float, rtol: float) -> tuple[float, float]:
    target_epsilon = check_epsilon(target_epsilon, "target_epsilon")
    if target_epsilon == 0.0:
        raise ValueError("target_epsilon must be > 0, got 0.0")
    target_delta = check_delta(target_delta, "target_delta")
    if not 1e-8 <= rtol <= 0.1:
        raise ValueError(f"rtol must be in [1e-8, 0.1], got {rtol!r}")
    return target_epsilon, target_delta


def _solve(f: Callable[[float], float], lo: float, hi: float, f_lo: float, f_hi: float, tol: float) -> float:
    """Right end of a bracket of width <= tol around the root of a decreasing f.

    f(lo) > 0 >= f(hi); Illinois steps, bisection where they stall.
    """
    side = 0
    while hi - lo > tol:
        x = 0.5 * (lo + hi)
        if math.isfinite(f_lo) and math.isfinite(f_hi) and f_lo > f_hi:
            x = (lo * -f_hi + hi * f_lo) / (f_lo - f_hi)
            # A little towards the far end, so that both ends close in.
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


def calibrate_noise_multiplier(
    make_event: Callable[[float], PrivacyEvent],
    target_epsilon: float,
    target_delta: float,
    accountant: str | None = None,
    rtol: float = 1e-3,
    **options,
) -> float:
    """The smallest noise multiplier whose event meets (epsilon, delta).

    Parameters
    ----------
    make_event : callable
        ``make_event(noise_multiplier)`` returns the event of the whole run;
        more noise must not cost more privacy.
    target_epsilon : float
        > 0.
    target_delta : float
        In (0, 1).
    accountant : str or None
        As in `epsilon`.
    rtol : float
        The result exceeds the smallest sufficient value by at most this
        relative amount.
    **options
        Passed to the accountant.

    Returns
    -------
    float
        A noise multiplier for which the accountant's epsilon is <= target.

    Raises
    ------
    ValueError
        If no noise multiplier up to 1e9 is enough.
    """
    target_epsilon, target_delta = _targets(target_epsilon, target_delta, rtol)
    if accountant in (None, "pld"):
        options.setdefault("rtol", min(1e-4, 0.1 * rtol))

    def excess(t: float) -> float:
        value = epsilon(make_event(math.exp(t)), target_delta, accountant, **options)
        if value == 0.0:
            return -50.0
        # 1e-9 keeps the answer feasible if its event is composed in another order.
        return math.log(value / target_epsilon) + 1e-9 if math.isfinite(value) else math.inf

    t = 0.0
    value = excess(t)
    step = 0.0
    lo = hi = None
    while True:
        if value <= 0.0:
            hi, f_hi = t, value
        else:
            lo, f_lo = t, value
        if lo is not None and hi is not None:
            break
        # epsilon falls about like 1 / z, faster where sampling bites.
        step = min(max(abs(value), 0.2), 2.0) if math.isfinite(value) else 2.0
        t = t + step if value > 0.0 else t - step
        if t > math.log(_Z_MAX):
            raise ValueError(
                f"no noise multiplier up to {_Z_MAX:g} reaches epsilon = {target_epsilon!r} "
                f"at delta = {target_delta!r}"
            )
        if t < math.log(_Z_MIN):
            return math.exp(hi)
        value = excess(t)
    return math.exp(_solve(excess, lo, hi, f_lo, f_hi, rtol))


def calibrate_steps(
    make_event: Callable[[int], PrivacyEvent],
    target_epsilon: float,
    target_delta: float,
    accountant: str | None = None,
    max_steps: int = 10**9,
    **options,
) -> int:
    """The largest number of steps whose event meets (epsilon, delta); 0 if none.

    Parameters
    ----------
    make_event : callable
        ``make_event(steps)`` returns the event of a run of `steps` >= 1
        steps; more steps must not cost less privacy.
    max_steps : int
        The answer is at most this.

    Other parameters as in `calibrate_noise_multiplier`.  Also fits other
    integers that cost privacy, such as the sample size.
    """
    target_epsilon, target_delta = _targets(target_epsilon, target_delta, 1e-3)
    if isinstance(max_steps, bool) or not isinstance(max_steps, Integral) or max_steps < 1:
        raise ValueError(f"max_steps must be an integer >= 1, got {max_steps!r}")

    def fits(n: int) -> bool:
        return epsilon(make_event(n), target_delta, accountant, **options) <= target_epsilon

    if not fits(1):
        return 0
    lo, hi = 1, 2
    while hi < max_steps and fits(hi):
        lo, hi = hi, min(4 * hi, max_steps)
    if hi >= max_steps:
        hi = int(max_steps)
        if fits(hi):
            return hi
    while hi - lo > 1:
        mid = int(math.isqrt(lo * hi)) if hi > 4 * lo else (lo + hi) // 2
        mid = min(max(mid, lo + 1), hi - 1)
        if fits(mid):
            lo = mid
        else:
            hi = mid
    return lo


def calibrate_sampling_probability(
    make_event: Callable[[float], PrivacyEvent],
    target_epsilon: float,
    target_delta: float,
    accountant: str | None = None,
    rtol: float = 1e-3,
    **options,
) -> float:
    """The largest sampling probability whose event meets (epsilon, delta).

    Parameters
    ----------
    make_event : callable
        ``make_event(sampling_probability)`` returns the event of the whole
        run; a larger rate must not cost less privacy.

    Other parameters as in `calibrate_noise_multiplier`.

    Returns
    -------
    float
        In (0, 1]; at most a relative `rtol` below the largest possible.

    Raises
    ------
    ValueError
        If not even a rate of 1e-12 is enough.
    """
    target_epsilon, target_delta = _targets(target_epsilon, target_delta, rtol)

    def excess(t: float) -> float:
        value = epsilon(make_event(math.exp(-t)), target_delta, accountant, **options)
        if value == 0.0:
            return -50.0
        return math.log(value / target_epsilon) + 1e-9 if math.isfinite(value) else math.inf

    f_lo = excess(0.0)
    if f_lo <= 0.0:
        return 1.0
    lo, hi = 0.0, 1.0
    f_hi = excess(hi)
    while f_hi > 0.0:
        if hi > math.log(1e12):
            raise ValueError(
                f"no sampling probability down to 1e-12 reaches epsilon = {target_epsilon!r} "
                f"at delta = {target_delta!r}"
            )
        lo, f_lo, hi = hi, f_hi, 2.0 * hi
        f_hi = excess(hi)
    return math.exp(-_solve(excess, lo, hi, f_lo, f_hi, rtol))
