"""Methods of the paper and its field, for comparisons only.

Variational Bayes without privacy is ``BayesianLogisticRegression(private=False,
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
