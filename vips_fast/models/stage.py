"""A run that is planned and paid for, and has not begun."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..accounting.calibration import Target
from ..data.groups import Runs
from ..data.shards import ShardedCorpus
from ..engine.backend import Backend
from ..engine.ledger import Ledger
from ..engine.model import Model, Records
from ..engine.payment import Payment
from ..engine.plan import RunPlan
from ..engine.randomness import Randomness
from ..engine.request import RunForecast
from ..engine.result import Public
from ..engine.sampling import RandomAllocationSampler, Sampler, resolve_sampling


@dataclass(frozen=True)
class Stage:
    """Everything that a run is made of.

    An audit replaces parts of it by its own before the run begins.
    """

    records: Records
    public: Public
    model: Model
    plan: RunPlan
    ledger: Ledger
    randomness: Randomness
    backend: Backend
    #: The settings of the result: the estimator's, with the decisions of a budget.
    settings: Mapping[str, Any]
    #: Whether the run collects diagnostics; the plan is tainted then.
    diagnoses: bool
    #: Whether this is a call of ``partial_fit``.
    partial: bool = False
    #: Steps done in earlier runs.
    n_steps: int = 0
    #: Head of the ledger that the run continues.
    follows: str | None = None
    #: Epsilon that the noise was calibrated for or checked against, or None.
    target: Target | None = None
    forecast: RunForecast | None = None
    payment: Payment = field(default_factory=Payment)


def bins_of(X: Any, groups: Any, sampling: str | None, relation: str | None) -> tuple[int | None, np.ndarray | None]:
    """Count the bins of X, as in `Public`, and find their starts.

    The starts are given only if the sampling draws bins. Raises ValueError if the bins do not belong to the sampled
    units.
    """
    if not isinstance(X, ShardedCorpus):
        return None, None
    n_bins = 0 if X.bins is None else len(X.bins) - 1
    if n_bins == 0 or resolve_sampling(sampling, relation, n_bins) != "random_allocation":
        return n_bins, None
    own = X.groups
    same = isinstance(groups, Runs) and own is not None and np.array_equal(groups.starts, own.starts)
    if not same and (own is not None or groups is not None):
        expected = "X.groups, whose bins X has," if own is not None else "None, since X has bins of rows,"
        raise ValueError(f"groups: expected {expected} with sampling='random_allocation'; or sampling='poisson'")
    return n_bins, X.bins


def deal(sampler: Sampler, bins: np.ndarray | None, n_units: int) -> None:
    """Give a sampler that reuses minibatches their places.

    Raises ValueError unless each unit is in one of them.
    """
    if bins is None or not isinstance(sampler, RandomAllocationSampler) or not sampler.reused:
        return
    if bins[0] != 0 or bins[-1] != n_units or (np.diff(bins) < 0).any():
        raise ValueError("X: its bins are not made of all its units; expected shards as they were written")
    sampler.edges = bins
