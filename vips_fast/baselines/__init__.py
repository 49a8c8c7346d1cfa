"""What the paper and its field compare with.

Non-private variational Bayes is ``BayesianLogisticRegression(private=False,
options=LogisticOptions(noise_aware=False))``.
"""

from .dpsgd import DPSGDLogisticRegression
from .objective import ObjectivePerturbationLogisticRegression
from .scores import DPSGLDLogisticRegression, DPVILogisticRegression, VariationalSamplingLogisticRegression

__all__ = [
    "DPSGDLogisticRegression",
    "DPSGLDLogisticRegression",
    "DPVILogisticRegression",
    "ObjectivePerturbationLogisticRegression",
    "VariationalSamplingLogisticRegression",
]
