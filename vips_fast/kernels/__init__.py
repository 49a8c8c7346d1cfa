"""The hand-optimized kernels behind a thin, checked Python interface; `reference` has their twins in plain numpy."""

from .lda import lda_estep
from .logistic import logistic_estep, pg_mean, unpack_upper
from .noise import add_rounded_gaussian, chacha20_fill, rounded_gaussian, symmetric_gaussian
from .psd import floor_spectrum, psd_project, solve_repaired
from .results import LdaEStep, LogisticEStep, SbnEStep
from .sbn import sbn_pg, sbn_quadratic

__all__ = [
    "LdaEStep",
    "LogisticEStep",
    "SbnEStep",
    "add_rounded_gaussian",
    "chacha20_fill",
    "floor_spectrum",
    "lda_estep",
    "logistic_estep",
    "pg_mean",
    "psd_project",
    "rounded_gaussian",
    "sbn_pg",
    "sbn_quadratic",
    "solve_repaired",
    "symmetric_gaussian",
    "unpack_upper",
]
