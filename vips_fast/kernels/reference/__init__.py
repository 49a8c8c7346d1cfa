"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""

from .blr import blr_estep, pg_mean
from .lda import lda_estep

__all__ = ["blr_estep", "lda_estep", "pg_mean"]
