"""Private variational Bayes for a model of your own."""

from .block import affine, exp, softmax
from .model import ConjugateEstimator, ConjugateModel, Table, check_bound, parameter

__all__ = ["ConjugateEstimator", "ConjugateModel", "Table", "affine", "check_bound", "exp", "parameter", "softmax"]
