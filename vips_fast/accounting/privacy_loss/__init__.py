"""Privacy-loss distributions: output laws, their convolution, and bounds from it."""

from .distribution import PrivacyLoss

__all__ = ["PrivacyLoss"]
