"""Models made with `vips_fast.models.conjugate`: to use, and to copy from."""

from .bernoulli_mixture import BernoulliMixture
from .binomial_regression import BinomialRegression
from .gaussian_mixture import GaussianMixture, GaussianMixtureOptions
from .linear_regression import LinearRegression
from .probabilistic_pca import ProbabilisticPCA, ProbabilisticPCAOptions
from .vector_mixture import VectorMixture

__all__ = [
    "BernoulliMixture",
    "BinomialRegression",
    "GaussianMixture",
    "GaussianMixtureOptions",
    "LinearRegression",
    "ProbabilisticPCA",
    "ProbabilisticPCAOptions",
    "VectorMixture",
]
