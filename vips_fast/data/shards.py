"""Corpora on disk: write them as shards, map these into memory, and read rows on request.

A folder of shards has a manifest, ``shards.json``, and for each shard a folder of ``.npy`` files. Counts and other
sparse rows have ``values``, ``indices`` and ``indptr``, and dense rows only ``values``. If there are any, ``labels``,
``persons`` and ``usable`` follow, one entry a row. numpy maps such files with no further package. (Arrow would need
one, and Zarr unpacks into memory.) Numbers stand in the smallest type that holds them.

A folder that is written appears whole, when all is on the disk, or not at all. Persons' rows are brought together, and
units into bins, by way of a first set of shards within the folder, which is removed.

All of it is private, the manifest too: it says how many rows there are. Keep it where the data are.
"""

import hashlib
import json
import mmap
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy import sparse

from ..checks import check_choice, check_number
from ..store.atomic import replacing_folder, sync_folder, write_file
from ..store.folder import MOST_TEXT
from ..store.limits import file_digest, parse_json, read_bytes
from .arrays import INT32_MAX, Parts, binary_records, check_invalid, csr_of, finite_records, rows_of, select, stacked
from .counts import documents, without
from .groups import Numbering, Runs
from .schema import Schema
from .vocabulary import load_vocabulary

MANIFEST, FORMAT = "shards.json", "vips_fast shards 1"
VOCABULARY, SCHEMA = "vocab.txt", "schema.toml"
KINDS = ("counts", "numbers", "binary")
SPARSE, DENSE = {"values", "indices", "indptr"}, {"values"}

#: Shards that are mapped at a time: rows are read in the order of the disk.
_OPEN = 8
#: Bytes of rows that are worked on in one piece.
PIECE = 1 << 23
_BEHIND = 1 << 21


class Mapped(NamedTuple):
    """An array of a shard."""

    path: Path
    array: np.ndarray
    pages: mmap.mmap | None
    offset: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Map a ``.npy`` file; ValueError, with its path, for another."""
        try:
            array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError):
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
    partitions : list of (int, int)
        First row of each shard, and the row after its last.
    bins : int64 array of shape (t + 1,), or None
        Where each bin of units begins, if they were drawn when sharding (`vips_fast.data.shards.draw_bins`). Units
        are persons, where the shards say whose rows are, and else rows.
    digest : str
        Of the manifest, and so of everything.

    Raises
    ------
    OSError
        If the manifest cannot be read.
    ValueError
        If the folder is not a whole one of shards. A file may be missing, cut, altered or of another corpus, or a
        person may have rows in two places. The file is named.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True):
        self.path = Path(path).resolve()
        said = _read_manifest(self.path / MANIFEST)
        self._shards, self.digest = said["shards"], said["digest"]
        self.kind: str = said["kind"]
        self.dtype = np.dtype(said["dtype"])
        self.bins = None if said["bins"] is None else np.array(said["bins"], np.int64)
        sizes = [int(shard["rows"]) for shard in self._shards]
        self._edges = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.shape = (int(self._edges[-1]), int(said["n_features"]))
        self._files = said["files"]
        self._check_files(verify)
        self._mapped: OrderedDict[int, dict[str, Mapped]] = OrderedDict()
        self._lock = threading.Lock()
        total = sum(array["bytes"] for shard in self._shards for array in shard["arrays"].values())
        self._rows_at_once = max(1, PIECE * self.shape[0] // max(total, 1))
        if verify and self._has("persons"):
            self._check_persons()

    def __reduce__(self) -> Any:
        # Files that were checked here are not read again by every worker; the manifest has to be the same.
        return _reopen, (str(self.path), self.digest)

    def __repr__(self) -> str:
        return f"ShardedCorpus({str(self.path)!r})"

    def _check_files(self, verify: bool) -> None:
        listed = [(self.path / name, said) for name, said in self._files.items()]
        listed += [
            (self._file(k, name), said)
            for k, shard in enumerate(self._shards)
            for name, said in shard["arrays"].items()
        ]
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

    def _check_persons(self) -> None:
        """Refuse persons with scattered rows: clipping would miss some of them."""
        place = np.full(self.shape[0], -1, np.int32)
        for k in range(len(self._shards)):
            codes = self._open(k)["persons"].array
            first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
            runs = codes[first].astype(np.int64)
            if runs.size and not 0 <= runs.min() <= runs.max() < len(place):
                raise ValueError(f"{self._file(k, 'persons')}: expected numbers of persons below that of rows")
            other = place[runs].max(initial=-1)
            if other >= 0:
                where = self._file(other, "persons").parent.name
                raise ValueError(f"{self._file(k, 'persons')}: a person of shard {where} again; expected all in one")
            if len(np.unique(runs)) < len(runs):
                raise ValueError(f"{self._file(k, 'persons')}: expected a person's rows to follow each other")
            place[runs] = k

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
    def partitions(self) -> list[tuple[int, int]]:
        """First row of each shard, and the row after its last."""
        return [(int(a), int(b)) for a, b in zip(self._edges, self._edges[1:], strict=False)]

    @property
    def sparse(self) -> bool:
        """Whether rows are read as CSR."""
        return self.kind == "counts" or self._has("indptr")

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

    def _has(self, name: str) -> bool:
        return any(name in shard["arrays"] for shard in self._shards)

    def _column(self, name: str) -> np.ndarray | None:
        """Read one entry a row, in memory; True for shards without one."""
        if not self._has(name):
            return None
        shards = ((self._open(k), b - a) for k, (a, b) in enumerate(self.partitions))
        return np.concatenate([s[name].array if name in s else np.ones(rows, bool) for s, rows in shards])

    @property
    def labels(self) -> np.ndarray | None:
        """Each row's label, if the shards have them; all in memory."""
        return self._column("labels")

    @property
    def usable(self) -> np.ndarray | None:
        """False for invalid rows, which contribute nothing; None if all are usable."""
        column = self._column("usable")
        return None if column is None else column.astype(bool)

    @property
    def groups(self) -> Runs | None:
        """Each row's person, for ``fit(corpus, groups=corpus.groups)``, or None.

        It is None if the shards do not say it.
        """
        if not self._has("persons"):
            return None
        first = [np.zeros(0, np.int64)]
        for k, (start, _) in enumerate(self.partitions):
            codes = self._open(k)["persons"].array
            first.append(np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))[: len(codes)]) + start)
        return Runs(np.concatenate([*first, [self.n_rows]]))

    # --------------------------------------------------------------- rows

    def _file(self, k: int, name: str) -> Path:
        return self.path / str(self._shards[k]["name"]) / f"{name}.npy"

    def _open(self, k: int) -> dict[str, Mapped]:
        """Map the arrays of a shard, and drop maps out of use."""
        with self._lock:
            found = self._mapped.pop(k, None)
            if found is None:
                found = {}
                for name, said in self._shards[k]["arrays"].items():
                    mapped = found[name] = Mapped.of(self._file(k, name))
                    if (mapped.array.dtype.str, list(mapped.array.shape)) != (said["dtype"], said["shape"]):
                        raise ValueError(f"{mapped.path}: expected {said['dtype']} of shape {said['shape']}")
            self._mapped[k] = found
            if len(self._mapped) > _OPEN:
                self._mapped.popitem(last=False)
        return found

    def _split(self, rows: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield shards of ascending rows, with places and numbers of rows."""
        if len(rows) and not 0 <= rows[0] <= rows[-1] < self.n_rows:
            raise IndexError(f"rows: expected numbers of rows of {self.path}")
        cuts = np.searchsorted(rows, self._edges)
        for k in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(int(cuts[k]), int(cuts[k + 1]))
            yield k, part, rows[part] - self._edges[k]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Count stored entries of some rows, int64; dense ones have all."""
        out = np.full(len(rows), self.n_features, np.int64)
        if not self.sparse:
            return out
        order = None if _ascends(rows) else np.argsort(rows, kind="stable")
        for k, part, local in self._split(rows if order is None else rows[order]):
            indptr = self._open(k)["indptr"]
            found = indptr.array[local + 1].astype(np.int64) - indptr.array[local]
            out[part if order is None else order[part]] = found
            indptr.drop(int(local[0]), int(local[-1]) + 2)
        return out

    def take(self, rows: np.ndarray) -> Any:
        """Take some rows, in their order.

        Parameters
        ----------
        rows : int64 array of shape (n,)

        Returns
        -------
        (values, indices int32, indptr int64) of n rows in CSR; or for dense rows an array of shape (n, n_features)

        Raises
        ------
        IndexError
            If a number is no row's.
        ValueError
            If a shard that was not verified is damaged in a way that shows.
        """
        if not _ascends(rows):
            order = np.argsort(rows, kind="stable")
            inverse = np.empty_like(order)
            inverse[order] = np.arange(len(rows))
            found = self.take(rows[order])
            return rows_of(found, inverse) if self.sparse else found[inverse]
        pieces = [self._taken(k, local) for k, _, local in self._split(rows)]
        if not pieces and self.sparse:
            return np.empty(0, self.dtype), np.empty(0, np.int32), np.zeros(1, np.int64)
        if not pieces:
            return np.empty((0, self.n_features), self.dtype)
        return pieces[0] if len(pieces) == 1 else stacked(pieces) if self.sparse else np.concatenate(pieces)

    def _taken(self, k: int, local: np.ndarray) -> Any:
        arrays = self._open(k)
        values, first, last = arrays["values"], int(local[0]), int(local[-1])
        if not self.sparse:
            dense = np.array(select(values.array, local), self.dtype)
            values.drop(first, last + 1)
            return dense
        indices, indptr = arrays["indices"], arrays["indptr"]
        low, high = int(indptr.array[first]), int(indptr.array[last + 1])
        starts, ends = indptr.array[local], indptr.array[local + 1]
        if (starts > ends).any() or ends.max() > len(indices.array) or len(indices.array) != len(values.array):
            raise ValueError(f"{indptr.path}: expected offsets that rise, and none past the end")
        found = rows_of((values.array, indices.array, indptr.array), local)
        out = np.array(found[0], self.dtype), np.array(found[1], np.int32), found[2]
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
    return is_sharded(path) and any("persons" in s["arrays"] for s in _read_manifest(Path(path) / MANIFEST)["shards"])


def manifest_digest(said: Mapping[str, Any]) -> str:
    """Compute the digest of a manifest without its digest."""
    rest = {name: value for name, value in said.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        data = read_bytes(path, MOST_TEXT)
    except FileNotFoundError:
        raise ValueError(f"{path.parent}: no {path.name}; expected a whole folder of shards") from None
    try:
        said = parse_json(data)
        form, whole = said["format"], said["digest"] == manifest_digest(said)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        form, whole = FORMAT, False
    if form != FORMAT:
        raise ValueError(f"{path}: of format {str(form)[:40]!r}; expected {FORMAT!r}")
    if not whole:
        raise ValueError(f"{path}: cut or altered; expected a manifest as it was written")
    return dict(said)


def _ascends(rows: np.ndarray) -> bool:
    return len(rows) < 2 or not bool((rows[1:] < rows[:-1]).any())


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
        binary records (`vips_fast.data.arrays.binary_records`), which become dense.
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
    limit = int(shard_mb * 2**20)
    size = min(PIECE, limit // 4)
    with replacing_folder(path) as folder:
        rows = _rows(batches, kind, invalid, None if words is None else len(words), size)
        first = next(rows, None)
        rows = chain([] if first is None else [first], rows)
        if bins is None and (first is None or "persons" not in first.columns):
            _write(folder, rows, kind, limit, kept)
        else:
            spool = folder / "spool"
            spool.mkdir()
            _write(spool, rows, kind, limit, {})
            corpus = ShardedCorpus(spool, verify=False)
            codes = corpus._column("persons")
            if codes is not None:
                codes = codes.astype(np.int64) - codes.min(initial=1)  # 0 is nobody, if a row has no person
            order, ends, edges = _order(corpus, codes, bins)
            _write(folder, _ordered(corpus, order, ends, codes, size), kind, limit, kept, edges)
            shutil.rmtree(spool)
    return ShardedCorpus(path, verify=False)


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


def _rows(batches: Iterable[Batch], kind: str, invalid: str, width: int | None, size: int) -> Iterator[_Rows]:
    """Yield checked batches, in pieces of this size.

    Persons are numbered from 1 by their first appearance; 0 is nobody, whom ``invalid="drop"`` met.
    """
    form: Any = None
    numbering = Numbering(invalid, "persons")
    for batch in batches:
        X, labels, whose = batch
        numbers = None if whose is None else numbering(whose) + 1
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
        arrays |= zip(("values", "indices", "indptr"), stacked(cast(list[Parts], bodies)), strict=True)
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


def _put(path: Path, data: bytes | np.ndarray) -> dict[str, Any]:
    """Write bytes or an array to the disk; return the file's size and digest."""
    if isinstance(data, bytes):
        write_file(path, lambda file: file.write(data))
    else:
        write_file(path, lambda file: np.lib.format.write_array(file, data, allow_pickle=False))
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}
