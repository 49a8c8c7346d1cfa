"""Calibration: the noise for a target.

The search returns a value that the accountant has confirmed, never an interpolated one.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .accountants import epsilon as epsilon_of
from .checks import open_probability, positive
from .events import PrivacyEvent
from .solver import find_root

_Z_MAX = 1e9
_Z_MIN = 1e-6
#: Relative accuracies of epsilon and of the noise multiplier in the rough search, which comes first.
_ROUGH_EPSILON, _ROUGH_NOISE = 0.02, 0.02


class _Bracket(NamedTuple):
    """Two noise multipliers' logarithms, and each one's excess of epsilon.

    The excess is over the target.
    """

    lo: float
    hi: float
    f_lo: float
    f_hi: float


def calibrate_noise_multiplier(
    make_event: Callable[[float], PrivacyEvent],
    epsilon: float,
    delta: float,
    accountant: str | None = None,
    rtol: float = 1e-3,
    **options: Any,
) -> float:
    """Return the smallest noise multiplier whose event meets (epsilon, delta).

    ``make_event(noise_multiplier)`` returns the event of the whole run; more noise must not cost more privacy. The
    targets are > 0 and in (0, 1); `accountant` and its options are as in `epsilon`. At the result the
    accountant's epsilon is <= target; it exceeds the smallest sufficient value by at most the relative amount `rtol`.
    Raises ValueError if no noise multiplier up to 1e9 is enough.
    """
    epsilon = positive("epsilon", epsilon)
    delta = open_probability("delta", delta)
    if not 1e-8 <= rtol <= 0.1:
        raise ValueError(f"rtol must be in [1e-8, 0.1], got {rtol!r}")
    steered = accountant in (None, "pld")
    if steered:
        options.setdefault("rtol", min(1e-4, 0.1 * rtol))

    def excess(t: float, **other: Any) -> float:
        value = epsilon_of(make_event(math.exp(t)), delta, accountant, **options | other)
        if value == 0.0:
            return -50.0
        # 1e-9 keeps the answer feasible if its event is composed in another order.
        return math.log(value / epsilon) + 1e-9 if math.isfinite(value) else math.inf

    start, slope = 0.0, math.nan
    if steered and options["rtol"] < _ROUGH_EPSILON:
        # Rough answers cost a small part of exact ones, and tell the few that decide where to begin.
        aim, slope = _aim(lambda t: excess(t, rtol=_ROUGH_EPSILON))
        # A little too low, so that a step along the line ends closely above the root, and two answers are enough.
        start = aim - 0.5 * rtol
    found = _bracket(excess, start, slope, rtol)
    if math.isnan(found.lo):
        return math.exp(found.hi)
    if math.isnan(found.hi):
        raise ValueError(f"no noise multiplier up to {_Z_MAX:g} reaches epsilon = {epsilon!r} at delta = {delta!r}")
    lo, hi, f_lo, f_hi = found
    line = lo + (hi - lo) * f_lo / (f_lo - f_hi) + 0.03 * rtol if math.isfinite(f_lo) else math.nan
    if hi - lo > rtol and lo < line < hi:
        # Just above the zero of a line: the first step of `find_root` may leave half of `rtol`.
        value = excess(line)
        lo, hi, f_lo, f_hi = (lo, line, f_lo, value) if value <= 0.0 else (line, hi, value, f_hi)
    return math.exp(find_root(excess, lo, hi, f_lo, f_hi, rtol))


def _aim(rough: Callable[[float], float]) -> tuple[float, float]:
    """Estimate the zero of a decreasing function and its slope, or nan."""
    found = _bracket(rough, 0.0)
    if math.isnan(found.lo) or math.isnan(found.hi):
        return found.hi if math.isnan(found.lo) else found.lo, math.nan
    known = {found.lo: found.f_lo, found.hi: found.f_hi}

    def noted(t: float) -> float:
        known[t] = rough(t)
        return known[t]

    hi = find_root(noted, *found, _ROUGH_NOISE)
    lo = max(t for t in known if t < hi)
    fall = known[lo] - known[hi]
    if not (math.isfinite(fall) and fall > 0.0):
        return hi, math.nan
    return hi + (hi - lo) * known[hi] / fall, fall / (hi - lo)


def _bracket(excess: Callable[[float], float], t: float, slope: float = math.nan, rtol: float = 0.0) -> _Bracket:
    """Bracket a decreasing function's zero from t; nan for a cut-off end.

    With a `slope`, roughly the slope of -f, the first step goes to the zero of a line and a little further right, or
    most of `rtol` further left; later steps grow.
    """
    lo = hi = f_lo = f_hi = math.nan
    short = 0.0
    while True:
        value = excess(t)
        if value <= 0.0:
            hi, f_hi = t, value
        else:
            lo, f_lo = t, value
        if not (math.isnan(lo) or math.isnan(hi)):
            return _Bracket(lo, hi, f_lo, f_hi)
        # epsilon falls about like 1 / z, and faster where sampling amplifies.
        step = min(max(abs(value), 0.2), 2.0) if math.isfinite(value) else 2.0
        if math.isfinite(slope):
            short = max(abs(value) / slope + (0.03 if value > 0.0 else 0.8) * rtol, 4.0 * short)
            step = min(short, step)
        t = t + step if value > 0.0 else t - step
        if not math.log(_Z_MIN) <= t <= math.log(_Z_MAX):
            return _Bracket(lo, hi, f_lo, f_hi)
