"""Read MNIST's four files as binary records."""

import gzip
from pathlib import Path

import numpy as np


def load_mnist(folder: str | Path, least: float = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Read train, test and both labels from IDX files.

    They lie in a folder, plain or ``.gz``. All four are uint8, of shapes (60000, 784), (10000, 784), (60000,) and
    (10000,) for the original files; a pixel is on from ``least``. Raises FileNotFoundError if a file is
    missing, and ValueError if a file is broken or images and labels differ in number.
    """
    records, targets = [], []
    for part in ("train", "t10k"):
        images, labels = (read_idx(Path(folder) / f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{folder}: {part} images {images.shape} and labels {labels.shape} do not fit together")
        records.append((images.reshape(len(images), -1) >= least).astype(np.uint8))
        targets.append(labels)
    return records[0], records[1], targets[0], targets[1]


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes, plain or ``.gz``: 0, 0, 8, the number of dimensions, each in 32 bits, the bytes."""
    data = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())
    ends = 4 + 4 * data[3]
    return np.frombuffer(data, np.uint8, offset=ends).reshape(np.frombuffer(data[4:ends], ">i4"))
