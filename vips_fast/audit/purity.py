"""Run layer B, purity: contributions have equal bits in any company."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..models.fit import Fit
from .bench import STEPS, Bench, Part, Sizes
from .report import Check, LayerResult

_THREADS = (2, 7, 16)
_SHARDS = (2, 5, 16)


def layer_b(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Compare a record's contribution by itself, in company and later."""
    adapter = bench.adapter
    purity = _Purity(bench, [adapter.generated(rng, adapter.wide) for _ in range(adapter.many)], rng)
    checks = [purity.shards("any shards, first step"), purity.threads(16, "16 threads, first step")]
    bench.teach(purity.stage, (0, 1))
    checks += [replace(check, name=check.name + ", last release") for check in purity.checks(sizes, last=True)]
    purity.stage.model.restore(purity.start)
    adapter.scramble(purity.stage, rng, 2)
    checks += [*purity.checks(sizes), _large(bench, sizes.rows, rng)]
    return LayerResult("B", "purity of contributions", tuple(checks))


def _large(bench: Bench, n_rows: int, rng: np.random.Generator) -> Check:
    """Compare a record in small and very large data: grids ignore size."""
    adapter, estimator = bench.adapter, bench.whole(n_records=1000)
    record, word = adapter.generated(rng, adapter.small), rng.integers(0, 2**64, 1, dtype=np.uint64)
    small = bench.prepare(estimator, [record, *adapter.base(2)])
    adapter.scramble(small, rng, 2)
    rows = np.arange(n_rows) % 3
    rows[3:] = np.maximum(rows[3:], 1)
    data = adapter.data([record, *adapter.base(2)])
    large = bench.prepare_data(estimator, adapter.take(data, rows))
    large.model.restore(small.model.state())
    same = np.array_equal(bench.fine(small, [0], word), bench.fine(large, [0], word))
    return Check("in a large data set", same, detail=f"the record among 3 rows and among {n_rows}")


class _Purity:
    """Records, random words and one state that comparisons share.

    There are many records, and the state is a released one.
    """

    def __init__(self, bench: Bench, records: list[Any], rng: np.random.Generator):
        self.bench, self.rng, self.n, self.records = bench, rng, len(records), records
        self.data = bench.adapter.data(records)
        self.words = rng.integers(0, 2**64, self.n, dtype=np.uint64)
        # The public number of records is the same for a record's own data set.
        self.estimator = bench.whole(n_records=self.n, n_steps=STEPS)
        self.stage = bench.prepare_data(self.estimator, self.data)
        self.start = self.stage.model.state()
        self.everything = np.arange(self.n)
        self.freeze()

    def freeze(self) -> None:
        """Take the model's state and the sum of all records under it."""
        self.state = self.stage.model.state()
        self.whole = self.sum(self.everything)

    def checks(self, sizes: Sizes, last: bool = False) -> list[Check]:
        """Compare under the state that the model is in; ``last`` if a score may come next."""
        self.freeze()
        threads = [self.threads(k, f"{k} threads") for k in _THREADS]
        return [self.shards("any shards"), *threads, *self.partitions(), *self.singles(sizes, last)]

    def sum(self, rows: Sequence[int] | np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Exact sum of some records of the large data set."""
        return self.bench.fine(self.stage, rows, self.words[np.asarray(rows)], n_threads)

    def alone(self, rows: np.ndarray) -> tuple[Fit, np.ndarray]:
        """Make a data set of only these records, read anew, with words."""
        own = self.bench.prepare_data(self.estimator, self.bench.adapter.take(self.data, rows))
        own.model.restore(self.state)
        return own, self.words[rows]

    def threads(self, k: int, name: str) -> Check:
        """Return the sum of all, by several threads."""
        same = np.array_equal(self.sum(self.everything, k), self.whole)
        return Check(name, same, detail=f"sum of {self.n} records, bit for bit")

    def shards(self, name: str) -> Check:
        """Check additivity: add shards, each read by itself, in any order."""
        bad = 0
        for count in _SHARDS:
            shard_of = self.rng.integers(count, size=self.n)
            total: Any = 0
            for shard in self.rng.permutation(count):
                own, words = self.alone(np.flatnonzero(shard_of == shard))
                total = total + self.bench.fine(own, np.arange(len(words)), words)
            bad += not np.array_equal(total, self.whole)
        counts = ", ".join(map(str, _SHARDS))
        return Check(name, bad == 0, detail=f"{counts} data sets of their own, added in random order")

    def partitions(self) -> list[Check]:
        """Return orders, chunks and portions of one data set."""
        order, n = self.rng.permutation(self.n), self.n
        shuffled = self.sum(order[:-1], 2) + self.sum(order[-1:])
        cuts = np.sort(self.rng.choice(np.arange(1, n), min(20, n - 1), replace=False))
        chunks = sum(self.sum(part) for part in np.split(self.everything, cuts))
        same = np.array_equal(shuffled, self.whole)
        # Sums beyond int64 add in portions, and round the same.
        model, spacing = self.stage.model, self.stage.plan.mechanism.spacing
        small: Any = Part(model)
        small.capacity = -(-n // 3)
        exact = self.stage.backend.sum(small, self.stage.records, *self._kept())
        whole = self.whole.reshape(model.fine_shape)
        added = exact.dtype == object and np.array_equal(exact.reshape(-1), self.whole)
        added = added and np.array_equal(model.round(exact, spacing), model.round(whole, spacing))
        return [
            Check("any order", same, detail="all but one record, shuffled, plus that record"),
            Check("any chunks", np.array_equal(chunks, self.whole), detail=f"{len(cuts) + 1} chunks of unequal size"),
            Check("portions", bool(added), detail="three of them, added and rounded as integers of any length"),
        ]

    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        usable = self.stage.records.usable
        return (self.everything, self.words) if usable is None else (self.everything[usable], self.words[usable])

    def singles(self, sizes: Sizes, last: bool) -> list[Check]:
        """Return records one by one."""
        looked = np.sort(self.rng.choice(self.n, min(sizes.records, self.n), replace=False))
        single = {int(i): self.sum([i]) for i in looked}
        together = self.sum(looked)
        some = [int(i) for i in looked[: max(1, min(20, len(looked)))]]

        def differ(again: Any) -> int:
            return sum(not np.array_equal(again(i), single[i]) for i in some)

        checks = [
            Check(
                "alone and together",
                np.array_equal(sum(single.values()), together),
                detail=f"{len(looked)} records alone, and in one batch",
            ),
            Check(
                "any company",
                differ(lambda i: together - self.sum(np.setdiff1d(looked, [i]))) == 0,
                detail=f"batch less the batch without the record, {len(some)} records",
            ),
            Check("after other minibatches", differ(lambda i: self.sum([i])) == 0, detail="the same again, later"),
            Check("its own data set", differ(self._own) == 0, detail="the record in another data set"),
        ]
        scratch, entered = self._sum_poisoned(last)
        after = f"after one {'whose parameters were not finite' if entered else 'as it was, as NaN is refused'}"
        later, used = differ(lambda i: self.sum([i])), differ(lambda i: self._in(scratch, i))
        return [
            *checks,
            Check("after a poisoned minibatch", later == 0, detail=f"the same again, {after}"),
            Check("in a used workspace", used == 0, detail=f"the same workspace, {after}"),
        ]

    def _own(self, row: int) -> np.ndarray:
        adapter = self.bench.adapter
        own = self.bench.prepare(self.estimator, [self.records[row], *adapter.blank(adapter.wide)])
        own.model.restore(self.state)
        return self.bench.fine(own, [0], self.words[[row]])

    def _sum_poisoned(self, last: bool) -> tuple[dict[str, Any], bool]:
        """Sum with poisoned parameters; return the workspace and whether they got in."""
        model, records = self.stage.model, self.stage.records
        scratch: dict[str, Any] = {}
        entered = self.bench.adapter.poison(self.stage, last)
        some = self.everything[: max(1, self.n // 10)]
        with np.errstate(all="ignore"):
            self.sum(some, 2)
            edges = records.edges(some)
            for first, last in zip(edges[:-1], edges[1:], strict=True):
                part = some[first:last]
                model.contribute(records.block(part), self.words[part], np.zeros(model.fine_shape, np.int64), scratch)
        model.restore(self.state)
        return scratch, entered

    def _in(self, scratch: dict[str, Any], row: int) -> np.ndarray:
        model, records, rows = self.stage.model, self.stage.records, np.array([row])
        out = np.zeros(model.fine_shape, dtype=np.int64)
        if records.usable is None or records.usable[row]:
            model.contribute(records.block(rows), self.words[rows], out, scratch)
        return out.reshape(-1)
