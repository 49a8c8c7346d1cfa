"""What the workers of a cluster are, get, and do: each draws its own part's units of a step, and sums over them."""

from __future__ import annotations

import hashlib
import pickle
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..kernels import native
from .backend import Threads
from .checkpoint import versions
from .model import Records
from .partial import PartialSum
from .randomness import Randomness
from .sampling import Sampler, minibatch
from .units import read_units

#: Instruction sets whose kernels use reciprocals that processors round differently.
_APPROXIMATE = ("avx2", "avx512")


class ClusterError(ConnectionError):
    """The cluster does not compute a sum. What was released before stands, and nothing more is spent."""


@cache
def identity() -> dict[str, str]:
    """What the integers of a contribution depend on beside the record and what is released.

    Returns
    -------
    dict of str
        Versions and instruction set as in checkpoints; a digest of the package's own files; the kind of processor,
        where kernels or numpy depend on it.
    """
    root, digest = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".so", ".pyd")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    kind = platform.machine()
    if native.isa() in _APPROXIMATE:
        kind = _processor()
    return {**versions(), "Python": platform.python_version(), "package files": digest.hexdigest(), "processor": kind}


def _processor() -> str:
    """Maker, family and model of the processor, as far as the system says them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    known = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return " ".join(known.get(name, "").strip() for name in ("vendor_id", "cpu family", "model"))


def difference(theirs: dict[str, str]) -> str | None:
    """In what a worker differs from this process; None if in nothing."""
    for name, mine in identity().items():
        if theirs.get(name) != mine:
            advice = "; set VIPS_FAST_ISA for all of them" if name == "instruction set" else ""
            return f"{name} {theirs.get(name)}, expected {mine} as here{advice}"
    return None


class Sent:
    """What is shown by no log, and arrives with arrays of its own: Dask's would be read-only, and lie anywhere.

    It knows its size in bytes, so that Dask has a task done where its records are.
    """

    def __init__(self, content: Any, packed: bytes | None = None):
        self.content, self._packed = content, packed
        self.nbytes = _size(content) if packed is None else len(packed)

    def __sizeof__(self) -> int:
        return self.nbytes

    @classmethod
    def of(cls, content: Any) -> Sent:
        """For sending alone: what cannot be packed fails here."""
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
    """Bytes that it takes to send this, of which none is copied."""
    from distributed.protocol.pickle import dumps

    apart: list[pickle.PickleBuffer] = []
    return len(dumps(content, buffer_callback=apart.append)) + sum(buffer.raw().nbytes for buffer in apart)


def _arrived(packed: bytes) -> Sent:
    from distributed.protocol.pickle import loads

    return Sent(loads(packed))


@dataclass(frozen=True, repr=False)
class Draw:
    """What the workers need in order to draw a step's minibatch.

    Attributes
    ----------
    sampler : Sampler
    n_rows : int
        Units of the whole data set.
    randomness : Randomness
        Of this step, or with random allocation of its epoch.
    step : int
    """

    sampler: Sampler
    n_rows: int
    randomness: Randomness
    step: int


def sum_part(
    held: Sent, model: Sent, draw: Draw, part: tuple[int, int], number: int, expected: dict[str, str], opens: bool
) -> PartialSum:
    """The sum over those units of a part that a step draws.

    Parameters
    ----------
    held, model : Sent
        The part's records, and what `Model.contributor` gave.
    draw : Draw
    part : tuple of int
        First unit of the part, and the one after its last.
    number : int
        Of the part.
    expected : dict of str
        Who may compute it.
    opens : bool
        Whether the run opens diagnostics.

    Raises
    ------
    ClusterError
        If this worker is another one, or the records are others than those of the part.
    """
    if identity() != expected:
        raise ClusterError("a worker that is not like the others was asked for a sum")
    records: Records = held.content
    if records.n_rows != part[1] - part[0]:
        raise ClusterError("a block has other rows than when it was first read")
    figures: dict[str, float] | None = {} if opens else None
    rows, words = minibatch(draw.sampler, draw.n_rows, records.usable, draw.randomness, draw.step, range(*part))
    total = Threads(1).sum(model.content, records, rows, words, figures)
    return PartialSum.of(1 << number, len(rows), total, figures)


#: Records, their number, public facts, and None; or in place of None, class and text of the error that refuses them.
Answer = tuple[Sent, int, dict[str, Any], tuple[type[Exception], str] | None]


def read_block(read: Callable[..., Any], *data: Any) -> Answer:
    """Read one block: see `vips_fast.engine.units.read_units`."""
    try:
        records, facts = read_units(read, *data)
    except (ValueError, TypeError) as error:
        # Given, and not raised, it is told from errors of what makes the blocks, whose texts may hold data.
        return Sent(None), 0, {}, (TypeError if isinstance(error, TypeError) else ValueError, str(error))
    return Sent(records), records.n_rows, facts, None


def first(answer: Answer) -> Sent:
    """The records, which stay with the worker."""
    return answer[0]


def rest(answer: Answer) -> tuple[Any, ...]:
    """What the fitting process learns."""
    return answer[1:]
