"""Private variational Bayes for a model of your own."""

from .block import affine, exp, softmax
from .estimator import ConjugateEstimator, parameter
from .model import ConjugateModel, Table, check_bound
from .score import within

__all__ = [
    "ConjugateEstimator",
    "ConjugateModel",
    "Table",
    "affine",
    "check_bound",
    "exp",
    "parameter",
    "softmax",
    "within",
]
