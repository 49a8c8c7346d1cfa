"""Readers of Adult, Abalone and MNIST."""

import gzip

import numpy as np
import pytest
from peers.mnist import load_mnist
from peers.uci import read_abalone, read_adult
from sklearn.linear_model import LogisticRegression

from vips_fast.data.schema import MOVED

ROWS = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K",
    "50, ?, 83311, Doctorate, 16, Married-civ-spouse, ?, Husband, Black, Female, 99999, 0, 13, ?, >50K",
]


def write(path, text, compress=False):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


def column(table, name):
    return table.X[:, [table.feature_names.index(name)]].toarray()[:, 0]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("before", "stop"), [("", ""), ("|1x3 Cross validator\n", ".")])
def test_adult_in_both_forms(tmp_path, compress, before, stop):
    text = before + "\n".join(row + stop for row in ROWS) + "\n\n"
    table = read_adult(write(tmp_path / "adult", text, compress))
    assert table.X.shape == (2, 108) and len(table.feature_names) == 108
    assert table.y.tolist() == [0, 1]
    # Public bounds: 16..90 and 0..20,000 larger values moved to 20,000.
    np.testing.assert_allclose(column(table, "age"), [2 * 23 / 74 - 1, 2 * 34 / 74 - 1])
    np.testing.assert_allclose(column(table, "capital-gain"), [2174 / 20000, MOVED])
    assert column(table, "education=Doctorate").tolist() == [0, 1]
    assert column(table, "workclass=?").tolist() == column(table, "native-country=?").tolist() == [0, 1]
    assert np.sqrt(table.X.power(2).sum(axis=1)).max() <= table.row_norm == np.sqrt(14)


def test_abalone(tmp_path):
    text = "M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\nI,0.35,0.265,0.09,9.9,0.0995,0.0485,0.07,9\n"
    table = read_abalone(write(tmp_path / "abalone", text))
    assert table.X.shape == (2, 10) and table.y.tolist() == [1, 0]
    assert column(table, "sex=I").tolist() == [0, 1]
    np.testing.assert_allclose(column(table, "length"), [2 * 0.455 - 1, 2 * 0.35 - 1])
    assert column(table, "whole-weight")[1] == MOVED


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
def test_real_files(data_dir):
    folder = data_dir / "adult"
    table = read_adult(folder / "adult.data.gz", folder / "adult.test.gz")
    # Counts of adult.names.
    assert table.X.shape == (48_842, 108)
    assert abs(table.y.mean() - 0.2393) < 5e-5
    # liblinear reads only int32 indices.
    assert table.X.indices.dtype == table.X.indptr.dtype == np.int32
    LogisticRegression(solver="liblinear", max_iter=1).fit(table.X[:50], table.y[:50])
    rings = read_abalone(data_dir / "abalone" / "abalone.data")
    assert rings.X.shape == (4_177, 10) and rings.y.sum() == 2_081
    with np.load(data_dir / "abalone" / "dpvi_aba.npz") as other:
        np.testing.assert_array_equal(rings.y, other["y"])
        # The same measurements, standardized by another hand: equal up to a scale.
        length = rings.X[:, [3]].toarray()[:, 0]
        assert np.corrcoef(length, other["x"][:, 1])[0, 1] > 1 - 1e-12


def test_mnist(data_dir):
    train, test, train_labels, test_labels = load_mnist(data_dir / "mnist")
    assert train.shape == (60000, 784) and test.shape == (10000, 784)
    assert set(np.unique(train)) == {0, 1} and np.bincount(train_labels).tolist()[:3] == [5923, 6742, 5958]
    assert len(test_labels) == 10000
    # About 150 of 784 pixels are on above 0, and fewer from 128 on.
    assert 145 < train.sum(axis=1, dtype=int).mean() < 155
    half = load_mnist(data_dir / "mnist", 128)[1]
    assert (half <= test).all() and half.sum() < test.sum()
