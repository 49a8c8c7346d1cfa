"""Readers: round trips, real files, broken files."""

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
from scipy.io import mmwrite

from vips_fast.data import _files, column_names, load_corpus, load_vocabulary
from vips_fast.data.readers import docword_pieces

read_docword, read_ldac, read_sparse = (partial(load_corpus, format=name) for name in ("docword", "ldac", "npz"))

VOCABULARY = ("alpha", "beta", "gamma", "delta")
DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 70000]])


def as_docword(dense):
    rows, columns = np.nonzero(dense)
    lines = [*dense.shape, rows.size]
    lines += [f"{d + 1} {w + 1} {dense[d, w]}" for d, w in zip(rows, columns, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def as_ldac(dense):
    lines = []
    for row in dense:
        words = np.flatnonzero(row)
        lines.append(" ".join([str(words.size), *(f"{w}:{row[w]}" for w in words)]))
    return "".join(f"{line}\n" for line in lines)


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


# Round trips

SMALL_MATRICES = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from((0, 0, 1, 2, 10**8, 10**9)), min_size=width, max_size=width), min_size=1, max_size=6
    )
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(SMALL_MATRICES, st.booleans(), st.sampled_from(("\n", "\r\n")))
def test_text_formats_round_trip(tmp_path, rows, zipped, newline):
    dense = np.array(rows, np.int64)
    for name, content in (("docword", as_docword(dense)), ("ldac", as_ldac(dense))):
        raw = content.replace("\n", newline).encode()
        path = written(tmp_path / name, gzip.compress(raw, mtime=0) if zipped else raw)
        corpus = load_corpus(path, format=name, n_features=dense.shape[1])
        assert np.array_equal(corpus.counts.toarray(), dense)


@pytest.mark.parametrize("size", (1, 5, 17, 64))
def test_block_boundaries_change_nothing(tmp_path, monkeypatch, size):
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (40, 30)) * rng.integers(1, 12345, (40, 30))
    real = _files.blocks
    monkeypatch.setattr("vips_fast.data.readers.blocks", lambda file, n=size: real(file, n))
    docword = written(tmp_path / "docword", as_docword(dense).rstrip("\n"))
    ldac = written(tmp_path / "ldac", as_ldac(dense).rstrip("\n"))
    assert np.array_equal(read_docword(docword).counts.toarray(), dense)
    pieces = list(docword_pieces(docword))
    assert np.array_equal(np.concatenate([piece.toarray() for piece in pieces]), dense)
    assert len(pieces) > 1 or size > 1000
    assert np.array_equal(read_ldac(ldac, n_features=30).counts.toarray(), dense)
    with pytest.raises(ValueError, match="line 21: "):
        lines = as_docword(dense).split("\n")
        lines[20] = "3 4"
        read_docword(written(tmp_path / "docword", "\n".join(lines)))


def test_pieces_of_a_docword_file_come_in_order(tmp_path):
    header, entries = "4\n3\n4\n", ["2 1 5", "2 3 1", "3 1 7", "3 2 2"]
    path = written(tmp_path / "d.txt", header + "\n".join(entries) + "\n")
    pieces = [piece.toarray() for piece in docword_pieces(path)]
    assert np.concatenate(pieces).tolist() == [[0, 0, 0], [5, 0, 1], [7, 2, 0], [0, 0, 0]]
    (piece,) = docword_pieces(written(tmp_path / "e.txt", "3\n2\n0\n"))
    assert piece.shape == (3, 2) and piece.nnz == 0
    for order in ((2, 3, 0, 1), (0, 2, 1, 3)):
        path = written(tmp_path / "d.txt", header + "\n".join(entries[k] for k in order) + "\n")
        with pytest.raises(ValueError, match="d.txt: its lines are not in the order of the documents"):
            list(docword_pieces(path))
        assert read_docword(path).counts.sum() == 15


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
    arrays = dict(data=X.data, indices=X.indices, indptr=X.indptr, shape=np.array(X.shape))
    arrays.update(change)
    return {name: np.asarray(array) for name, array in arrays.items() if array is not None}


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(indptr=None), "has no array named 'indptr'"),
        (dict(shape=[3]), "'shape' is not a pair"),
        (dict(shape=[3.0, 4.0]), "'shape' is not a pair"),
        (dict(shape=[-3, 4]), "'shape' is not a pair"),
        (dict(shape=[2**40, 4]), "2\\*\\*31 or more"),
        (dict(shape=[5, 4]), "'indptr' and 'shape' do not fit together"),
        (dict(shape=[3, 2]), "index out of range; expected 0 to 1"),
        (dict(indptr=[0, 3, 2, 4]), "indptr falls"),
        (dict(indptr=[0, 2, 2, 9]), "do not fit together"),
        (dict(indptr=[1, 2, 2, 4]), "indptr does not start at 0"),
        (dict(indices=[0.0, 1.0, 2.0, 3.0]), "'indices' is not"),
        (dict(data=[[1, 2], [3, 4]]), "'data' is not"),
        (dict(data=["a", "b", "c", "d"]), "'data' is not"),
        (dict(data=[1, 2, 3, -7351]), "contains a negative count"),
        (dict(data=[1, 2, 3, 7351.5]), "contains a fractional count"),
        (dict(data=[1, 2, 3, np.nan]), "contains NaN"),
        (dict(format=b"bsr"), "holds no CSR, CSC or COO"),
        (dict(data=np.array([1, 2, 3, None], object)), "pickled arrays are refused"),
    ],
)
def test_broken_npz(tmp_path, change, message):
    np.savez(tmp_path / "c.npz", **parts(**change))
    with pytest.raises(ValueError, match=message) as caught:
        read_sparse(tmp_path / "c.npz")
    assert str(caught.value).startswith(f"{tmp_path / 'c.npz'}: ")
    assert "7351" not in str(caught.value)


# Broken text files

GOOD_DOCWORD = "2\n3\n2\n1 1 5\n2 3 1\n"


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "ends inside its header"),
        ("2\n3\n", "ends inside its header"),
        ("2 3 2\n1 1 5\n", "fewer entries than its header"),
        ("2 3\n2\n1 1 5\n", "line 1: expected one number"),
        ("2 3 2\n1 4 5\n2 1 1\n", "line 2: a word number that is not from 1"),
        ("2\n\n3\n2\n", "line 2: expected one number"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1"), "line 4: expected three numbers"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 5 7351"), "line 4: expected three numbers"),
        (GOOD_DOCWORD + "1\n", "line 6: expected three numbers"),
        (GOOD_DOCWORD + "2 2 2\n", "more entries than its header"),
        ("2\n3\n2\n1 1 5\n", "fewer entries than its header"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 -7351"), "line 4: expected non-negative integers"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 7351.5"), "line 4: expected non-negative"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 nan"), "line 4: expected non-negative"),
        (
            GOOD_DOCWORD.replace("1 1 5", "0 1 5"),
            "line 4: a document number that is not from 1 to what the header says",
        ),
        (
            GOOD_DOCWORD.replace("1 1 5", "3 1 5"),
            "line 4: a document number that is not from 1 to what the header says",
        ),
        (GOOD_DOCWORD.replace("1 1 5", "1 4 5"), "line 4: a word number that is not from 1 to what the header says"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 " + "7351" * 5), "line 4: .* more than 18 digits"),
        (GOOD_DOCWORD.replace("1 1 5", "1 1 9" + "7351" * 4), "a count of 2"),
        ("9999999999999\n3\n0\n", "line 1: more than .* documents"),
        ("2\n9999999999999\n0\n", "line 2: more than 2"),
        ("0\n3\n0\n", "0 sample"),
        (gzip.compress(GOOD_DOCWORD.encode(), mtime=0)[:-6], "gzip data are broken"),
        (gzip.compress(GOOD_DOCWORD.encode(), mtime=0)[:12] + b"xxxxxxxxxxxxx", "gzip data are broken"),
    ],
)
def test_broken_docword(tmp_path, content, message):
    path = written(tmp_path / "d.txt", content)
    if message not in ("0 sample", "a count of 2"):  # the counts are checked later
        with pytest.raises(ValueError, match=message):
            list(docword_pieces(path))
    with pytest.raises(ValueError, match=message) as caught:
        read_docword(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert "7351" not in str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "0 sample"),
        ("2 0:1 1:1\n1 2\n", "line 2: expected N word:count"),
        ("2 0:1\n", "line 1: expected N word:count"),
        ("1 0:1 1:1\n", "line 1: expected N word:count"),
        ("1 0 :1\n", "line 1: expected N word:count"),
        ("1 0: 1\n", "line 1: expected N word:count"),
        ("1 0::1\n", "line 1: expected N word:count"),
        ("1: 0:1\n", "line 1: expected N word:count"),
        ("1 0:1:\n", "line 1: expected N word:count"),
        ("1:0:1\n", "line 1: expected N word:count"),
        ("1 0:1\n\n1 0:1\n", "line 2: blank"),
        ("1 0:1\n1 0:-7351\n", "line 2: expected N word:count"),
        ("1 9:1\n", "word number above 3, the last of 4"),
        ("99999999999999 0:1\n", "line 1: expected N word:count"),
    ],
)
def test_broken_ldac(tmp_path, content, message):
    path = written(tmp_path / "d.dat", content)
    with pytest.raises(ValueError, match=message) as caught:
        read_ldac(path, VOCABULARY)
    assert "\n" not in str(caught.value)
    assert "7351" not in str(caught.value).removeprefix(str(path))


# Other formats and compressions


def as_svmlight(dense, first):
    return "".join(
        f"{label - 1} " + " ".join(f"{w + first}:{float(row[w])}" for w in np.flatnonzero(row)) + f" # {label}\n"
        for label, row in enumerate(dense)
    )


def as_market(dense):
    file = io.BytesIO()
    mmwrite(file, sparse.coo_array(dense))
    return file.getvalue().decode()


def docword_of_one_header_line(dense):
    lines = as_docword(dense).split("\n")
    return "\n".join([" ".join(lines[:3]), *lines[3:]])


#: Contents of one matrix, the format to give, and whether its contents tell it.
FORMATS = {
    "docword": (as_docword, True),
    "docword, one line of header": (docword_of_one_header_line, True),
    "ldac": (as_ldac, True),
    "mtx": (as_market, True),
    "svmlight": (lambda dense: as_svmlight(dense, 1), False),
    "svmlight0": (lambda dense: as_svmlight(dense, 0), False),
}
COMPRESSED = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("pack", COMPRESSED.values(), ids=COMPRESSED)
@pytest.mark.parametrize("newline", ("\n", "\r\n", "\r"), ids=("lf", "crlf", "cr"))
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_in_every_packing_is_the_same_matrix(tmp_path, name, newline, pack):
    write, told = FORMATS[name]
    raw = write(DENSE).replace("\n", newline).encode()
    if name == "mtx" and newline == "\r":
        return  # scipy's reader knows no such lines
    path = written(tmp_path / "data", pack(raw))
    corpus = load_corpus(path, VOCABULARY, None if told else name)
    assert np.array_equal(corpus.counts.toarray(), DENSE) and corpus.vocabulary == VOCABULARY
    if not told:
        with pytest.raises(ValueError, match="data: looks like svmlight; give format='svmlight', .* or 'svmlight0'"):
            load_corpus(path, VOCABULARY)


@pytest.mark.parametrize("pack", (bz2.compress, lzma.compress, gzip.compress))
def test_several_streams_are_one_file_and_a_cut_one_is_refused(tmp_path, pack):
    half = as_ldac(DENSE).encode()
    path = written(tmp_path / "data", pack(half) + pack(half))
    assert np.array_equal(read_ldac(path, n_features=4).counts.toarray(), np.concatenate([DENSE, DENSE]))
    for cut in (pack(half)[:-9], pack(half) + b"7351"):
        with pytest.raises(ValueError, match="data are broken or cut off") as caught:
            read_ldac(written(tmp_path / "data", cut), n_features=4)
        assert "7351" not in str(caught.value)


def test_a_decompressor_takes_no_more_memory_than_a_limit(tmp_path, monkeypatch):
    path = written(tmp_path / "data", lzma.compress(as_ldac(DENSE).encode(), preset=9))
    assert len(read_ldac(path, n_features=4)) == 3
    monkeypatch.setattr(_files, "_MOST_MEMORY", 1 << 20)
    with pytest.raises(ValueError, match="xz data are .*too much memory"):
        read_ldac(path, n_features=4)


HEAD = "%%MatrixMarket matrix coordinate integer general\n"


@pytest.mark.parametrize(
    "content, message",
    [
        (HEAD + "3 4 900000000000\n1 1 5\n", "fewer entries than its header says"),
        (HEAD + "2000000000 4 1\n1 1 5\n", "fewer entries than its header says"),
        ("%%MatrixMarket matrix array real general\n1000000 1000000\n1\n", "fewer entries than its header says"),
        (HEAD + "3 4 1\n1 1 zq7351\n", "line 3: not a whole MatrixMarket file"),
        (HEAD + "3 4 1\n4 1 1\n", "line 3: not a whole MatrixMarket file"),
        *((HEAD + f"3 4 2\n1 1 1\n2 1 {count}\n", "line 4: not a whole Mat") for count in ("2e3", "1.5", "1,5", "0x9")),
        *(
            (HEAD.replace("integer", field) + f"3 4 2\n1 1 1\n2 1 {count}\n", "line 4: not a whole Mat")
            for field, count in (("unsigned-integer", "2e3"), ("real", "2,5"), ("real", "2D3"), ("double", "0x9"))
        ),
        (HEAD + "zq7351\n", "not a MatrixMarket file"),
        (HEAD + "3 4 1\n1 1 -5\n", "negative count"),
        ("%%MatrixMarket zq7351\n1 1 1\n1 1 1\n", "not a whole MatrixMarket file"),
        # Of these scipy takes one entry a line, whatever is behind it, and read on beyond the file's memory.
        (HEAD + "3 4 2\n1 1 5\n\n1 2 5 7351\n", "line 5: not a whole MatrixMarket file"),
        (HEAD + "1 2 1\n1 1 5 7", "line 3: not a whole MatrixMarket file"),
        (HEAD + "1 2 1\n1 1", "line 3: not a whole MatrixMarket file"),
        (HEAD + "3 4 1\n% a remark\n1 1 5\n", "line 3: not a whole MatrixMarket file"),
        (HEAD.replace("integer", "real") + "3 4 2\n1 1 5\n1 2 5.0 zq7351\n", "line 4: not a whole Mat"),
        *(
            (f"%%MatrixMarket matrix coordinate pattern general\n1 2 1\n{entry}", "line 3: not a whole MatrixMarket")
            for entry in ("1 2 7", "1 2.5")
        ),
        ("%%MatrixMarket matrix array integer general\n1 2\n5 7\n6 7", "line 3: not a whole MatrixMarket"),
        # These ended the process, with a signal, inside scipy.
        (HEAD.replace("integer", "real") + "% \0\n3 4 1\n1 1 5\n", "holds a zero byte"),
        (HEAD.replace("integer", "real") + "3 4 1\n1 1 5\0\n", "line 3: not a whole MatrixMarket file"),
        (HEAD + "3 4 1\n1 1 5\0\n", "line 3: not a whole MatrixMarket file"),
        ("%%MatrixMarket matrix array integer general\n0 1", "of 1 to 2\\*\\*31 - 1 rows and columns"),
    ],
)
def test_broken_market_matrix(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_corpus(written(tmp_path / "data", content))
    assert "zq7351" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content, counts",
    [
        (HEAD + "1 2 1\n1 1 5", [[5, 0]]),
        ("%%MatrixMarket matrix coordinate pattern general\n% remarks\n\n1 2 1\n1 2", [[0, 1]]),
        ("%%MatrixMarket matrix array integer general\n1 2\n5\n\n 6 ", [[5, 6]]),
    ],
)
def test_a_last_line_of_a_market_matrix_ends_with_the_file(tmp_path, content, counts):
    for end in ("", "\n", " \r\n\n"):
        assert load_corpus(written(tmp_path / "data", content + end)).counts.toarray().tolist() == counts


@pytest.mark.parametrize("line", ("zq7351 1:2", "1 2", "1 x:2", "1 2:x", "1 0:2", "1 5:2", "1 1:2 :", "1 1:-3"))
def test_a_broken_line_of_svmlight_is_refused_or_an_empty_document(tmp_path, line):
    path = written(tmp_path / "data", f"1 1:1 # first\n{line}\n# a remark\n+1 qid:3 4:2\n")
    with pytest.raises(ValueError, match="line 2: |negative count") as caught:
        load_corpus(path, VOCABULARY, "svmlight")
    assert "zq7351" not in str(caught.value)
    dropped = load_corpus(path, VOCABULARY, "svmlight", invalid="drop").counts.toarray()
    assert dropped.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]]


@pytest.mark.parametrize(
    "head, message",
    [
        (b"PK\x03\x04", "a zip archive; unpack it"),
        (b"%PDF-1.4", "a PDF file; save its text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office file"),
        (b"RDX3\n", "an R workspace; export the table with write.csv"),
        (gzip.compress(b"RDX3\n" + b"\0" * 99, mtime=0), "an R workspace; export the table with write.csv"),
        (gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 99, mtime=0), "a tar archive; unpack it"),
        (b"\x80\x04\x95" + b"\0" * 9, "a pickle, which may run code"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 9, "looks like zstd, .*unzstd|zstd data are broken"),
    ],
)
def test_a_file_of_another_kind_is_named_with_the_remedy(tmp_path, head, message):
    path = written(tmp_path / "data", head)
    for read in (lambda: load_corpus(path, VOCABULARY, text="note"), lambda: column_names(path)):
        with pytest.raises(ValueError, match=message):
            read()


# load_corpus


@pytest.mark.parametrize(
    "content, n_documents", [(as_docword(DENSE), 3), (as_ldac(DENSE), 3), ("0\n0\n0\n1 2:1\n", 4), ("2\n3\n0\n", 2)]
)
def test_the_format_is_told_from_the_contents(tmp_path, content, n_documents):
    for raw in (content.encode(), gzip.compress(content.encode(), mtime=0)):
        path = written(tmp_path / "data", raw)
        n_features = 3 if content.startswith("2\n3") else 4
        assert len(load_corpus(path, n_features=n_features)) == n_documents


@given(st.lists(st.text("ab", max_size=3)), st.sampled_from(("\n", "\r\n", "\r")), st.integers(1, 5), st.booleans())
def test_where_pieces_end_changes_no_line(lines, newline, size, of_bytes):
    """Lines of old Macs get LF. A line beyond the limit is refused with its number, or replaced."""
    coded = str.encode if of_bytes else str
    text, end = newline.join(lines), coded("\n")
    expected = coded(text.replace("\r", "\n") if newline == "\r" else text)
    pieces = [coded(text[at : at + size]) for at in range(0, len(text), size)]
    found = list(_files.whole_lines(pieces, 100))
    assert end[:0].join(found) == expected and all(block.endswith(end) for block in found[:-1])
    long = [*pieces, coded(newline), *[coded("a")] * 101, coded(newline)]
    with pytest.raises(ValueError, match=f"^line {expected.count(end) + 2}: more than 100 (bytes|characters)$"):
        list(_files.whole_lines(long, 100))
    assert end[:0].join(_files.whole_lines(long, 100, coded("!"))).split()[-1:] == [coded("!")]


def test_load_corpus_refuses(tmp_path):
    path = written(tmp_path / "data", as_docword(DENSE))
    for error, match, *arguments in [
        (ValueError, "format='dsv': expected one of 'npz'", path, None, "dsv"),
        (ValueError, "has 4 words, but the vocabulary has 3", path, ("a", "b", "c")),
        (ValueError, f"^{tmp_path / 'none.txt'}: is empty", path, written(tmp_path / "none.txt", "")),
        (TypeError, "vocabulary must hold strings", path, (1, 2, 3, 4)),
        (FileNotFoundError, "absent", tmp_path / "absent"),
    ]:
        with pytest.raises(error, match=match):
            load_corpus(*arguments)
    with pytest.raises(ValueError, match="has 4 words; expected 5"):
        load_corpus(path, n_features=5)


def test_documents_with_invalid_values_are_dropped(tmp_path):
    np.savez(tmp_path / "c.npz", **parts(data=[1, -2, 3.5, 4]))
    docword = written(tmp_path / "c.txt", GOOD_DOCWORD.replace("1 1 5", f"1 1 {2**53}"))
    ldac = written(tmp_path / "c.ldac", f"1 0:{2**53}\n1 3:1\n")
    jsonl = written(tmp_path / "c.jsonl", '{"text": 7351}\n[]\n{"text": "beta"}\n')
    for path, expected in (
        (tmp_path / "c.npz", np.zeros((3, 4))),
        (docword, [[0, 0, 0], [0, 0, 1]]),
        (ldac, [[0, 0, 0, 0], [0, 0, 0, 1]]),
        (jsonl, [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]),
    ):
        vocabulary = VOCABULARY[: len(expected[0])]
        with pytest.raises(ValueError, match=path.name):
            load_corpus(path, vocabulary)
        assert np.array_equal(load_corpus(path, vocabulary, invalid="drop").counts.toarray(), expected)
    with pytest.raises(ValueError, match="invalid='skip'"):
        load_corpus(jsonl, VOCABULARY, invalid="skip")


DOCUMENTS = "3\n3\n4\n1 1 5\n2 3 1\n3 2 2\n3 3 4\n"
#: Broken lines of the second document, or of none.
BAD_LINES = [b"2 3 -7351", b"2 3", b"2 3 1 7351", b"2 4 1", b"2 0 1", b"2 3 1.5", b"2 3 \xff", b"2 3 " + b"9" * 19]


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("line", [*BAD_LINES, b"0 3 1", b"4 3 1", b"x", b""])
def test_a_broken_line_takes_its_own_document_only(tmp_path, monkeypatch, line, size):
    real = _files.blocks
    monkeypatch.setattr("vips_fast.data.readers.blocks", lambda file: real(file, size))
    path = written(tmp_path / "d.txt", DOCUMENTS.encode().replace(b"2 3 1", line))
    expected = [[5, 0, 0], [0, 0, 0], [0, 2, 4]]
    with pytest.raises(ValueError):
        read_docword(path)
    assert read_docword(path, invalid="drop").counts.toarray().tolist() == expected
    # Another line of the document does not save it; a line of another place changes nothing.
    path = written(path, path.read_bytes() + b"2 1 1\n")
    second = [0, 0, 0] if line in BAD_LINES else [1, 0, 0]
    assert read_docword(path, invalid="drop").counts.toarray().tolist() == [expected[0], second, expected[2]]


def test_a_broken_header_is_refused_in_any_case(tmp_path):
    for header in ("3\nx\n3\n", "3 3\n3\n", "3\n3\n"):
        with pytest.raises(ValueError, match="line|header"):
            read_docword(written(tmp_path / "d.txt", header), invalid="drop")


@pytest.mark.parametrize("name", ("c.txt", "c.ldac", "vocab"))
def test_out_of_memory_is_said_as_such(tmp_path, monkeypatch, name):
    real = _files.blocks

    def refuse(file, size=None):
        if size:  # a look at the format
            return real(file, size)
        raise MemoryError("Unable to allocate 9 GiB")

    for module in ("readers", "vocabulary"):
        monkeypatch.setattr(f"vips_fast.data.{module}.blocks", refuse)
    contents = {"c.txt": GOOD_DOCWORD, "c.ldac": "1 0:1\n", "vocab": "a\n"}
    path = written(tmp_path / name, contents[name])
    with pytest.raises(MemoryError, match=f"{name}: not enough memory to read it. Unable to allocate 9 GiB"):
        load_vocabulary(path) if name == "vocab" else load_corpus(path, VOCABULARY)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_files_give_one_line_or_a_corpus(tmp_path, data):
    """Bytes changed, cut or put in: never another error, never a crash."""
    kind = data.draw(st.sampled_from(("npz", "docword", "ldac", "jsonl", "csv", "gz")))
    path = tmp_path / "damaged"
    if kind == "npz":
        with open(path, "wb") as file:
            np.savez(file, **parts())
    else:
        content = {
            "ldac": as_ldac(DENSE),
            "jsonl": '{"text": "alpha beta"}\n' * 2,
            "csv": 'text,n\n"alpha ""beta""",1\nx,2\n',
        }
        raw = content.get(kind, as_docword(DENSE)).encode()
        path.write_bytes(gzip.compress(raw, mtime=0) if kind == "gz" else raw)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        change = data.draw(st.sampled_from(("set", "cut", "insert")))
        if change == "set":
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del raw[at : at + data.draw(st.integers(1, 40))]
        else:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        if not raw:
            break
    path.write_bytes(raw)
    forced = data.draw(st.sampled_from((None, {"gz": "docword"}.get(kind, kind))))
    try:
        corpus = load_corpus(path, VOCABULARY, forced)
    except ValueError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
    else:
        assert corpus.counts.shape[1] == len(VOCABULARY)
        assert corpus.counts.nnz == 0 or corpus.counts.data.min() > 0


# Real files; the figures come from the data sets' own description.
