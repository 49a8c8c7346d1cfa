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
    """All that a run is made of."""

    records: Records
    public: Public
    model: Model
    plan: RunPlan
    ledger: Ledger
    randomness: Randomness
    backend: Backend
    #: The estimator's, as the plan was made from them.
    settings: Mapping[str, Any]
    #: Whether un-noised figures are kept; the plan is tainted then.
    diagnoses: bool
    #: Whether it is a call of ``partial_fit``.
    partial: bool = False
    #: Steps done in earlier runs.
    n_steps: int = 0
    #: Head of the ledger that the run goes on from.
    follows: str | None = None
    #: What pays for it.
    spending: Spending = field(default_factory=Spending)
