"""Plan of a run: all decisions made before the data are touched.

Sampler, noise and accounting are coupled here by construction. The event to charge is the sampler's own, and has the
noise multiplier of the mechanism that will add the noise. `vips_fast.engine.planner` makes the plans.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..accounting import PrivacyEvent, Relation, SelfComposedEvent
from ..checks import check_name
from ..mechanisms import GaussianMechanism
from .model import Model
from .sampling import Sampler, starts_event


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
    #: Success of an attacker that the noise was calibrated for.
    attack_success: float | None = None

    @property
    def relation(self) -> Relation:
        """The neighboring relation."""
        return self.sampler.relation

    @cached_property
    def event(self) -> PrivacyEvent | None:
        """Event of a release or an epoch (`starts_event`); None without noise."""
        z = self.mechanism.noise_multiplier
        return self.sampler.event(z) if z > 0 else None

    def event_at(self, step: int, first: bool) -> PrivacyEvent | None:
        """Build the event of a step; None without noise.

        It is 0 times `event` if the event of the epoch covers the step.
        """
        event = self.event
        return event if event is None or starts_event(self.sampler, step, first) else SelfComposedEvent(event, 0)

    def public(self) -> dict[str, Any]:
        """List the plan's numbers for the ledger, JSON-ready."""
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
        more: dict[str, Any] = {"part": self.part, "purchase": self.purchase}
        more |= {"call": self.call or None, "stated": self.stated or None}
        more |= {"limit": self.limit, "attack_success": self.attack_success}
        return public | {name: value for name, value in more.items() if value is not None}


def make_plan(
    model: Model,
    sampler: Sampler,
    noise_multiplier: float,
    *,
    n_steps: int,
    delta: float,
    private: bool = True,
    sensitivity: float | None = None,
    taints: tuple[str, ...] = (),
    part: str | None = None,
    unit: str = "record",
    purchase: dict[str, Any] | None = None,
    call: bool = False,
    stated: bool = False,
    limit: float | None = None,
    attack_success: float | None = None,
) -> RunPlan:
    """Plan a run with this noise, and tell the model its lattice.

    A ``sensitivity`` below the model's proven one takes its place and taints a private plan. The other
    arguments are as in `RunPlan`.

    Raises ValueError if the part is no name, or the noise does not fit the model's lattice.
    """
    reasons = dict.fromkeys(taints)
    if part is not None:
        check_name("part", part)
    proven = model.sensitivity(sampler.relation)
    if sensitivity is None:
        sensitivity = proven
    elif sensitivity < proven and private:
        reasons[f"sensitivity {sensitivity:.6g} is below the proven {proven:.6g}"] = None
    mechanism = GaussianMechanism(noise_multiplier, sensitivity, model.clip)
    model.prepare(mechanism, sampler)
    about: dict[str, Any] = {
        "unit": unit,
        "part": part,
        "purchase": purchase,
        "call": call,
        "stated": stated,
        "limit": limit,
    }
    return RunPlan(sampler, mechanism, n_steps, delta, taints=tuple(reasons), attack_success=attack_success, **about)
