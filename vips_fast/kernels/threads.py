"""Python threads over blocks of records: the only parallelism of the package.

Kernels release the GIL, so plain threads scale. OpenMP deadlocks after a fork and oversubscribes with a threaded BLAS.
"""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")


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
    own an accumulator. The calling thread is worker 0. The first exception stops the handing out and is raised here.
    """
    n_threads = max(1, min(n_threads, n_blocks))
    if n_threads == 1:
        for block in range(n_blocks):
            work(block, 0)
        return
    lock = threading.Lock()
    remaining = iter(range(n_blocks))
    errors: list[BaseException] = []

    def loop(worker: int) -> None:
        while True:
            with lock:
                block = -1 if errors else next(remaining, -1)
            if block < 0:
                return
            try:
                work(block, worker)
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=loop, args=(i,), daemon=True) for i in range(1, n_threads)]
    for thread in threads:
        thread.start()
    loop(0)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def map_chunks(n: int, size: int, n_threads: int, work: Callable[[int, int, int], Result]) -> list[Result]:
    """Run ``work(first, last, worker)`` for ranges of ``size`` in 0..n, in order.

    What is summed over the list has the same bits for any number of threads.
    """
    found: dict[int, Result] = {}

    def block(number: int, worker: int) -> None:
        found[number] = work(number * size, min((number + 1) * size, n), worker)

    run_blocks(-(-n // size), n_threads, block)
    return [found[number] for number in range(len(found))]
