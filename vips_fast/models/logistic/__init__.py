"""Private Bayesian logistic regression."""

from .counts import CountRegression
from .estimator import BayesianLogisticRegression
from .options import LogisticOptions
from .paper import PaperLogisticRegression, PaperOptions

__all__ = [
    "BayesianLogisticRegression",
    "CountRegression",
    "LogisticOptions",
    "PaperLogisticRegression",
    "PaperOptions",
]
