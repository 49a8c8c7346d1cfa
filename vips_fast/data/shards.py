"""Map corpora on disk into memory, and read rows on request.

A folder of shards has a manifest, ``shards.json``, and for each shard a folder of ``.npy`` files. Counts and other
sparse rows have ``values``, ``indices`` and ``indptr``, and dense rows only ``values``. If there are any, ``labels``,
``persons`` and ``usable`` follow, one entry a row. numpy maps such files with no further package. (Arrow would need
one, and Zarr unpacks into memory.) Numbers stand in the smallest type that holds them.

All of it is private, the manifest too: it says how many rows there are. Keep it where the data are.
"""

import hashlib
import json
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ..store.folder import MOST_TEXT
from ..store.limits import parse_json, read_bytes
from .arrays import csr_of, rows_of, select
from .groups import Runs
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
        """Map a ``.npy`` file."""
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
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
        Where each bin of units begins, if they were drawn when sharding (`vips_fast.data.sharding.draw_bins`). Units
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
            with open(path, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != said["sha256"]:
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
                    mapped = found[name] = _map(self._file(k, name))
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
        if len(pieces) == 1:
            return pieces[0]
        if not self.sparse:
            return np.concatenate([np.empty((0, self.n_features), self.dtype), *pieces])
        values, indices, ends = ([piece[i] for piece in pieces] for i in range(3))
        starts = np.cumsum([0, *(int(end[-1]) for end in ends)])
        return (
            np.concatenate([np.empty(0, self.dtype), *values]),
            np.concatenate([np.empty(0, np.int32), *indices]),
            np.concatenate([np.zeros(1, np.int64), *(e[1:] + s for e, s in zip(ends, starts, strict=False))]),
        )

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


def _map(path: Path) -> Mapped:
    try:
        return Mapped.of(path)
    except (ValueError, EOFError):
        raise ValueError(f"{path}: not a .npy file; expected it as it was written") from None


def _ascends(rows: np.ndarray) -> bool:
    return len(rows) < 2 or not bool((rows[1:] < rows[:-1]).any())


def _reopen(path: str, digest: str) -> ShardedCorpus:
    corpus = ShardedCorpus(path, verify=False)
    if corpus.digest != digest:
        raise ValueError(f"{path}: is another corpus than where it came from; expected the same shards")
    return corpus
