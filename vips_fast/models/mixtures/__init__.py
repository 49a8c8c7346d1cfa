"""Mixtures of tables and vectors: who answers alike, what points or documents belong together."""

from .bernoulli import BernoulliMixture
from .gaussian import GaussianMixture, GaussianMixtureOptions
from .vector import VectorMixture

__all__ = ["BernoulliMixture", "GaussianMixture", "GaussianMixtureOptions", "VectorMixture"]
