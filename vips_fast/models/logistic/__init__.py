"""Private Bayesian logistic regression, of two classes, several, or counts.

What each file is for, in the order in which a stranger may read them:

estimator.py    `BayesianLogisticRegression`, and what it shares with regressions of counts
records.py      rows, labels and counts, checked
model.py        the algorithm: what a record contributes, its bound and proof, the steps, and the last one's read-out
posterior.py    what noised matrices tell: how far a step may go, and the law of the coefficients
multiclass.py   several classes, each against the rest
counts.py       `CountRegression`
spherical.py    many columns: releases of gradients only
score.py        how well the columns predict, which the last step may measure
effects.py      effects in a reader's units, which of them are known, and the words for that and for problems
forecast.py     what will be visible, from public numbers
paper.py        Algorithm 5 of the article
"""

from .counts import CountRegression
from .estimator import BayesianLogisticRegression
from .model import LogisticOptions
from .paper import PaperLogisticRegression, PaperOptions

__all__ = [
    "BayesianLogisticRegression",
    "CountRegression",
    "LogisticOptions",
    "PaperLogisticRegression",
    "PaperOptions",
]
