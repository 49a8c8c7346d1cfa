"""Latent Dirichlet allocation."""

from .estimator import LatentDirichletAllocation
from .forecast import HopelessWarning
from .neighbors import nearest_words, word_vectors
from .options import LdaOptions
from .planning import Plan, plan
from .prior import PublicPrior

__all__ = [
    "HopelessWarning",
    "LatentDirichletAllocation",
    "LdaOptions",
    "Plan",
    "PublicPrior",
    "nearest_words",
    "plan",
    "word_vectors",
]
