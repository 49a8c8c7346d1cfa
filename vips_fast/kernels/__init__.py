"""The hand-optimised kernels behind a thin, checked Python interface."""

from .lda import lda_estep
from .results import LdaEStep, SbnEStep
from .sbn import sbn_clip, sbn_cross, sbn_gram, sbn_moments, sbn_pg, sbn_quadratic, sbn_visible_norms

__all__ = [
    "LdaEStep", "SbnEStep", "lda_estep", "sbn_clip", "sbn_cross", "sbn_gram", "sbn_moments", "sbn_pg", "sbn_quadratic",
    "sbn_visible_norms",
]
