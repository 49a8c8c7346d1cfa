"""Latent Dirichlet allocation."""

from .estimator import LatentDirichletAllocation
from .options import LdaOptions
from .planning import Plan, plan

__all__ = ["LatentDirichletAllocation", "LdaOptions", "Plan", "plan"]
