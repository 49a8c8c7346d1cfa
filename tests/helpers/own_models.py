"""The examples of own models, and records for their audits."""

import numpy as np
from binomial_regression import BinomialRegression
from factor_analysis import FactorAnalysis
from hidden_markov import HiddenMarkovModel
from linear_dynamics import LinearDynamicalSystem
from linear_regression import LinearRegression
from probabilistic_pca import ProbabilisticPCA

from vips_fast import DocumentClusters, PublicVectors
from vips_fast.audit import conjugate_adapter
from vips_fast.models.mixture import GaussianMixture

EXAMPLES = [
    GaussianMixture,
    DocumentClusters,
    ProbabilisticPCA,
    FactorAnalysis,
    HiddenMarkovModel,
    LinearDynamicalSystem,
    BinomialRegression,
    LinearRegression,
]
# On both sides of the unit ball, and beyond it.
POINTS = np.vstack([np.eye(3), -np.eye(3), 30 * np.ones((1, 3)), np.random.default_rng(0).normal(size=(30, 3))])


def adapter_of(kind, **settings):
    """Return an adapter with records that suit the kind."""
    if kind is HiddenMarkovModel:
        return conjugate_adapter(kind(n_symbols=3, **settings), np.clip(np.rint(POINTS), -1, 2))
    if kind is BinomialRegression:
        y = np.column_stack([np.arange(len(POINTS)) % 4, np.full(len(POINTS), 3)])
        return conjugate_adapter(kind(n_trials=3, **settings), POINTS, y)
    if kind is LinearRegression:
        return conjugate_adapter(kind(**settings), POINTS, np.linspace(-3, 3, len(POINTS)))
    if kind is GaussianMixture:
        return conjugate_adapter(kind(3, projection=2, **settings), POINTS)
    if kind is DocumentClusters:
        frame = np.eye(3)
        known = PublicVectors(frame[:, :2], frame, np.ones(3), ["a", "b", "c"], frame, "an invention")
        return conjugate_adapter(kind(2, public=known, **settings), POINTS)
    return conjugate_adapter(kind(**settings), POINTS)
