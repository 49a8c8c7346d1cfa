"""The hand-optimised kernels behind a thin, checked Python interface."""

from .lda import lda_estep
from .results import LdaEStep

__all__ = ["LdaEStep", "lda_estep"]
