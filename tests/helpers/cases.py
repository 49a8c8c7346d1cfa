"""One small fit of each kind of model, for the tests that hold all of them to one contract."""

import numpy as np
import scipy.sparse as sp

COMMON = dict(noise_multiplier=2.0, target_delta=1e-5, random_state=0, n_steps=3)


def _lda(paper=False, **options):
    from vips_fast import LatentDirichletAllocation

    make = LatentDirichletAllocation.paper if paper else LatentDirichletAllocation
    return make(3, **{**COMMON, "doc_length": 30, **options})


def _logistic(paper=False, **options):
    from vips_fast import BayesianLogisticRegression

    make = BayesianLogisticRegression.paper if paper else BayesianLogisticRegression
    return make(**{**COMMON, "row_norm": 2.0, **options})


def _network(paper=False, **options):
    from vips_fast import SigmoidBeliefNetwork

    make = SigmoidBeliefNetwork.paper if paper else SigmoidBeliefNetwork
    return make(3, **{**COMMON, "n_steps": 4, **options})


def _own(**options):
    from ball_mean import Mean

    return Mean(**{**COMMON, **options})


def counts(n=200, seed=0):
    """Documents over 12 words."""
    return (sp.csr_array(np.random.default_rng(seed).poisson(0.6, (n, 12))),)


def labelled(n=200, seed=0):
    """Rows of 5 columns and labels that depend on the first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    y[:2] = 0, 1
    return X, y


def binary(n=200, seed=0):
    """Binary records of 10 columns."""
    rng = np.random.default_rng(seed)
    return ((rng.random((n, 10)) < rng.random((n, 1))).astype(np.uint8),)


def vectors(n=200, seed=0):
    """Vectors of 4 numbers."""
    return (0.4 * np.random.default_rng(seed).standard_normal((n, 4)),)


#: Name: (factory of an estimator, factory of the arguments of ``fit``).
CASES = {
    "lda": (_lda, counts),
    "lda-paper": (lambda **o: _lda(paper=True, **o), counts),
    "logistic": (_logistic, labelled),
    "logistic-paper": (lambda **o: _logistic(paper=True, **o), labelled),
    "network": (_network, binary),
    "network-paper": (lambda **o: _network(paper=True, **o), binary),
    "own": (_own, vectors),
}
