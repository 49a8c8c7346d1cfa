"""The plan of a run: everything that is decided before the data are touched.

Sampler, noise and accounting are coupled here by construction: the event that is
charged is the sampler's own, for the noise multiplier of the mechanism that will add the
noise. Every refusal happens while a plan is made, from public numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..accounting import ComposedEvent, PrivacyEvent, SelfComposedEvent, calibrate_noise_multiplier, epsilon
from ..mechanisms import GaussianMechanism
from .model import Model
from .sampling import Sampler


@dataclass(frozen=True)
class RunPlan:
    """Sampler, mechanism and number of releases of one run.

    Attributes
    ----------
    sampler : Sampler
    mechanism : GaussianMechanism
        With a noise multiplier of 0 the run adds no noise and is not private.
    n_steps : int
    delta : float
        At which the guarantee is stated.
    unit : str
        What neighbours differ by.
    taints : tuple of str
        Reasons, known beforehand, why the guarantee will not hold.
    """

    sampler: Sampler
    mechanism: GaussianMechanism
    n_steps: int
    delta: float
    unit: str = "record"
    taints: tuple[str, ...] = ()

    @property
    def relation(self) -> str:
        """The neighbouring relation."""
        return self.sampler.neighbors

    @property
    def event(self) -> PrivacyEvent | None:
        """Event of one release; None without noise."""
        z = self.mechanism.noise_multiplier
        return self.sampler.event(z) if z > 0 else None

    def public(self) -> dict[str, Any]:
        """The plan's numbers for the ledger, JSON-ready."""
        return {
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


def make_plan(
    model: Model, sampler: Sampler, *, n_steps: int, delta: float, private: bool = True,
    target_epsilon: float | None = None, noise_multiplier: float | None = None, sensitivity: float | None = None,
    spent: PrivacyEvent | None = None, taints: tuple[str, ...] = (),
) -> RunPlan:
    """Plan a run of a model; nothing is spent.

    Parameters
    ----------
    model : Model
        Its `prepare` is told the lattice and the scale.
    sampler : Sampler
    n_steps : int
    delta : float
    private : bool
        False adds no noise.
    target_epsilon, noise_multiplier : float or None
        With a target alone the noise is calibrated for it, together with what is spent;
        with both, a run that would pass the target is refused; with neither the target
        is 1.
    sensitivity : float or None
        In place of the model's proven one; below it, the plan is tainted.
    spent : PrivacyEvent or None
        What the same records have been charged before.
    taints : tuple of str

    Returns
    -------
    RunPlan

    Raises
    ------
    ValueError
        If the run would overspend, no noise multiplier reaches the target, or the noise
        does not fit the lattice.
    """
    reasons = dict.fromkeys(taints)

    def total(z: float) -> PrivacyEvent:
        fresh = SelfComposedEvent(sampler.event(z), n_steps)
        return fresh if spent is None else ComposedEvent((spent, fresh))

    if not private:
        z = 0.0
        reasons["fitted with private=False"] = None
    elif noise_multiplier is None:
        z = calibrate_noise_multiplier(total, 1.0 if target_epsilon is None else target_epsilon, delta)
    else:
        z = float(noise_multiplier)
        if z == 0.0:
            reasons["noise_multiplier=0"] = None
        elif target_epsilon is not None:
            would = epsilon(total(z), delta)
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
    return RunPlan(sampler, mechanism, n_steps, delta, taints=tuple(reasons))
