"""One fit's dealings with the budget of its data set: what it may choose, reserves, draws and gives back."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from ..accounting import PrivacyEvent, SelfComposedEvent, event_from_dict
from ..engine.budget import Budget, BudgetExceededError, Reservation
from ..engine.checkpoint import RunFolder
from ..engine.filters import LARGEST_NOISE
from ..engine.ledger import Ledger
from ..engine.plan import RunPlan, calibrated_noise
from ..engine.result import Public
from ..engine.sampling import Sampler, check_steps, n_events

if TYPE_CHECKING:
    from .estimator import PrivateEstimator


class Spending:
    """Without a budget, which is the default, every method does nothing.

    ``partial`` says whether the fit is a call of ``partial_fit``, ``call`` has ``part``, ``call_records`` and ``unit``
    of that call, as in `Public`. In ``folder`` the run goes on, if one has begun there: with the noise of its plan and
    the steps that it has left, or as many of them as the budget holds.

    ``facts`` are what the ledger and the transcript say of the budget: the data set, the budget's own name, the
    reservation, and the head of the file with it; None before anything is reserved. ``bought`` is the event of what the
    fit's columns were bought with, which its target is for, too.
    """

    def __init__(
        self,
        estimator: PrivateEstimator | None = None,
        budget: str | Path | Budget | None = None,
        partial: bool = False,
        call: Mapping[str, Any] | None = None,
        folder: RunFolder | None = None,
    ) -> None:
        self.budget = None if budget is None or estimator is None else Budget.of(budget)
        self._estimator, self._partial, self._call = estimator, partial, dict(call or {})
        self._folder = folder if folder is not None and folder.begun else None
        self._reservation: Reservation | None = None
        self._part: str | None = None
        self._noise = 0.0
        self.bought: PrivacyEvent | None = None

    @classmethod
    def of(
        cls, estimator: PrivateEstimator, budget: Any, partial: bool, call: Mapping[str, Any], folder: RunFolder | None
    ) -> Spending:
        """That of an estimator's fit; one that has begun already goes on."""
        if not isinstance(budget, Spending):
            return cls(estimator, budget, partial, call, folder)
        if budget._estimator is not estimator or budget._partial is not partial:
            raise ValueError("budget: this spending was begun for another estimator or another kind of fit")
        return budget

    @property
    def facts(self) -> dict[str, str] | None:
        if self.budget is None or self._reservation is None:
            return None
        held = self._reservation
        return {"dataset": self.budget.dataset, "budget": self.budget.identity, "run": held.run, "head": held.head}

    def begin(self) -> Self:
        """Refuse what no budget can pay for; reserve before data are read, where public numbers say how much."""
        estimator = self._estimator
        if self.budget is None or estimator is None or self._reservation is not None:
            return self
        self._refuse_unsafe(estimator)
        n_records = estimator.n_records or self._call.get("call_records")
        if n_records is not None and (self._partial or estimator.n_steps is not None):
            # Rates and steps that are given do not depend on the data's columns.
            self.settle(Public(n_features=1, n_records=int(n_records), seed=0, **self._call))
        return self

    def quote(self, n_features: int | None = None) -> tuple[PrivacyEvent, int, float] | None:
        """Event of the releases of a fit, how often, and its delta, from public numbers; nothing is reserved.

        None where these numbers do not say it: ``n_records`` is not given, or neither ``n_steps`` nor the columns of
        the data are, or no noise is added. Raises as `settle` does.
        """
        estimator, budget = self._estimator, self.budget
        if estimator is None:
            return None
        self._refuse_unsafe(estimator)
        # What the relation is does not depend on the number of records.
        n_records = estimator.n_records or math.ceil(estimator.batch_size or 1)
        public = Public(n_features=n_features or 1, n_records=int(n_records), seed=0, **self._call)
        if budget is not None:
            relation, delta = estimator._sampler(public).neighbors, estimator.target_delta or budget.delta
            budget.check_plan(relation, self._call.get("unit", "record"), float(delta))
        if not estimator.private or estimator.noise_multiplier == 0 or estimator.n_records is None:
            return None
        if estimator.n_steps is None and n_features is None:
            return None
        chosen, event, count = self._choose(public)
        if budget is not None:
            budget.check(event, count)
        return event, count, chosen._delta(public.n_records)

    def foresee(self, public: Public, bought: SelfComposedEvent) -> str:
        """The relation of a whole fit; ValueError where its sampling, its steps or the budget's terms refuse it, and
        BudgetExceededError where the budget does not hold it together with what is bought before it.

        Nothing is reserved.
        """
        assert self._estimator is not None
        self._refuse_unsafe(self._estimator)
        chosen, sampler, count = self._scheduled(public)
        if self.budget is not None:
            target, z = chosen.target_epsilon, LARGEST_NOISE
            if target is not None:
                z = calibrated_noise(sampler, count, target, chosen._delta(public.n_records), bought)
            self.budget.check(sampler.event(z), count, before=bought)
        return sampler.neighbors

    def _refuse_unsafe(self, estimator: PrivateEstimator) -> None:
        reasons = (*estimator._taints(), *estimator._unsafe_taints())
        if not estimator.private or estimator.noise_multiplier == 0:
            reasons = ("no noise is added", *reasons)
        self._refuse(reasons)

    def _refuse(self, reasons: tuple[str, ...]) -> None:
        if reasons and self.budget is not None:
            raise ValueError(
                f"budget {self.budget.path}: expected None with a fit that its guarantee does not cover "
                f"({'; '.join(reasons)})"
            )

    def settle(self, public: Public) -> Any:
        """The estimator with the delta of the budget, and with the noise that what is left pays for, where it says
        neither; its run is reserved."""
        if self.budget is None or self._estimator is None:
            return self._estimator
        chosen, event, count = self._choose(public)
        goes_on = self._folder is not None and self._folder.noise_multiplier is not None
        self._reserve(event, count, public.part, chosen.target_epsilon if goes_on else None)
        return chosen

    def _scheduled(self, public: Public) -> tuple[Any, Sampler, int]:
        """The estimator with the delta of the budget, its sampler, and how often the event of its releases comes."""
        budget, chosen = self.budget, copy.copy(self._estimator)
        assert chosen is not None
        if chosen.target_delta is None and budget is not None:
            chosen.target_delta = budget.delta
        sampler, n_steps = chosen._schedule(public, self._partial)
        check_steps(sampler, n_steps)
        if budget is not None:
            budget.check_plan(sampler.neighbors, public.unit, chosen._delta(public.n_records))
        return chosen, sampler, n_events(sampler, range(n_steps))

    def _choose(self, public: Public) -> tuple[Any, PrivacyEvent, int]:
        """That estimator, the event of its run's releases, and how often it comes."""
        budget, held = self.budget, self._reservation
        chosen, sampler, count = self._scheduled(public)
        kept = None if self._folder is None else self._folder.noise_multiplier
        if kept is not None:
            if chosen.noise_multiplier is None and chosen.target_epsilon is None:
                chosen.noise_multiplier = kept
            return chosen, sampler.event(kept), count
        if chosen.noise_multiplier is None and chosen.target_epsilon is None and budget is not None:
            if held is not None and (held.event, held.count) == (sampler.event(self._noise), count):
                chosen.noise_multiplier = self._noise
            else:
                self.close()
                chosen.noise_multiplier = budget.noise_multiplier(sampler.event, count)
        z = chosen.noise_multiplier
        if z is None:
            target, delta = float(chosen.target_epsilon or 1.0), chosen._delta(public.n_records)
            z = calibrated_noise(sampler, count, target, delta, self.bought)
        self._noise = float(z)
        return chosen, sampler.event(self._noise), count

    def _reserve(self, event: PrivacyEvent | None, count: int, part: str | None, target: float | None = None) -> None:
        held = self._reservation
        if self.budget is None or event is None:
            return
        if self._folder is None:
            if held is None or (held.event, held.count, self._part) != (event, count, part):
                self._hold(event, count, part)
        elif held is None or held.event != event:
            # A run that goes on draws the steps that are left of it. What it has kept is paid for.
            kept, left = self._folder.progress(event, target)
            with suppress(BudgetExceededError) if kept else nullcontext():
                self._hold(event, left, part, 1)

    def _hold(self, event: PrivacyEvent, count: int, part: str | None, least: int | None = None) -> None:
        self.close()
        self._reservation, self._part = None, part
        what = type(self._estimator).__name__ + (" partial_fit" if self._partial else "")
        if self.budget is not None and count:
            self._reservation = self.budget.reserve(event, count, least=least, what=what, part=part)

    @property
    def paid(self) -> int | None:
        """Events that the budget pays for; None without one."""
        return None if self.budget is None else 0 if self._reservation is None else self._reservation.count

    def confirm(self, plan: RunPlan, target: float | None) -> None:
        """Hold the plan, as it was made in the end, against the budget and what is reserved."""
        if self.budget is None:
            return
        self._refuse(plan.taints or (() if plan.event is not None else ("no noise is added",)))
        self.budget.check_plan(plan.relation, plan.unit, plan.delta)
        self._reserve(plan.event, n_events(plan.sampler, range(plan.n_steps)), plan.part, target)

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
    estimator: PrivateEstimator,
    budget: Any,
    partial: bool,
    call: Mapping[str, Any],
    folder: RunFolder | None,
    prior: Mapping[str, Any] | None,
) -> Iterator[Spending]:
    """The spending of a fit that is being planned, after what its columns were bought with (see `RunPlan`); where no
    plan is made, what was reserved is given back."""
    spending = Spending.of(estimator, budget, partial, call, folder)
    spending.bought = None if prior is None else event_from_dict(prior["event"])
    try:
        yield spending.begin()
    except BaseException:
        spending.close()
        raise


#: What the argument ``budget`` of a fit may be; a `Spending` is one that has begun, before the data were read.
Payer: TypeAlias = str | Path | Budget | Spending | None
