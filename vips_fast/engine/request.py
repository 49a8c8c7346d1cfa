"""Request of a run: its settings and public facts.

`vips_fast.engine.planner` makes the plan from it. Nothing here knows data. Everything is frozen, so one request
always leads to one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..accounting import PrivacyEvent, Relation, attack_success, event_from_dict
from ..accounting.calibration import Target
from ..accounting.printing import right_guesses
from .ledger import Ledger
from .model import Model
from .result import Public
from .sampling import Sampler


@dataclass(frozen=True)
class Terms:
    """Limits of a run's cost: the estimator's parameters of the same names."""

    private: bool = True
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    #: Of a vocabulary.
    threshold_delta: float | None = None
    #: In place of epsilon.
    target_attack_success: float | None = None

    @property
    def noised(self) -> bool:
        """Whether the run adds noise."""
        return self.private and self.noise_multiplier != 0

    @property
    def targeted(self) -> bool:
        """Whether the settings have a target."""
        return self.epsilon is not None or self.target_attack_success is not None

    def target(self, delta: float) -> Target:
        """Return the target to calibrate for.

        It is epsilon = 1 if the settings have none.
        """
        if self.target_attack_success is not None:
            return Target.of_success(self.target_attack_success, delta)
        return Target(1.0 if self.epsilon is None else float(self.epsilon), delta)

    def limit(self, delta: float) -> Target | None:
        """Return the target, or None if the settings have none."""
        return self.target(delta) if self.targeted else None

    def usual_delta(self, n_records: int) -> float:
        """Find the delta of the guarantee: ``delta`` or min(1e-5, 1/(10 n_records))."""
        return min(1e-5, 0.1 / n_records) if self.delta is None else float(self.delta)


@dataclass(frozen=True)
class RunSchedule:
    """Minibatches of a run, and their number.

    Attributes
    ----------
    sampler : Sampler
    n_steps : int
        Steps of this run.
    horizon : int
        Steps of a whole fit with these settings: `n_steps`, except in a call of ``partial_fit``.
    whole : bool
        False for a call of ``partial_fit``.
    measured : bool
        Whether the last step is a score of the finished model (`vips_fast.engine.measured`), if it has one.
    noise_multiplier : float
        The noise of each release; the planner sets it before it asks for the model.
    """

    sampler: Sampler
    n_steps: int
    horizon: int
    whole: bool = True
    measured: bool = False
    noise_multiplier: float = 0.0

    def with_noise(self, noise_multiplier: float) -> RunSchedule:
        """Copy the schedule with this noise."""
        return replace(self, noise_multiplier=noise_multiplier)


@dataclass(frozen=True)
class RunForecast:
    """Expected worth of a run, from public numbers.

    Attributes
    ----------
    gain : float
        The expected gain; of several runs, the one with the largest gain has the best prospects.
    text : str
        The forecast in one line.
    warning : type of Warning or None
        The category to warn with if the run is hopeless; None if it is not.
    worth : {"useful", "weak", "noise", ""}
        The expected verdict (`vips_fast.models.verdict`); "" if nothing predicts it.
    event : PrivacyEvent or None
        All releases of the planned run, with the purchase before it; None if they are not planned yet.
    unit : str
        The privacy unit.
    """

    gain: float
    text: str
    warning: type[Warning] | None = None
    worth: str = ""
    event: PrivacyEvent | None = field(default=None, repr=False, compare=False)
    unit: str = field(default="record", repr=False, compare=False)

    @property
    def risk(self) -> str:
        """How often an attacker is right at most, as the statement of the run will say it; "" without a plan."""
        if self.event is None:
            return ""
        return right_guesses(attack_success(self.event), self.unit, self.event.relation == Relation.ADD_REMOVE)

    def __str__(self) -> str:
        return self.text


class KeptRun(Protocol):
    """A run that resumes, as `vips_fast.engine.checkpoint.RunFolder` keeps it."""

    begun: bool

    def progress(self, event: PrivacyEvent, target: Target | None) -> tuple[int, int]:
        """Return steps done, and events left that the target can pay."""


@dataclass(frozen=True)
class Design:
    """Decisions of a model family: functions of public facts and fixed settings.

    Attributes
    ----------
    schedule : callable(Public, Terms) -> RunSchedule or None
        Minibatches and steps. None if they depend on the columns of the data, which are not known yet.
    model : callable(Public, RunSchedule) -> Model
        The model at its public start.
    sensitivity : callable(Model, str) -> float or None
        A sensitivity to declare in place of the model's proven one; None for the proven one.
    forecast : callable(Public, RunSchedule, Model) -> RunForecast or None
        Expected worth of the run; None if nothing predicts it.
    taints : tuple of str
        Reasons, known from the settings, why the guarantee will not hold.
    """

    schedule: Callable[[Public, Terms], RunSchedule | None]
    model: Callable[[Public, RunSchedule], Model]
    sensitivity: Callable[[Model, str], float | None] = lambda model, relation: None
    forecast: Callable[[Public, RunSchedule, Model], RunForecast | None] = lambda public, schedule, model: None
    taints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Earlier:
    """The runs that a call of ``partial_fit`` continues."""

    ledger: Ledger
    relation: str
    unit: str
    state: Mapping[str, Any]

    @property
    def delta(self) -> float | None:
        """Delta of the statement, which the first run fixed; None without releases."""
        return float(self.ledger.plans[0]["delta"]) if len(self.ledger) else None


@dataclass(frozen=True)
class Request:
    """Everything that determines a plan.

    Attributes
    ----------
    kind : str
        Name of the estimator's class.
    settings : mapping
        The arguments of the constructor.
    design : Design
    public : Public
        Public facts; before the data are read its ``n_features`` is 0.
    terms : Terms
    partial : bool
        Whether this is a call of ``partial_fit``.
    purchase : mapping or None
        The vocabulary purchase: "event", "head", "unit" and "relation".
    earlier : Earlier or None
        The runs before this call.
    resumed_noise : float or None
        Noise multiplier of the interrupted run that is resumed.
    """

    kind: str
    settings: Mapping[str, Any]
    design: Design
    public: Public
    terms: Terms = Terms()
    partial: bool = False
    purchase: Mapping[str, Any] | None = None
    earlier: Earlier | None = field(default=None, repr=False)
    resumed_noise: float | None = None

    @property
    def step_before(self) -> str:
        """The step that spent the purchase, in words."""
        return "the earlier fit to these records" if "fit" in (self.purchase or {}) else "the vocabulary purchase"

    @property
    def purchase_event(self) -> PrivacyEvent | None:
        """The event of the purchase."""
        return None if self.purchase is None else event_from_dict(self.purchase["event"])
