"""Check the MNIST reader: files that belong together, and MNIST itself."""

import struct

import numpy as np
import pytest
from peers.mnist import load_mnist


def as_idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_load_checks_that_files_belong_together(tmp_path):
    images, labels = np.zeros((4, 2, 2), dtype=np.uint8), np.zeros(4, dtype=np.uint8)
    names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
    for name, array in zip(names, [images + 9, labels, images, labels], strict=True):
        (tmp_path / name).write_bytes(as_idx(array))
    train, test, _, _ = load_mnist(tmp_path)
    assert train.shape == (4, 4) and train.all() and not test.any()
    (tmp_path / names[1]).write_bytes(as_idx(labels[:3]))
    with pytest.raises(ValueError, match="labels"):
        load_mnist(tmp_path)
    (tmp_path / names[0]).unlink()
    with pytest.raises(FileNotFoundError):
        load_mnist(tmp_path)


def test_mnist(data_dir):
    train, test, train_labels, test_labels = load_mnist(data_dir / "mnist")
    assert train.shape == (60000, 784) and test.shape == (10000, 784)
    assert set(np.unique(train)) == {0, 1} and np.bincount(train_labels).tolist()[:3] == [5923, 6742, 5958]
    assert len(test_labels) == 10000
    # About 150 of 784 pixels are on above 0, and fewer from 128 on.
    assert 145 < train.sum(axis=1, dtype=int).mean() < 155
    half = load_mnist(data_dir / "mnist", 128)[1]
    assert (half <= test).all() and half.sum() < test.sum()
