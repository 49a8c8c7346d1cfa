"""Sigmoid belief networks."""

from .classes import ClassConditionalNetwork
from .network import NetworkOptions, SigmoidBeliefNetwork

__all__ = ["ClassConditionalNetwork", "NetworkOptions", "SigmoidBeliefNetwork"]
