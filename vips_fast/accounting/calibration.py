"""Calibration: the noise for a target.

The search returns a value that the accountant has confirmed, never an interpolated one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..checks import check_number
from .accountant import Accountant
from .accountants import epsilon as epsilon_of
from .checks import MOST, open_probability, positive
from .events import ComposedEvent, PrivacyEvent, SelfComposedEvent
from .printing import rounded_up
from .solver import close_bracket

_Z_MAX = 1e9
_Z_MIN = 1e-6
#: Relative accuracies of epsilon and of the noise multiplier in the rough search, which comes first.
_ROUGH_EPSILON, _ROUGH_NOISE = 0.02, 0.02


@dataclass(frozen=True)
class Target:
    """Most that a run may cost."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", open_probability("delta", self.delta))

    def __str__(self) -> str:
        """The parameter with its value, as messages name it."""
        return f"epsilon={rounded_up(self.epsilon)}"

    def spent(self, event: PrivacyEvent) -> float:
        """Compute the event's epsilon."""
        return epsilon_of(event, self.delta)


def calibrate_noise_multiplier(
    make_event: Callable[[float], PrivacyEvent],
    epsilon: float,
    delta: float,
    accountant: str | Accountant | None = None,
    rtol: float = 1e-3,
    *,
    count: int = 1,
    before: PrivacyEvent | None = None,
    **options: Any,
) -> float:
    """Return the smallest noise multiplier whose event meets a target: epsilon > 0, and delta in (0, 1).

    ``make_event(noise_multiplier)`` returns the event of which the run makes `count`; more noise must not cost more
    privacy. An event `before`, such as the purchase of a vocabulary, is under the target too. `accountant` and its
    options are as in `epsilon`. At the result the accountant's figure is <= target; it exceeds the smallest sufficient
    value by at most the relative amount `rtol`. Raises ValueError if no noise multiplier up to 1e9 is enough.

    >>> from vips_fast.accounting import GaussianEvent, calibrate_noise_multiplier
    >>> round(calibrate_noise_multiplier(GaussianEvent, 1.0, 1e-5), 3)
    3.731
    >>> round(calibrate_noise_multiplier(GaussianEvent, 1.0, 1e-5, count=4), 3)  # twice as much
    7.461
    """
    target, rtol = Target(epsilon, delta), check_number("rtol", rtol, 1e-8, 0.1)
    count = check_number("count", count, 1, MOST, integer=True)
    if before is not None and (spent := target.spent(before)) >= target.epsilon:
        raise ValueError(
            f"{target}: expected more than {rounded_up(spent)}, which the event before, such as a vocabulary purchase, "
            f"has spent, since it bounds both together; epsilon={rounded_up(spent + target.epsilon)} leaves the rest "
            f"about {rounded_up(target.epsilon)}"
        )
    bounded = () if before is None else (before,)
    steered = accountant in (None, "pld")
    if steered:
        options.setdefault("rtol", min(1e-4, 0.1 * rtol))

    def excess(t: float, **accuracy: float) -> float:
        """Compute ln of the run's epsilon over the target, for ln of the noise multiplier."""
        run = ComposedEvent((*bounded, SelfComposedEvent(make_event(math.exp(t)), count)))
        found = epsilon_of(run, target.delta, accountant, **options | accuracy)
        if found == 0.0:
            return -50.0
        # 1e-9 keeps the answer feasible if its event is composed in another order.
        return math.log(found / target.epsilon) + 1e-9 if math.isfinite(found) else math.inf

    start, slope = 0.0, math.nan
    if steered and options["rtol"] < _ROUGH_EPSILON:
        # Rough answers cost a small part of exact ones, and tell the few that decide where to begin.
        rough = partial(excess, rtol=_ROUGH_EPSILON)
        lo, hi, f_lo, f_hi = close_bracket(rough, *_bracket(rough), _ROUGH_NOISE)
        start, fall = lo if math.isnan(hi) else hi, f_lo - f_hi
        if math.isfinite(fall) and fall > 0.0:
            start, slope = hi + (hi - lo) * f_hi / fall, fall / (hi - lo)
        # A little too low, so that a step along the line ends closely above the root, and two answers are enough.
        start -= 0.5 * rtol
    lo, hi, f_lo, f_hi = _bracket(excess, start, slope, rtol)
    if hi - lo > rtol and math.isfinite(f_lo):
        # Just above the zero of a line: the first Illinois step may leave half of `rtol`.
        t = lo + (hi - lo) * f_lo / (f_lo - f_hi) + 0.03 * rtol
        if lo < t < hi:
            value = excess(t)
            lo, hi, f_lo, f_hi = (lo, t, f_lo, value) if value <= 0.0 else (t, hi, value, f_hi)
    hi = close_bracket(excess, lo, hi, f_lo, f_hi, rtol)[1]
    if math.isnan(hi):
        raise ValueError(f"no noise multiplier up to {_Z_MAX:g} reaches {target} at delta = {target.delta!r}")
    return math.exp(hi)


def _bracket(
    excess: Callable[[float], float], t: float = 0.0, slope: float = math.nan, tol: float = 0.0
) -> tuple[float, float, float, float]:
    """Bracket the zero of ``excess(t)``, which falls with the logarithm t of the noise multiplier.

    Returns the lower end, the upper end, and the values there. An end is nan if no noise multiplier in [1e-6, 1e9] is
    beyond the zero. The search begins at `t`. A `slope` is roughly the slope of minus the function. With it the first
    step goes to the zero of a line and a little further right, or most of `tol` further left. Later steps grow.
    """
    lo = hi = f_lo = f_hi = math.nan
    short = 0.0
    while math.isnan(lo) or math.isnan(hi):
        value = excess(t)
        if value <= 0.0:
            hi, f_hi = t, value
        else:
            lo, f_lo = t, value
        # epsilon falls about like 1 / z, and faster where sampling amplifies.
        step = min(max(abs(value), 0.2), 2.0) if math.isfinite(value) else 2.0
        if math.isfinite(slope):
            short = max(abs(value) / slope + (0.03 if value > 0.0 else 0.8) * tol, 4.0 * short)
            step = min(short, step)
        t = t + step if value > 0.0 else t - step
        if not math.log(_Z_MIN) <= t <= math.log(_Z_MAX):
            break
    return lo, hi, f_lo, f_hi
