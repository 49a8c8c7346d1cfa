"""Numpy twins of the kernels: same names and order, float64, no tricks."""
# ruff: noqa: F403

from . import conjugate, lda, logistic, noise, psd, sbn, shrink, text
from .conjugate import *
from .lda import *
from .logistic import *
from .noise import *
from .psd import *
from .sbn import *
from .shrink import *
from .text import *

#: A function is public by its name in its module's list.
__all__ = [
    *conjugate.__all__,
    *lda.__all__,
    *logistic.__all__,
    *noise.__all__,
    *psd.__all__,
    *sbn.__all__,
    *shrink.__all__,
    *text.__all__,
]
