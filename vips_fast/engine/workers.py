"""Run a cluster's tasks: draw a part's units and sum over them, compactly; each part counts once."""

from __future__ import annotations

import hashlib
import pickle
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels import native
from .backend import Threads
from .checkpoint import versions
from .model import Records
from .sampling import Randomness, Sampler, minibatch
from .units import Reader

#: Instruction sets with kernels that use reciprocals, which processors round differently.
_APPROXIMATE = ("avx2", "avx512")


class ClusterError(ConnectionError):
    """The cluster cannot compute a sum; earlier releases stand. Nothing more is spent."""


@cache
def identity() -> dict[str, str]:
    """Describe everything that a contribution depends on beside record and releases.

    These are versions and instruction set as in run folders; a digest of the package's own files; the kind of
    processor, if kernels or numpy depend on it.
    """
    root, digest = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".so", ".pyd")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    kind = platform.machine()
    if native.isa() in _APPROXIMATE:
        kind = _processor()
    return {**versions(), "Python": platform.python_version(), "package files": digest.hexdigest(), "processor": kind}


def _processor() -> str:
    """Read the processor's maker, family and model, if known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    known = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return " ".join(known.get(name, "").strip() for name in ("vendor_id", "cpu family", "model"))


def difference(theirs: dict[str, str]) -> str | None:
    """Name the first difference between a worker and this process, or None."""
    for name, mine in identity().items():
        if theirs.get(name) != mine:
            advice = "; set VIPS_FAST_ISA for all of them" if name == "instruction set" else ""
            return f"{name} {theirs.get(name)}, expected {mine} as here{advice}"
    return None


class Sent:
    """Content that logs do not show, and that arrives with own arrays.

    Arrays in Dask's hands would be read-only, and at any address. An object knows its size in bytes, so Dask runs a
    task next to its records.
    """

    def __init__(self, content: Any, packed: bytes | None = None):
        self.content, self._packed = content, packed
        self.nbytes = _size(content) if packed is None else len(packed)

    def __sizeof__(self) -> int:
        return self.nbytes

    @classmethod
    def of(cls, content: Any) -> Sent:
        """Pack content for sending; ClusterError if that is not possible."""
        try:
            return cls(None, _dumps(content))
        except Exception as error:
            raise ClusterError(f"a {type(content).__name__} cannot be sent ({type(error).__name__})") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (_dumps(self.content) if self._packed is None else self._packed,)


def _dumps(content: Any) -> bytes:
    from distributed.protocol.pickle import dumps

    return bytes(dumps(content))


def _size(content: Any) -> int:
    """Count the bytes of a transfer, without a copy."""
    from distributed.protocol.pickle import dumps

    apart: list[pickle.PickleBuffer] = []
    return len(dumps(content, buffer_callback=apart.append)) + sum(buffer.raw().nbytes for buffer in apart)


def _arrived(packed: bytes) -> Sent:
    from distributed.protocol.pickle import loads

    return Sent(loads(packed))


@dataclass(frozen=True, repr=False)
class PartialSum:
    """Sum of the contributions of some parts of the data set."""

    #: The set of the parts: bit i stands for part i.
    parts: int
    #: Units that contributed.
    n_units: int
    #: int64, or Python's integers.
    total: np.ndarray
    #: Un-noised, if a run asks for them.
    diagnostics: dict[str, float] = field(default_factory=dict)

    def __sizeof__(self) -> int:
        """Tell Dask the size, which decides the worker that adds sums."""
        return self.total.nbytes


def add(sums: Sequence[PartialSum], capacity: int) -> PartialSum:
    """Add sums over different parts; the summands stay unchanged.

    ``capacity`` is the number of units with a total that fits int64; more give Python integers. Raises RuntimeError if
    two sums contain the same part: it would count twice.
    """
    n_units, parts = sum(one.n_units for one in sums), 0
    total = np.zeros(sums[0].total.shape, dtype=object if n_units > capacity else np.int64)
    diagnostics: dict[str, float] = {}
    for one in sums:
        if parts & one.parts:
            raise RuntimeError("a part of the data set would count twice")
        parts |= one.parts
        for name, value in one.diagnostics.items():
            diagnostics[name] = diagnostics.get(name, 0.0) + value
        total += one.total
    return PartialSum(parts, n_units, total, diagnostics)


@dataclass(frozen=True, repr=False)
class Draw:
    """Everything that workers need to draw a step's minibatch."""

    sampler: Sampler
    #: Units of the whole data set.
    n_rows: int
    #: Of this step or, with random allocation, of its epoch.
    randomness: Randomness
    step: int


def sum_part(
    held: Sent, model: Sent, draw: Draw, part: tuple[int, int], number: int, expected: dict[str, str], diagnoses: bool
) -> PartialSum:
    """Sum over the units of a part that a step draws.

    ``held`` has the part's records, ``model`` the result of `Model.contributor`. ``part`` is the part's first unit, and
    the one after its last; ``number`` is its number. ``expected`` is the `identity` of the workers that may compute it.
    ``diagnoses`` tells whether the run collects diagnostics.

    Raises ClusterError if this worker has another identity, or the records do not belong to the part.
    """
    if identity() != expected:
        raise ClusterError("a worker that is not like the others was asked for a sum")
    records: Records = held.content
    if records.n_rows != part[1] - part[0]:
        raise ClusterError("a block has other rows than when it was first read")
    diagnostics: dict[str, float] | None = {} if diagnoses else None
    rows, words = minibatch(draw.sampler, draw.n_rows, records.usable, draw.randomness, draw.step, range(*part))
    total = Threads(1).sum(model.content, records, rows, words, diagnostics)
    return PartialSum(1 << number, len(rows), total, diagnostics or {})


#: Records, their number, public facts, and None or class and text of the error that refuses them.
Answer = tuple[Sent, int, dict[str, Any], tuple[type[Exception], str] | None]


def read_block(reader: Reader, X: Any, y: Any, groups: Any) -> Answer:
    """Read one block."""
    try:
        records, facts = reader(X, y, groups)
    except (ValueError, TypeError) as error:
        # Returned, not raised: so it differs from an error in the making of blocks, whose text may hold data.
        return Sent(None), 0, {}, (TypeError if isinstance(error, TypeError) else ValueError, str(error))
    return Sent(records), records.n_rows, facts, None
