"""Audit a model and settings for false privacy claims.

`audit` runs the layers

- A replay: how far one raw record moves the exact sums of each step, the randomness of records frozen;
- B purity: a record's contribution has the same bits whatever stands beside it, and sums are additive;
- C noise: the law of the noise of one release;
- D mu: the Gaussian-DP parameter of one release, measured from two samples;
- E profile: delta(epsilon) of whole runs, measured by the best known attack;
- G rebuild: everything public, made again from the releases in a process without the data;
- H one run: the Gaussian-DP parameter of one fit, from many records that are in it by coins of their own;

on data that it makes itself. (F, the mutants, is the audit's own test.) Nothing here reads private data, and a passed
audit is no proof. It bounds an attacker's gain from below, and fails if that bound is above the claim.
"""

from .adapter import Adapter, adapter_for
from .bench import Bench, Part, Sizes
from .conjugate import conjugate_adapter
from .layers import LAYERS, audit
from .report import AuditReport, Check, LayerResult

__all__ = [
    "LAYERS",
    "Adapter",
    "AuditReport",
    "Bench",
    "Check",
    "LayerResult",
    "Part",
    "Sizes",
    "adapter_for",
    "audit",
    "conjugate_adapter",
]
