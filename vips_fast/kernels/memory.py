"""Where arrays of the kernels lie."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

#: Bytes of a cache line; vectors that straddle two cost twice.
LINE = 64

#: Arrays of LARGE bytes or more are read here and there. The processor's table of 4 KiB pages is then short. So numpy
#: asks Linux for pages of 2 MiB for one piece of memory of at least HUGE bytes.
LARGE, HUGE = 2**20, 2**22


def zeros_on_line(shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Make zeros that begin on a cache line, on large pages."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
    raw = np.zeros(size + (HUGE if LARGE <= size < HUGE else LINE), dtype=np.uint8)
    first = -raw.ctypes.data % LINE
    return raw[first : first + size].view(dtype).reshape(shape)
