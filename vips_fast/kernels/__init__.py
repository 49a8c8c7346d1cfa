"""The hand-optimised kernels behind a thin, checked Python interface."""

from .blr import blr_estep, pg_mean, unpack_upper
from .lda import lda_estep
from .results import BlrEStep, LdaEStep

__all__ = ["BlrEStep", "LdaEStep", "blr_estep", "lda_estep", "pg_mean", "unpack_upper"]
