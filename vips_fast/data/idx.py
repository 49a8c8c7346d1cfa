"""IDX files (the format of MNIST) and binary images made from them."""

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ._files import naming, open_text

#: Third byte of the magic number -> big-endian element type.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

#: More than deflate can reach: 1,032 bytes out of one.
_MAX_RATIO = 1100

_NAMES = {"train": "train-{}-idx{}-ubyte", "test": "t10k-{}-idx{}-ubyte"}

PathLike = str | os.PathLike[str]


def read_idx(path: PathLike) -> np.ndarray:
    """Read an IDX file, plain or gzip: an array in the machine's byte order, with the file's shape.

    The header is two zero bytes, a byte for the element type, a byte for the number of dimensions, and each dimension
    as a big-endian 32-bit number; the elements follow in C order, big-endian. Raises OSError if the file cannot be
    opened, and ValueError if it is not an IDX file or its length does not fit its header.
    """
    with naming(path), open_text(path) as file:
        try:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
                raise ValueError("not an IDX file (its first bytes should be 0, 0, a type, a number of dimensions)")
            dtype, n_dims = np.dtype(_TYPES[head[2]]), head[3]
            dimensions = file.read(4 * n_dims)
            if n_dims == 0 or len(dimensions) < 4 * n_dims:
                raise ValueError("the IDX header is incomplete")
            shape = tuple(np.frombuffer(dimensions, ">u4").tolist())
            size = math.prod(shape) * dtype.itemsize
            # A header may say anything: it is not believed beyond what the file could hold.
            if size > _MAX_RATIO * os.path.getsize(path):
                raise ValueError(f"its header says {size} bytes of elements, more than the file can hold")
            data = file.read(size)
            if len(data) < size or file.read(1):
                found = "more" if len(data) == size else len(data)
                raise ValueError(f"has {found} bytes of elements; its header says {size}")
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError("broken gzip file") from None
        return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def binarise(images: Any, least: float = 1) -> np.ndarray:
    """Images, shape (n, ...), as uint8 records, shape (n, pixels): a pixel is on where it is at least `least`.

    `least` is a public threshold: 1 is "above 0" for whole numbers, as in the paper's code; 128 is the upper half of
    a byte. Raises ValueError if the images hold NaN or have fewer than two dimensions.
    """
    images = np.asarray(images)
    if images.ndim < 2:
        raise ValueError(f"images has shape {images.shape}: expected (n, ...)")
    if images.dtype.kind == "f" and np.isnan(images).any():
        raise ValueError("images holds NaN: expected real numbers")
    return np.ascontiguousarray((images >= least).reshape(len(images), -1), dtype=np.uint8)


def load_mnist(folder: PathLike, least: float = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Binary MNIST records from the four IDX files in a folder, plain or ``.gz``: train, test and the labels of both.

    All are uint8, of shapes (60000, 784), (10000, 784), (60000,) and (10000,) for the original files; ``least`` is as
    in `binarise`. Raises FileNotFoundError if one of the files is missing, and ValueError if a file is broken, or
    images and labels differ in number.
    """
    records, targets = [], []
    for part, name in _NAMES.items():
        images, labels = (_one_of_mnist(Path(folder), name.format(*kind)) for kind in (("images", 3), ("labels", 1)))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{folder}: {part} images {images.shape} and labels {labels.shape} do not fit together")
        records.append(binarise(images, least))
        targets.append(labels)
    return records[0], records[1], targets[0], targets[1]


def _one_of_mnist(folder: Path, name: str) -> np.ndarray:
    path = folder / name
    return read_idx(path if path.exists() else folder / f"{name}.gz")
