"""What the paper and its field compare with."""

from .dpsgd import DPSGDLogisticRegression

__all__ = ["DPSGDLogisticRegression"]
