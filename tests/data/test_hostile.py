"""Files from strangers, one of each kind, that expand or nest: each is refused in one line, within little memory."""

import gzip
import io
import json
import struct
import zipfile
from functools import cache

import numpy as np
import pyarrow
import pytest
from bounded import MEMORY, bounded
from pyarrow import parquet as files
from scipy import sparse

from vips_fast.cli.commands import tables
from vips_fast.cli.inputs import read_array, read_matrix
from vips_fast.data import Schema, load_word_vectors
from vips_fast.data.embeddings import read_tensors
from vips_fast.data.records import read_batches
from vips_fast.data.shards import ShardedCorpus
from vips_fast.data.vocabulary import load_vocabulary
from vips_fast.models.lda import PublicPrior

DOTS = "a" + ".a" * 30_000 + " = 1"
NESTED = "[" * 100_000
VALUES = f"[{'[],' * (3 << 20)}0]"


def text(content):
    return lambda path: path.write_text(content)


def lines(line, n):
    def write(path):
        with gzip.open(path, "wb", 1) as file:
            for k in range(n):
                file.write(line(k))

    return write


def numbers(k):
    return b"".join(b"%d\n" % n for n in range(k << 16, (k + 1) << 16))


@cache
def archive():
    """The bytes of three arrays, each larger than a small file may expand to."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("data", "indices", "indptr"):
            head = f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({3 * 10**8},), }}".encode()
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                part.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)
                for _ in range(300):
                    part.write(bytes(10**6))
    return file.getvalue()


def arrays(path):
    path.write_bytes(archive())


def claims(path):
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,), }"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(64))


def parquet(n_rows, length, **how):
    def write(path):
        one = pyarrow.array(["a" * length])
        codes = pyarrow.array(np.zeros(n_rows, np.int32))
        table = pyarrow.table({"text": pyarrow.DictionaryArray.from_arrays(codes, one)})
        if how.get("use_dictionary") is False:
            table = pyarrow.table({"text": table["text"].chunk(0).dictionary_decode()})
        files.write_table(table, path, compression="zstd", **how)

    return write


def tensors(path):
    head = json.dumps({"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head)


def records(path):
    return [len(batch["text"]) for batch in read_batches(path, ["text"], texts=["text"])]


def manifest(path):
    path.mkdir()
    (path / "shards.json").write_text('{"format": "vips_fast shards 1", "digest": "", "x": ' + NESTED)


CASES = {
    "toml: --values, nested": (text(f"name = {NESTED}"), lambda path: tables.public_values(str(path), ["ward"])),
    "toml: --values": (text(DOTS), lambda path: tables.public_values(str(path), ["ward"])),
    "toml: schema": (text(DOTS), Schema.load),
    "json: lines, nested": (text('{"text": ' + NESTED + "\n"), records),
    "json: lines, many values": (text('{"text": ' + VALUES + "}\n"), records),
    "json: shards, nested": (manifest, ShardedCorpus),
    "csv: a long cell": (lines(lambda k: b'text\n"' if k == 0 else b"a" * 10**6, 280), records),
    "gzip: words": (lines(numbers, 100), load_vocabulary),
    "gzip: word vectors": (lines(lambda k: b" 1" * 10**6 if k else b"a", 60), lambda p: load_word_vectors(p, ["a"])),
    "gzip: records": (lines(lambda k: bytes(10**6), 280), records),
    "npz: matrix": (arrays, lambda path: read_matrix(f"{path}")),
    "npz: prior": (arrays, PublicPrior.load),
    "npy": (claims, lambda path: read_array(str(path), "f")),
    "parquet: a text in many rows": (parquet(100_000, 5 << 20), records),
    "parquet: long texts": (parquet(20, 20 << 20, use_dictionary=False), records),
    "tensors": (tensors, lambda path: read_tensors(path, {"x": (None,)})),
}


@pytest.mark.parametrize("case", CASES)
def test_a_strangers_file_takes_little(case, tmp_path):
    write, read = CASES[case]
    path = tmp_path / ("a.npz" if "npz" in case else "a.npy" if "npy" in case else "a")
    write(path)
    kind, said = bounded(lambda: read(path), 1 << 29 if "npz" in case else MEMORY)
    assert kind == "ValueError" and "\n" not in said and len(said) < 600, (kind, said[:600])
    assert str(path) in said or case == "tensors"
    assert any(word in said for word in ("expected", "not a", "more than", "cut off", "broken")), said


def test_matrices_of_numbers_are_read_as_scipy_reads_them(tmp_path):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.3)
    for form in ("csr", "csc", "coo"):
        sparse.save_npz(tmp_path / "a.npz", sparse.coo_array(dense).asformat(form))
        assert (read_matrix(str(tmp_path / "a.npz")).toarray() == dense).all()


def test_equal_texts_of_parquet_come_out_as_they_went_in(tmp_path):
    rng = np.random.default_rng(0)
    known = ["cough", "", "m\u00fcller", "fever" * 50]
    cells = [[*known, None][k] for k in rng.integers(0, 5, 3000)]
    codes = pyarrow.array([None if cell is None else known.index(cell) for cell in cells], pyarrow.uint8())
    columns = {"plain": pyarrow.array(cells), "coded": pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(known))}
    files.write_table(pyarrow.table({**columns, "n": list(range(3000))}), tmp_path / "a.parquet")
    found = {"plain": [], "coded": [], "n": []}
    for batch in read_batches(tmp_path / "a.parquet", list(found), texts=["plain", "coded"]):
        for name, column in batch.items():
            found[name] += column
    assert found == {"plain": cells, "coded": cells, "n": list(range(3000))}
