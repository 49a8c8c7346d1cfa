"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""

from .blr import blr_estep, pg_mean
from .lda import lda_estep
from .sbn import sbn_clip, sbn_cross, sbn_gram, sbn_moments, sbn_pg, sbn_quadratic, sbn_visible_norms

__all__ = [
    "blr_estep",
    "lda_estep",
    "pg_mean",
    "sbn_clip",
    "sbn_cross",
    "sbn_gram",
    "sbn_moments",
    "sbn_pg",
    "sbn_quadratic",
    "sbn_visible_norms",
]
