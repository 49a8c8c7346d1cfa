"""Shards on disk. Readers return the written rows, damage is named, and memory stays small."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast.data import Batch, ShardedCorpus, write_shards
from vips_fast.data.shards import MANIFEST, manifest_digest

WORDS = tuple(f"word{i}" for i in range(300))


def counts(n=400, seed=0):
    return sp.csr_array(np.random.default_rng(seed).poisson(0.1, (n, 300)))


@pytest.fixture
def corpus(tmp_path):
    X = counts()
    batches = [Batch(X[a : a + 90]) for a in range(0, 400, 90)]
    return write_shards(tmp_path / "shards", batches, shard_mb=0.01, vocabulary=WORDS)


def test_rows_come_back_in_any_order(corpus):
    X, rng = counts(), np.random.default_rng(1)
    assert len(corpus.partitions) > 3 and corpus.partitions[-1][1] == 400 and corpus.vocabulary == WORDS
    for rows in (
        np.arange(400),
        np.arange(0),
        np.arange(95, 130),
        np.sort(rng.choice(400, 50, False)),
        rng.permutation(400),
        rng.integers(0, 400, 30),
    ):
        taken = corpus.matrix(rows)
        assert taken.dtype == np.int32 and taken.indices.dtype == np.int32
        np.testing.assert_array_equal(taken.toarray(), X[rows].toarray())
        np.testing.assert_array_equal(corpus.lengths(rows), np.diff(X.indptr)[rows])
    for rows in ([-1], [400]):
        with pytest.raises(IndexError):
            corpus.take(np.array(rows))


def test_numbers_are_stored_in_the_smallest_type(tmp_path):
    for top, kind in ((255, "|u1"), (256, "<u2"), (2**16, "<i4")):
        X = sp.csr_array(np.array([[top, 0], [0, 1]]))
        said = write_shards(tmp_path / str(top), [Batch(X)])._shards[0]["arrays"]
        assert (said["values"]["dtype"], said["indices"]["dtype"]) == (kind, "|u1")
    dense = np.array([[0.0, 1.0], [2.0, 300.0]])
    for values, kind in ((dense, "<u2"), (dense + 0.5, "<f8"), (-dense, "<f8"), (dense.astype(np.float32), "<u2")):
        corpus = write_shards(tmp_path / f"n{kind}{values.sum()}{values.dtype}", [Batch(values)], kind="numbers")
        assert corpus._shards[0]["arrays"]["values"]["dtype"] == kind
        taken = corpus.take(np.arange(2))
        assert taken.dtype == values.dtype
        np.testing.assert_array_equal(taken, values)
        np.testing.assert_array_equal(np.signbit(taken), np.signbit(values))


@pytest.mark.parametrize("name", ["values.npy", "indices.npy", "indptr.npy"])
def test_damage_is_named(corpus, name):
    path = corpus.path / "000002" / name
    whole = path.read_bytes()
    for damaged, message in (
        (whole[:-1], "cut"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "altered, or of another corpus"),
        (whole + b"\0", "too long"),
        (b"", "cut"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"000002/{name}: {message}"):
            ShardedCorpus(corpus.path)
    path.unlink()
    for verify in (True, False):
        with pytest.raises(ValueError, match=f"000002/{name}: missing"):
            ShardedCorpus(corpus.path, verify=verify)
    path.write_bytes(whole)
    ShardedCorpus(corpus.path)


def test_a_shard_of_another_corpus_is_named(tmp_path, corpus):
    other = write_shards(tmp_path / "other", [Batch(counts(seed=1))], shard_mb=0.01)
    foreign = other.path / "000001"
    os.rename(corpus.path / "000001", tmp_path / "away")
    os.rename(foreign, corpus.path / "000001")
    with pytest.raises(ValueError, match="000001/"):
        ShardedCorpus(corpus.path)


def test_a_damaged_manifest_does_not_open(corpus):
    path = corpus.path / MANIFEST
    whole = path.read_bytes()
    assert b"keep it where the data are" in whole
    for damaged in (b"", whole[:-20], whole.replace(b'"rows": ', b'"rows": 1', 1), b"\xff", b"[]", b"{}", b"null"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="cut or altered"):
            ShardedCorpus(corpus.path)
    said = json.loads(whole)
    path.write_text(json.dumps({**said, "format": "vips_fast shards 2"}))
    with pytest.raises(ValueError, match="expected 'vips_fast shards 1'"):
        ShardedCorpus(corpus.path)
    path.unlink()
    with pytest.raises(ValueError, match="expected a whole folder of shards"):
        ShardedCorpus(corpus.path)


def test_what_shows_without_verifying(corpus):
    """Offsets that lead outside are seen when rows are taken. Whether or not digests were."""
    path = corpus.path / "000001" / "indptr.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"\xff\xff")
    opened = ShardedCorpus(corpus.path, verify=False)
    with pytest.raises(ValueError, match="000001/indptr.npy: expected offsets that rise"):
        opened.take(np.arange(400))
    path.write_bytes(whole.replace(b"<u2", b"<f2"))
    with pytest.raises(ValueError, match="000001/indptr.npy: expected <u2"):
        ShardedCorpus(corpus.path, verify=False).take(np.arange(400))
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(ValueError, match="000001/indptr.npy: not a .npy file"):
        ShardedCorpus(corpus.path, verify=False).take(np.arange(400))


def test_a_person_in_two_places_is_refused(tmp_path):
    persons = np.repeat(np.arange(100), 4)
    corpus = write_shards(tmp_path / "shards", [Batch(counts(), None, persons)], shard_mb=0.01)
    assert len(corpus.groups.starts) == 101
    ShardedCorpus(corpus.path)

    def altered(shard, codes):
        """Return the shard with other persons, and all digests right."""
        import hashlib

        said = json.loads((corpus.path / MANIFEST).read_bytes())
        path = corpus.path / f"{shard:06d}" / "persons.npy"
        before = path.read_bytes()
        entry = said["shards"][shard]["arrays"]["persons"]
        path.write_bytes(before[: -len(codes)] + bytes(codes.astype(np.uint8)))
        entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        (corpus.path / MANIFEST).write_text(json.dumps({**said, "digest": manifest_digest(said)}))
        return path, before

    codes = np.load(corpus.path / "000001" / "persons.npy")
    elsewhere, apart, unknown = codes.copy(), codes.copy(), codes.copy()
    elsewhere[-1], apart[0] = 0, codes[-1]
    for bad, message in ((elsewhere, "a person of shard 000000 again"), (apart, "person's rows to follow each other")):
        path, before = altered(1, bad)
        with pytest.raises(ValueError, match=f"000001/persons.npy: .*{message}"):
            ShardedCorpus(corpus.path)
        path.write_bytes(before)
    unknown[:] = 255
    with pytest.raises(ValueError, match="numbers of persons below"):
        write_shards(tmp_path / "few", [Batch(counts(8), None, np.arange(8))])
        corpus = ShardedCorpus(tmp_path / "few")
        altered(0, np.full(8, 255))
        ShardedCorpus(tmp_path / "few")


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
    """Pages that were read leave the process. They stay in the system's cache."""
    path, rng = tmp_path / "big", np.random.default_rng(0)
    rows = 40_000
    X = sp.csr_array(rng.integers(300, 400, (rows, 300)).astype(np.int32))
    write_shards(path, [Batch(X)], shard_mb=16)
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
