"""A privacy budget shared by several fits on the same records."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..accounting import rounded_up
from ..accounting.accountants import check_delta, check_epsilon, check_event, describe, epsilon
from ..accounting.calibration import calibrate_noise_multiplier
from ..accounting.events import ComposedEvent, PrivacyEvent, event_from_dict

__all__ = ["Budget", "BudgetExceededError"]


class BudgetExceededError(ValueError):
    """A fit would spend more than the budget holds; nothing was spent."""


class Budget:
    """Composes the events of several fits and refuses to overspend.

    The events are composed by one accountant as a whole, which is tighter
    than adding the epsilons of the fits.

    Parameters
    ----------
    target_epsilon : float
        > 0 and finite.
    target_delta : float
        In (0, 1).
    accountant : str or None
        As in `epsilon`.

    Notes
    -----
    Releases may depend on earlier releases.  The events themselves (noise
    multipliers, rates, numbers of steps) must not be chosen in view of
    earlier private results: composition theorems for whole curves assume
    them fixed.  A refusal depends on events only and is public.
    """

    def __init__(self, target_epsilon: float, target_delta: float, accountant: str | None = None) -> None:
        self._epsilon = check_epsilon(target_epsilon, "target_epsilon")
        if self._epsilon == 0.0:
            raise ValueError("target_epsilon must be > 0, got 0.0")
        self._delta = check_delta(target_delta, "target_delta")
        self._accountant = accountant
        self._events: tuple[PrivacyEvent, ...] = ()

    @property
    def target_epsilon(self) -> float:
        return self._epsilon

    @property
    def target_delta(self) -> float:
        return self._delta

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The charged events, in order."""
        return self._events

    @property
    def event(self) -> ComposedEvent:
        """Their composition."""
        return ComposedEvent(self._events)

    def __repr__(self) -> str:
        return (
            f"Budget(target_epsilon={self._epsilon!r}, target_delta={self._delta!r}, "
            f"spent_epsilon={rounded_up(self.spent_epsilon())}, fits={len(self._events)})"
        )

    def _total(self, event: PrivacyEvent | None) -> float:
        events = self._events if event is None else (*self._events, check_event(event))
        return epsilon(ComposedEvent(events), self._delta, self._accountant)

    def spent_epsilon(self) -> float:
        """epsilon at `target_delta` of everything charged so far."""
        return self._total(None)

    def remaining_epsilon(self) -> float:
        """target_epsilon - spent_epsilon().

        A summary only: fits compose better than this difference suggests.
        """
        return self._epsilon - self.spent_epsilon()

    def check(self, event: PrivacyEvent) -> float:
        """epsilon after `event`, without charging it.

        Raises
        ------
        BudgetExceededError
            If it exceeds the target.
        ValueError
            If the event's relation differs from that of the charged events.
        """
        total = self._total(event)
        if total > self._epsilon and self._accountant in (None, "pld") and math.isfinite(total):
            # Close calls deserve the accountant's best accuracy.
            if total <= self._epsilon * 1.001:
                composed = ComposedEvent((*self._events, event))
                total = min(total, epsilon(composed, self._delta, self._accountant, rtol=1e-7))
        if total > self._epsilon:
            raise BudgetExceededError(
                f"the fit would bring epsilon to {rounded_up(total, 6)} at delta = {self._delta:g}, "
                f"above target_epsilon = {self._epsilon:g} "
                f"({rounded_up(self.spent_epsilon(), 6)} is spent); add noise, take fewer steps, or "
                "sample less"
            )
        return total

    def charge(self, event: PrivacyEvent) -> float:
        """Charge `event`; call it before the fit's first release.

        Returns
        -------
        float
            epsilon after it.

        Raises
        ------
        BudgetExceededError
            If it would exceed the target; then nothing is charged.
        """
        total = self.check(event)
        self._events = (*self._events, event)
        return total

    def calibrate_noise_multiplier(
        self, make_event: Callable[[float], PrivacyEvent], rtol: float = 1e-3
    ) -> float:
        """The smallest noise multiplier whose event still fits the budget.

        Parameters
        ----------
        make_event : callable
            ``make_event(noise_multiplier)`` returns the event of the next fit.
        rtol : float
            As in `calibrate_noise_multiplier`.
        """
        return calibrate_noise_multiplier(
            lambda z: ComposedEvent((*self._events, make_event(z))),
            self._epsilon, self._delta, self._accountant, rtol,
        )

    def statement(self) -> str:
        """One sentence about everything charged so far."""
        return describe(self.event, self._delta, self._accountant)

    def to_dict(self) -> dict:
        """Targets and events as JSON values."""
        return {
            "target_epsilon": self._epsilon,
            "target_delta": self._delta,
            "accountant": self._accountant,
            "events": [event.to_dict() for event in self._events],
        }

    @classmethod
    def from_dict(cls, data: dict) -> Budget:
        """The budget that `to_dict` described."""
        names = {"target_epsilon", "target_delta", "accountant", "events"}
        if not isinstance(data, dict) or set(data) != names:
            raise ValueError(f"a budget has the keys {sorted(names)}")
        budget = cls(data["target_epsilon"], data["target_delta"], data["accountant"])
        budget._events = tuple(event_from_dict(item) for item in data["events"])
        ComposedEvent(budget._events)
        return budget
