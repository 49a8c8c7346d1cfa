"""The plan of a run: everything that is decided before the data are touched.

Sampler, noise and accounting are coupled here by construction: the event that is
charged is the sampler's own, for the noise multiplier of the mechanism that will add the
noise. Every refusal happens while a plan is made, from public numbers alone.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..accounting import (
    ComposedEvent,
    PrivacyEvent,
    SelfComposedEvent,
    calibrate_noise_multiplier,
    epsilon,
    event_from_dict,
    parts_epsilon,
)
from ..accounting.parts import Spent
from ..checks import check_name
from ..mechanisms import GaussianMechanism
from .model import Model
from .sampling import Sampler, charged, check_steps, n_events


@dataclass(frozen=True)
class RunPlan:
    """Sampler, mechanism and number of releases of one run."""

    sampler: Sampler
    #: With a noise multiplier of 0 the run adds no noise and is not private.
    mechanism: GaussianMechanism
    n_steps: int
    #: At which the guarantee is stated.
    delta: float
    #: What neighbours differ by.
    unit: str = "record"
    #: Reasons, known beforehand, why the guarantee will not hold.
    taints: tuple[str, ...] = ()
    #: The part of the data set that the run reads; None for all of it.
    part: str | None = None
    #: What the run's columns were bought with, from the same records, and is accounted for with it: "event", as JSON,
    #: and "head" of the ledger that it comes from.
    prior: dict[str, Any] | None = None

    @property
    def relation(self) -> str:
        """The neighbouring relation."""
        return self.sampler.neighbors

    @property
    def event(self) -> PrivacyEvent | None:
        """Event of one release, or of an epoch of them (`charged`); None without noise."""
        z = self.mechanism.noise_multiplier
        return self.sampler.event(z) if z > 0 else None

    def event_at(self, step: int, first: bool) -> PrivacyEvent | None:
        """Event that a step brings, 0 times `event` where that of its epoch covers it; None without noise."""
        event = self.event
        return event if event is None or charged(self.sampler, step, first) else SelfComposedEvent(event, 0)

    def public(self) -> dict[str, Any]:
        """The plan's numbers for the ledger, JSON-ready."""
        public = {
            "relation": self.relation,
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
        rows = getattr(self.sampler, "rows_per_unit", None)
        more = {"part": self.part, "prior": self.prior, "rows_per_unit": rows}
        return public | {name: value for name, value in more.items() if value is not None}


def calibrated_noise(
    sampler: Sampler, count: int, target_epsilon: float, delta: float, bought: PrivacyEvent | None
) -> float:
    """The noise multiplier with which so many events meet a target, together with what the columns were bought with.

    Raises ValueError if none does.
    """
    events = () if bought is None else (bought,)
    before = 0.0 if bought is None else epsilon(bought, delta)
    if before >= target_epsilon:
        raise ValueError(
            f"target_epsilon={target_epsilon:g}: expected more than epsilon = {before:.4g}, which is spent on what the "
            "columns were bought with"
        )
    return calibrate_noise_multiplier(
        lambda z: ComposedEvent((*events, SelfComposedEvent(sampler.event(z), count))), target_epsilon, delta
    )


def make_plan(
    model: Model,
    sampler: Sampler,
    *,
    n_steps: int,
    delta: float,
    private: bool = True,
    target_epsilon: float | None = None,
    noise_multiplier: float | None = None,
    sensitivity: float | None = None,
    spent: Spent | None = None,
    taints: tuple[str, ...] = (),
    part: str | None = None,
    unit: str = "record",
    prior: dict[str, Any] | None = None,
) -> RunPlan:
    """Plan a run of a model, whose `prepare` is told the lattice and the scale; nothing is spent.

    With ``target_epsilon`` alone the noise is calibrated for it; with a ``noise_multiplier`` too, a run that would pass
    the target, together with what is ``spent`` already (which needs a noise multiplier), is refused; with neither the
    target is 1; ``private=False`` adds no noise. A ``sensitivity`` below the model's proven one, in whose place it is
    taken, taints the plan. ``part``, ``unit`` and ``prior`` are as in `RunPlan`; the target is for what was bought and
    the run together.

    Raises ValueError if the run would overspend, no noise multiplier reaches the target, the noise does not fit the
    lattice, or the part is no name.
    """
    if private:  # else there is no event that an epoch left before its end would be charged for
        check_steps(sampler, n_steps)
    reasons = dict.fromkeys(taints)
    if part is not None:
        check_name("part", part)
    if not private:
        z = 0.0
        reasons["fitted with private=False"] = None
    elif noise_multiplier is None:
        if spent:
            raise ValueError("noise_multiplier=None: expected a number for a run that goes on from an earlier one")
        bought = None if prior is None else event_from_dict(prior["event"])
        count = n_events(sampler, range(n_steps))
        z = calibrated_noise(sampler, count, 1.0 if target_epsilon is None else target_epsilon, delta, bought)
    else:
        z = float(noise_multiplier)
        if z == 0.0:
            reasons["noise_multiplier=0"] = None
        elif target_epsilon is not None:
            total = Counter(spent)
            if prior is not None:
                total[None, event_from_dict(prior["event"])] += 1
            total[part, sampler.event(z)] += n_events(sampler, range(n_steps))
            would = parts_epsilon(total, delta)
            if would > target_epsilon:
                raise ValueError(
                    f"noise_multiplier={z:g} with {n_steps} steps gives epsilon = {would:.4g} at delta = {delta:g}: "
                    f"expected at most target_epsilon={target_epsilon:g}; raise noise_multiplier or leave it None"
                )
    proven = model.sensitivity(sampler.neighbors)
    if sensitivity is None:
        sensitivity = proven
    elif sensitivity < proven and private:
        reasons[f"sensitivity {sensitivity:.6g} is below the proven {proven:.6g}"] = None
    mechanism = GaussianMechanism(z, sensitivity, model.clip)
    model.prepare(mechanism, sampler)
    return RunPlan(sampler, mechanism, n_steps, delta, unit=unit, taints=tuple(reasons), part=part, prior=prior)
