"""Readers: round trips, broken files."""

import bz2
import gzip
import io
import lzma
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from vips_fast.data import _files, column_names, load_corpus, load_vocabulary

read_sparse = partial(load_corpus, format="npz")

VOCABULARY = ("alpha", "beta", "gamma", "delta")
DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 70000]])


def written(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def vocabulary_file(tmp_path):
    return written(tmp_path / "vocab.txt", "\n".join(VOCABULARY) + "\n")


def test_vocabulary(tmp_path):
    for content in ("a\nb c\n", "a\r\nb c\r\n", "\ufeffa\nb c", "a\n b c \n\n\n"):
        assert load_vocabulary(written(tmp_path / "v", content)) == ("a", "b c")
    assert load_vocabulary(written(tmp_path / "v", gzip.compress(b"a\nb\n", mtime=0))) == ("a", "b")


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "v: is empty"),
        ("\n\n", "v: is empty"),
        ("a\n\nb\n", "v: line 2: blank"),
        ("a\nb\na\n", "v: line 3: repeats line 1"),
        (b"a\n\xff\n", "v: is not UTF-8"),
        (gzip.compress(b"a\nb\n", mtime=0)[:-9], "v: the gzip data are broken"),
    ],
)
def test_broken_vocabulary(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        load_vocabulary(written(tmp_path / "v", content))


@pytest.mark.parametrize("kind", ("matrix", "array"))
@pytest.mark.parametrize("format", ("csr", "csc", "coo"))
def test_save_npz(tmp_path, format, kind, vocabulary_file):
    sparse.save_npz(tmp_path / "c.npz", getattr(sparse, f"{format}_{kind}")(DENSE))
    corpus = load_corpus(tmp_path / "c.npz", vocabulary_file)
    assert np.array_equal(corpus.counts.toarray(), DENSE)
    assert corpus.vocabulary == VOCABULARY
    assert corpus.source == "c.npz"


def parts(**change):
    X = sparse.csr_array(DENSE)
    arrays = dict(format=b"csr", data=X.data, indices=X.indices, indptr=X.indptr, shape=np.array(X.shape))
    arrays.update(change)
    return {name: np.asarray(array) for name, array in arrays.items() if array is not None}


NO_MATRIX = [
    *(dict(shape=shape) for shape in ([3], [3.5, 4.5], [-3, 4], [2**64 - 1, 4], [5, 4], [3, 2])),
    *(dict(indptr=indptr) for indptr in (None, [0, 3, 2, 4], [0, 2, 2, 9], [1, 2, 2, 4])),
    *(dict(indices=indices) for indices in ([0.0, 1.0, 2.0, 3.0], [0, 1, 2, -1])),
    *(dict(data=data) for data in ([[1, 2], [3, 4]], ["a", "b", "c", "d"])),
    dict(format=b"bsr"),
    dict(format=b"coo", row=[0, 1, 2, 3], col=[0, 1, 2, 3]),
    dict(format=b"coo", row=[0, 1, 2, 0], col=[0, 1, 2, 3], shape=[10**9, 4]),
    dict(format=b"csc", indices=[0, 1, 2, 0], indptr=[0, 1, 2, 3, 4], shape=[10**9, 4]),
]


@pytest.mark.parametrize(
    "change, message",
    [
        *((change, "expected a CSR, CSC or COO matrix as scipy.sparse.save_npz writes it") for change in NO_MATRIX),
        (dict(data=[1, 2, 3, -7351]), "contains a negative count"),
        (dict(data=[1, 2, 3, 7351.5]), "contains a fractional count"),
        (dict(data=[1, 2, 3, np.nan]), "contains NaN"),
        (dict(data=np.array([1, 2, 3, None], object)), "pickled arrays are refused"),
    ],
)
def test_broken_npz(tmp_path, change, message):
    np.savez(tmp_path / "c.npz", **parts(**change))
    with pytest.raises(ValueError, match=message) as caught:
        read_sparse(tmp_path / "c.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'c.npz'}: ")
    assert "7351" not in str(caught.value)


@pytest.mark.parametrize(
    "head, message",
    [
        (b"PK\x03\x04", "a zip archive; unpack it"),
        (b"%PDF-1.4", "a PDF file; save its text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office file"),
        (b"%%MatrixMarket matrix", "a MatrixMarket file; store scipy.io.mmread"),
        (b"RDX3\n", "an R workspace; export the table with write.csv"),
        (gzip.compress(b"RDX3\n" + b"\0" * 99, mtime=0), "an R workspace; export the table with write.csv"),
        (gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 99, mtime=0), "a tar archive; unpack it"),
        (b"\x80\x04\x95" + b"\0" * 9, "a pickle, which may run code"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 9, "a zstd file; expand it first: unzstd"),
        (bz2.compress(b"note"), "a bzip2 file; expand it first: bunzip2"),
        (lzma.compress(b"note"), "an xz file; expand it first: unxz"),
    ],
)
def test_a_file_of_another_kind_is_named_with_the_remedy(tmp_path, head, message):
    path = written(tmp_path / "data", head)
    for read in (lambda: load_corpus(path, VOCABULARY, text="note"), lambda: column_names(path)):
        with pytest.raises(ValueError, match=message):
            read()


@given(st.lists(st.text("ab", max_size=3)), st.sampled_from(("\n", "\r\n", "\r")), st.integers(1, 5))
def test_where_pieces_end_changes_no_line(lines, newline, size):
    """Lines of old Macs get LF. A line beyond the limit is refused with its number, or replaced."""
    text = newline.join(lines)
    expected = text.replace("\r", "\n") if newline == "\r" else text
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = list(_files.whole_lines(pieces, 100))
    assert "".join(found) == expected and all(block.endswith("\n") for block in found[:-1])
    long = [*pieces, newline, *["a"] * 101, newline]
    with pytest.raises(ValueError, match=f"^line {expected.count(chr(10)) + 2}: more than 100 characters$"):
        list(_files.whole_lines(long, 100))
    assert "".join(_files.whole_lines(long, 100, "!")).split()[-1:] == ["!"]


def test_load_corpus_refuses(tmp_path):
    path, empty = tmp_path / "c.npz", written(tmp_path / "none.txt", "")
    sparse.save_npz(path, sparse.csr_array(DENSE))
    for error, match, *arguments, more in [
        (ValueError, "format='dsv': expected one of 'npz'", path, None, "dsv", {}),
        (ValueError, "has 4 words, but the vocabulary has 3", path, ("a", "b", "c"), {}),
        (ValueError, f"^{empty}: is empty", empty, VOCABULARY, {}),
        (ValueError, f"^{empty}: is empty", path, empty, {}),
        (ValueError, "raw records need a public vocabulary", empty, {}),
        (TypeError, "vocabulary must hold strings", path, (1, 2, 3, 4), {}),
        (FileNotFoundError, "absent", tmp_path / "absent", VOCABULARY, {}),
        (ValueError, "format npz has counts, no columns of text and persons", path, {"person": "patient"}),
        (ValueError, "invalid='skip'", path, VOCABULARY, {"invalid": "skip"}),
        (ValueError, "invalid='skip'", tmp_path / "absent", VOCABULARY, {"invalid": "skip"}),
    ]:
        with pytest.raises(error, match=match):
            load_corpus(*arguments, **more)


def test_documents_with_invalid_values_are_dropped(tmp_path):
    np.savez(tmp_path / "c.npz", **parts(data=[1, -2, 3.5, 4]))
    jsonl = written(tmp_path / "c.jsonl", '{"text": 7351}\n[]\n{"text": "beta"}\n')
    for path, expected in ((tmp_path / "c.npz", np.zeros((3, 4))), (jsonl, [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])):
        with pytest.raises(ValueError, match=path.name):
            load_corpus(path, VOCABULARY)
        assert np.array_equal(load_corpus(path, VOCABULARY, invalid="drop").counts.toarray(), expected)


@pytest.mark.parametrize("name", ("c.csv", "vocab"))
def test_out_of_memory_is_said_as_such(tmp_path, monkeypatch, name):
    class Refusing:
        def read(self, size=-1):
            raise MemoryError("Unable to allocate 9 GiB")

        def peek(self, n):
            return b"text\n"

    monkeypatch.setattr("vips_fast.data._files.expanded", lambda raw: Refusing())
    monkeypatch.setattr("vips_fast.data.records.expanded", lambda raw: Refusing())
    path = written(tmp_path / name, "text\na\n")
    with pytest.raises(MemoryError, match=f"{name}: not enough memory to read it. Unable to allocate 9 GiB"):
        load_vocabulary(path) if name == "vocab" else load_corpus(path, VOCABULARY)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_files_give_one_line_or_a_corpus(tmp_path, data):
    """Bytes changed, cut or put in: never another error, never a crash."""
    kind = data.draw(st.sampled_from(("npz", "jsonl", "csv", "gz")))
    path, file = tmp_path / ("damaged.npz" if kind == "npz" else "damaged"), io.BytesIO()
    np.savez(file, **parts())
    table = b'text,n\n"alpha ""beta""",1\nx,2\n'
    whole = {"npz": file.getvalue(), "jsonl": b'{"text": "alpha beta"}\n' * 2, "csv": table}
    raw = bytearray(whole.get(kind) or gzip.compress(table, mtime=0))
    for _ in range(data.draw(st.integers(1, 3))):
        at, width = data.draw(st.integers(0, len(raw))), data.draw(st.sampled_from((0, 1, 1, 40)))
        raw[at : at + width] = data.draw(st.binary(max_size=4))
    path.write_bytes(raw)
    forced = data.draw(st.sampled_from((None, {"gz": "csv"}.get(kind, kind))))
    try:
        corpus = load_corpus(path, VOCABULARY, forced)
    except ValueError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert corpus.counts.shape[1] == len(VOCABULARY)
        assert corpus.counts.nnz == 0 or corpus.counts.data.min() > 0
