"""Intervals of a regression's posterior, of effects that are not known too."""

import numpy as np
from scipy.special import ndtri


def raw_intervals(model, level=0.9):
    """Lower and upper limits of the coefficients, (d,) each."""
    half = ndtri(0.5 + level / 2) * np.sqrt(np.diag(model.covariance_)[: model.n_features_in_])
    return model.coef_[0] - half, model.coef_[0] + half
