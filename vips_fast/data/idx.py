"""Read IDX files, the format of MNIST, and make binary images."""

import math
import os
from typing import Any

import numpy as np

from ..store.limits import most_expanded
from ._files import broken_gzip, naming, open_text
from .arrays import check_invalid

#: Third byte of the magic number -> big-endian element type.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

PathLike = str | os.PathLike[str]


def read_idx(path: PathLike) -> np.ndarray:
    """Read an IDX file, plain or compressed, as an array.

    The header is two zero bytes, a byte for the element type, and a byte for the number of dimensions. Each dimension
    follows as a big-endian 32-bit number. The elements follow in C order, big-endian; the array has the machine's byte
    order. Raises OSError if the file cannot be read, and ValueError if it is no IDX file or its length contradicts its
    header.
    """
    with naming(path), open_text(path) as file:
        with broken_gzip():
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
                raise ValueError("not an IDX file (its first bytes should be 0, 0, a type, a number of dimensions)")
            dtype, n_dims = np.dtype(_TYPES[head[2]]), head[3]
            dimensions = file.read(4 * n_dims)
            if n_dims == 0 or len(dimensions) < 4 * n_dims:
                raise ValueError("the IDX header is incomplete")
            shape = tuple(np.frombuffer(dimensions, ">u4").tolist())
            size = math.prod(shape) * dtype.itemsize
            # A header may claim any size.
            if size > most_expanded(os.path.getsize(path)):
                raise ValueError(f"its header says {size} bytes of elements; expected fewer of a file of this size")
            data = file.read(size)
            if len(data) < size or file.read(1):
                found = "more" if len(data) == size else len(data)
                raise ValueError(f"has {found} bytes of elements; its header says {size}")
        return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def binarize(images: Any, least: float = 1, invalid: str = "raise") -> np.ndarray:
    """Turn images, shape (n, ...), into uint8 records, shape (n, pixels).

    A pixel is on if it is at least ``least``, a public threshold. 1 is "above 0" for whole numbers, as in the paper's
    code, and 128 is the upper half of a byte. Raises ValueError if the images have fewer than two dimensions, or hold
    NaN. With ``invalid="drop"`` all pixels of such an image are 2, which no model takes.
    """
    images = np.asarray(images)
    if images.ndim < 2:
        raise ValueError(f"images has shape {images.shape}: expected (n, ...)")
    drop, rows = check_invalid(invalid), images.reshape(len(images), -1)
    records = np.ascontiguousarray(rows >= least, dtype=np.uint8)
    if images.dtype.kind == "f" and (bad := np.isnan(rows).any(axis=1)).any():
        if not drop:
            raise ValueError("images holds NaN: expected real numbers")
        records[bad] = 2
    return records
