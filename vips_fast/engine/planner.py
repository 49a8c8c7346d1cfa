"""Planner: decide everything about a run and its cost, before spending.

    Request  →  Planner.plan  →  Planned: the run's plan, its model, and the settings that were settled

The planner takes delta, minibatches and steps from the request's design and finds the noise once. It refuses a run
that exceeds the target or the budget. It draws nothing, reserves nothing and sees no record: one request and one state
of the budget always give one plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..accounting import ComposedEvent, PrivacyEvent, SelfComposedEvent, rounded_up
from ..accounting.calibration import Target, noise_for
from ..store.words import counted
from .budget import Budget
from .filters import LARGEST_NOISE
from .ledger import Ledger, bounded_with
from .measured import MeasuredModel
from .model import Model
from .plan import RunPlan, make_plan
from .request import KeptRun, Request, RunForecast, RunSchedule, Terms
from .sampling import Sampler, check_steps, n_events
from .statement import PlannedRun


@dataclass(frozen=True)
class Cost:
    """The releases of a run: ``count`` times ``event``, at ``delta``."""

    event: PrivacyEvent
    count: int
    delta: float


@dataclass(frozen=True)
class Planned:
    """Result of planning a request.

    Attributes
    ----------
    request : Request
    plan : RunPlan
    model : Model
        At its public start, or at the end of the earlier calls.
    settings : mapping
        The request's settings, with the delta and the noise that the budget decided.
    forecast : RunForecast or None
    """

    request: Request
    plan: RunPlan
    model: Model
    settings: Mapping[str, Any]
    forecast: RunForecast | None

    @property
    def target(self) -> Target | None:
        """Target that the noise was calibrated for or checked against, or None."""
        terms = Terms(
            epsilon=self.settings["epsilon"], target_attack_success=self.settings.get("target_attack_success")
        )
        free = self.settings["noise_multiplier"] is None
        return terms.target(self.plan.delta) if free else terms.limit(self.plan.delta)


class Planner:
    """Planner of one job's runs; it calibrates each noise multiplier once."""

    def __init__(self) -> None:
        self._calibrated: dict[tuple[PrivacyEvent, int, Target, PrivacyEvent | None], float] = {}

    # ------------------------------------------------------------ the noise

    def noise(self, sampler: Sampler, count: int, target: Target, purchase: PrivacyEvent | None = None) -> float:
        """Calibrate the noise multiplier to meet a target.

        With it, ``count`` events of the sampler and the vocabulary purchase of the same fit meet the target. Raises
        ValueError if no multiplier does.
        """
        key = sampler.event(1.0), count, target, purchase
        if key not in self._calibrated:
            events = () if purchase is None else (purchase,)
            if purchase is not None and target.excess(purchase, None) >= 0.0:
                spent, more = target.spent(purchase), ""
                if target.attack_success is None:
                    both = spent + target.epsilon
                    more = f"; epsilon={rounded_up(both)} leaves this fit about {rounded_up(target.epsilon)}"
                raise ValueError(
                    f"{target}: expected more than {rounded_up(spent)}, which the vocabulary purchase has spent, since "
                    f"it bounds both together{more}"
                )
            self._calibrated[key] = noise_for(
                lambda z: ComposedEvent((*events, SelfComposedEvent(sampler.event(z), count))), target
            )
        return self._calibrated[key]

    def _noise_of(
        self, request: Request, terms: Terms, sampler: Sampler, count: int, delta: float, budget: Budget | None
    ) -> float:
        """Find the noise multiplier of a private run."""
        if terms.noise_multiplier is not None:
            return float(terms.noise_multiplier)
        if request.resumed_noise is not None:
            return request.resumed_noise
        if not terms.targeted and budget is not None:
            return budget.noise_multiplier(sampler.event, count)
        if request.earlier is not None and request.earlier.ledger.spent:
            raise ValueError("noise_multiplier=None: expected a number for a run after an earlier one")
        return self.noise(sampler, count, terms.target(delta), bounded_with(request.purchase))

    # ------------------------------------------------------------- the plan

    def plan(self, request: Request, budget: Budget | None = None) -> Planned:
        """Plan a run; spend nothing.

        Raises ValueError if settings, steps or the noise are out of range, or the run would pass its target. Raises
        ValueError if the budget has another unit, relation or delta. Raises BudgetExceededError if nothing fits the
        budget.
        """
        terms, schedule = self._complete_terms(request, budget)
        assert schedule is not None, "the columns of the data are known"
        public, sampler, delta = request.public, schedule.sampler, terms.usual_delta(request.public.n_records)
        reasons = dict.fromkeys(request.design.taints)
        z = 0.0
        if terms.private:
            count = n_events(sampler, range(schedule.n_steps))
            z = self._noise_of(request, terms, sampler, count, delta, budget)
            if z == 0.0:
                reasons["noise_multiplier=0"] = None
            elif terms.noise_multiplier is not None and terms.epsilon is not None:
                _check_target(request, sampler, z, schedule.n_steps, delta)
        else:
            reasons["fitted with private=False"] = None
        schedule = schedule.with_noise(z)
        model = request.design.model(public, schedule)
        if schedule.measured and model.has_score:
            model = MeasuredModel(model, schedule.n_steps, public.n_records)
        plan = make_plan(
            model,
            sampler,
            z,
            n_steps=schedule.n_steps,
            delta=delta,
            private=terms.private,
            sensitivity=request.design.sensitivity(model, sampler.relation),
            taints=tuple(reasons),
            part=public.part,
            unit=public.unit,
            purchase=None if request.purchase is None else dict(request.purchase),
            call=request.partial,
            limit=terms.epsilon if request.partial and terms.noised else None,
            attack_success=terms.target_attack_success if terms.noised else None,
            stated=request.settings.get("n_records") is not None or public.call_records is not None,
        )
        _check_follows(request, plan)
        if request.earlier is not None:
            model.restore(request.earlier.state)
        if budget is not None:
            _refuse(budget, plan.taints or (() if plan.event is not None else ("no noise is added",)))
        settings = dict(request.settings)
        if budget is not None:
            # The result shows the settings that the budget decided.
            settings["delta"] = terms.delta
            if terms.threshold_delta is not None:
                settings["threshold_delta"] = terms.threshold_delta
            if terms.noise_multiplier is None and not terms.targeted:
                settings["noise_multiplier"] = z
        forecast = request.design.forecast(public, schedule, model)
        if forecast is not None and plan.event is not None and request.earlier is None:
            before = () if request.purchase_event is None else (request.purchase_event,)
            run = SelfComposedEvent(plan.event, n_events(sampler, range(schedule.n_steps)))
            forecast = replace(forecast, event=ComposedEvent((*before, run)), unit=public.unit)
        return Planned(request, plan, model, settings, forecast)

    def cost(self, request: Request, budget: Budget | None = None, run: KeptRun | None = None) -> Cost | None:
        """Find the releases of a run from public numbers.

        Returns None if they depend on columns of data that are not read yet. Raises as `plan`. A budget also refuses a
        run that does not fit it now, and a resumed ``run`` without a checkpoint that can have no further step.
        """
        terms, schedule = self._complete_terms(request, budget)
        if schedule is None or not terms.noised:
            return None
        sampler, delta = schedule.sampler, terms.usual_delta(request.public.n_records)
        count = n_events(sampler, range(schedule.n_steps))
        event = sampler.event(self._noise_of(request, terms, sampler, count, delta, budget))
        kept, least = 0, count
        if run is not None:
            kept, count = run.progress(event, terms.limit(delta))
            least = min(count, 1)
        if budget is not None and least and not kept:
            budget.check(event, least, request.public.part)
        return Cost(event, count, delta)

    def check_terms(self, request: Request, budget: Budget | None) -> None:
        """Raise ValueError if the terms differ from the budget."""
        self._complete_terms(request, budget)

    def check_after(self, request: Request, budget: Budget | None, purchase: SelfComposedEvent) -> str:
        """Check a run after a purchase; return its neighboring relation.

        Raises as `plan`, also if the budget cannot pay for both.
        """
        terms, schedule = self._complete_terms(request, budget)
        assert schedule is not None, "the columns of the data are known"
        sampler, count = schedule.sampler, n_events(schedule.sampler, range(schedule.n_steps))
        if budget is not None:
            z = LARGEST_NOISE
            if terms.targeted:
                delta = terms.usual_delta(request.public.n_records)
                z = self.noise(sampler, count, terms.target(delta), purchase)
            budget.check(sampler.event(z), count, before=purchase)
        return sampler.relation

    def _complete_terms(self, request: Request, budget: Budget | None) -> tuple[Terms, RunSchedule | None]:
        """Complete the terms by a known delta, and make the schedule."""
        terms = request.terms
        if request.earlier is not None and terms.delta is None and request.earlier.delta is not None:
            terms = replace(terms, delta=request.earlier.delta)
        if budget is not None:
            reasons = request.design.taints if terms.noised else ("no noise is added", *request.design.taints)
            _refuse(budget, reasons)
            _check_paid(request, budget)
            if terms.delta is None:
                terms = replace(terms, delta=budget.delta)
            if request.settings.get("threshold_delta", 0) is None and terms.threshold_delta is None:
                terms = replace(terms, threshold_delta=budget.purchase_delta)
        schedule = request.design.schedule(request.public, terms)
        if schedule is not None and terms.private:
            check_steps(schedule.sampler, schedule.n_steps)
        if schedule is not None and budget is not None:
            delta = terms.usual_delta(request.public.n_records)
            budget.check_plan(schedule.sampler.relation, request.public.unit, delta)
        return terms, schedule


def _refuse(budget: Budget, reasons: tuple[str, ...]) -> None:
    if reasons:
        raise ValueError(
            f"budget {budget.path}: expected None with a fit that its guarantee does not cover ({'; '.join(reasons)})"
        )


def _check_paid(request: Request, budget: Budget) -> None:
    """Refuse to add to releases that the budget did not pay for."""
    runs = () if request.earlier is None else PlannedRun.of(request.earlier.ledger)
    unpaid = sum(run.releases for run in runs if run.budget != budget.identity)
    purchase = request.purchase
    if unpaid or (purchase is not None and purchase.get("budget") != budget.identity):
        what = f"{counted(unpaid, 'earlier release')} of the model" if unpaid else request.step_before
        raise ValueError(
            f"budget {budget.path}: did not pay for {what}; expected the budget that paid for all, or a new fit with "
            "budget="
        )


def _check_target(request: Request, sampler: Sampler, z: float, n_steps: int, delta: float) -> None:
    """Refuse a run that, with its vocabulary purchase and earlier calls, passes its target."""
    target, earlier = request.terms.epsilon, request.earlier
    spent: Counter[tuple[str | None, PrivacyEvent]] = Counter()
    if (purchased := bounded_with(request.purchase)) is not None:
        spent[None, purchased] += 1
    spent[request.public.part, sampler.event(z)] += n_events(sampler, range(n_steps))
    ledger = Ledger() if earlier is None else earlier.ledger
    would = ledger.epsilon_with(spent, delta, call=request.partial, limit=target)
    if target is not None and would > target:
        raise ValueError(
            f"noise_multiplier={z:g} with {n_steps} steps gives epsilon = {rounded_up(would)} at delta = {delta:g}: "
            f"expected at most epsilon={rounded_up(target)}; raise noise_multiplier or leave it None"
        )


def _check_follows(request: Request, plan: RunPlan) -> None:
    """Refuse a run whose unit or relation differs from earlier ones."""
    purchase, earlier = request.purchase, request.earlier
    if purchase is not None and (purchase["unit"], purchase["relation"]) != (plan.unit, plan.relation):
        raise ValueError(
            f"{request.step_before} is about one {purchase['unit']} ({purchase['relation']}), this one about one "
            f"{plan.unit} ({plan.relation}); expected the same unit and relation"
        )
    if earlier is None:
        return
    if earlier.relation != plan.relation and plan.event is not None and len(earlier.ledger):
        raise ValueError(
            f"relation: this run would be about {plan.relation!r}, the earlier ones are about {earlier.relation!r}; "
            "use the earlier one"
        )
    if earlier.delta not in (None, plan.delta):
        raise ValueError(
            f"delta={plan.delta:g}: the earlier runs have {earlier.delta:g}, which was fixed before their "
            "releases; expected the same, or None"
        )
    limit = earlier.ledger.limit
    if limit is not None and limit[0] != plan.limit:
        shown = None if plan.limit is None else rounded_up(plan.limit)
        raise ValueError(
            f"epsilon={shown}: the first call reserved {rounded_up(limit[0])} for all calls; expected the same"
        )
    if earlier.unit != plan.unit:
        raise ValueError(
            f"groups: this run would be about one {plan.unit}, the earlier ones are about one {earlier.unit}; "
            "expected one unit"
        )
