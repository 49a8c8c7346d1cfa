"""delta for accountants that answer with epsilon only."""

from __future__ import annotations

import math
from collections.abc import Callable


def delta_by_inversion(epsilon_of: Callable[[float], float], target: float) -> float:
    """The smallest delta with epsilon_of(delta) <= `target`, rounded up; 1 if there is none below 1."""
    low, high = math.log(1e-300), -1e-12
    if epsilon_of(math.exp(high)) > target:
        return 1.0
    if epsilon_of(math.exp(low)) <= target:
        return math.exp(low)
    while high - low > 1e-9 * max(1.0, abs(high)):
        middle = 0.5 * (low + high)
        if epsilon_of(math.exp(middle)) <= target:
            high = middle
        else:
            low = middle
    return math.exp(high)
