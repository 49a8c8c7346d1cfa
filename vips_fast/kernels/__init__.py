"""The hand-optimised kernels behind a thin, checked Python interface."""

from .lda import lda_estep
from .noise import add_rounded_gaussian, chacha20_fill, rounded_gaussian, symmetric_gaussian
from .psd import psd_project
from .results import LdaEStep

__all__ = [
    "LdaEStep",
    "add_rounded_gaussian",
    "chacha20_fill",
    "lda_estep",
    "psd_project",
    "rounded_gaussian",
    "symmetric_gaussian",
]
