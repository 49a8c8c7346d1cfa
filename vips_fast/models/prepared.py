"""A run that is planned and paid for, and has not begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.groups import Runs
from ..data.shards import ShardedCorpus
from ..engine.backend import Backend
from ..engine.ledger import Ledger
from ..engine.model import Model, Records
from ..engine.plan import RunPlan
from ..engine.randomness import Randomness
from ..engine.result import Public
from ..engine.sampling import RandomAllocationSampler, Sampler
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


def bins_of(X: Any, groups: Any, sampling: str) -> np.ndarray | None:
    """Where each bin of units begins, if X has bins and they are what the sampling draws.

    Raises
    ------
    ValueError
        If the bins are not those of the units that are sampled.
    """
    if sampling != "random_allocation" or not isinstance(X, ShardedCorpus) or X.bins is None:
        return None
    owned = X.groups is not None
    if owned != isinstance(groups, Runs) or (groups is not None and not owned):
        expected = "X.groups, whose bins X has," if owned else "None, since X has bins of rows,"
        raise ValueError(f"groups: expected {expected} with sampling='random_allocation'")
    return X.bins


def deal(sampler: Sampler, bins: np.ndarray | None) -> None:
    """Tell a sampler that reuses minibatches where they are."""
    if isinstance(sampler, RandomAllocationSampler) and sampler.reused:
        sampler.edges = bins
