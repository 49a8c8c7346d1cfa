"""Private Bayesian logistic regression."""

from .estimator import BayesianLogisticRegression
from .options import LogisticOptions
from .paper import PaperLogisticRegression, PaperOptions

__all__ = ["BayesianLogisticRegression", "LogisticOptions", "PaperLogisticRegression", "PaperOptions"]
