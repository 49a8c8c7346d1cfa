"""Where arrays of the kernels lie."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

#: Bytes of a cache line; vectors that straddle two cost twice.
LINE = 64


def zeros_on_line(shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Zeros in an array that begins on a cache line."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
    raw = np.zeros(size + LINE, dtype=np.uint8)
    first = -raw.ctypes.data % LINE
    return raw[first : first + size].view(dtype).reshape(shape)
