"""Check the IDX reader: round trips and broken files."""

import gzip
import struct

import numpy as np
import pytest

from vips_fast.data import binarize, read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def as_idx(array):
    array = np.asarray(array)
    code = CODES[array.dtype.newbyteorder("=").str[1:]]
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype", list(CODES))
def test_round_trip(tmp_path, dtype):
    for shape in [(5,), (3, 4), (2, 3, 4), (0, 7)]:
        array = (np.arange(np.prod(shape)).reshape(shape) * 3).astype(dtype)
        for content in (as_idx(array), gzip.compress(as_idx(array))):
            (tmp_path / "file").write_bytes(content)
            back = read_idx(tmp_path / "file")
            assert back.dtype == array.dtype and back.dtype.isnative
            np.testing.assert_array_equal(back, array)


def test_broken_files_are_refused(tmp_path):
    good = as_idx(np.arange(12, dtype=np.uint8).reshape(3, 4))
    zipped = gzip.compress(good)
    cases = [
        (b"", "not an IDX"),
        (good[:3], "not an IDX"),
        (b"\1" + good[1:], "not an IDX"),
        (b"\0\0\7" + good[3:], "not an IDX"),
        (b"\0\0\10\0", "header is incomplete"),
        (good[:9], "header is incomplete"),
        (b"\0\0\10\2" + b"\xff" * 8 + good[12:], "expected fewer of a file of this size"),
        (good[:-1], "has 11 bytes of elements; its header says 12"),
        (good + b"\0", "has more bytes of elements; its header says 12"),
        (zipped[:-9], "gzip"),
        (zipped[:20] + b"x" + zipped[21:], "gzip"),
    ]
    for content, word in cases:
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ValueError, match=word):
            read_idx(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "absent")


def test_binarize():
    images = np.array([[[0, 1], [127, 128]], [[255, 0], [0, 2]]], dtype=np.uint8)
    assert binarize(images).tolist() == [[0, 1, 1, 1], [1, 0, 0, 1]]
    assert binarize(images, 128).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    assert binarize(images).dtype == np.uint8
    with pytest.raises(ValueError, match="NaN"):
        binarize([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="shape"):
        binarize([1, 2])
