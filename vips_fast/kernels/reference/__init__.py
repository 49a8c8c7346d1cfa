"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""

from .lda import lda_estep
from .noise import add_rounded_gaussian, chacha20_fill, psd_project, rounded_gaussian, symmetric_gaussian

__all__ = [
    "add_rounded_gaussian",
    "chacha20_fill",
    "lda_estep",
    "psd_project",
    "rounded_gaussian",
    "symmetric_gaussian",
]
