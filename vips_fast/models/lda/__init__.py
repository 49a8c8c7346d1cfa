"""Latent Dirichlet allocation."""

from .estimator import LatentDirichletAllocation
from .forecast import HopelessWarning
from .options import LdaOptions
from .planning import Plan, plan

__all__ = ["HopelessWarning", "LatentDirichletAllocation", "LdaOptions", "Plan", "plan"]
