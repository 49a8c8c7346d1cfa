"""Methods of the paper and its field, for comparisons only.

Variational Bayes without privacy is ``BayesianLogisticRegression.paper(private=False, learning_decay=0.0)``.
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
