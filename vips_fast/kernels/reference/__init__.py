"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""

from .lda import lda_estep

__all__ = ["lda_estep"]
