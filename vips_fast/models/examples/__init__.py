"""Models made with `vips_fast.models.conjugate`: to use, and to copy from."""

from .bernoulli_mixture import BernoulliMixture
from .binomial_regression import BinomialRegression
from .factor_analysis import FactorAnalysis
from .gaussian_mixture import GaussianMixture, GaussianMixtureOptions
from .hidden_markov import HiddenMarkovModel
from .linear_dynamics import LinearDynamicalSystem
from .linear_regression import LinearRegression
from .probabilistic_pca import ProbabilisticPCA, ProbabilisticPCAOptions
from .vector_mixture import VectorMixture

__all__ = [
    "BernoulliMixture",
    "BinomialRegression",
    "FactorAnalysis",
    "GaussianMixture",
    "GaussianMixtureOptions",
    "HiddenMarkovModel",
    "LinearDynamicalSystem",
    "LinearRegression",
    "ProbabilisticPCA",
    "ProbabilisticPCAOptions",
    "VectorMixture",
]
