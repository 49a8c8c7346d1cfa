"""Privacy-loss distributions: pairs of output laws, their convolution, and bounds read from it."""

from .distribution import PrivacyLoss

__all__ = ["PrivacyLoss"]
