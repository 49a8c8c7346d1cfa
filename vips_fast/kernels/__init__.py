"""Hand-optimized kernels behind a checked Python interface, with numpy twins in `reference`."""
# ruff: noqa: F403

from importlib.util import find_spec

if find_spec(f"{__name__}.native") is None:
    raise ImportError(
        f"{__path__[0]}: source code without compiled kernels; run python -P, or Python in another folder, to use "
        "the installed package"
    )

from . import lda, logistic, noise, psd, sbn
from .lda import *
from .logistic import *
from .noise import *
from .psd import *
from .sbn import *

#: A function is public by its name in its module's list.
__all__ = [*lda.__all__, *logistic.__all__, *noise.__all__, *psd.__all__, *sbn.__all__]
