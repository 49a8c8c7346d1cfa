"""Audit of a model of one's own: the adapter of any `ConjugateEstimator`."""

import inspect
import math
from typing import Any

import numpy as np

from ..checks import same
from ..models.conjugate import ConjugateEstimator
from ..models.fit import Fit
from .adapter import Adapter
from .bench import Bench, relation_of

#: Candidates among which the pair that is furthest apart is looked for.
_CANDIDATES = 400


class ConjugateAdapter(Adapter):
    """An adapter that `conjugate_adapter` makes. A record is (row of X,) or (row of X, entry of y)."""

    many = 16 * 2048

    def __init__(self, estimator: ConjugateEstimator, examples: list[Any], parameters: tuple[np.ndarray, ...] | None):
        defaults = inspect.signature(type(estimator).__init__).parameters
        given = estimator.get_params().items()
        super().__init__(
            {name: value for name, value in given if not same(value, defaults[name].default)}, type(estimator)
        )
        self.examples, self.parameters, self.names = examples, parameters, ("X", "y")[: len(examples[0])]
        self.small = self.wide = len(examples[0][0])

    def sharp(self, stage: Fit) -> None:
        if self.parameters is None:
            return
        state = stage.model.state()
        for number, array in enumerate(self.parameters):
            state[f"parameter_{number}"] = np.asarray(array, dtype=np.float64)
        stage.model.restore(state)

    def worst_pair(self) -> tuple[Any, Any]:
        bench = Bench(self, relation_of(self))
        stage = bench.prepare(bench.whole(n_records=len(self.examples)), self.examples)
        self.sharp(stage)
        first, second = bench.furthest(stage)
        return self.examples[first], self.examples[second]

    def tight(self, relation: str) -> bool:
        return False  # nobody has said that these records attain the bound

    def base(self, n: int) -> list[Any]:
        return [self.examples[i % len(self.examples)] for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        x, *_ = self.examples[int(rng.integers(len(self.examples)))]
        _, *y = self.examples[int(rng.integers(len(self.examples)))]
        kind = rng.integers(4)
        if kind < 2:
            return x, *y
        drawn = rng.standard_normal(x.shape) * 10.0 ** rng.uniform(-3, 3)
        return (drawn if kind == 2 else np.where(rng.random(x.shape) < 0.5, x, drawn)), *y

    def blank(self, columns: int) -> list[Any]:
        return [(np.resize(x, columns), *y) for x, *y in self.base(2)]

    def width(self, entries: int) -> int:
        """Double the columns until there are enough entries, or no more of them."""
        bench, columns, before = Bench(self, relation_of(self)), self.small, 0
        while True:
            try:
                size = math.prod(bench.prepare(bench.whole(), self.blank(columns)).model.shape)
            except ValueError:
                return columns // 2
            if size == before:  # statistics that do not grow with the columns
                return columns // 2
            if size >= entries:
                return columns
            columns, before = 2 * columns, size


def conjugate_adapter(
    estimator: ConjugateEstimator, X: Any, y: Any = None, *, parameters: tuple[np.ndarray, ...] | None = None
) -> Adapter:
    """Make the adapter for an audit of your own model.

    ``audit(conjugate_adapter(estimator, X, y))`` runs all layers on it. The bound is tried with pairs of the rows given
    here, with changed copies of them and with random numbers. Layers D and E take the two rows that are furthest apart,
    or the longest one for adding or removing. So give rows that come near the bound.

    Parameters
    ----------
    estimator : ConjugateEstimator
        Unfitted; its parameters are the settings that are audited.
    X, y : as for its ``fit``
        Public or invented rows, at least two. Of more than 400 the first 400 count.
    parameters : tuple of arrays or None
        As ``start`` and ``mstep`` return them: layers A and D look at these rows under parameters that make the longest
        contributions. None takes the public start.

    Raises TypeError if ``estimator`` is no ConjugateEstimator, and ValueError if there are fewer than two records, or
    X, y or parameters are unusable.
    """
    if not isinstance(estimator, ConjugateEstimator):
        kind = type(estimator).__name__
        raise TypeError(f"estimator: expected an instance of a subclass of ConjugateEstimator, got {kind}")
    X = np.asarray(X)[:_CANDIDATES]
    y = None if y is None else np.asarray(y)[:_CANDIDATES]
    if X.ndim != 2 or len(X) < 2:
        raise ValueError(f"X has shape {X.shape}: expected a table of at least 2 records")
    if y is not None and len(y) != len(X):
        raise ValueError(f"y has {len(y)} entries: expected one for each of {len(X)} records")
    records = [(x,) for x in X] if y is None else [*zip(X, y, strict=True)]
    adapter = ConjugateAdapter(estimator, records, parameters)
    # Refuses unusable rows and parameters at once.
    bench = Bench(adapter, relation_of(adapter))
    adapter.sharp(bench.prepare(bench.whole(), records))
    return adapter
