"""Define a private search's default scores, one for each family.

A family has a scorer, and the public range of its numbers.

A scorer takes (model, X, y) and uses nothing else. A private score may depend on the rows of one unit and on the
released model only. The range bounds a unit's contribution, so it follows from public numbers. Rows that a fit with
``invalid="drop"`` leaves out do not count.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.counts import documents
from ..data.rows import binary_records, finite_records
from ..data.shards import ShardedCorpus

Scorer = Callable[[Any, Any, Any], float]
Score = tuple[Scorer, tuple[float, float]]


def log_likelihood(estimator: Any, n_features: int) -> Score | None:
    """Score labels by their mean log-likelihood, in (-2, 0).

    None for counts of several trials.
    """
    return (_log_likelihood, (-2.0, 0.0)) if estimator.n_trials == 1 else None


def bound_per_word(estimator: Any, n_features: int) -> Score:
    """Score documents by the variational bound per word.

    For V words it is in (-5/4 ln V, -1/2 ln V).
    """
    width = math.log(max(n_features, 2))
    return _bound_per_word, (-1.25 * width, -0.5 * width)


def pixel_accuracy(estimator: Any, n_features: int) -> Score:
    """Score binary records by reconstructed pixels, in (0, 1).

    The score is the share of pixels that the network reconstructs.
    """
    return _pixel_accuracy, (0.0, 1.0)


def _pixel_accuracy(model: Any, X: Any, y: Any) -> float:
    """Compute the share of pixels."""
    records, usable = binary_records(X, invalid="drop")
    return float(model.pixel_accuracy(records if usable is None else records[usable]))


def _log_likelihood(model: Any, X: Any, y: Any) -> float:
    """Compute the mean log-likelihood; unknown labels count as least likely.

    A label that the model does not have counts as unlikely as can be.
    """
    labels = np.asarray(y)
    if not isinstance(X, ShardedCorpus) and (usable := finite_records(X, invalid="drop")[1]) is not None:
        X, labels = X[usable], labels[usable]
    p = model.predict_proba(X)
    place = np.searchsorted(model.classes_, labels).clip(0, len(model.classes_) - 1)
    known = model.classes_[place] == labels
    return float(np.mean(np.where(known, np.log(np.maximum(p[np.arange(len(p)), place], 1e-300)), -700.0)))


def _bound_per_word(model: Any, X: Any, y: Any) -> float:
    """Compute the bound per word.

    An empty document gets the middle of the range.
    """
    X = documents(X, invalid="drop")
    n_words = float(X.sum())
    return float(model.score(X)) / n_words if n_words else -0.875 * math.log(max(X.shape[1], 2))
