"""How kernels run: Python threads over blocks of records, and arrays that begin on cache lines.

Threads are the only parallelism of the package. Kernels release the GIL, so plain threads scale. OpenMP deadlocks after
a fork and oversubscribes with a threaded BLAS. Threads stay for the next call, because starting 15 of them takes longer
than a block. A fork leaves its child none.
"""

import importlib
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

Result = TypeVar("Result")

#: More threads than any call asks for: they are started as they are needed.
_MOST_THREADS = 4096
#: Below this dimension a second BLAS thread costs more than it brings.
_ONE_THREAD_BELOW = 512
_pool: ThreadPoolExecutor | None = None

#: Bytes of a cache line; vectors that straddle two cost twice.
_LINE = 64

#: Arrays of _LARGE bytes or more are read here and there. The processor's table of 4 KiB pages is then short. So numpy
#: asks Linux for pages of 2 MiB for one piece of memory of at least _HUGE bytes.
_LARGE, _HUGE = 2**20, 2**22


#: BLAS libraries that are limited to one thread, with the threads that they had, and how many blocks want it so.
_limited: dict[str, tuple[Any, int]] = {}
_limiting = 0
_limit = threading.Lock()


def _after_fork() -> None:
    global _pool, _limit
    _pool, _limit = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def resolve_n_threads(n_threads: int | None, name: str = "n_jobs") -> int:
    """Count the threads to use: a positive number, or -1 for all.

    None takes the environment variable ``VIPS_FAST_NUM_THREADS`` (1 if unset); ``name`` is the argument's in messages.
    Raises ValueError if the number is 0 or below -1, or the environment variable is not a number.
    """
    if n_threads is None:
        text = os.environ.get("VIPS_FAST_NUM_THREADS", "1")
        try:
            n_threads, name = int(text), "VIPS_FAST_NUM_THREADS"
        except ValueError:
            raise ValueError(f"VIPS_FAST_NUM_THREADS={text!r}: expected a positive integer or -1") from None
    if isinstance(n_threads, (bool, np.bool_)) or not isinstance(n_threads, (int, np.integer)):
        raise TypeError(f"{name}={n_threads!r}: expected an integer or None")
    if n_threads == -1:
        try:
            return len(os.sched_getaffinity(0))
        except AttributeError:
            return os.cpu_count() or 1
    if n_threads < 1:
        raise ValueError(f"{name}={n_threads}: expected a positive integer or -1")
    return int(n_threads)


def run_blocks(n_blocks: int, n_threads: int, work: Callable[[int, int], object]) -> None:
    """Call ``work(block, worker)`` once for each block, on ``n_threads`` threads.

    Blocks are handed out in order to whichever worker is free; ``worker`` numbers the threads from 0, so that each can
    own an accumulator. The calling thread is worker 0, and waits for no thread that has not begun. The first exception
    stops the handing out and is raised here.
    """
    n_threads = max(1, min(n_threads, n_blocks))
    if n_threads == 1:
        for block in range(n_blocks):
            work(block, 0)
        return
    state = threading.Condition()
    remaining, active, closed = iter(range(n_blocks)), 0, False
    errors: list[BaseException] = []

    def loop(worker: int) -> None:
        while True:
            with state:
                block = -1 if errors else next(remaining, -1)
            if block < 0:
                return
            try:
                work(block, worker)
            except BaseException as error:
                errors.append(error)
                return

    def help_out(worker: int) -> None:
        nonlocal active
        with state:
            if closed:
                return
            active += 1
        loop(worker)
        with state:
            active -= 1
            state.notify()

    _submit(help_out, n_threads - 1)
    loop(0)
    with state:
        closed = True
        while active:
            state.wait()
    if errors:
        raise errors[0]


def _submit(work: Callable[[int], None], number: int) -> None:
    """Let threads call ``work`` with 1 to ``number``, if there are any."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_MOST_THREADS, "vips_fast")
    try:
        for worker in range(1, number + 1):
            _pool.submit(work, worker)
    except RuntimeError:  # the system gives no more, or Python ends
        pass


def map_chunks(n: int, size: int, n_threads: int, work: Callable[[int, int, int], Result]) -> list[Result]:
    """Run ``work(first, last, worker)`` for ranges of ``size`` in 0..n, in order.

    What is summed over the list has the same bits for any number of threads.
    """
    n_blocks = -(-n // size)
    if n_threads == 1 or n_blocks == 1:
        results = []
        for first in range(0, n, size):
            results.append(work(first, min(first + size, n), 0))
        return results
    found: dict[int, Result] = {}

    def block(number: int, worker: int) -> None:
        found[number] = work(number * size, min((number + 1) * size, n), worker)

    run_blocks(n_blocks, n_threads, block)
    return [found[number] for number in range(n_blocks)]


@cache
def _thread_controller(scipy: bool) -> Any:
    """Return threadpoolctl's view of the BLAS libraries that are loaded by now."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread(d: int, scipy: bool = True) -> Iterator[Any]:
    """Limit BLAS to one thread for matrices of dimension d < 512.

    Gives `scipy.linalg.lapack`; without ``scipy``, which takes a while to import, None, and limits only NumPy's BLAS.
    """
    # Loaded before the controller looks for BLAS libraries.
    lapack = importlib.import_module("scipy.linalg.lapack") if scipy else None
    if d >= _ONE_THREAD_BELOW:
        yield lapack
        return
    _limit_blas(_thread_controller(scipy))
    try:
        yield lapack
    finally:
        _end_limit()


def _limit_blas(controller: Any) -> None:
    """Leave each BLAS library one thread until all blocks that want it so have ended: the number is the process's."""
    global _limiting
    with _limit:
        _limiting += 1
        for library in controller.lib_controllers:
            if library.user_api == "blas" and (n_threads := library.num_threads) != 1:
                _limited.setdefault(library.filepath, (library, n_threads))
                library.set_num_threads(1)


def _end_limit() -> None:
    global _limiting
    with _limit:
        _limiting -= 1
        if _limiting == 0:
            for library, n_threads in _limited.values():
                library.set_num_threads(n_threads)
            _limited.clear()


def zeros_on_line(shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
    """Make zeros that begin on a cache line, on large pages."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
    raw = np.zeros(size + (_HUGE if _LARGE <= size < _HUGE else _LINE), dtype=np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + size].view(dtype).reshape(shape)
