"""Corpora on disk: write them as shards, map these into memory, and read rows on request.

A folder of shards has a manifest, ``shards.json``, and ``.npy`` files. Counts and other sparse rows have ``values``,
``indices`` and ``indptr``, and dense rows only ``values``. If there are any, ``labels``, ``persons`` and ``usable``
follow, one entry a row. numpy maps such files without another package. Numbers stand in the smallest type that holds
them.

A folder that is written appears whole, when all is on the disk, or not at all. Rows are spooled within it as they
come, so that persons' rows are brought together, units into bins, and numbers into their types.

All of it is private, the manifest too: it says how many rows there are. Keep it where the data are.
"""

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ..checks import check_choice, check_number
from ..store.atomic import naming, replacing_folder, sync_folder, write_file
from ..store.folder import MOST_TEXT
from ..store.limits import file_digest, parse_json, read_bytes
from .arrays import INT32_MAX, Parts, binary_records, csr_of, finite_records, rows_of, select, stacked
from .counts import documents, without
from .groups import Numbering, Runs
from .schema import Schema
from .vocabulary import load_vocabulary

MANIFEST, FORMAT = "shards.json", "vips_fast shards 2"
VOCABULARY, SCHEMA = "vocab.txt", "schema.toml"
#: Types of values, as they are spooled, of each kind.
KINDS = {"counts": np.int32, "numbers": np.float64, "binary": np.uint8}
_SPARSE, _BESIDE = ("values", "indices", "indptr"), ("labels", "persons", "usable")
#: Names of the files of arrays.
ARRAYS = frozenset(f"{name}.npy" for name in (*_SPARSE, *_BESIDE))

#: Bytes of rows that are worked on in one piece.
PIECE = 1 << 23
_BEHIND = 1 << 21
_AGAIN = "the file is damaged: write the shards again"


class Mapped(NamedTuple):
    """An array on disk."""

    path: Path
    array: np.ndarray
    pages: mmap.mmap | None
    offset: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Map a ``.npy`` file; ValueError, with its path, for another."""
        try:
            array: Any = np.lib.format.open_memmap(path, mode="r")
        except (ValueError, EOFError, SyntaxError, TokenError, ArithmeticError):  # its head is Python source
            raise ValueError(f"{path}: not a .npy file; expected it as it was written") from None
        return cls(path, array.view(np.ndarray), array.base, array.offset)

    def drop(self, first: int, last: int) -> None:
        """Give back the memory of some entries; later use maps them again."""
        if self.pages is None or last <= first or not hasattr(mmap, "MADV_DONTNEED"):
            return
        size = self.array.itemsize * (self.array.shape[1] if self.array.ndim > 1 else 1)
        start = max(0, self.offset + first * size - _BEHIND) // mmap.PAGESIZE * mmap.PAGESIZE
        end = min(len(self.pages), self.offset + last * size)
        self.pages.madvise(mmap.MADV_DONTNEED, start, end - start)


class ShardedCorpus:
    """A corpus in a folder of shards.

    It takes the place of a matrix in ``fit``, ``transform`` and ``score``. A row's bits are those that it had when the
    shards were written, so a fit has the bits of one in memory.

    Parameters
    ----------
    path : path-like
        Folder that `vips_fast.data.write_shards` or ``vips-fast shard`` wrote.
    verify : bool
        Whether the digests of all files are checked, which reads them once. Their sizes are checked in any case. No
        file may be changed while the corpus is in use.

    Attributes
    ----------
    shape : (int, int)
        Rows (private, like all that follows from the rows) and columns.
    kind : {"counts", "numbers", "binary"}
        Counts are checked as by `vips_fast.data.counts.documents`, numbers are finite, binary rows hold 0 and 1.
    dtype : numpy dtype
        Of the values as they are read.
    bins : int64 array of shape (t + 1,), or None
        Where each bin of units begins, if they were drawn when sharding (`vips_fast.data.shards.draw_bins`). Units
        are persons, where the shards say whose rows are, and else rows.
    digest : str
        Of the manifest, and so of everything.

    Raises OSError if the manifest cannot be read. Raises ValueError, which names the file, if one is missing, cut,
    altered or of another corpus, or a person has rows in two places.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True):
        self.path = Path(path).resolve()
        said = _read_manifest(self.path / MANIFEST)
        self.digest, self._files, self._arrays = said["digest"], said["files"], said["arrays"]
        self.kind: str = said["kind"]
        self.dtype = np.dtype(said["dtype"])
        self.bins = None if said["bins"] is None else np.array(said["bins"], np.int64)
        self.shape = (int(said["n_rows"]), int(said["n_features"]))
        self._check_files(verify)
        self._mapped: dict[str, Mapped] = {}
        total = sum(array["bytes"] for array in self._arrays.values())
        self._rows_at_once = max(1, PIECE * self.shape[0] // max(total, 1))
        if verify and "persons" in self._arrays:
            codes = self._map("persons").array
            runs = codes[self._starts()]
            if len(np.unique(runs)) < len(runs):  # clipping would miss some of a person's rows
                raise ValueError(f"{self._file('persons')}: expected a person's rows to follow each other")

    def __reduce__(self) -> Any:
        # Files that were checked here are not read again by every worker; the manifest has to be the same.
        return _reopen, (str(self.path), self.digest)

    def __repr__(self) -> str:
        return f"ShardedCorpus({str(self.path)!r})"

    def _check_files(self, verify: bool) -> None:
        listed = [(self.path / name, said) for name, said in self._files.items()]
        listed += [(self._file(name), said) for name, said in self._arrays.items()]
        for path, said in listed:
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                raise ValueError(f"{path}: missing; expected a file that the manifest names") from None
            if size != said["bytes"]:
                raise ValueError(f"{path}: {'cut' if size < said['bytes'] else 'too long'}; expected another size")
        for path, said in listed if verify else ():
            if file_digest(path) != said["sha256"]:
                raise ValueError(f"{path}: altered, or of another corpus; expected the digest in the manifest")

    # -------------------------------------------------------------- facts

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.shape[1]

    @property
    def sparse(self) -> bool:
        """Whether rows are read as CSR."""
        return "indptr" in self._arrays

    @cached_property
    def vocabulary(self) -> tuple[str, ...] | None:
        """The word of each column, if the shards have them."""
        return load_vocabulary(self.path / VOCABULARY) if VOCABULARY in self._files else None

    @cached_property
    def schema(self) -> Schema | None:
        """Origin of the columns, if the shards were made of a table."""
        return Schema.load(self.path / SCHEMA) if SCHEMA in self._files else None

    def text(self, name: str) -> str | None:
        """Read a text file beside the rows, or None."""
        return (self.path / name).read_text("utf-8") if name in self._files else None

    @property
    def labels(self) -> np.ndarray | None:
        """Each row's label, if the shards have them; all in memory."""
        return np.array(self._map("labels").array) if "labels" in self._arrays else None

    @property
    def usable(self) -> np.ndarray | None:
        """False for invalid rows, which contribute nothing; None if all are usable."""
        return self._map("usable").array.astype(bool) if "usable" in self._arrays else None

    @property
    def groups(self) -> Runs | None:
        """Each row's person, for ``fit(corpus, groups=corpus.groups)``; None if the shards do not say it."""
        if "persons" not in self._arrays:
            return None
        return Runs(np.concatenate([self._starts(), [self.n_rows]]))

    def _starts(self) -> np.ndarray:
        """Find each person's first row."""
        codes = self._map("persons").array
        return np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))

    # --------------------------------------------------------------- rows

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.npy"

    def _map(self, name: str) -> Mapped:
        found = self._mapped.get(name)
        if found is None:
            found, said = Mapped.of(self._file(name)), self._arrays[name]
            if (found.array.dtype.str, list(found.array.shape)) != (said["dtype"], said["shape"]):
                raise ValueError(f"{found.path}: expected {said['dtype']} of shape {said['shape']}")
            self._mapped[name] = found
        return found

    def _stretches(self, rows: np.ndarray) -> Iterator[slice]:
        """Cut ascending rows, so that each part lies within a few megabytes of the disk."""
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.n_rows:
            raise IndexError(f"rows: expected numbers of rows of {self.path}")
        cuts = np.flatnonzero(np.diff(rows // self._rows_at_once)) + 1
        edges = [0, *cuts.tolist(), *[len(rows)] * bool(len(rows))]
        return map(slice, edges, edges[1:])

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Count stored entries of some rows, int64; dense ones have all."""
        if not self.sparse:
            return np.full(len(rows), self.n_features, np.int64)
        indptr = self._map("indptr")
        found: np.ndarray = indptr.array[rows + 1].astype(np.int64) - indptr.array[rows]
        indptr.drop(0, len(indptr.array))
        return found

    def take(self, rows: np.ndarray) -> Any:
        """Take some rows by their numbers (int64), in this order.

        Returns values, indices (int32) and indptr (int64) of n rows in CSR, or for dense rows an array of shape
        (n, n_features). Raises IndexError if a number is no row's; ValueError if a file that was not verified is
        damaged in a way that shows.
        """
        if len(rows) > 1 and (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            inverse = np.empty_like(order)
            inverse[order] = np.arange(len(rows))
            found = self.take(rows[order])
            return rows_of(found, inverse) if self.sparse else found[inverse]
        pieces = [self._taken(rows[part]) for part in self._stretches(rows)]
        if not pieces and self.sparse:
            return np.empty(0, self.dtype), np.empty(0, np.int32), np.zeros(1, np.int64)
        if not pieces:
            return np.empty((0, self.n_features), self.dtype)
        return pieces[0] if len(pieces) == 1 else stacked(pieces) if self.sparse else np.concatenate(pieces)

    def _taken(self, rows: np.ndarray) -> Any:
        values, first, last = self._map("values"), int(rows[0]), int(rows[-1])
        if not self.sparse:
            dense = np.array(select(values.array, rows), self.dtype)
            values.drop(first, last + 1)
            return dense
        indices, indptr = self._map("indices"), self._map("indptr")
        low, high = int(indptr.array[first]), int(indptr.array[last + 1])
        starts, ends = indptr.array[rows], indptr.array[rows + 1]
        if starts.min() < 0 or (starts > ends).any() or ends.max() > len(indices.array):
            raise ValueError(f"{indptr.path}: expected offsets that rise, and none past the end; {_AGAIN}")
        found = rows_of((values.array, indices.array, indptr.array), rows)
        columns, ends = found[1:]
        if not 0 <= columns.min(initial=0) <= columns.max(initial=0) < self.n_features:
            raise ValueError(f"{indices.path}: expected numbers of columns below {self.n_features}; {_AGAIN}")
        rises = columns[1:] > columns[:-1]
        rises[ends[(ends > 0) & (ends < len(columns))] - 1] = True  # from a row to the next
        if not rises.all():
            raise ValueError(f"{indices.path}: a row's columns do not ascend, each once; {_AGAIN}")
        out = np.array(found[0], self.dtype), np.array(columns, np.int32), ends
        for mapped in (values, indices):
            mapped.drop(low, high)
        indptr.drop(first, last + 2)
        return out

    def matrix(self, rows: np.ndarray) -> Any:
        """Return `take`, as a scipy CSR array or a dense array."""
        found = self.take(rows)
        return found if not self.sparse else csr_of(found, self.n_features)

    def pieces(self) -> Iterator[tuple[slice, Any]]:
        """Yield all rows by a few megabytes: their places, and a matrix."""
        for first in range(0, self.n_rows, self._rows_at_once):
            last = min(first + self._rows_at_once, self.n_rows)
            yield slice(first, last), self.matrix(np.arange(first, last))


def is_sharded(path: Any) -> bool:
    """Tell whether a path is a folder of shards."""
    return isinstance(path, (str, os.PathLike)) and (Path(path) / MANIFEST).is_file()


def bin_count(path: Any) -> int | None:
    """Count the bins of a path's shards; None without shards."""
    return len(_read_manifest(Path(path) / MANIFEST)["bins"] or [0]) - 1 if is_sharded(path) else None


def says_persons(path: Any) -> bool:
    """Tell whether a path is a folder of shards with persons."""
    return is_sharded(path) and "persons" in _read_manifest(Path(path) / MANIFEST)["arrays"]


def manifest_digest(said: Mapping[str, Any]) -> str:
    """Compute the digest of a manifest without its digest."""
    rest = {name: value for name, value in said.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        data = read_bytes(path, MOST_TEXT)
    except FileNotFoundError:
        raise ValueError(f"{path.parent}: no {path.name}; expected a whole folder of shards") from None
    form: Any = FORMAT
    try:
        said = parse_json(data)
        form = said["format"]
        if form == FORMAT and said["digest"] == manifest_digest(said) and _fits(said):
            return dict(said)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        pass
    if form != FORMAT:
        raise ValueError(f"{path}: of format {str(form)[:40]!r}; expected {FORMAT!r}")
    raise ValueError(f"{path}: cut or altered; expected a manifest as it was written")


def _fits(said: Mapping[str, Any]) -> bool:
    """Tell whether a manifest names arrays of the types and shapes of its rows; an error if it lacks something."""
    n, width, arrays, bins = said["n_rows"], said["n_features"], said["arrays"], said["bins"]
    kinds = {name: np.dtype(str(array["dtype"])).kind for name, array in arrays.items()}
    entries = arrays["values"]["shape"][:1]
    rows = {name: [n] for name in arrays.keys() & {*_BESIDE}}
    rows |= {"values": entries, "indices": entries, "indptr": [n + 1]} if "indptr" in arrays else {"values": [n, width]}
    sizes = [n, width, *(one["bytes"] for one in (*arrays.values(), *said["files"].values()))]
    return (
        {name: array["shape"] for name, array in arrays.items()} == rows
        and all(kind in {"values": "iuf", "labels": "biufU"}.get(name, "iu") for name, kind in kinds.items())
        and all(type(size) is int and 0 <= size < 2**62 for size in sizes)
        and said["dtype"] in (np.dtype(KINDS[said["kind"]]).name, "float32")
        and (bins is None or (np.array(bins, np.int64).ndim == 1 and len(bins) > 1))
    )


def _reopen(path: str, digest: str) -> ShardedCorpus:
    corpus = ShardedCorpus(path, verify=False)
    if corpus.digest != digest:
        raise ValueError(f"{path}: is another corpus than where it came from; expected the same shards")
    return corpus


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
        All with labels or none, and so for persons. One batch is in memory at a time, and all labels and persons.
    kind : {"counts", "numbers", "binary"}
        Counts as `vips_fast.data.counts.documents` checks them; sparse or dense numbers, which have to be finite;
        binary records (`vips_fast.data.arrays.binary_records`), which become dense.
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
    check_choice("kind", kind, tuple(KINDS))
    check_choice("invalid", invalid, ("raise", "drop"))
    check_number("bins", bins, 1, INT32_MAX, integer=True, optional=True)
    path, words = Path(path), None if vocabulary is None else tuple(vocabulary)
    if os.path.lexists(path):
        raise FileExistsError(17, "exists; expected a new folder for shards", str(path))
    kept = {**(files or {}), **({} if words is None else {VOCABULARY: "\n".join(words) + "\n"})}
    with replacing_folder(path) as folder:
        (spool := folder / "spool").mkdir()
        rows = _Rows(kind, invalid, None if words is None else len(words))
        arrays = _write(spool, rows.checked(batches), {"values": np.dtype(KINDS[kind])})
        columns = {name: np.concatenate(parts) for name, parts in rows.columns.items()}
        n, codes = rows.n, columns.get("persons")
        if n == 0:
            raise ValueError("batches: no rows; expected at least one")
        if codes is not None:
            columns["persons"] = codes = codes - codes.min()  # 0 is nobody, if a row has no person
        order, edges = _order(n, codes, bins)
        narrow = kind == "numbers" and rows.single
        said: dict[str, Any] = {"format": FORMAT, "note": NOTE, "kind": kind}
        said |= {"dtype": np.dtype(np.float32 if narrow else KINDS[kind]).name, "n_rows": n, "n_features": rows.width}
        said |= {"bins": None if edges is None else edges.tolist(), "files": {}}
        _seal(spool, {**said, "arrays": arrays})
        corpus = ShardedCorpus(spool, verify=False)
        step = corpus._rows_at_once
        if corpus.sparse:
            rows.types["indptr"] = smallest(np.array(arrays["values"]["shape"]))
        arrays = _write(folder, (corpus.take(order[a : a + step]) for a in range(0, n, step)), rows.types)
        for name, column in columns.items():
            own = column.dtype if name == "labels" else smallest(column)
            arrays |= _write(folder, [column[order]], {name: own}, (name,))
        shutil.rmtree(spool)
        said["files"] = {name: _put(folder / name, text.encode()) for name, text in kept.items()}
        _seal(folder, {**said, "arrays": arrays})
    return ShardedCorpus(path, verify=False)


@dataclass
class _Rows:
    """Checks batches, and collects what they say beside their rows."""

    kind: str
    invalid: str
    width: int | None
    n: int = 0
    #: The smallest types that hold the arrays of all batches, and whether all numbers are float32.
    types: dict[str, np.dtype] = field(default_factory=dict)
    single: bool = True
    #: Parts of labels, persons (numbered from 1 by first appearance, 0 for nobody) and usable.
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def checked(self, batches: Iterable[Batch]) -> Iterator[Parts | np.ndarray]:
        """Yield checked rows: (values, indices, indptr) of CSR, or dense."""
        form: Any = None
        numbering = Numbering(self.invalid, "persons")
        for X, labels, whose in batches:
            columns = {} if whose is None else {"persons": numbering(whose) + 1}
            body, usable = self._body(X, columns.get("persons"))
            n, self.width = X.shape
            if labels is not None:
                columns["labels"] = np.asarray(labels)
                if columns["labels"].dtype.kind not in "biufU":
                    raise TypeError("labels: expected numbers or strings, all of one kind")
            for name, column in columns.items():
                if column.shape != (n,):
                    raise ValueError(f"{name} has shape {column.shape}: expected ({n},), one for each row of the batch")
            here = isinstance(body, tuple), *sorted(columns)
            if form not in (None, here):
                raise ValueError("batches: expected all of one form, with labels and persons in all or none")
            form = here
            if usable is not None and "usable" not in self.columns:
                self.columns["usable"] = [np.ones(self.n, bool)]
            if "usable" in self.columns:
                columns["usable"] = np.ones(n, bool) if usable is None else usable
            for name, column in columns.items():
                self.columns.setdefault(name, []).append(column)
            self.n += n
            arrays = dict(zip(_SPARSE, body, strict=True)) if isinstance(body, tuple) else {"values": body}
            self.single = self.single and arrays["values"].dtype == np.float32
            for name, array in arrays.items():
                own = smallest(array)
                self.types[name] = np.promote_types(self.types.get(name, own), own)
            yield body

    def _body(self, X: Any, persons: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
        """Check rows; tell which are usable."""
        usable: np.ndarray | None = None
        how: Any = {"name": "rows", "invalid": self.invalid, "expected_by": "the corpus", "least_rows": 0}
        if self.kind == "counts":
            X = documents(X, self.width, **how)
        elif self.kind == "binary":
            X, usable = binary_records(X, self.width, **how)
        else:
            X, usable = finite_records(X, self.width, self.invalid)
        body = (X.data, X.indices, X.indptr) if sparse.issparse(X) else X
        if persons is not None and X.shape[:1] == persons.shape and not persons.all():
            known = persons > 0
            if self.kind == "counts":
                body = without(body, np.flatnonzero(~known))
            else:
                usable = known if usable is None else usable & known
        return body, usable


def _order(n_rows: int, codes: np.ndarray | None, n_bins: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Order rows by bins and persons; return where each bin of units begins."""
    n_units = n_rows if codes is None else int(codes.max()) + 1
    bin_of = np.zeros(n_units, np.int64) if n_bins is None else draw_bins(n_units, n_bins)
    units = np.argsort(bin_of, kind="stable")
    edges = None if n_bins is None else np.concatenate(([0], np.cumsum(np.bincount(bin_of, minlength=n_bins))))
    if codes is None:
        return units, edges
    place = np.empty(n_units, np.int64)
    place[units] = np.arange(n_units)
    return np.argsort(place[codes], kind="stable"), edges


def smallest(array: np.ndarray) -> np.dtype:
    """Find the smallest integer type that holds numbers; their own if none does."""
    if array.dtype.kind not in "iufb" or not len(array):
        return np.dtype(np.uint8) if not len(array) else array.dtype
    if not 0 <= array.min(initial=0) <= array.max(initial=0) < 2**62:
        return array.dtype
    if array.dtype.kind == "f" and (np.signbit(array).any() or (array != np.trunc(array)).any()):
        return array.dtype
    top = int(array.max(initial=0))
    return np.dtype(next(t for t in (np.uint8, np.uint16, np.int32, np.uint32, np.int64) if top <= np.iinfo(t).max))


def _write(
    folder: Path, pieces: Iterable[Any], types: Mapping[str, np.dtype], names: tuple[str, ...] = _SPARSE
) -> dict[str, Any]:
    """Write the arrays of all pieces below each other, each to a file; return their entries of the manifest."""
    with ExitStack() as stack:
        files, end = dict[str, _File](), 0
        for piece in pieces:
            arrays = dict(zip(names, piece if isinstance(piece, tuple) else (piece,), strict=False))
            for name, array in arrays.items() if not files else ():
                own = types.get(name, np.dtype(np.int64 if name == "indptr" else np.int32))
                files[name] = stack.enter_context(_File(folder / f"{name}.npy", own, array.shape[1:]))
                files[name].add(array[:1] if name == "indptr" else array[:0])
            if "indptr" in arrays:
                arrays["indptr"], end = arrays["indptr"][1:] + np.int64(end), end + int(arrays["indptr"][-1])
            for name, array in arrays.items():
                files[name].add(array)
        return {name: file.finish() for name, file in files.items()}


class _File(AbstractContextManager["_File"]):
    """A new ``.npy`` file that grows by rows. Its head is written again at the end, with their number."""

    def __init__(self, path: Path, dtype: np.dtype, tail: tuple[int, ...]) -> None:
        self._path, self._dtype, self._shape = path, dtype, (0, *tail)
        self._file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))
        self._head()

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def _head(self) -> None:
        head = {"descr": self._dtype.str, "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._file, head)  # which leaves room for more rows

    def add(self, rows: np.ndarray) -> None:
        with naming(self._path):
            self._file.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self._shape = (self._shape[0] + len(rows), *self._shape[1:])

    def finish(self) -> dict[str, Any]:
        """Write all to the disk; return the entry of the manifest."""
        with naming(self._path):
            self._file.seek(0)
            self._head()
            self._file.flush()
            os.fsync(self._file.fileno())
        said = {"dtype": self._dtype.str, "shape": list(self._shape)}
        return {**said, "bytes": self._path.stat().st_size, "sha256": file_digest(self._path)}


def _seal(folder: Path, said: Mapping[str, Any]) -> None:
    _put(folder / MANIFEST, json.dumps({**said, "digest": manifest_digest(said)}, indent=1).encode())
    sync_folder(folder)


def _put(path: Path, data: bytes) -> dict[str, Any]:
    """Write bytes to the disk; return the file's size and digest."""
    write_file(path, lambda file: file.write(data))
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
