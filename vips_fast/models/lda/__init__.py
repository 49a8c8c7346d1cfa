"""Latent Dirichlet allocation."""

from .estimator import LatentDirichletAllocation, LdaOptions
from .planning import Plan, plan

__all__ = ["LatentDirichletAllocation", "LdaOptions", "Plan", "plan"]
