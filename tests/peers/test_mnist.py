"""Check the MNIST reader: files that belong together, and MNIST itself."""

import numpy as np
from peers.mnist import load_mnist


def test_mnist(data_dir):
    train, test, train_labels, test_labels = load_mnist(data_dir / "mnist")
    assert train.shape == (60000, 784) and test.shape == (10000, 784)
    assert set(np.unique(train)) == {0, 1} and np.bincount(train_labels).tolist()[:3] == [5923, 6742, 5958]
    assert len(test_labels) == 10000
    # About 150 of 784 pixels are on above 0, and fewer from 128 on.
    assert 145 < train.sum(axis=1, dtype=int).mean() < 155
    half = load_mnist(data_dir / "mnist", 128)[1]
    assert (half <= test).all() and half.sum() < test.sum()
