"""Backends compute contributions: blocks of units in, one exact sum out.

A backend maps `Model.contribute` over blocks and adds integers. Sums of integers have the same bits for any partition
and any order, so a backend may distribute blocks freely and recompute lost ones.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..data.arrays import numbers_of
from ..kernels.threads import map_chunks, run_blocks, zeros_on_line
from .model import Model, Records
from .sampling import Randomness, Sampler, minibatch

#: Reads data, labels and groups as records with public facts.
Reader: TypeAlias = Callable[[Any, Any, Any], tuple[Records, dict[str, Any]]]

#: Most bytes of all threads' accumulators together; with larger ones a sum uses fewer threads.
ACCUMULATOR_BYTES = 2**31

#: Entries of the accumulators that a thread adds at a time.
_CHUNK = 1 << 16


class Backend(Protocol):
    """Draws records and computes the sum of their contributions."""

    #: Of this process, for work at the root, such as the noise.
    n_threads: int

    def read(self, reader: Reader, X: Any, y: Any, groups: Any) -> tuple[Any, dict[str, Any]]:
        """Read records and public facts from data."""

    def placed(self, records: Records) -> AbstractContextManager[Any]:
        """Place a run's records next to its computation during this block."""

    def minibatch(self, sampler: Sampler, records: Any, randomness: Randomness, step: int) -> tuple[Any, Any]:
        """Draw a step's rows and their random words, for `sum`. ``randomness`` belongs to the step."""

    def sum(
        self, model: Model, records: Any, rows: Any, words: Any, diagnostics: dict[str, float] | None = None
    ) -> np.ndarray:
        """Sum the model's contributions over ``rows``, exactly; shape ``model.fine_shape``.

        int64, or Python integers if int64 could overflow. In a run that is not private anyway, ``diagnostics``
        receives un-noised values: ``records``, their number, and the model's own.
        """


@dataclass
class Threads:
    """Threads of this process, each with an accumulator of its own."""

    n_threads: int = 1

    def read(self, reader: Reader, X: Any, y: Any, groups: Any) -> tuple[Records, dict[str, Any]]:
        return reader(X, y, groups)

    def placed(self, records: Records) -> AbstractContextManager[Records]:
        return nullcontext(records)

    def minibatch(
        self, sampler: Sampler, records: Records, randomness: Randomness, step: int
    ) -> tuple[np.ndarray | range, np.ndarray]:
        return minibatch(sampler, records.n_rows, records.usable, randomness, step)

    def sum(
        self, model: Model, records: Records, rows: Any, words: np.ndarray, diagnostics: dict[str, float] | None = None
    ) -> np.ndarray:
        if len(rows) > model.capacity:
            whole = np.zeros(model.fine_shape, dtype=object)
            for first in range(0, len(rows), model.capacity):
                part = slice(first, first + model.capacity)
                whole += self.sum(model, records, rows[part], words[part], diagnostics)
            return whole
        if diagnostics is not None:
            diagnostics["records"] = diagnostics.get("records", 0.0) + float(len(rows))
        if (asked := model.asked(words)) is not None:
            rows, words = numbers_of(rows)[asked], words[asked]
        if not getattr(records, "takes_ranges", False):
            rows = numbers_of(rows)
        edges = records.edges(rows)
        n_blocks = len(edges) - 1
        total = zeros_on_line(model.fine_shape, np.int64)
        n_threads = max(1, min(self.n_threads, n_blocks, ACCUMULATOR_BYTES // max(total.nbytes, 1)))
        outs, scratches = [total], list[dict[str, Any]]()
        for worker in range(n_threads):
            scratches.append({} if diagnostics is None else {"diagnostics": {}})
            if worker:
                outs.append(zeros_on_line(total.shape, total.dtype))

        def work(block: int, worker: int) -> None:
            first, last = int(edges[block]), int(edges[block + 1])
            model.contribute(records.block(rows[first:last]), words[first:last], outs[worker], scratches[worker])

        run_blocks(n_blocks, n_threads, work)

        def merge(first: int, last: int, worker: int) -> None:
            for extra in outs[1:]:
                total.reshape(-1)[first:last] += extra.reshape(-1)[first:last]

        if n_threads > 1:
            map_chunks(total.size, _CHUNK, n_threads, merge)
        if diagnostics is not None:
            for scratch in scratches:
                for name, value in scratch["diagnostics"].items():
                    diagnostics[name] = diagnostics.get(name, 0.0) + value
        return total
