"""Read MNIST's four files as binary records."""

from pathlib import Path

import numpy as np

from vips_fast.data import binarize, read_idx


def load_mnist(folder: str | Path, least: float = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Read train, test and both labels from IDX files.

    They lie in a folder, plain or ``.gz``. All four are uint8, of shapes (60000, 784), (10000, 784), (60000,) and
    (10000,) for the original files; ``least`` is as in `vips_fast.data.binarize`. Raises FileNotFoundError if a file is
    missing, and ValueError if a file is broken or images and labels differ in number.
    """
    records, targets = [], []
    for part in ("train", "t10k"):
        images, labels = (_read(Path(folder) / f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{folder}: {part} images {images.shape} and labels {labels.shape} do not fit together")
        records.append(binarize(images, least))
        targets.append(labels)
    return records[0], records[1], targets[0], targets[1]


def _read(path: Path) -> np.ndarray:
    return read_idx(path if path.exists() else path.with_name(f"{path.name}.gz"))
