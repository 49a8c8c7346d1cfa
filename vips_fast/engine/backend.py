"""Where contributions are computed: blocks of units in, one exact sum out.

A backend maps `Model.contribute` over blocks and adds integers. Sums of integers have
the same bits for any partition and any order, so a backend may hand out blocks as it
likes and recompute lost ones.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..kernels.threads import map_chunks, run_blocks
from .model import Model, Records

#: Bytes of all threads' accumulators together, beyond which fewer threads are used.
ACCUMULATOR_BYTES = 2**31

#: Entries of the accumulators that a thread adds at a time.
_CHUNK = 1 << 16


class Backend(Protocol):
    """Computes the sum of the contributions of drawn records."""

    n_threads: int

    def sum(
        self, model: Model, records: Records, rows: np.ndarray, words: np.ndarray,
        figures: dict[str, float] | None = None,
    ) -> np.ndarray:
        """Exact sum over ``rows`` of the model's contributions, shape ``model.fine_shape``.

        int64, or Python integers where int64 could not hold it. ``figures`` takes
        un-noised diagnostics, where the run is not private anyway.
        """


class Threads:
    """Threads of this process, each with an accumulator of its own.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int = 1):
        self.n_threads = n_threads

    def sum(
        self, model: Model, records: Records, rows: np.ndarray, words: np.ndarray,
        figures: dict[str, float] | None = None,
    ) -> np.ndarray:
        """See `Backend.sum`."""
        if len(rows) <= model.capacity:
            return self._portion(model, records, rows, words, figures)
        total = np.zeros(model.fine_shape, dtype=object)
        for first in range(0, len(rows), model.capacity):
            part = slice(first, first + model.capacity)
            total += self._portion(model, records, rows[part], words[part], figures)
        return total

    def _portion(self, model, records, rows, words, figures) -> np.ndarray:
        edges = records.edges(rows)
        n_blocks = len(edges) - 1
        total = np.zeros(model.fine_shape, dtype=np.int64)
        n_threads = max(1, min(self.n_threads, n_blocks, ACCUMULATOR_BYTES // max(total.nbytes, 1)))
        outs: list[np.ndarray] = [total] + [np.zeros_like(total) for _ in range(n_threads - 1)]
        scratches: list[dict[str, Any]] = [{} for _ in range(n_threads)]
        if figures is not None:
            for scratch in scratches:
                scratch["figures"] = {}

        def work(block: int, worker: int) -> None:
            first, last = int(edges[block]), int(edges[block + 1])
            model.contribute(records.block(rows[first:last]), words[first:last], outs[worker], scratches[worker])

        run_blocks(n_blocks, n_threads, work)
        flat = [out.reshape(-1) for out in outs]

        def merge(first: int, last: int, worker: int) -> None:
            for extra in flat[1:]:
                flat[0][first:last] += extra[first:last]

        map_chunks(total.size, _CHUNK, n_threads, merge)
        if figures is not None:
            for scratch in scratches:
                for name, value in scratch["figures"].items():
                    figures[name] = figures.get(name, 0.0) + value
        return total
