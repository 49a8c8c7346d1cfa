"""Sigmoid belief networks."""

from .estimator import SigmoidBeliefNetwork
from .network import NetworkOptions

__all__ = ["NetworkOptions", "SigmoidBeliefNetwork"]
