"""Latent Dirichlet allocation."""

from ..forecast import HopelessWarning
from .drifting import Drift, drift
from .estimator import LatentDirichletAllocation
from .neighbors import nearest_words, word_vectors
from .options import LdaOptions
from .planning import Plan, plan
from .prior import PublicPrior
from .prior_building import (
    PRIOR_WORDS,
    load_prior,
    packaged_prior,
    prior_file,
    prior_from_documents,
    prior_from_vectors,
)

__all__ = [
    "PRIOR_WORDS",
    "Drift",
    "HopelessWarning",
    "LatentDirichletAllocation",
    "LdaOptions",
    "Plan",
    "PublicPrior",
    "drift",
    "load_prior",
    "nearest_words",
    "packaged_prior",
    "plan",
    "prior_file",
    "prior_from_documents",
    "prior_from_vectors",
    "word_vectors",
]
