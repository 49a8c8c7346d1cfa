"""The reader and the writer of .npz files. Arrays come out as they went in, and damage is refused."""

import io
import random
import struct
import warnings
import zipfile

import numpy as np
import pytest
from scipy import sparse

from vips_fast.store.npz import read_npz, write_npz

ARRAYS = {
    "bits": np.array([True, False, True]),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty": np.empty((0, 3), np.float32),
    "foreign": np.arange(5, dtype=">i4"),
    "number": np.array(2**63, np.uint64),
    "text": np.array(["red", "green"]),
}
SAVERS = {"own": lambda file, **arrays: write_npz(file, arrays), "stored": np.savez, "deflated": np.savez_compressed}


def saved(path, arrays=ARRAYS, save="own"):
    with open(path, "wb") as file:
        SAVERS[save](file, **arrays)
    return path


def archive(path, members, method=zipfile.ZIP_STORED):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as file:
        warnings.simplefilter("ignore")  # about names that occur twice
        for name, content in members:
            file.writestr(name, content)
    return path


def npy(head, values=b"", version=b"\1\0"):
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(head))
    return b"\x93NUMPY" + version + size + head.encode("latin-1") + values


def same(got, expected=ARRAYS):
    return list(got) == list(expected) and all(
        got[name].dtype == array.dtype.newbyteorder("=")
        and got[name].shape == array.shape
        and np.array_equal(got[name], array)
        for name, array in expected.items()
    )


@pytest.mark.parametrize("save", SAVERS)
def test_round_trip(tmp_path, save):
    got = read_npz(saved(tmp_path / "a.npz", save=save))
    assert same(got)
    for array in got.values():
        assert array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative and array.flags.writeable


def test_only_wanted_arrays_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(3), objects=np.array([None]), large=np.zeros(1000))
    got = read_npz(tmp_path / "a.npz", names=("a", "absent"), max_bytes=1000)
    assert list(got) == ["a"] and got["a"].tolist() == [0, 1, 2]


def test_equal_arrays_give_equal_bytes():
    first, second = io.BytesIO(), io.BytesIO()
    write_npz(first, ARRAYS)
    write_npz(second, {name: np.array(array, order="F")[...] for name, array in reversed(ARRAYS.items())})
    assert first.getvalue() == second.getvalue()
    first.seek(0)
    with np.load(first) as loaded:
        assert same({name: loaded[name] for name in loaded.files})


def test_write_refuses(tmp_path):
    for name, array, message in [
        ("a/b", 1, "array name 'a/b'"),
        ("", 1, "array name ''"),
        ("a", np.array([None]), "dtype object"),
        ("a", np.zeros(2, "i4,f8"), "dtype"),
    ]:
        with pytest.raises(ValueError, match=message):
            write_npz(tmp_path / "a.npz", {name: array})
        assert not (tmp_path / "a.npz").exists()


HEAD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"
EIGHT = np.arange(2.0).tobytes()
REFUSED = {
    "pickled objects": (npy(HEAD.replace("<f8", "|O"), EIGHT), "Python objects.*pickled arrays are refused"),
    "fields": (npy(HEAD.replace("'<f8'", "[('a', '<f8')]"), EIGHT), "has fields"),
    "raw bytes": (npy(HEAD.replace("<f8", "|V8"), EIGHT), "dtype"),
    "items of no size": (npy(HEAD.replace("<f8", "<U0")), "dtype"),
    "too many values": (npy(HEAD, EIGHT + b"x"), "takes 17 bytes; expected 16 by its shape and dtype"),
    "too few values": (npy(HEAD.replace("(2,)", "(9**9, 2)".replace("9**9", "387420489")), EIGHT), "takes 16 bytes"),
    "a negative size": (npy(HEAD.replace("(2,)", "(-2, -1)"), EIGHT), "no valid shape"),
    "a size that is no integer": (npy(HEAD.replace("(2,)", "(2.0,)"), EIGHT), "no valid shape"),
    "a shape that is no tuple": (npy(HEAD.replace("(2,)", "2"), EIGHT), "no valid shape"),
    "too many dimensions": (npy(HEAD.replace("(2,)", str((1,) * 65)), EIGHT), "no valid shape"),
    "a missing key": (npy(HEAD.replace("shape", "shapes"), EIGHT), "damaged"),
    "an unknown type": (npy(HEAD.replace("<f8", "<q9"), EIGHT), "damaged"),
    "code": (npy(HEAD.replace("(2,)", "(print(7351),)"), EIGHT), "damaged"),
    "no syntax": (npy(HEAD[:-1], EIGHT), "damaged"),
    "nested brackets": (npy("(" * 9000, EIGHT), "damaged"),
    "a long head": (npy(HEAD + " " * 20_000, EIGHT), "head of an unknown form"),
    "another version": (npy(HEAD, EIGHT, b"\x09\0"), "head of an unknown form"),
    "no magic": (HEAD.encode(), "damaged"),
    "a strange truth": (npy(HEAD.replace("<f8", "|b1"), b"\1\2"), "neither true nor false"),
    "a strange character": (npy(HEAD.replace("<f8", "<U1"), b"\xff" * 8), "outside Unicode"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_an_array_with(case, tmp_path, capfd):
    content, message = REFUSED[case]
    path = archive(tmp_path / "a.npz", [("a.npy", content)])
    with pytest.raises(ValueError, match=message) as caught:
        read_npz(path)
    assert str(caught.value).startswith(f"{path}: ") and "7351" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_newer_heads_are_read(tmp_path):
    for version in (b"\2\0", b"\3\0"):
        path = archive(tmp_path / "a.npz", [("a.npy", npy(HEAD, EIGHT, version))])
        assert read_npz(path)["a"].tolist() == [0.0, 1.0]


def test_refuses_an_archive(tmp_path):
    good = npy(HEAD, EIGHT)
    path, encrypted = tmp_path / "a.npz", archive(tmp_path / "encrypted.npz", [("a.npy", good)])
    raw = bytearray(encrypted.read_bytes())
    raw[raw.index(b"PK\1\2") + 8] |= 1
    encrypted.write_bytes(raw)
    for made, error, message in [
        (lambda: archive(path, [("a.npy", good), ("a.npy", good)]), ValueError, "holds the array 'a' twice"),
        (lambda: archive(path, [("a.txt", b"text")]), ValueError, "'a.txt', which is not an array"),
        (lambda: archive(path, [("a.npy", good)], zipfile.ZIP_BZIP2), ValueError, "another method than deflate"),
        (lambda: archive(path, [("a.npy", good)], zipfile.ZIP_LZMA), ValueError, "another method than deflate"),
        (lambda: encrypted, ValueError, "encrypted"),
        (lambda: tmp_path / "absent.npz", FileNotFoundError, "absent"),
        (lambda: tmp_path, IsADirectoryError, str(tmp_path)),
    ]:
        with pytest.raises(error, match=message):
            read_npz(made())


def test_an_expanding_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.npz", {"a": np.zeros(10**6)}, "deflated")
    limit = 100 * path.stat().st_size
    monkeypatch.setattr("vips_fast.store.limits._SMALL", 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", None)
        with pytest.raises(ValueError, match=f"expands to 8000128 bytes; expected at most {max(1 << 20, limit)}"):
            read_npz(path)
    assert not read_npz(path, max_bytes=1 << 23)["a"].any()
    with pytest.raises(ValueError, match="expected at most 100$"):
        read_npz(saved(path), max_bytes=100)


def test_no_corpus_meets_the_limit(tmp_path, data_dir):
    """Even where every count is 1 and int64. Such an array by itself shrinks to a thousandth."""
    for name in ("train", "train_sections"):
        assert read_npz(data_dir / "wiki" / f"{name}.npz").keys() == {"data", "indices", "indptr", "shape", "format"}
    corpus = sparse.random_array((4000, 5000), density=0.02, format="csr", rng=np.random.default_rng(0))
    corpus.data = np.ones_like(corpus.data)
    sparse.save_npz(tmp_path / "ones.npz", corpus)
    size = sum(array.nbytes for array in (corpus.data, corpus.indices, corpus.indptr))
    assert size < 10 * (tmp_path / "ones.npz").stat().st_size


def test_out_of_memory_is_said_as_such(tmp_path, monkeypatch):
    path = archive(tmp_path / "a.npz", [("a.npy", npy(HEAD, EIGHT))])

    def refuse(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(np, "empty", refuse)
        with pytest.raises(MemoryError, match=f"a.npz: its arrays need {len(npy(HEAD, EIGHT))} bytes"):
            read_npz(path)
    monkeypatch.setattr("os.sysconf", lambda name: 5)
    with pytest.raises(MemoryError, match="its arrays need"):
        read_npz(path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("save", ("own", "deflated"))
def test_damage_gives_an_error_or_the_same_arrays(tmp_path, save):
    path = saved(tmp_path / "a.npz", save=save)
    raw, rng = path.read_bytes(), random.Random(0)
    damaged = [raw[:size] for size in range(0, len(raw), 3)]
    for _ in range(700):
        at = rng.randrange(len(raw))
        damaged.append(raw[:at] + bytes([raw[at] ^ rng.randrange(1, 256)]) + raw[at + 1 :])
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            got = read_npz(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            refused += 1
        else:
            # Times and permissions of members may change without a trace.
            assert same(got)
    assert refused > len(raw) // 3 + 350
