"""Writing shards: persons stay whole, and bins are uniform. A folder is there whole or not at all."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from vips_fast.data import Batch, ShardedCorpus, write_shards
from vips_fast.data.shards import draw_bins


def tagged(n, width=8):
    """Rows that say their own number, in base 200."""
    numbers = np.arange(n)
    X = np.zeros((n, width), np.int64)
    X[:, 0], X[:, 1], X[:, 2] = numbers % 200 + 1, numbers // 200 + 1, 1
    return sp.csr_array(X)


def tags(corpus):
    X = corpus.matrix(np.arange(corpus.n_rows)).toarray()
    return (X[:, 0] - 1) + 200 * (X[:, 1] - 1)


def test_persons_are_whole_in_one_shard_and_in_one_bin(tmp_path):
    persons = np.random.default_rng(0).integers(0, 150, 1000)
    labels = np.array([f"p{code}" for code in persons])
    y = np.arange(1000) * 3
    X = tagged(1000)
    batches = [Batch(X[a : a + 300], y[a : a + 300], labels[a : a + 300]) for a in range(0, 1000, 300)]
    corpus = write_shards(tmp_path / "shards", batches, shard_mb=0.001, bins=6)
    order, starts = tags(corpus), corpus.groups.starts
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_array_equal(corpus.labels, y[order])
    for a, b in zip(starts, starts[1:], strict=False):
        assert len(set(persons[order[a:b]])) == 1 and (np.diff(order[a:b]) > 0).all()
    assert len(starts) == 151 and len(corpus.bins) == 7 and corpus.bins[-1] == 150
    assert len(corpus.partitions) > 4 and {first for first, _ in corpus.partitions} <= set(starts.tolist())
    ShardedCorpus(corpus.path)


def test_bins_are_stretches_and_keep_the_order_within(tmp_path):
    corpus = write_shards(tmp_path / "shards", [Batch(tagged(5000))], shard_mb=0.01, bins=7)
    order = tags(corpus)
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    for a, b in zip(corpus.bins, corpus.bins[1:], strict=False):
        assert (np.diff(order[a:b]) > 0).all()
    again = write_shards(tmp_path / "again", [Batch(tagged(5000))], shard_mb=0.01, bins=7)
    assert (tags(again) != order).any()
    empty = write_shards(tmp_path / "empty", [Batch(tagged(3))], bins=50)
    assert len(empty.bins) == 51 and empty.bins[-1] == 3


def uniform(n_bins, draw=draw_bins, n=60_000):
    """Tell whether the counts of bins and of neighbors fit uniform ones.

    That is, uniform and independent bins; it errs once in 10^9 each.
    """
    bins = draw(n, n_bins)
    assert bins.min() >= 0 and bins.max() < n_bins
    alone = np.bincount(bins, minlength=n_bins)
    pairs = np.bincount(bins[::2] * n_bins + bins[1::2], minlength=n_bins**2)
    return min(stats.chisquare(alone).pvalue, stats.chisquare(pairs).pvalue) > 1e-9


@pytest.mark.parametrize("n_bins", [2, 3, 20, 64])
def test_bins_are_uniform_and_independent(n_bins):
    assert uniform(n_bins)
    assert draw_bins(10, 1).tolist() == [0] * 10


@pytest.mark.parametrize(
    "draw",
    [
        lambda n, t: np.arange(n) % t,
        lambda n, t: np.repeat(draw_bins(n // 2, t), 2),
        lambda n, t: np.random.default_rng(0).binomial(t - 1, 0.5, n),
        lambda n, t: np.minimum(draw_bins(n, t + 1), t - 1),
    ],
    ids=["in turn", "pairs together", "binomial", "rest to the last"],
)
def test_the_test_of_bins_sees_others(draw):
    assert not uniform(20, draw)


def test_words_that_would_bias_a_bin_are_drawn_again(monkeypatch):
    """With t = 3, only the last word is too large. 2^64 - 1 is beyond 3 floor(2^64 / 3)."""
    asked = [np.array([2**64 - 1, 5, 2**64 - 2], np.uint64).tobytes(), np.array([7], np.uint64).tobytes()]
    monkeypatch.setattr(os, "urandom", lambda n: asked.pop(0))
    assert draw_bins(3, 3).tolist() == [1, 2, (2**64 - 2) % 3] and not asked


def test_a_folder_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    """Whatever call of the system fails, and in whichever batch."""

    def broken():
        yield Batch(tagged(200))
        raise OSError(5, "no more")

    for bins in (None, 3):
        with pytest.raises(OSError):
            write_shards(tmp_path / "shards", broken(), shard_mb=0.001, bins=bins)
        assert os.listdir(tmp_path) == []
    real, calls = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda f: calls.append(f) or real(f))
    write_shards(tmp_path / "shards", [Batch(tagged(200))], shard_mb=0.001)
    n = len(calls)
    for k in range(n):
        calls.clear()

        def failing(f, k=k):
            calls.append(f)
            if len(calls) == k + 1:
                raise OSError(5, "disk")
            return real(f)

        monkeypatch.setattr(os, "fsync", failing)
        path = tmp_path / f"part{k}"
        with pytest.raises(OSError):
            write_shards(path, [Batch(tagged(200))], shard_mb=0.001)
        if path.exists():  # the last one is about the folder that holds it, which has its name by then
            assert k == n - 1
            ShardedCorpus(path)
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_bad_arguments(tmp_path):
    X, path = tagged(20), tmp_path / "shards"
    for arguments, message in (
        (dict(kind="words"), "kind="),
        (dict(shard_mb=0), "shard_mb="),
        (dict(bins=0), "bins="),
        (dict(bins=2.5), "bins="),
        (dict(invalid="skip"), "invalid="),
        (dict(vocabulary=["a"]), "rows has 8 features"),
    ):
        with pytest.raises(ValueError, match=message):
            write_shards(path, [Batch(X)], **arguments)
    for batches, message in (
        ([], "no rows; expected at least one"),
        ([Batch(X[:0])], "no rows; expected at least one"),
        ([Batch(X), Batch(X, np.arange(20))], "with labels and persons in all or none"),
        ([Batch(X, None, [1] * 20), Batch(X)], "with labels and persons in all or none"),
        ([Batch(X, np.arange(19))], "labels has shape"),
        ([Batch(X, None, [1] * 19)], "persons has shape"),
        ([Batch(X, None, [None] * 20)], "some are missing"),
        ([Batch(X), Batch(X[:, :3])], "rows has 3 features"),
        ([Batch(-X)], "negative"),
    ):
        with pytest.raises(ValueError, match=message):
            write_shards(path, batches)
    with pytest.raises(ValueError, match="persons: expected labels that are texts, .* type list"):
        write_shards(path, [Batch(X, None, [[1]] * 20)])
    with pytest.raises(TypeError, match="labels: expected"):
        write_shards(path, [Batch(X, np.array([object()] * 20))])
    path.mkdir()
    with pytest.raises(FileExistsError):
        write_shards(path, [Batch(X)])
