"""Writing a corpus as shards (`vips_fast.data.shards` has their form).

The folder appears whole, when all is on the disk, or not at all. Persons' rows are brought together, and units into
bins, by way of a first set of shards within the folder, which is removed.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from ..checks import check_choice, check_number
from ..store.atomic import replacing_folder, sync_folder, write_file
from .arrays import INT32_MAX, Parts, check_invalid, rows_of
from .counts import documents, without
from .groups import Numbering
from .rows import binary_records, finite_records
from .shards import FORMAT, KINDS, MANIFEST, PIECE, VOCABULARY, ShardedCorpus, manifest_digest

NOTE = "This file holds numbers of private records, as the shards do: keep it where the data are."


class Batch(NamedTuple):
    """Some rows on their way into shards.

    They are a sparse matrix or array (n, n_features). There may be n labels, numbers or strings, and n labels of
    persons (`vips_fast.data.groups.canonical_label`).
    """

    rows: Any
    labels: Any = None
    persons: Any = None


def draw_bins(n_units: int, n_bins: int) -> np.ndarray:
    """Draw each unit's bin from 0 to n_bins − 1, int64.

    Every unit's bin is uniform and independent of all else, exactly. Let w be uniform on 0 … 2^64 − 1 and
    L = t ⌊2^64 / t⌋. Words w ≥ L are drawn again; given w < L, w is uniform on L numbers. Every residue modulo t has
    ⌊2^64 / t⌋ of them, so w mod t is uniform. Nothing of the unit enters. The accounting of random allocation assumes
    this; the words are not kept.
    """
    limit = np.uint64((2**64 // n_bins * n_bins - 1) % 2**64)
    words = np.empty(n_units, np.uint64)
    open_: np.ndarray = np.arange(n_units)
    while len(open_):
        words[open_] = np.frombuffer(os.urandom(8 * len(open_)), np.uint64)
        open_ = open_[words[open_] > limit]
    return (words % np.uint64(n_bins)).astype(np.int64)


def write_shards(
    path: str | os.PathLike[str],
    batches: Iterable[Batch],
    *,
    kind: str = "counts",
    shard_mb: float = 256,
    bins: int | None = None,
    invalid: str = "raise",
    vocabulary: Iterable[str] | None = None,
    files: Mapping[str, str] | None = None,
) -> ShardedCorpus:
    """Write rows as a folder of shards.

    Parameters
    ----------
    path : path-like
        New folder.
    batches : iterable of Batch
        All with labels or none, and so for persons. One batch is in memory at a time, and about twice a shard.
    kind : {"counts", "numbers", "binary"}
        Counts as `vips_fast.data.counts.documents` checks them; sparse or dense numbers, which have to be finite;
        binary records (`vips_fast.data.rows.binary_records`), which become dense.
    shard_mb : float
        Size of a shard, in MiB, in [0.0001, 4096]; one with a person of more is larger.
    bins : int or None
        Draws a bin for each unit (`draw_bins`), a person or a row. It writes the units bin by bin, so that a bin is one
        stretch of the disk. Within a bin, and without bins, they keep the order of their first appearance.
    invalid : {"raise", "drop"}
        A row with invalid values, or without a person, ends the writing, or stays as one that contributes nothing. Such
        rows without a person are together one more person.
    vocabulary : sequence of str or None
        The public word of each column.
    files : mapping from name to text, or None
        Public files to lie beside the rows, such as ``schema.toml``.

    Raises FileExistsError if there is something at ``path``. Raises ValueError or TypeError if an argument is out of
    its range, or there are no rows. It also does so if batches do not fit each other, or values are invalid.
    """
    check_choice("kind", kind, KINDS)
    check_number("shard_mb", shard_mb, 1e-4, 4096)
    check_invalid(invalid)
    if bins is not None:
        check_number("bins", bins, 1, INT32_MAX, integer=True)
    path, words = Path(path), None if vocabulary is None else tuple(vocabulary)
    if os.path.lexists(path):
        raise FileExistsError(17, "exists; expected a new folder for shards", str(path))
    kept = {**(files or {}), **({} if words is None else {VOCABULARY: "\n".join(words) + "\n"})}
    limit, persons = int(shard_mb * 2**20), _Persons(invalid)
    size = min(PIECE, limit // 4)
    with replacing_folder(path) as folder:
        rows = _rows(batches, kind, invalid, None if words is None else len(words), persons, size)
        first = next(rows, None)
        rows = chain([] if first is None else [first], rows)
        if bins is None and (first is None or "persons" not in first.columns):
            _write(folder, rows, kind, limit, kept)
        else:
            spool = folder / "spool"
            spool.mkdir()
            _write(spool, rows, kind, limit, {})
            corpus = ShardedCorpus(spool, verify=False)
            order, ends, edges = _order(corpus, persons.codes(), bins)
            _write(folder, _ordered(corpus, order, ends, persons.codes(), size), kind, limit, kept, edges)
            shutil.rmtree(spool)
    return ShardedCorpus(path, verify=False)


class _Persons:
    """Persons' numbers by first appearance; 0 is nobody.

    Nobody is there if ``invalid="drop"`` met a row without a person.
    """

    def __init__(self, invalid: str) -> None:
        self._numbering, self._parts = Numbering(invalid, "persons"), list[np.ndarray]()

    def add(self, labels: Any) -> np.ndarray:
        """Assign numbers to some labels, from 1; errors as in `Numbering`."""
        self._parts.append(self._numbering(labels) + 1)
        return self._parts[-1]

    def codes(self) -> np.ndarray | None:
        """Find the numbers of all rows, from 0."""
        if not self._parts:
            return None
        codes = np.concatenate(self._parts)
        codes -= codes.min(initial=1)
        self._parts = [codes]
        return codes


@dataclass(frozen=True)
class _Rows:
    """Checked rows: CSR or dense, and columns beside them.

    CSR is (values, indices, indptr). A column has one entry a row.
    """

    body: Parts | np.ndarray
    columns: dict[str, np.ndarray]
    n_features: int

    def __len__(self) -> int:
        return len(self.body[2]) - 1 if isinstance(self.body, tuple) else len(self.body)

    def part(self, first: int, last: int) -> "_Rows":
        body = rows_of(self.body, np.arange(first, last)) if isinstance(self.body, tuple) else self.body[first:last]
        return _Rows(body, {name: column[first:last] for name, column in self.columns.items()}, self.n_features)

    def small(self) -> "_Rows":
        """Return the same, in the smallest types."""
        body = self.body
        parts = tuple(map(smallest, body if isinstance(body, tuple) else (body,)))
        return replace(self, body=cast(Parts, parts) if isinstance(body, tuple) else parts[0])

    def arrays(self) -> dict[str, np.ndarray]:
        if not isinstance(self.body, tuple):
            return {"values": self.body, **self.columns}
        return {"values": self.body[0], "indices": self.body[1], "indptr": self.body[2], **self.columns}


def _rows(
    batches: Iterable[Batch], kind: str, invalid: str, width: int | None, persons: _Persons, size: int
) -> Iterator[_Rows]:
    """Yield checked batches, in pieces of this size."""
    form: Any = None
    for batch in batches:
        X, labels, whose = batch
        numbers = None if whose is None else persons.add(whose)
        body, columns = _checked(X, kind, invalid, width, numbers)
        n = X.shape[0]
        width = X.shape[1]
        if labels is not None:
            columns["labels"] = np.asarray(labels)
            if columns["labels"].dtype.kind not in "biufU":
                raise TypeError("labels: expected numbers or strings, all of one kind")
        if numbers is not None:
            columns["persons"] = numbers
        for name, column in columns.items():
            if column.shape != (n,):
                raise ValueError(f"{name} has shape {column.shape}: expected ({n},), one for each row of the batch")
        here = isinstance(body, tuple), *sorted(columns.keys() - {"usable"})
        if form not in (None, here):
            raise ValueError("batches: expected all of one form, with labels and persons in all or none")
        form, rows = here, _Rows(body, columns, width)
        step = max(1, n * size // max(sum(array.nbytes for array in rows.arrays().values()), 1))
        for first in range(0, n, step):
            yield rows.part(first, min(first + step, n))


def _checked(
    X: Any, kind: str, invalid: str, width: int | None, persons: np.ndarray | None
) -> tuple[Any, dict[str, np.ndarray]]:
    """Check rows; give their body, and which are usable."""
    usable: np.ndarray | None = None
    if kind == "counts":
        X = documents(X, width, name="rows", invalid=invalid, expected_by="the corpus", least_rows=0)
    elif kind == "binary":
        X, usable = binary_records(X, width, name="rows", invalid=invalid, expected_by="the corpus", least_rows=0)
    else:
        X, usable = finite_records(X, width, invalid)
    body = (X.data, X.indices, X.indptr) if sparse.issparse(X) else X
    if persons is not None and X.shape[:1] == persons.shape and not persons.all():
        known = persons > 0
        if kind == "counts":
            body = without(body, np.flatnonzero(~known))
        else:
            usable = known if usable is None else usable & known
    return body, {} if usable is None else {"usable": usable}


def _order(
    corpus: ShardedCorpus, codes: np.ndarray | None, n_bins: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Order rows; return where each unit ends and each bin begins."""
    n_units = corpus.n_rows if codes is None else int(codes.max(initial=-1)) + 1
    bin_of = np.zeros(n_units, np.int64) if n_bins is None else draw_bins(n_units, n_bins)
    units = np.argsort(bin_of, kind="stable")
    edges = None if n_bins is None else np.concatenate(([0], np.cumsum(np.bincount(bin_of, minlength=n_bins))))
    if codes is None:
        return units, np.arange(1, n_units + 1), edges
    place = np.empty(n_units, np.int64)
    place[units] = np.arange(n_units)
    return np.argsort(place[codes], kind="stable"), np.cumsum(np.bincount(codes)[units]), edges


def _ordered(
    corpus: ShardedCorpus, order: np.ndarray, ends: np.ndarray, codes: np.ndarray | None, size: int
) -> Iterator[_Rows]:
    """Yield the rows in another order, in pieces of whole units."""
    step = max(1, size * corpus.n_rows // max(1, sum(file.stat().st_size for file in corpus.path.rglob("*.npy"))))
    whole = {name: column for name in ("labels", "usable") if (column := getattr(corpus, name)) is not None}
    first = 0
    while first < len(order):
        last = int(ends[np.searchsorted(ends, min(first + step, len(order)))])
        rows = order[first:last]
        columns = {name: column[rows] for name, column in whole.items()}
        if codes is not None:
            columns["persons"] = codes[rows]
        yield _Rows(corpus.take(rows), columns, corpus.n_features)
        first = last


def smallest(array: np.ndarray) -> np.ndarray:
    """Convert numbers to the smallest integer type that holds them."""
    if array.dtype.kind not in "iuf" or not len(array) or not 0 <= array.min() <= array.max() < 2**62:
        return array
    if array.dtype.kind == "f" and (np.signbit(array).any() or (array != np.trunc(array)).any()):
        return array
    top = int(array.max())
    kind = next(t for t in (np.uint8, np.uint16, np.int32, np.uint32, np.int64) if top <= np.iinfo(t).max)
    return array.astype(kind) if np.dtype(kind).itemsize < array.itemsize else array


def _write(
    folder: Path,
    pieces: Iterator[_Rows],
    kind: str,
    limit: int,
    files: Mapping[str, str],
    bins: np.ndarray | None = None,
) -> None:
    """Write shards of whole pieces, and last the manifest."""
    shards: list[dict[str, Any]] = []
    held: list[_Rows] = []
    size, single, width = 0, True, 0
    for piece in pieces:
        width, single = piece.n_features, single and piece.arrays()["values"].dtype == np.float32
        piece = piece.small()
        # About its final size in bytes: the largest number of a shard decides its type.
        stored = sum(array.nbytes for array in piece.arrays().values())
        if held and size + stored > limit:
            shards.append(_shard(folder, len(shards), held))
            held, size = [], 0
        held.append(piece)
        size += stored
    if not held:
        raise ValueError("batches: no rows; expected at least one")
    shards.append(_shard(folder, len(shards), held))
    listed = {name: _put(folder / name, text.encode()) for name, text in files.items()}
    dtype = {"counts": "int32", "binary": "uint8"}.get(kind, "float32" if single else "float64")
    said = {
        "format": FORMAT,
        "note": NOTE,
        "kind": kind,
        "dtype": dtype,
        "n_features": width,
        "bins": None if bins is None else bins.tolist(),
        "files": listed,
        "shards": shards,
    }
    _put(folder / MANIFEST, json.dumps({**said, "digest": manifest_digest(said)}, indent=1).encode())


def _shard(folder: Path, number: int, pieces: list[_Rows]) -> dict[str, Any]:
    """Write a shard; return its entry in the manifest."""
    place, arrays = folder / f"{number:06d}", dict[str, np.ndarray]()
    place.mkdir()
    columns: dict[str, None] = {}
    for piece in pieces:
        columns |= dict.fromkeys(piece.columns)
    for name in columns:
        parts = [piece.columns.get(name, np.ones(len(piece), bool)) for piece in pieces]
        arrays[name] = np.concatenate(parts)
    bodies = [piece.body for piece in pieces]
    if isinstance(bodies[0], tuple):
        for k, name in enumerate(("values", "indices")):
            arrays[name] = np.concatenate([body[k] for body in bodies])
        starts = np.cumsum([0, *(int(body[2][-1]) for body in bodies)])
        arrays["indptr"] = np.concatenate(
            [np.zeros(1, np.int64), *(body[2][1:] + start for body, start in zip(bodies, starts, strict=False))]
        )
    else:
        arrays["values"] = np.concatenate(bodies)
    rows, said = sum(map(len, pieces)), {}
    pieces.clear()
    for name in list(arrays):
        array = arrays.pop(name)
        array = array if name == "labels" else smallest(array)
        stored = _put(place / f"{name}.npy", array)
        said[name] = {"dtype": array.dtype.str, "shape": list(array.shape), **stored}
    sync_folder(place)
    return {"name": place.name, "rows": rows, "arrays": said}


class _Hashed:
    """A file whose bytes are digested as they are written."""

    def __init__(self, file: Any):
        self._file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return int(self._file.write(data))


def _put(path: Path, data: bytes | np.ndarray) -> dict[str, Any]:
    """Write bytes or an array to the disk; their number and digest."""
    said: dict[str, Any] = {}

    def write(file: Any) -> None:
        hashed = _Hashed(file)
        if isinstance(data, bytes):
            hashed.write(data)
        else:
            np.lib.format.write_array(hashed, data, allow_pickle=False)
        said.update(bytes=hashed.size, sha256=hashed.digest.hexdigest())

    write_file(path, write)
    return said
