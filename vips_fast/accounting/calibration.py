"""Calibration: the noise for a target.

The search returns a value that the accountant has confirmed, never an interpolated one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .accountant import Accountant
from .accountants import epsilon as epsilon_of
from .checks import open_probability, positive, real
from .events import PrivacyEvent
from .printing import rounded_up
from .solver import find_root

_Z_MAX = 1e9
_Z_MIN = 1e-6
#: Relative accuracies of epsilon and of the noise multiplier in the rough search, which comes first.
_ROUGH_EPSILON, _ROUGH_NOISE = 0.02, 0.02


class _Bracket(NamedTuple):
    """Two noise multipliers' logarithms, and the excess of each one's epsilon over the target."""

    lo: float
    hi: float
    f_lo: float
    f_hi: float


@dataclass(frozen=True)
class Target:
    """Most that a run may cost."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        open_probability("delta", self.delta)

    def __str__(self) -> str:
        """The parameter with its value, as messages name it."""
        return f"epsilon={rounded_up(self.epsilon)}"

    def spent(self, event: PrivacyEvent) -> float:
        """Compute the event's epsilon."""
        return epsilon_of(event, self.delta)

    def excess(self, event: PrivacyEvent, accountant: str | Accountant | None, **options: Any) -> float:
        """Compute ln of the event's epsilon over the target."""
        value = epsilon_of(event, self.delta, accountant, **options)
        if value == 0.0:
            return -50.0
        # 1e-9 keeps the answer feasible if its event is composed in another order.
        return math.log(value / self.epsilon) + 1e-9 if math.isfinite(value) else math.inf


def calibrate_noise_multiplier(
    make_event: Callable[[float], PrivacyEvent],
    epsilon: float,
    delta: float,
    accountant: str | Accountant | None = None,
    rtol: float = 1e-3,
    **options: Any,
) -> float:
    """Return the smallest noise multiplier whose event meets a target: epsilon > 0, and delta in (0, 1).

    ``make_event(noise_multiplier)`` returns the event of the whole run; more noise must not cost more privacy.
    `accountant` and its options are as in `epsilon`. At the result the accountant's figure is <= target; it exceeds the
    smallest sufficient value by at most the relative amount `rtol`. Raises ValueError if no noise multiplier up to 1e9
    is enough.

    >>> from vips_fast.accounting import GaussianEvent, calibrate_noise_multiplier
    >>> round(calibrate_noise_multiplier(GaussianEvent, 1.0, 1e-5), 3)
    3.73
    """
    target = Target(positive("epsilon", epsilon), open_probability("delta", delta))
    return noise_for(make_event, target, accountant, rtol, **options)


def noise_for(
    make_event: Callable[[float], PrivacyEvent],
    target: Target,
    accountant: str | Accountant | None = None,
    rtol: float = 1e-3,
    **options: Any,
) -> float:
    """Return the smallest noise multiplier for a `Target`; see `calibrate_noise_multiplier`."""
    rtol = real("rtol", rtol, 1e-8, 0.1)
    steered = accountant in (None, "pld")
    if steered:
        options.setdefault("rtol", min(1e-4, 0.1 * rtol))

    def excess(t: float, **other: Any) -> float:
        return target.excess(make_event(math.exp(t)), accountant, **options | other)

    start, slope = 0.0, math.nan
    if steered and options["rtol"] < _ROUGH_EPSILON:
        # Rough answers cost a small part of exact ones, and tell the few that decide where to begin.
        aim, slope = _aim(partial(excess, rtol=_ROUGH_EPSILON))
        # A little too low, so that a step along the line ends closely above the root, and two answers are enough.
        start = aim - 0.5 * rtol
    found = _bracket(excess, start, slope, rtol)
    if math.isnan(found.lo):
        return math.exp(found.hi)
    if math.isnan(found.hi):
        raise ValueError(f"no noise multiplier up to {_Z_MAX:g} reaches {target} at delta = {target.delta!r}")
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

    A `slope` is roughly the slope of -f. With it the first step goes to the zero of a line and a little further right,
    or most of `rtol` further left. Later steps grow.
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
