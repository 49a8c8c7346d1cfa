"""From a request to the plan of a run: everything is decided, and its cost known, before anything is spent.

    Request  →  Request.plan  →  Planned: the run's plan, its model, and the settings that were settled

A request has the settings of a run and its public facts. Its plan has the delta, the minibatches and steps, and the
noise. A run that exceeds the target or the budget is refused. Planning draws nothing, reserves nothing and sees no
record: one request and one state of the budget always give one plan.

Sampler, noise and accounting are coupled in `RunPlan` by construction: the event to charge is the sampler's own, and
has the noise multiplier of the mechanism that will add the noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..accounting import (
    ComposedEvent,
    PrivacyEvent,
    Relation,
    SelfComposedEvent,
    attack_success,
    event_from_dict,
    rounded_up,
)
from ..accounting.calibration import Target, calibrate_noise_multiplier
from ..accounting.printing import right_guesses, rounded_down
from ..mechanisms import GaussianMechanism
from ..store.words import counted
from .budget import Budget
from .filters import LARGEST_NOISE
from .gain import MeasuredModel
from .ledger import Ledger, bounded_with
from .model import Model
from .result import FitResult, Public
from .sampling import Sampler, n_events
from .statement import PlannedRun

if TYPE_CHECKING:
    from .checkpoint import RunFolder


@dataclass(frozen=True)
class Terms:
    """Limits of a run's cost: the estimator's parameters of the same names."""

    private: bool = True
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    #: Of a vocabulary.
    threshold_delta: float | None = None

    @property
    def noised(self) -> bool:
        """Whether the run adds noise."""
        return self.private and self.noise_multiplier != 0

    def target(self, n_records: int) -> Target:
        """Return the target to calibrate for: by default epsilon = 1, and delta = min(1e-5, 1/(10 n_records))."""
        delta = min(1e-5, 0.1 / n_records) if self.delta is None else float(self.delta)
        return Target(1.0 if self.epsilon is None else self.epsilon, delta)


@dataclass(frozen=True)
class RunSchedule:
    """Minibatches of a run, and their number."""

    sampler: Sampler
    #: Steps of this run.
    n_steps: int
    #: Steps of a whole fit with these settings: `n_steps`, except in a call of ``partial_fit``.
    horizon: int
    #: False for a call of ``partial_fit``.
    whole: bool = True
    #: Whether the last step is a score of the finished model (`vips_fast.engine.gain`), if it has one.
    measured: bool = False
    #: The noise of each release; the plan sets it before it asks for the model.
    noise_multiplier: float = 0.0


@dataclass(frozen=True)
class RunForecast:
    """Expected worth of a run, from public numbers."""

    #: The expected gain; of several runs, the one with the largest gain has the best prospects.
    gain: float
    #: The forecast in one line.
    text: str
    #: The category to warn with if the run is hopeless; None if it is not.
    warning: type[Warning] | None = None
    #: All releases of the planned run, with the purchase before it; None if they are not planned yet.
    event: PrivacyEvent | None = field(default=None, repr=False, compare=False)
    #: The privacy unit.
    unit: str = field(default="record", repr=False, compare=False)

    @property
    def risk(self) -> str:
        """How often an attacker is right at most, as the statement of the run will say it; "" without a plan."""
        if self.event is None:
            return ""
        return right_guesses(attack_success(self.event), self.unit, self.event.relation == Relation.ADD_REMOVE)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class RunPlan:
    """Sampler, mechanism and number of releases of one run."""

    sampler: Sampler
    #: With a noise multiplier of 0 the run adds no noise and is not private.
    mechanism: GaussianMechanism
    n_steps: int
    #: At which the guarantee is stated.
    delta: float
    #: The privacy unit.
    unit: str = "record"
    #: Reasons, known beforehand, why the guarantee will not hold.
    taints: tuple[str, ...] = ()
    #: The part of the data set that the run reads; None for all of it.
    part: str | None = None
    #: The vocabulary purchase that chose the run's columns from the same records: "event", as JSON, and "head" of its
    #: ledger. The run's accounting includes it.
    purchase: dict[str, Any] | None = None
    #: Whether this is a call of ``partial_fit``, and whether the number of records was stated, not counted.
    call: bool = False
    stated: bool = False
    #: Epsilon that a call keeps within, and all calls before and after it.
    limit: float | None = None

    @property
    def relation(self) -> Relation:
        """The neighboring relation."""
        return self.sampler.relation

    @cached_property
    def event(self) -> PrivacyEvent | None:
        """Event of a release or an epoch (`starts_event`); None without noise."""
        z = self.mechanism.noise_multiplier
        return self.sampler.event(z) if z > 0 else None

    def event_of(self, starts: bool) -> PrivacyEvent | None:
        """Build the event of a step; None without noise.

        It is 0 times `event` if the step does not start one (`starts_event`), so that its epoch's event covers it.
        """
        return self.event if starts or self.event is None else SelfComposedEvent(self.event, 0)

    def public(self) -> dict[str, Any]:
        """List the plan's numbers for the ledger, JSON-ready."""
        public: dict[str, Any] = {
            "relation": self.sampler.relation,
            "unit": self.unit,
            "sampling": self.sampler.name,
            "n_records": int(self.sampler.n_records),
            "batch_size": float(self.sampler.expected_batch_size),
            "n_steps": int(self.n_steps),
            "noise_multiplier": float(self.mechanism.noise_multiplier),
            "clip_norm": float(self.mechanism.clip_norm),
            "sensitivity": float(self.mechanism.sensitivity),
            "delta": float(self.delta),
        }
        for name in ("part", "purchase", "call", "stated", "limit"):
            if (value := getattr(self, name)) is not None and value is not False:
                public[name] = value
        return public


@dataclass(frozen=True)
class Planned:
    """Result of planning a request."""

    request: Request
    plan: RunPlan
    #: At its public start, or at the end of the earlier calls.
    model: Model
    #: The request's settings, with the delta and the noise that the budget decided.
    settings: Mapping[str, Any]
    #: What the noise was calibrated for or checked against.
    target: Target | None
    forecast: RunForecast | None


@dataclass(frozen=True)
class Request:
    """Everything that determines a plan: settings, public facts, and what a model family decides from these."""

    #: The arguments of the constructor.
    settings: Mapping[str, Any]
    #: Before the data are read its ``n_features`` is 0.
    public: Public
    terms: Terms
    #: Minibatches and steps. None if they depend on the columns of the data, which are not known yet.
    schedule: Callable[[Public, Terms], RunSchedule | None]
    #: The model at its public start.
    model: Callable[[Public, RunSchedule], Model]
    #: A sensitivity to declare in place of the model's proven one; None for the proven one.
    sensitivity: Callable[[Model, str], float | None]
    #: Expected worth of the run; None if nothing predicts it.
    forecast: Callable[[Public, RunSchedule, Model], RunForecast | None]
    #: Reasons, known from the settings, why the guarantee will not hold.
    taints: tuple[str, ...] = ()
    #: Fewest steps of a run whose last one is a score of its model; None for no score.
    measured_from: int | None = None
    #: Whether this is a call of ``partial_fit``.
    partial: bool = False
    #: The vocabulary purchase: "event", "head", "unit" and "relation".
    purchase: Mapping[str, Any] | None = None
    #: Of the runs that a call of ``partial_fit`` continues.
    earlier: FitResult | None = field(default=None, repr=False)
    #: Noise multiplier of the interrupted run that is resumed.
    resumed_noise: float | None = None

    @property
    def step_before(self) -> str:
        """The step that spent the purchase, in words."""
        return "the earlier fit to these records" if "fit" in (self.purchase or {}) else "the vocabulary purchase"

    @property
    def earlier_delta(self) -> float | None:
        """Delta of the statement, which the first run fixed; None without releases."""
        return None if self.earlier is None or not len(self.earlier.ledger) else self.earlier.privacy.delta

    def plan(self, budget: Budget | None = None) -> Planned:
        """Plan the run; spend nothing.

        Raises ValueError if settings, steps or the noise are out of range, or the run would pass its target. Raises
        ValueError if the budget has another unit, relation or delta. Raises BudgetExceededError if nothing fits the
        budget.
        """
        terms, schedule = self.complete_terms(budget)
        assert schedule is not None, "the columns of the data are known"
        public, sampler, target = self.public, schedule.sampler, terms.target(self.public.n_records)
        reasons, count = dict.fromkeys(self.taints), n_events(sampler, range(schedule.n_steps))
        z = 0.0
        if terms.private:
            z = self._noise(terms, sampler, count, budget)
            if z == 0.0:
                reasons["noise_multiplier=0"] = None
            elif terms.noise_multiplier is not None and terms.epsilon is not None:
                _check_target(self, sampler, z, schedule.n_steps, target.delta)
        else:
            reasons["fitted with private=False"] = None
        schedule = replace(schedule, noise_multiplier=z)
        model = self.model(public, schedule)
        if schedule.measured and model.has_score:
            model = MeasuredModel(model, schedule.n_steps, public.n_records)
        proven, declared = model.sensitivity(sampler.relation), self.sensitivity(model, sampler.relation)
        if declared is not None and declared < proven and terms.private:
            reasons[f"sensitivity {declared:.6g} is below the proven {proven:.6g}"] = None
        mechanism = GaussianMechanism(z, proven if declared is None else declared, model.clip)
        model.prepare(mechanism, sampler)
        plan = RunPlan(
            sampler,
            mechanism,
            schedule.n_steps,
            target.delta,
            unit=public.unit,
            taints=tuple(reasons),
            part=public.part,
            purchase=None if self.purchase is None else dict(self.purchase),
            call=self.partial,
            limit=terms.epsilon if self.partial and terms.noised else None,
            stated=self.settings.get("n_records") is not None or public.call_records is not None,
        )
        if self.purchase is not None or self.earlier is not None:
            _check_follows(self, plan)
        if self.earlier is not None:
            model.restore(self.earlier.state)
        settings = dict(self.settings)
        if budget is not None:
            _refuse(budget, plan.taints or (() if plan.event is not None else ("no noise is added",)))
            # The result shows the settings that the budget decided.
            settings["delta"] = terms.delta
            if terms.threshold_delta is not None:
                settings["threshold_delta"] = terms.threshold_delta
            if terms.noise_multiplier is None and terms.epsilon is None:
                settings["noise_multiplier"] = z
        targeted = terms.epsilon is not None or settings["noise_multiplier"] is None
        forecast = self.forecast(public, schedule, model)
        if forecast is not None and plan.event is not None and self.earlier is None:
            included = () if self.purchase is None else (event_from_dict(self.purchase["event"]),)
            run = ComposedEvent((*included, SelfComposedEvent(plan.event, count)))
            text, freely = forecast.text, terms.epsilon is None and terms.noise_multiplier is None
            if budget is not None and freely and self.resumed_noise is None and forecast.warning is not None:
                text = f"{text.removesuffix('.')}; of epsilon the budget has {rounded_down(budget.left)} left"
            forecast = replace(forecast, text=text, event=run, unit=public.unit)
        return Planned(self, plan, model, settings, target if targeted else None, forecast)

    def cost(self, budget: Budget | None = None, run: RunFolder | None = None) -> SelfComposedEvent | None:
        """Find the releases of the run from public numbers.

        Returns None if they depend on columns of data that are not read yet. Raises as `plan`. A budget also refuses a
        run that does not fit it now, and a resumed ``run`` without a step that can have no further one.
        """
        terms, schedule = self.complete_terms(budget)
        if schedule is None or not terms.noised:
            return None
        sampler, target = schedule.sampler, terms.target(self.public.n_records)
        count = n_events(sampler, range(schedule.n_steps))
        event = sampler.event(self._noise(terms, sampler, count, budget))
        kept, least = 0, count
        if run is not None:
            kept, count = run.progress(event, target if terms.epsilon is not None else None)
            least = min(count, 1)
        if budget is not None and least and not kept:
            budget.check(event, least, self.public.part)
        return SelfComposedEvent(event, count)

    def check_after(self, budget: Budget | None, purchase: SelfComposedEvent) -> str:
        """Check the run after a purchase; return its neighboring relation.

        Raises as `plan`, also if the budget cannot pay for both.
        """
        terms, schedule = self.complete_terms(budget)
        assert schedule is not None, "the columns of the data are known"
        sampler, count = schedule.sampler, n_events(schedule.sampler, range(schedule.n_steps))
        if budget is not None:
            z = LARGEST_NOISE
            if terms.epsilon is not None:
                delta = terms.target(self.public.n_records).delta
                z = calibrate_noise_multiplier(sampler.event, terms.epsilon, delta, count=count, before=purchase)
            budget.check(sampler.event(z), count, before=purchase)
        return sampler.relation

    def complete_terms(self, budget: Budget | None) -> tuple[Terms, RunSchedule | None]:
        """Complete the terms by a known delta, and make the schedule; ValueError if they differ from the budget."""
        terms = self.terms
        if self.earlier is not None and terms.delta is None:
            terms = replace(terms, delta=self.earlier_delta)
        if budget is not None:
            _refuse(budget, self.taints if terms.noised else ("no noise is added", *self.taints))
            _check_paid(self, budget)
            if terms.delta is None:
                terms = replace(terms, delta=budget.delta)
            if self.settings.get("threshold_delta", 0) is None and terms.threshold_delta is None:
                terms = replace(terms, threshold_delta=budget.purchase_delta)
        schedule, least = self.schedule(self.public, terms), self.measured_from
        if schedule is not None and terms.noised and least is not None:
            schedule = replace(schedule, measured=schedule.n_steps >= least)
        if schedule is not None and terms.private and schedule.n_steps % (length := schedule.sampler.n_batches):
            raise ValueError(
                f"n_steps={schedule.n_steps}: expected a multiple of {length}, the minibatches of an epoch "
                f"(n_records / batch_size), with sampling={schedule.sampler.name!r}; or sampling='poisson'"
            )
        if schedule is not None and budget is not None:
            target = terms.target(self.public.n_records)
            budget.check_plan(schedule.sampler.relation, self.public.unit, target.delta)
        return terms, schedule

    def _noise(self, terms: Terms, sampler: Sampler, count: int, budget: Budget | None) -> float:
        """Find the noise multiplier of the settings, the interrupted run or the budget, or calibrate it."""
        if terms.noise_multiplier is not None:
            return float(terms.noise_multiplier)
        if self.resumed_noise is not None:
            return self.resumed_noise
        if terms.epsilon is None and budget is not None:
            return budget.noise_multiplier(sampler.event, count)
        if self.earlier is not None and self.earlier.ledger.spent:
            raise ValueError("noise_multiplier=None: expected a number for a run after an earlier one")
        # A plan, its fit and a job ask alike: the accountant's kept answers make the later times cost next to nothing.
        target, before = terms.target(self.public.n_records), bounded_with(self.purchase)
        return calibrate_noise_multiplier(sampler.event, target.epsilon, target.delta, count=count, before=before)


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
    if earlier.privacy.relation != plan.relation and plan.event is not None and len(earlier.ledger):
        raise ValueError(
            f"relation: this run would be about {plan.relation!r}, the earlier ones are about "
            f"{earlier.privacy.relation!r}; use the earlier one"
        )
    if request.earlier_delta not in (None, plan.delta):
        raise ValueError(
            f"delta={plan.delta:g}: the earlier runs have {request.earlier_delta:g}, which was fixed before their "
            "releases; expected the same, or None"
        )
    limit = earlier.ledger.limit
    if limit is not None and limit[0] != plan.limit:
        shown = None if plan.limit is None else rounded_up(plan.limit)
        raise ValueError(
            f"epsilon={shown}: the first call reserved {rounded_up(limit[0])} for all calls; expected the same"
        )
    if earlier.public.unit != plan.unit:
        raise ValueError(
            f"groups: this run would be about one {plan.unit}, the earlier ones are about one {earlier.public.unit}; "
            "expected one unit"
        )
