"""A run that is planned and paid for, and has not begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..engine.backend import Backend
from ..engine.ledger import Ledger
from ..engine.model import Model, Records
from ..engine.plan import RunPlan
from ..engine.randomness import Randomness
from ..engine.result import Public
from .spending import Spending


@dataclass(frozen=True)
class Prepared:
    """All that a run is made of.

    Attributes
    ----------
    records, public, model, plan, ledger, randomness, backend
    settings : mapping
        The estimator's, as the plan was made from them.
    diagnoses : bool
        Whether un-noised figures are kept; the plan is tainted then.
    partial : bool
        Whether it is a call of ``partial_fit``.
    n_steps : int
        Steps done in earlier runs.
    follows : str or None
        Head of the ledger that the run goes on from.
    spending : Spending
        What pays for it.
    """

    records: Records
    public: Public
    model: Model
    plan: RunPlan
    ledger: Ledger
    randomness: Randomness
    backend: Backend
    settings: Mapping[str, Any]
    diagnoses: bool
    partial: bool = False
    n_steps: int = 0
    follows: str | None = None
    spending: Spending = field(default_factory=Spending)
