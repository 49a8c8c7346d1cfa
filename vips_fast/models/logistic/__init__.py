"""Private Bayesian logistic regression, of two classes, several, or counts.

What each file is for, in the order in which a stranger may read them:

estimator.py    `BayesianLogisticRegression`: its parameters, fit and predictions
regression.py   what it shares with regressions of counts: reading, forecast, coefficients, intervals
records.py      rows, labels and counts, checked
statistics.py   numerical settings; what a record contributes, its bound, and the proof of its sensitivity
model.py        the steps: from releases to the next center, and to the posterior after the last one
spectrum.py     eigenvalues of a noised matrix, which say how far a step may go
posterior.py    the law of the coefficients given noised statistics: the read-out
sandwich.py     a release of squares too, for rows of a person that are alike
multiclass.py   several classes, each against the rest
counts.py       `CountRegression`
spherical.py    many columns: releases of gradients only
score.py        how well the columns predict, which the last step may measure
effects.py      effects in a reader's units, which of them are known, and problems that releases show
forecast.py     what will be visible, from public numbers
paper.py        Algorithm 5 of the article, and ablations
"""

from .counts import CountRegression
from .estimator import BayesianLogisticRegression
from .paper import PaperLogisticRegression, PaperOptions
from .statistics import LogisticOptions

__all__ = [
    "BayesianLogisticRegression",
    "CountRegression",
    "LogisticOptions",
    "PaperLogisticRegression",
    "PaperOptions",
]
