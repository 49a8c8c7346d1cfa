"""Minibatches move a regression's coefficients, and its intervals say by how much."""

import numpy as np
from scipy.special import expit

from vips_fast import BayesianLogisticRegression


def test_the_variance_of_minibatches_is_in_the_covariance():
    rng, n, d = np.random.default_rng(0), 3000, 3
    X = rng.uniform(-1, 1, (n, d)) / np.sqrt(d)
    y = (rng.random(n) < expit(X @ [2.0, -1.0, 0.0])).astype(int)
    options = dict(noise_multiplier=1e-3, n_steps=12, n_records=n, fit_intercept=False)
    whole = BayesianLogisticRegression(sampling="full", **options).fit(X, y)
    parts = [BayesianLogisticRegression(sampling="poisson", batch_size=n / 20, **options).fit(X, y) for _ in range(60)]
    moved = np.mean([(one.coef_ - whole.coef_) ** 2 for one in parts])
    wider = np.mean([np.diag(one.covariance_)[:d] - np.diag(whole.covariance_)[:d] for one in parts])
    # Means of 180 squares are within a factor of 2 but with probability 1e-9.
    assert 0.5 < moved / wider < 2.0, (moved, wider)
