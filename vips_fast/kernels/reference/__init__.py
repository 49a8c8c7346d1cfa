"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""

from .lda import lda_estep, lda_units
from .logistic import logistic_classes, logistic_estep, logistic_units, pg_mean
from .noise import add_rounded_gaussian, chacha20_fill, rounded_gaussian, symmetric_gaussian
from .psd import floor_spectrum, psd_project, solve_repaired
from .sbn import sbn_clip, sbn_cross, sbn_gram, sbn_moments, sbn_pg, sbn_quadratic, sbn_visible_norms
from .shrink import shrink_means
from .text import integers, token_numbers

__all__ = [
    "add_rounded_gaussian",
    "chacha20_fill",
    "floor_spectrum",
    "integers",
    "lda_estep",
    "lda_units",
    "logistic_classes",
    "logistic_estep",
    "logistic_units",
    "pg_mean",
    "psd_project",
    "rounded_gaussian",
    "sbn_clip",
    "sbn_cross",
    "sbn_gram",
    "sbn_moments",
    "sbn_pg",
    "sbn_quadratic",
    "sbn_visible_norms",
    "shrink_means",
    "solve_repaired",
    "symmetric_gaussian",
    "token_numbers",
]
