"""Files of word vectors."""

import gzip

import numpy as np
import pytest

from vips_fast.data import load_word_vectors


@pytest.mark.parametrize(
    "text, want",
    [
        ("3 2\nthe 1 2\ncat .5 -1e-3 \ndog 4 5\n", [[0.5, -1e-3], [np.nan] * 2, [4, 5]]),  # word2vec, fastText
        ("the 1 2\ncat 1 0\ncat 7 7\nthe lot 3 4\n", [[1, 0], [np.nan] * 2, [np.nan] * 2]),  # GloVe; the first counts
        ("a 1\n\ndog 2", [[np.nan], [np.nan], [2]]),
        ("un 1 2\n", [[np.nan] * 2] * 3),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_vectors(tmp_path, text, want, packed):
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    np.testing.assert_array_equal(load_word_vectors(path, ["cat", "x", "dog"]), np.float32(want))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("cat\n", "line 1: expected a word and 1 finite numbers"),
        ("a 1 2\ncat 1\n", "line 2: expected a word and 2 finite numbers"),
        ("a 1 2\n\ncat 1 nan\n", "line 3: expected a word and 2 finite"),
        ("2 2\ncat 1 b\n", "line 2: expected"),
    ],
)
def test_files_that_hold_no_vectors(tmp_path, text, message):
    path = tmp_path / "vectors"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_word_vectors(path, ["cat"])
