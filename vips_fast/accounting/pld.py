"""The accountant of privacy-loss distributions."""

from __future__ import annotations

from .events import PrivacyEvent
from .privacy_loss import PrivacyLoss

DEFAULT_RTOL = 1e-4


def bound_epsilon(event: PrivacyEvent, delta: float, rtol: float = DEFAULT_RTOL) -> float:
    """epsilon of any event by its privacy-loss distribution, to a relative accuracy of `rtol`."""
    return PrivacyLoss(event, rtol).epsilon(delta)


def bound_delta(event: PrivacyEvent, epsilon: float, rtol: float = DEFAULT_RTOL) -> float:
    """delta of any event by its privacy-loss distribution, to a relative accuracy of `rtol`."""
    return PrivacyLoss(event, rtol).delta(epsilon)
