"""One fit's dealings with the budget of its data set: what it may choose, reserves, draws and gives back."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from ..accounting import PrivacyEvent, SelfComposedEvent, calibrate_noise_multiplier
from ..engine.budget import Budget, Reservation
from ..engine.ledger import Ledger
from ..engine.plan import RunPlan
from ..engine.result import Public

if TYPE_CHECKING:
    from .estimator import PrivateEstimator


class Spending:
    """Without a budget, which is the default, every method does nothing.

    Parameters
    ----------
    estimator : PrivateEstimator
    budget : Budget, path or None
    partial : bool
        Whether the fit is a call of ``partial_fit``.
    call : mapping or None
        ``part`` and ``call_records`` of that call, as in `Public`.

    Attributes
    ----------
    facts : dict or None
        What the ledger and the transcript say of the budget: the data set, the budget's own name, the reservation, and
        the head of the file with it. None before anything is reserved.
    """

    def __init__(
        self, estimator: PrivateEstimator | None = None, budget: str | Path | Budget | None = None,
        partial: bool = False, call: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.budget = None if budget is None or estimator is None else Budget.of(budget)
        self._estimator, self._partial, self._call = estimator, partial, dict(call or {})
        self._reservation: Reservation | None = None
        self._part: str | None = None
        self._noise = 0.0

    @classmethod
    def of(cls, estimator: PrivateEstimator, budget: Any, partial: bool, call: Mapping[str, Any]) -> Spending:
        """That of an estimator's fit; one that has begun already goes on."""
        if not isinstance(budget, Spending):
            return cls(estimator, budget, partial, call)
        if budget._estimator is not estimator or budget._partial is not partial:
            raise ValueError("budget: this spending was begun for another estimator or another kind of fit")
        return budget

    @property
    def facts(self) -> dict[str, str] | None:
        if self.budget is None or self._reservation is None:
            return None
        held = self._reservation
        return {
            "dataset": self.budget.dataset, "budget": self.budget.identity, "run": held.run, "head": held.head,
        }  # fmt: skip

    def begin(self) -> Self:
        """Refuse what no budget can pay for; reserve before data are read, where public numbers say how much."""
        estimator = self._estimator
        if self.budget is None or estimator is None or self._reservation is not None:
            return self
        reasons = (*estimator._taints(), *estimator._unsafe_taints())
        if not estimator.private or estimator.noise_multiplier == 0:
            reasons = ("no noise is added", *reasons)
        self._refuse(reasons)
        n_records = estimator.n_records or self._call.get("call_records")
        if n_records is not None and (self._partial or estimator.n_steps is not None):
            # Rates and steps that are given do not depend on the data's columns.
            self.settle(Public(n_features=1, n_records=int(n_records), seed=0, **self._call))
        return self

    def _refuse(self, reasons: tuple[str, ...]) -> None:
        if reasons and self.budget is not None:
            raise ValueError(
                f"budget {self.budget.path}: expected None with a fit that its guarantee does not cover "
                f"({'; '.join(reasons)})"
            )

    def settle(self, public: Public) -> Any:
        """The estimator with the delta of the budget, and with the noise that what is left pays for, where it says
        neither; its run is reserved."""
        budget, estimator = self.budget, self._estimator
        if budget is None or estimator is None:
            return estimator
        chosen = copy.copy(estimator)
        if chosen.target_delta is None:
            chosen.target_delta = budget.delta
        sampler, n_steps = chosen._schedule(public, self._partial)
        budget.check_plan(sampler.neighbors, "record", float(chosen.target_delta))
        held = self._reservation
        if chosen.noise_multiplier is None and chosen.target_epsilon is None:
            if held is not None and (held.event, held.count) == (sampler.event(self._noise), n_steps):
                chosen.noise_multiplier = self._noise
                return chosen
            self.close()
            chosen.noise_multiplier = budget.noise_multiplier(sampler.event, n_steps)
        z = chosen.noise_multiplier
        if z is None:
            z = calibrate_noise_multiplier(
                lambda z: SelfComposedEvent(sampler.event(z), n_steps), float(chosen.target_epsilon or 1.0),
                float(chosen.target_delta),
            )
        self._noise = float(z)
        self._reserve(sampler.event(self._noise), n_steps, public.part)
        return chosen

    def _reserve(self, event: PrivacyEvent | None, count: int, part: str | None) -> None:
        held = self._reservation
        same = held is not None and (held.event, held.count, self._part) == (event, count, part)
        if self.budget is None or event is None or same:
            return
        self.close()
        self._part = part
        what = type(self._estimator).__name__ + (" partial_fit" if self._partial else "")
        self._reservation = self.budget.reserve(event, count, what=what, part=part)

    def confirm(self, plan: RunPlan) -> None:
        """Hold the plan, as it was made in the end, against the budget and what is reserved."""
        if self.budget is None:
            return
        self._refuse(plan.taints or (() if plan.event is not None else ("no noise is added",)))
        self.budget.check_plan(plan.relation, plan.unit, plan.delta)
        self._reserve(plan.event, plan.n_steps, plan.part)

    def record(self, ledger: Ledger) -> None:
        """Write into the ledger which budget pays."""
        if self.facts is not None:
            ledger.charge_to(self.facts)

    def release(self) -> None:
        """Charge one release; called before its noise key is drawn."""
        if self._reservation is not None:
            self._reservation.release()

    def close(self) -> None:
        """Give back what was not drawn."""
        if self._reservation is not None:
            # A budget that cannot be written now must not end a run that has been paid for: what is not given back
            # counts as reserved until this process ends.
            with suppress(OSError, ValueError):
                self._reservation.close()

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def planning(
    estimator: PrivateEstimator, budget: Any, partial: bool, call: Mapping[str, Any]
) -> Iterator[Spending]:
    """The spending of a fit that is being planned; where no plan is made, what was reserved is given back."""
    spending = Spending.of(estimator, budget, partial, call)
    try:
        yield spending.begin()
    except BaseException:
        spending.close()
        raise


#: What the argument ``budget`` of a fit may be; a `Spending` is one that has begun, before the data were read.
Payer: TypeAlias = str | Path | Budget | Spending | None
