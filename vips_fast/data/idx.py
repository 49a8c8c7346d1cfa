"""IDX files (the format of MNIST) and binary images made from them."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

__all__ = ["binarise", "load_mnist", "read_idx"]

#: Third byte of the magic number -> big-endian element type.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

_NAMES = {
    "train_images": "train-images-idx3-ubyte", "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte", "test_labels": "t10k-labels-idx1-ubyte",
}


def read_idx(path) -> np.ndarray:
    """Read an IDX file, plain or gzip.

    The header is two zero bytes, a byte for the element type, a byte for the number
    of dimensions, and each dimension as a big-endian 32-bit number; the elements
    follow in C order, big-endian.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ndarray
        In the machine's byte order, with the file's shape.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not an IDX file or its length does not fit its header.
    """
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            raise ValueError(f"{path}: broken gzip file") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise ValueError(f"{path}: not an IDX file (its first bytes should be 0, 0, a type, a number of dimensions)")
    dtype, n_dims = np.dtype(_TYPES[data[2]]), data[3]
    start = 4 + 4 * n_dims
    if n_dims == 0 or len(data) < start:
        raise ValueError(f"{path}: the IDX header is incomplete")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", n_dims, 4))
    size = math.prod(shape) * dtype.itemsize
    if len(data) - start != size:
        raise ValueError(f"{path}: has {len(data) - start} bytes of elements; its header says {size}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def binarise(images, least=1) -> np.ndarray:
    """Images as binary records: a pixel is on where it is at least ``least``.

    Parameters
    ----------
    images : array, shape (n, ...)
        Real numbers.
    least : number
        A public threshold: 1 is "above 0" for whole numbers, as in the paper's code;
        128 is the upper half of a byte.

    Returns
    -------
    ndarray, uint8, shape (n, number of pixels)

    Raises
    ------
    ValueError
        If the images hold NaN or have fewer than two dimensions.
    """
    images = np.asarray(images)
    if images.ndim < 2:
        raise ValueError(f"images has shape {images.shape}: expected (n, ...)")
    if images.dtype.kind == "f" and np.isnan(images).any():
        raise ValueError("images holds NaN: expected real numbers")
    return np.ascontiguousarray((images >= least).reshape(len(images), -1), dtype=np.uint8)


def load_mnist(folder, least=1):
    """Binary MNIST records from the four IDX files in a folder, plain or ``.gz``.

    Parameters
    ----------
    folder : path-like
    least : number
        As in `binarise`.

    Returns
    -------
    train, test : ndarrays, uint8, shapes (60000, 784) and (10000, 784) for the original files
    train_labels, test_labels : ndarrays, uint8

    Raises
    ------
    FileNotFoundError
        If one of the files is missing.
    ValueError
        If a file is broken, or images and labels differ in number.
    """
    folder, arrays = Path(folder), {}
    for name, file in _NAMES.items():
        path = folder / file
        arrays[name] = read_idx(path if path.exists() else folder / (file + ".gz"))
    for part in ("train", "test"):
        images, labels = arrays[f"{part}_images"], arrays[f"{part}_labels"]
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{folder}: {part} images {images.shape} and labels {labels.shape} do not fit together")
    return (
        binarise(arrays["train_images"], least), binarise(arrays["test_images"], least), arrays["train_labels"],
        arrays["test_labels"],
    )
