"""Latent Dirichlet allocation."""

from ..forecast import HopelessWarning
from .estimator import LatentDirichletAllocation, plan
from .planning import LdaOptions, Plan
from .prior import (
    PRIOR_WORDS,
    PublicPrior,
    load_prior,
    packaged_prior,
    prior_file,
    prior_from_documents,
    prior_from_vectors,
    store_prior,
)

__all__ = [
    "PRIOR_WORDS",
    "HopelessWarning",
    "LatentDirichletAllocation",
    "LdaOptions",
    "Plan",
    "PublicPrior",
    "load_prior",
    "packaged_prior",
    "plan",
    "prior_file",
    "prior_from_documents",
    "prior_from_vectors",
    "store_prior",
]
