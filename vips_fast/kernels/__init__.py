"""The hand-optimised kernels behind a thin, checked Python interface."""

from .blr import blr_estep, pg_mean, unpack_upper
from .lda import lda_estep
from .noise import add_rounded_gaussian, chacha20_fill, rounded_gaussian, symmetric_gaussian
from .psd import psd_project
from .results import BlrEStep, LdaEStep

__all__ = [
    "BlrEStep",
    "LdaEStep",
    "add_rounded_gaussian",
    "blr_estep",
    "chacha20_fill",
    "lda_estep",
    "pg_mean",
    "psd_project",
    "rounded_gaussian",
    "symmetric_gaussian",
    "unpack_upper",
]
