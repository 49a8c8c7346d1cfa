"""Audits that would catch a false privacy claim, run on a model class and its settings.

`audit` runs the layers

- A replay: the distance of exact sums of neighbouring data sets, noise frozen;
- B purity: a record's contribution has the same bits whatever stands beside it;
- C noise: the law of what one release adds;
- D mu: the Gaussian-DP parameter of one release, measured from two samples;
- E profile: delta(epsilon) of whole runs, measured by the best known attack;

on data that it makes itself. Nothing here looks at private data, and a passed
audit is no proof: it bounds from below what an attacker can learn, and fails
where that bound is above the claim.
"""

from .adapters import ADAPTERS, Adapter, adapter_for
from .conjugate import conjugate_adapter
from .layers import LAYERS, audit
from .report import AuditReport, Check, LayerResult
from .statistics import delta_lower_bound, mu_interval, mu_lower_bound

__all__ = [
    "ADAPTERS",
    "Adapter",
    "AuditReport",
    "Check",
    "LAYERS",
    "LayerResult",
    "adapter_for",
    "audit",
    "conjugate_adapter",
    "delta_lower_bound",
    "mu_interval",
    "mu_lower_bound",
]
