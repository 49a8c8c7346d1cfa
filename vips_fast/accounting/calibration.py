"""Calibration: the noise for a target.

The search returns a value that the accountant has confirmed, never an interpolated one.
"""

import math
from collections.abc import Callable
from typing import Any

from .accountants import epsilon
from .checks import open_probability, positive
from .events import PrivacyEvent
from .roots import right_end

_Z_MAX = 1e9
_Z_MIN = 1e-6


def calibrate_noise_multiplier(
    make_event: Callable[[float], PrivacyEvent], target_epsilon: float, target_delta: float,
    accountant: str | None = None, rtol: float = 1e-3, **options: Any,
) -> float: # fmt: skip
    """The smallest noise multiplier whose event meets (epsilon, delta).

    ``make_event(noise_multiplier)`` returns the event of the whole run; more noise must not cost more privacy. The
    targets are > 0 and in (0, 1); `accountant` and its options are as in `epsilon`. The result, for which the
    accountant's epsilon is <= target, exceeds the smallest sufficient value by at most the relative amount `rtol`.
    Raises ValueError if no noise multiplier up to 1e9 is enough.
    """
    target_epsilon = positive("target_epsilon", target_epsilon)
    target_delta = open_probability("target_delta", target_delta)
    if not 1e-8 <= rtol <= 0.1:
        raise ValueError(f"rtol must be in [1e-8, 0.1], got {rtol!r}")
    if accountant in (None, "pld"):
        options.setdefault("rtol", min(1e-4, 0.1 * rtol))

    def excess(t: float) -> float:
        value = epsilon(make_event(math.exp(t)), target_delta, accountant, **options)
        if value == 0.0:
            return -50.0
        # 1e-9 keeps the answer feasible if its event is composed in another order.
        return math.log(value / target_epsilon) + 1e-9 if math.isfinite(value) else math.inf

    t, value = 0.0, excess(0.0)
    lo = hi = f_lo = f_hi = math.nan
    while True:
        if value <= 0.0:
            hi, f_hi = t, value
        else:
            lo, f_lo = t, value
        if not (math.isnan(lo) or math.isnan(hi)):
            return math.exp(right_end(excess, lo, hi, f_lo, f_hi, rtol))
        # epsilon falls about like 1 / z, and faster where sampling amplifies.
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
