"""Private variational Bayes for a model of your own."""

from .estimator import ConjugateEstimator, parameter
from .model import ConjugateModel, Table, check_bound

__all__ = ["ConjugateEstimator", "ConjugateModel", "Table", "check_bound", "parameter"]
