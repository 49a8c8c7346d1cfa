"""Shards on disk: whole or not at all, persons whole, bins uniform. Rows come back as written, and damage is named."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from vips_fast.data import Batch, ShardedCorpus, shards, write_shards
from vips_fast.data.shards import MANIFEST, bin_count, draw_bins, manifest_digest
from vips_fast.store.limits import file_digest

WORDS = tuple(f"word{i}" for i in range(300))


def counts(n=400, seed=0):
    return sp.csr_array(np.random.default_rng(seed).poisson(0.1, (n, 300)))


@pytest.fixture(params=[1 << 23, 2000], ids=["whole", "by stretches"])
def corpus(tmp_path, monkeypatch, request):
    monkeypatch.setattr(shards, "PIECE", request.param)
    X = counts()
    batches = [Batch(X[a : a + 90]) for a in range(0, 400, 90)]
    return write_shards(tmp_path / "shards", batches, vocabulary=WORDS)


def test_rows_come_back_in_any_order(corpus):
    X, rng = counts(), np.random.default_rng(1)
    assert corpus.n_rows == 400 and corpus.vocabulary == WORDS
    some = np.sort(rng.choice(400, 50, False)), rng.permutation(400), rng.integers(0, 400, 30)
    for rows in (np.arange(400), np.arange(0), np.arange(95, 130), *some):
        taken = corpus.matrix(rows)
        assert taken.dtype == np.int32 and taken.indices.dtype == np.int32
        np.testing.assert_array_equal(taken.toarray(), X[rows].toarray())
        lengths = corpus.lengths(rows)
        assert lengths.dtype == np.int64
        np.testing.assert_array_equal(lengths, np.diff(X.indptr)[rows])
    for rows in ([-1], [400]):
        with pytest.raises(IndexError):
            corpus.take(np.array(rows))


def test_numbers_are_stored_in_the_smallest_type(tmp_path):
    for top, kind in ((255, "|u1"), (256, "<u2"), (2**16, "<i4")):
        X = sp.csr_array(np.array([[top, 0], [0, 1]]))
        said = write_shards(tmp_path / str(top), [Batch(X)])._arrays
        assert (said["values"]["dtype"], said["indices"]["dtype"]) == (kind, "|u1")
    dense = np.array([[0.0, 1.0], [2.0, 300.0]])
    for values, kind in ((dense, "<u2"), (dense + 0.5, "<f8"), (-dense, "<f8"), (dense.astype(np.float32), "<u2")):
        corpus = write_shards(tmp_path / f"n{kind}{values.sum()}{values.dtype}", [Batch(values)], kind="numbers")
        assert corpus._arrays["values"]["dtype"] == kind
        taken = corpus.take(np.arange(2))
        assert taken.dtype == values.dtype
        np.testing.assert_array_equal(taken, values)
        np.testing.assert_array_equal(np.signbit(taken), np.signbit(values))


@pytest.mark.parametrize("name", ["values.npy", "indices.npy", "indptr.npy"])
def test_damage_is_named(corpus, name):
    path = corpus.path / name
    whole = path.read_bytes()
    for damaged, message in (
        (whole[:-1], "cut"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "altered, or of another corpus"),
        (whole + b"\0", "too long"),
        (b"", "cut"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{name}: {message}"):
            ShardedCorpus(corpus.path)
    path.unlink()
    for verify in (True, False):
        with pytest.raises(ValueError, match=f"{name}: missing"):
            ShardedCorpus(corpus.path, verify=verify)
    path.write_bytes(whole)
    ShardedCorpus(corpus.path)


def test_a_damaged_manifest_does_not_open(corpus):
    path = corpus.path / MANIFEST
    whole = path.read_bytes()
    assert b"keep it where the data are" in whole
    for damaged in (b"", whole[:-20], whole.replace(b'"n_rows": ', b'"n_rows": 1', 1), b"\xff", b"[]", b"{}", b"null"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cut or altered"):
            ShardedCorpus(corpus.path)
    said = json.loads(whole)
    path.write_text(json.dumps({**said, "format": "vips_fast shards 1"}))
    with pytest.raises(ValueError, match="expected 'vips_fast shards 2'"):
        ShardedCorpus(corpus.path)
    path.unlink()
    with pytest.raises(ValueError, match="expected a whole folder of shards"):
        ShardedCorpus(corpus.path)


@pytest.mark.parametrize(
    "where, wrong",
    [
        *(((name,), None) for name in ("kind", "dtype", "n_rows", "n_features", "files", "arrays", "format")),
        *((("arrays", "values", name), None) for name in ("dtype", "shape", "bytes")),
        (("kind",), "words"),
        (("dtype",), "U4"),
        (("n_rows",), 399),
        (("n_features",), 1e400),
        (("bins",), 3),
        (("bins",), [[0, 400]]),
        (("arrays", "indices", "shape"), [7]),
        (("arrays", "indptr", "dtype"), "<f8"),
        (("arrays", "indptr", "shape"), [401, 1]),
        (("arrays", "elsewhere"), {"dtype": "|u1", "shape": [400], "bytes": 1}),
    ],
)
def test_a_manifest_that_its_owner_sealed_again_is_refused(corpus, where, wrong):
    path = corpus.path / MANIFEST
    said = json.loads(path.read_bytes())
    *places, last = where
    part = said
    for name in places:
        part = part[name]
    part[last] = wrong
    path.write_text(json.dumps({**said, "digest": manifest_digest(said)}))
    for opens in (ShardedCorpus, bin_count):
        with pytest.raises(ValueError, match="cut or altered|of format 'None'"):
            opens(corpus.path)


def test_what_shows_without_verifying(corpus):
    """Offsets that lead outside are seen when rows are taken. Whether or not digests were."""
    starts, columns = ((corpus.path / f"{name}.npy").read_bytes() for name in ("indptr", "indices"))
    last, before = columns[-2:], columns[-4:-2]  # numbers of two bytes
    again, ascend = "; .* write the shards again", "a row's columns do not ascend, each once"
    for name, damaged, message in (
        ("indptr", starts[:-2] + b"\xff\xff", "expected offsets that rise, and none past the end" + again),
        ("indptr", starts.replace(b"<u2", b"<f2"), "expected <u2"),
        ("indptr", b"PK\3\4" + starts[4:], "not a .npy file"),
        ("indptr", starts.replace(b"}", b"("), "not a .npy file"),
        ("indices", columns[:-1] + b"\xff", "expected numbers of columns below 300" + again),
        ("indices", columns[:-2] + before, ascend + again),
        ("indices", columns[:-4] + last + before, ascend),
    ):
        path = corpus.path / f"{name}.npy"
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{name}.npy: {message}"):
            ShardedCorpus(corpus.path, verify=False).take(np.arange(390, 400))
        path.write_bytes(starts if name == "indptr" else columns)


def test_a_person_in_two_places_is_refused(tmp_path):
    persons = np.repeat(np.arange(100), 4)
    corpus = write_shards(tmp_path / "shards", [Batch(counts(), None, persons)])
    assert len(corpus.groups.starts) == 101
    ShardedCorpus(corpus.path)

    said = json.loads((corpus.path / MANIFEST).read_bytes())
    path = corpus.path / "persons.npy"
    codes = np.load(path)
    codes[-1] = 0  # all digests are right
    np.save(path, codes)
    said["arrays"]["persons"] |= {"sha256": file_digest(path), "bytes": path.stat().st_size}
    (corpus.path / MANIFEST).write_text(json.dumps({**said, "digest": manifest_digest(said)}))
    with pytest.raises(ValueError, match="persons.npy: expected a person's rows to follow each other"):
        ShardedCorpus(corpus.path)


def test_pickles_go_by_path_and_know_their_corpus(tmp_path, corpus):
    data = pickle.dumps(corpus)
    assert len(data) < 500
    assert (pickle.loads(data).matrix(np.arange(400)) != corpus.matrix(np.arange(400))).nnz == 0
    other = write_shards(tmp_path / "other", [Batch(counts(seed=1))])
    os.rename(corpus.path, tmp_path / "away")
    os.rename(other.path, corpus.path)
    with pytest.raises(ValueError, match="is another corpus"):
        pickle.loads(data)


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    path, rng = tmp_path / "big", np.random.default_rng(0)
    rows = 40_000
    X = sp.csr_array(rng.integers(300, 400, (rows, 300)).astype(np.int32))
    write_shards(path, [Batch(X)])
    program = """
import sys
import numpy as np
from vips_fast.data import ShardedCorpus
def resident(name):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
corpus = ShardedCorpus(sys.argv[1])
corpus.take(np.arange(10))
before, most = resident("VmRSS"), 0
rng = np.random.default_rng(0)
for first in range(0, corpus.n_rows, 500):
    corpus.take(np.arange(first, first + 500)); corpus.take(first + np.flatnonzero(rng.random(500) < 0.1))
    most = max(most, resident("VmRSS") - before)
print(most)
"""
    if not sys.platform.startswith("linux"):
        # Resident pages of files and of the process apart are known only from there.
        pytest.skip("reads /proc")
    said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    size = sum(file.stat().st_size for file in path.rglob("*.npy")) / 2**20
    assert size > 40 and float(said.stdout) < 12


def tagged(n, width=8):
    """Rows that say their own number, in base 200."""
    numbers = np.arange(n)
    X = np.zeros((n, width), np.int64)
    X[:, 0], X[:, 1], X[:, 2] = numbers % 200 + 1, numbers // 200 + 1, 1
    return sp.csr_array(X)


def tags(corpus):
    X = corpus.matrix(np.arange(corpus.n_rows)).toarray()
    return (X[:, 0] - 1) + 200 * (X[:, 1] - 1)


def test_persons_are_whole_in_one_bin(tmp_path):
    persons = np.random.default_rng(0).integers(0, 150, 1000)
    labels = np.array([f"p{code}" for code in persons])
    y = np.arange(1000) * 3
    X = tagged(1000)
    batches = [Batch(X[a : a + 300], y[a : a + 300], labels[a : a + 300]) for a in range(0, 1000, 300)]
    corpus = write_shards(tmp_path / "shards", batches, bins=6)
    order, starts = tags(corpus), corpus.groups.starts
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_array_equal(corpus.labels, y[order])
    for a, b in zip(starts, starts[1:], strict=False):
        assert len(set(persons[order[a:b]])) == 1 and (np.diff(order[a:b]) > 0).all()
    assert len(starts) == 151 and len(corpus.bins) == 7 and corpus.bins[-1] == 150
    ShardedCorpus(corpus.path)


def test_bins_are_stretches_and_keep_the_order_within(tmp_path):
    corpus = write_shards(tmp_path / "shards", [Batch(tagged(5000))], bins=7)
    order = tags(corpus)
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    for a, b in zip(corpus.bins, corpus.bins[1:], strict=False):
        assert (np.diff(order[a:b]) > 0).all()
    again = write_shards(tmp_path / "again", [Batch(tagged(5000))], bins=7)
    assert (tags(again) != order).any()
    empty = write_shards(tmp_path / "empty", [Batch(tagged(3))], bins=50)
    assert len(empty.bins) == 51 and empty.bins[-1] == 3


@pytest.mark.parametrize("n_bins", [2, 3, 20, 64])
def test_bins_are_uniform_and_independent(n_bins):
    """By the counts of bins and of pairs of neighbors; it errs once in 10^9 each."""
    bins = draw_bins(60_000, n_bins)
    assert bins.min() >= 0 and bins.max() < n_bins
    alone = np.bincount(bins, minlength=n_bins)
    pairs = np.bincount(bins[::2] * n_bins + bins[1::2], minlength=n_bins**2)
    assert min(stats.chisquare(alone).pvalue, stats.chisquare(pairs).pvalue) > 1e-9
    assert draw_bins(10, 1).tolist() == [0] * 10


def test_words_that_would_bias_a_bin_are_drawn_again(monkeypatch):
    """With t = 3, only the last word is too large. 2^64 - 1 is beyond 3 floor(2^64 / 3)."""
    asked = [np.array([2**64 - 1, 5, 2**64 - 2], np.uint64).tobytes(), np.array([7], np.uint64).tobytes()]
    monkeypatch.setattr(os, "urandom", lambda n: asked.pop(0))
    assert draw_bins(3, 3).tolist() == [1, 2, (2**64 - 2) % 3] and not asked


def test_a_folder_is_there_whole_or_not_at_all(tmp_path, monkeypatch):

    def broken():
        yield Batch(tagged(200))
        raise OSError(5, "no more")

    for bins in (None, 3):
        with pytest.raises(OSError):
            write_shards(tmp_path / "shards", broken(), bins=bins)
        assert os.listdir(tmp_path) == []

    real, calls, fails_at = os.fsync, [], -1

    def fsync(file):
        calls.append(file)
        if len(calls) == fails_at:
            raise OSError(5, "disk")
        return real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    write_shards(tmp_path / "shards", [Batch(tagged(200))])
    n = len(calls)
    for fails_at in range(1, n + 1):
        calls.clear()
        path = tmp_path / f"part{fails_at}"
        with pytest.raises(OSError, match=str(tmp_path)):
            write_shards(path, [Batch(tagged(200))])
        if path.exists():  # the last one is about the folder that holds it, which has its name by then
            assert fails_at == n
            ShardedCorpus(path)
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_bad_arguments(tmp_path):
    X, path = tagged(20), tmp_path / "shards"
    for arguments in (dict(kind="words"), dict(bins=0), dict(bins=2.5), dict(invalid="skip")):
        with pytest.raises(ValueError, match=f"{next(iter(arguments))}="):
            write_shards(path, [Batch(X)], **arguments)
    with pytest.raises(ValueError, match="rows has 8 features"):
        write_shards(path, [Batch(X)], vocabulary=["a"])
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


@pytest.mark.parametrize("first", ["file", "folder", "shards"])
def test_the_second_of_two_writers_is_told(tmp_path, first):
    path = tmp_path / "shards"

    def batches():
        yield Batch(tagged(3))
        if first == "file":
            path.touch()
        else:
            write_shards(path / "inner" if first == "folder" else path, [Batch(tagged(4))])

    with pytest.raises(FileExistsError, match="another process wrote it meanwhile; take another place") as caught:
        write_shards(path, batches())
    assert caught.value.filename == str(path) and os.listdir(tmp_path) == ["shards"]
    assert first != "shards" or ShardedCorpus(path).n_rows == 4
