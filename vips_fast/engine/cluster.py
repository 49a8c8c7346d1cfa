"""Sums on the workers of a Dask cluster.

The data set lies on the workers in parts, which are ranges of whole units. In each step this process sends them the
arguments of `Model.contribute` and the key of the step's random words. Each worker draws the units of its own parts
with that key. Integer sums come back, added on a tree. This process rounds them, draws the noise, once, and does the
M-step. Scheduler and workers see everything that the engine sees: they stand on the private side of the guarantee, and
nothing on them is a release.

*Why the bits equal the bits of one process.* The decision about a unit, and its random words, are functions of the
step's key and of the unit's own number (`vips_fast.engine.sampling.minibatch`). Its contribution is a function of the
unit, its words and released numbers, and sums of integers have no order. So a part that another worker computes again
is the same part. Each part counts once. A sum knows its parts (`PartialSum`), and sums with a part in
common are never added. The whole has to contain all parts.

Contributions are the same integers only if the same code runs on the same kind of processor. This matters for privacy
too, since the distribution of work may depend on records. So this process asks each worker, also a later one, for its
identity (`identity`). A worker takes part only if it equals this process; any other one
refuses to compute a part.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import logging
import math
import pickle
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import missing_package
from ..data.groups import check_whole
from ..kernels import native
from .backend import Reader, Threads
from .checkpoint import versions
from .model import Model, Records
from .sampling import Randomness, Sampler, minibatch

if TYPE_CHECKING:
    from distributed import Client, Future

_log = logging.getLogger(__name__)

#: Seconds to wait for an answer.
TIMEOUT = 30.0
#: Number of sums that one task adds.
_TOGETHER = 4
#: Attempts at a step after workers were lost with data that this process has to send again.
_ATTEMPTS = 20
#: Settings of a cluster on this machine. Only the nanny decides whether a killed worker comes back. There are no web
#: pages, which any user of the machine could read. Their measurements, which take 4 % of two cores, are made seldom.
_LOCAL = {
    "distributed.deploy.lost-worker-timeout": "1000 days",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
#: Least bytes that a network carries a second.
_SLOWEST = 10e6
#: Seconds without a worker until a task counts as lost.
_IDLE = 5


# ------------------------------------------------- what workers run

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


def _dumps(content: Any, **how: Any) -> bytes:
    from distributed.protocol.pickle import dumps

    return bytes(dumps(content, **how))


def _size(content: Any) -> int:
    """Count the bytes of a transfer, without a copy."""
    apart: list[pickle.PickleBuffer] = []
    return len(_dumps(content, buffer_callback=apart.append)) + sum(buffer.raw().nbytes for buffer in apart)


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


# ------------------------------------------------- records and sums


@dataclass
class Placed:
    """Records on the workers."""

    #: The units of each part.
    parts: list[range]
    #: Each part's records.
    held: list[Future[Any]]
    #: All records, for sending a lost part again; None if the cluster can make a part itself.
    records: Records | None = None

    @property
    def n_rows(self) -> int:
        """Units of the data set."""
        return self.parts[-1].stop

    usable: np.ndarray | None = None


class DaskBackend:
    """Backend of a fit on Dask workers.

    ``fit(X, backend=DaskBackend(client))`` takes the data of any `fit`, cuts them into ranges of units and sends each
    range to a worker, once. X may also be a list of delayed blocks of rows, or a Dask array in such blocks, which
    workers read themselves. Then give y and groups in the same blocks, with all rows of a person in one block.

    ``client`` is a synchronous `distributed.Client`. ``n_partitions`` are the parts of a data set in memory; None is
    one for each thread of the workers. ``timeout`` are the seconds to wait for a scheduler or a worker that does not
    answer; None is 30.

    Raises ClusterError if the scheduler does not answer, there is no worker, or one differs from this process.
    """

    #: Threads of this process, for the noise.
    n_threads = 1

    def __init__(self, client: Client, n_partitions: int | None = None, timeout: float | None = None) -> None:
        if n_partitions is not None and n_partitions < 1:
            raise ValueError(f"n_partitions={n_partitions!r}: expected at least 1, or None")
        if getattr(client, "asynchronous", True):
            raise ValueError("client: expected a synchronous distributed.Client")
        if str(getattr(client.scheduler, "address", "")).startswith("inproc:"):
            raise ValueError("client: expected workers in processes of their own, got threads of this one")
        self.client, self.n_partitions = client, n_partitions
        self.timeout = TIMEOUT if timeout is None else timeout
        self._known: dict[str, str | None] = {}
        for address in self._survey():
            if (difference := self._known[address]) is not None:
                raise ClusterError(f"worker {address}: {difference}")

    # ---------------------------------------------------------- workers

    def _asked(self, what: str, **about: Any) -> dict[Any, Any]:
        try:
            question = getattr(self.client.scheduler, what)
            return dict(self.client.sync(question, callback_timeout=self.timeout, **about))
        except (OSError, TimeoutError, RuntimeError, AttributeError):
            raise ClusterError(f"the scheduler has not answered for {self.timeout:g} s") from None

    def _survey(self) -> dict[str, int]:
        """Count the threads of each identified worker; wait until there is one."""
        end = time.monotonic() + self.timeout
        while True:
            alive = self._asked("ncores")
            self._ask([address for address in alive if address not in self._known])
            if known := {address: n for address, n in alive.items() if address in self._known}:
                return known
            if time.monotonic() > end:
                raise ClusterError(f"no worker has answered for {self.timeout:g} s")
            time.sleep(0.05)

    def _workers(self) -> dict[str, int]:
        """Count the threads of each worker that may take part."""
        if workers := {address: n for address, n in self._survey().items() if self._known[address] is None}:
            return workers
        raise ClusterError("all remaining workers differ from this process; install the same versions there")

    def _ask(self, addresses: Sequence[str]) -> None:
        name = secrets.token_hex(8)
        asked = {
            address: self.client.submit(identity, key=f"vips_identity-{name}-{i}", workers=[address], pure=False)
            for i, address in enumerate(addresses)
        }
        for address, future in asked.items():
            try:
                theirs = self._result(future, [address], name, self.timeout)
                if theirs is None:
                    continue  # it is gone
                self._known[address] = difference(theirs)
            except (ImportError, AttributeError) as error:
                self._known[address] = f"no vips_fast of version {versions()['vips_fast']} ({type(error).__name__})"
            except ClusterError:
                raise
            except Exception as error:
                _log.warning("cluster: worker %s does not answer (%s)", address, type(error).__name__)
                continue
            if self._known[address] is not None:
                _log.warning("cluster: worker %s is left out: %s", address, self._known[address])

    # ---------------------------------------------------------- records

    def read(self, reader: Reader, X: Any, y: Any, groups: Any) -> tuple[Any, dict[str, Any]]:
        """Read records, see `Backend.read`; the workers read blocks themselves.

        Raises ValueError if X, y and groups differ in their number of blocks, blocks differ in public facts, or a
        person is in two blocks; ClusterError if the workers cannot read them.
        """
        blocks = _blocks(X)
        if blocks is None:
            return reader(X, y, groups)
        given = {"y": y, "groups": groups}
        for name, data in given.items():
            parts: Any = [None] * len(blocks) if data is None else _blocks(data) or data
            given[name] = parts
            if not isinstance(parts, list) or len(parts) != len(blocks):
                raise ValueError(f"{name}: expected a list of {len(blocks)} blocks, as X has")
        if groups is not None:
            parts = given["groups"]
            given["groups"] = self._gather("groups", lambda name, workers: [self._source(part) for part in parts])
            check_whole(given["groups"])
        held: list[Future[Any]] = []

        def begin(name: str, workers: list[str]) -> list[Future[Any]]:
            answers = [
                self.client.submit(
                    read_block,
                    reader,
                    self._source(X),
                    self._source(y),
                    self._source(groups),
                    key=f"vips_read-{name}-{i}",
                    workers=workers,
                )
                for i, (X, y, groups) in enumerate(zip(blocks, given["y"], given["groups"], strict=True))
            ]
            held[:] = [self.client.submit(itemgetter(0), a, key=f"vips_held-{name}-{i}") for i, a in enumerate(answers)]
            return [
                self.client.submit(itemgetter(1, 2, 3), a, key=f"vips_said-{name}-{i}") for i, a in enumerate(answers)
            ]

        sizes, facts, refusals = zip(*self._gather("X", begin), strict=True)
        for error, text in filter(None, refusals):
            raise error(text)
        ends = np.cumsum([0, *sizes]).tolist()
        ranges = [range(first, last) for first, last in zip(ends, ends[1:], strict=False)]
        return Placed(ranges, held), _common(facts)

    def _gather(self, what: str, begin: Callable[[str, list[str]], Sequence[Future[Any] | None]]) -> list[Any]:
        """Collect the results of tasks on blocks; restart lost tasks."""
        from distributed import CancelledError

        for _ in range(_ATTEMPTS):
            workers = list(self._workers())
            try:
                # The tasks that make the blocks have unknown names, so any task of a worker counts as progress.
                found = self._result(begin(secrets.token_hex(8), workers), workers, "")
            except ClusterError:
                raise
            except CancelledError:
                continue
            except Exception as error:
                kind = type(error).__name__
                break
            if found is not None:
                return list(found)
        else:
            raise ClusterError(f"{_ATTEMPTS} workers were lost while they read the blocks of {what}; see their logs")
        # Outside the handler: the text of the other error may hold data, so it must not become the context.
        raise ClusterError(f"the blocks of {what} cannot be read ({kind})")

    def _source(self, block: Any) -> Any:
        """Turn a block into an argument of a task."""
        from dask.delayed import delayed

        return None if block is None else self.client.compute(delayed(block))

    @contextmanager
    def placed(self, records: Records | Placed) -> Iterator[Placed]:
        """Send missing parts to workers, and release all at the end. See `Backend.placed`."""
        if isinstance(records, Placed):
            placed = records
        else:
            n = self.n_partitions or sum(self._workers().values())
            cuts = [records.n_rows * i // n for i in range(n + 1)]
            parts = [range(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if b > a] or [range(0)]
            placed = Placed(parts, [], records)
        try:
            yield placed
        finally:
            placed.held.clear()

    def _send(self, placed: Placed, workers: Sequence[str]) -> None:
        """Send parts that no worker has: first all, later lost ones."""
        if placed.records is None:
            return
        holders = self._asked("who_has", keys=[future.key for future in placed.held])
        for number, part in enumerate(placed.parts):
            if number < len(placed.held) and holders.get(placed.held[number].key):
                continue
            own = Sent.of(placed.records.subset(np.arange(part.start, part.stop)))
            worker = workers[number * len(workers) // len(placed.parts)]
            future = self._scatter(own, worker)
            placed.held[number : number + 1] = [future]

    def _scatter(self, sent: Sent, worker: str) -> Future[Any]:
        """Send to one worker; the others fetch from it.

        Dask's own broadcast waits forever for a dead worker. The scheduler sends, since it notices a death at once;
        this process would wait. Raises TimeoutError if the worker, which may have died, does not take it.
        """
        limit = min(self.timeout, TIMEOUT) + sent.nbytes / _SLOWEST
        future: Future[Any] = self.client.sync(
            self.client._scatter, sent, workers=[worker], hash=False, direct=False, callback_timeout=limit
        )
        return future

    # ------------------------------------------------------------- sums

    def minibatch(self, sampler: Sampler, records: Placed, randomness: Randomness, step: int) -> tuple[Draw, None]:
        return Draw(sampler, records.n_rows, randomness, step), None

    def sum(
        self, model: Model, records: Placed, rows: Draw, words: None, diagnostics: dict[str, float] | None = None
    ) -> np.ndarray:
        """Sum on the workers; ClusterError if the cluster is gone, or a worker fails without being lost."""
        contributor = Sent.of(model.contributor())
        for attempt in range(_ATTEMPTS):
            sums = self._attempt(contributor, model.capacity, records, rows, diagnostics is not None, attempt)
            if sums is not None:
                break
            _log.warning("cluster: step %d is computed again, as workers were lost", rows.step)
        else:
            raise ClusterError(f"workers were lost {_ATTEMPTS} times within one step; out of memory?")
        whole = add(sums, model.capacity)
        if whole.parts != (1 << len(records.parts)) - 1:
            raise RuntimeError("a part of the data set is missing in the sum")
        if diagnostics is not None:
            diagnostics.update(whole.diagnostics)
        return whole.total

    def _attempt(
        self, model: Sent, capacity: int, placed: Placed, draw: Draw, diagnoses: bool, attempt: int
    ) -> list[PartialSum] | None:
        """Compute a few sums of all parts; None if one was lost."""
        from distributed import CancelledError, KilledWorker

        workers = list(self._workers())
        # A new name: under a known one, Dask would reuse an earlier result.
        name = f"{draw.step}-{secrets.token_hex(8)}"

        def submit(function: Callable[..., Any], *arguments: Any, key: str) -> Future[Any]:
            return self.client.submit(function, *arguments, key=key, workers=workers, pure=False)

        try:
            if attempt or not placed.held:
                self._send(placed, workers)
            sent = self._scatter(model, workers[(draw.step + attempt) % len(workers)])
        except ClusterError:
            raise
        except Exception as error:
            # Dask raises various errors if a worker is lost during a transfer.
            _log.info("cluster: nothing can be sent (%s)", type(error).__name__)
            time.sleep(0.1 * attempt)
            return None
        try:
            level = [
                submit(
                    sum_part,
                    held,
                    sent,
                    draw,
                    (part.start, part.stop),
                    number,
                    identity(),
                    diagnoses,
                    key=f"vips_sum-{name}-{number}",
                )
                for number, (held, part) in enumerate(zip(placed.held, placed.parts, strict=True))
            ]
            depth = 0
            while len(level) > _TOGETHER:
                groups = [level[i : i + _TOGETHER] for i in range(0, len(level), _TOGETHER)]
                level = [
                    submit(add, group, capacity, key=f"vips_add-{name}-{depth}-{i}") for i, group in enumerate(groups)
                ]
                depth += 1
            sums: list[PartialSum] | None = self._result(level, workers, name)
            return sums
        except CancelledError:
            return None
        except KilledWorker:
            raise ClusterError("workers died again and again over one part of the data; out of memory?") from None
        except ClusterError:
            raise
        except Exception as error:
            if isinstance(error, (OSError, TimeoutError)) or not set(workers) <= set(self._asked("ncores")):
                return None
            kind = type(error).__name__
        raise ClusterError(f"a worker failed ({kind})")  # as in `_gather`

    def _result(self, what: Any, workers: Sequence[str], name: str, timeout: float = math.inf) -> Any:
        """Wait for the result of one or more tasks; None if lost.

        A task without a worker is lost too: when a worker dies, Dask's scheduler may forget its data, or wait forever
        for it. ``name`` is in the keys of all tasks behind ``what``, except those that make blocks. Raises
        TimeoutError if it takes too long.
        """
        from distributed import futures_of

        futures = futures_of(what)
        # One transfer, however long it takes, without an unlimited wait.
        loop: Any = self.client.loop
        arriving = asyncio.run_coroutine_threadsafe(self.client.gather(what, asynchronous=True), loop.asyncio_loop)
        last, since, end = None, 0.0, time.monotonic() + timeout
        try:
            while not concurrent.futures.wait([arriving], min(1.0, timeout)).done:
                at_work, now = self._asked("processing"), time.monotonic()
                statuses, gone = [future.status for future in futures], set(workers) - at_work.keys()
                # Dask tries for long to reach a worker that computed its task and is gone.
                if gone and (gone == set(workers) or "pending" not in statuses):
                    return None
                ours = {str(key) for keys in at_work.values() for key in keys if name in str(key)}
                state = ours, any(at_work.values()), statuses
                if state != last:
                    last, since = state, now
                nobody = not state[1] and "pending" in statuses
                if now > since + (_IDLE if nobody else 10 * self.timeout):
                    if not self._executing(ours):
                        return None
                    since = now
                if now > end:
                    raise TimeoutError
            return arriving.result()
        finally:
            if not arriving.done():
                with suppress(Exception):  # nothing waits any more, so any error of Dask is irrelevant
                    self.client.cancel(futures)

    def _executing(self, keys: set[str]) -> bool:
        """Test whether a worker is computing one of these tasks."""
        try:
            at_work = self._asked("call_stack") if keys else {}
            return any(str(key) in keys for tasks in at_work.values() for key in tasks)
        except Exception:  # Dask raises various errors if a worker is lost meanwhile
            return False


def _blocks(data: Any) -> list[Any] | None:
    """List the blocks of a Dask array or of delayed blocks.

    A list may also hold matrices. The result is None for other data.
    """
    from dask.base import is_dask_collection

    if is_dask_collection(data) and hasattr(data, "to_delayed"):
        return list(np.ravel(data.to_delayed()))
    listed = isinstance(data, (list, tuple)) and len(data) > 0
    return list(data) if listed and all(is_dask_collection(d) or getattr(d, "ndim", 0) == 2 for d in data) else None


def _common(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the public facts of all blocks."""
    whole = dict(facts[0])
    for one in facts[1:]:
        for name, value in one.items():
            if name == "scale":
                whole[name] = max(whole[name], value)
            elif not np.array_equal(whole[name], value):
                raise ValueError(f"X: expected blocks of one {name}")
    return whole


@contextmanager
def connected(
    address: str | None = None, n_workers: int | None = None, timeout: float | None = None
) -> Iterator[DaskBackend]:
    """Connect to a scheduler, or to ``n_workers`` new processes here.

    For an address that begins with ``tls://``, Dask's own configuration names keys and certificates. Workers on this
    machine use TLS too, with new certificates, since other users share its ports.

    Raises ClusterError if the scheduler does not answer, or its workers cannot be used; ImportError if Dask is not
    installed.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.comm.core import connect
        from distributed.security import Security
    except ImportError:
        raise missing_package("a cluster", "dask", "dask") from None
    timeout = TIMEOUT if timeout is None else timeout

    async def greet() -> None:
        """Test the address first: a client waits forever for a silent port."""
        greeting = connect(address, timeout=timeout, **Security().get_connection_args("client"))
        (await asyncio.wait_for(greeting, timeout)).abort()

    with ExitStack() as stack:
        try:
            if address is None:
                stack.enter_context(dask.config.set(_LOCAL))
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=n_workers,
                        threads_per_worker=1,
                        dashboard_address="127.0.0.1:0",
                        security=Security.temporary(),
                        silence_logs=logging.CRITICAL,
                    )
                )
                client = stack.enter_context(Client(cluster, timeout=timeout, direct_to_workers=True))
            else:
                with concurrent.futures.ThreadPoolExecutor(1) as apart:  # from a loop that may run in this thread
                    apart.submit(asyncio.run, greet()).result()
                client = stack.enter_context(Client(address, timeout=timeout))
        except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
            what = f"{address}: the scheduler does not answer"
            if address is None:
                what = 'workers do not start; a script that starts some does so under if __name__ == "__main__"'
            raise ClusterError(f"{what} ({type(error).__name__})") from None
        yield DaskBackend(client, timeout=timeout)
