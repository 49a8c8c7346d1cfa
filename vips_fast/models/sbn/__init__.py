"""Sigmoid belief networks."""

from .conditional import ClassConditionalNetwork
from .estimator import SigmoidBeliefNetwork
from .network import NetworkOptions

__all__ = ["ClassConditionalNetwork", "NetworkOptions", "SigmoidBeliefNetwork"]
