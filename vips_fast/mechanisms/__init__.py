"""Mechanisms, which add the noise of a release."""

from .gaussian import GaussianMechanism

__all__ = ["GaussianMechanism"]
