"""What the paper and its field compare with.

Non-private variational Bayes is ``BayesianLogisticRegression(private=False,
options=LogisticOptions(noise_aware=False))``.
"""

from .dpsgd import DPSGDLogisticRegression
from .dpvi import DPVILogisticRegression
from .langevin import DPSGLDLogisticRegression
from .objective import ObjectivePerturbationLogisticRegression
from .sampling import VariationalSamplingLogisticRegression

__all__ = [
    "DPSGDLogisticRegression",
    "DPSGLDLogisticRegression",
    "DPVILogisticRegression",
    "ObjectivePerturbationLogisticRegression",
    "VariationalSamplingLogisticRegression",
]
