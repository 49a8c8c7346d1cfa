"""What the layers need to know of each model: its hardest records and released states.

A record of an adapter is whatever `Adapter.model` can stack into the model's data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from ..inference import State
from ..kernels import native
from ..models import logistic
from ..models.lda import LatentDirichletAllocation, _LdaModel
from ..models.logistic import BayesianLogisticRegression
from ..models.sbn import SigmoidBeliefNetwork, _PolyaGammaModel, _QuadraticModel

#: (2^-18 of the norm is kept back by clipping in float32, and truncation takes up
#: to a lattice step an entry) squared distances this close to the bound reach it.
EQUALITY = 1e-4


class Adapter(ABC):
    """One model class with settings, as the audit sees it.

    Parameters
    ----------
    settings : dict
        Constructor arguments of the estimator. What a layer has to choose itself
        (sampling rate, steps, noise multiplier) overrides them.
    """

    estimator_type: type
    #: Columns of records: for pairs and runs, and for layer B, where blocks matter.
    small, wide = 4, 4
    #: Records that give sixteen threads a block each.
    many = 100
    #: Settings of public post-processing that make whole runs quick, where none are given.
    cheap: dict = {}
    #: Whether `base` records contribute nothing where the worst pair does.
    disjoint = False

    def __init__(self, settings: dict):
        self.settings = dict(settings)

    def estimator(self, **overrides):
        """An unfitted estimator with the settings."""
        return self.estimator_type(**{**self.settings, **overrides})

    @abstractmethod
    def model(self, estimator, records):
        """The engine's model over the records."""

    @abstractmethod
    def start(self, model) -> State:
        """The public state that a run starts from."""

    def prepare(self, model, mechanism, sampler) -> None:
        """What the estimator's ``fit`` tells the model of mechanism and sampler."""

    @abstractmethod
    def sharp(self, model) -> None:
        """Put the model in a released state in which worst-case records reach the bound."""

    @abstractmethod
    def scramble(self, model, rng) -> None:
        """Put the model in another released state, drawn at random."""

    @abstractmethod
    def poison(self, model) -> None:
        """Make the released parameters non-finite, if records are then still looked at."""

    @abstractmethod
    def worst_pair(self) -> tuple:
        """(record to add, record it replaces): as far apart as two can be, in the sharp state."""

    def tight(self, neighbors: str) -> bool:
        """Whether the worst pair reaches the declared sensitivity under this relation."""
        return True

    @abstractmethod
    def base(self, n: int) -> list:
        """n other records, with as little in common with the worst pair as there can be."""

    @abstractmethod
    def generated(self, rng, columns: int) -> object:
        """A record drawn at random, extremes included."""

    @abstractmethod
    def blank(self, entries: int) -> list:
        """One or two records so wide that a release has about ``entries`` entries."""

    def exact_sums(self, model, records, words, spacing, n_threads=1) -> np.ndarray:
        """Flat int64: the sum of the records' contributions, before any rounding of sums."""
        sums = np.zeros(model.statistics_shape, dtype=np.int64)
        model.estep(np.asarray(records, dtype=np.int64), words, spacing, sums, n_threads)
        return sums.reshape(-1)


class LdaAdapter(Adapter):
    """Topic models. A record is a dense vector of counts."""

    estimator_type = LatentDirichletAllocation
    wide, many = 320, 4200
    cheap, disjoint = {"readout": "threshold", "max_doc_update_iter": 10}, True

    def model(self, estimator, records):
        from scipy.sparse import csr_array

        counts = csr_array(np.asarray(records, dtype=np.int32))
        counts.indices = counts.indices.astype(np.int32)
        return _LdaModel(estimator, counts, counts.shape[0])

    def start(self, model):
        return model.initial_state()

    def sharp(self, model):
        # Each word in one topic alone, so that a document of one word keeps its norm.
        parameters = np.full(model.statistics_shape, 1e-3)
        parameters[np.arange(model.n_words), np.arange(model.n_words) % model.n_topics] = 1e3
        model._fill_table(parameters)

    def scramble(self, model, rng):
        scale = 10.0 ** rng.uniform(-5, 1)
        average = rng.standard_normal(model.statistics_shape) * scale
        model.mstep(State(average, noise_sd=scale * rng.uniform(0.1, 2)))

    def poison(self, model):
        model._table[:] = np.nan

    def _one_word(self, word):
        record = np.zeros(self.small, dtype=np.int32)
        record[word] = self.settings.get("doc_length") or 500
        return record

    def worst_pair(self):
        return self._one_word(self.small - 1), self._one_word(self.small - 2)

    def base(self, n):
        records = [np.zeros(self.small, dtype=np.int32) for _ in range(n)]
        for number, record in enumerate(records):
            record[: self.small // 2] = 20 + 3 * np.arange(self.small // 2) + number
        return records

    def generated(self, rng, columns):
        record = np.zeros(columns, dtype=np.int32)
        kind = rng.integers(4)
        if kind == 0:
            record[rng.integers(columns)] = rng.choice([1, 3, 500, 2**20])
        elif kind == 1:
            record[:] = rng.integers(0, 9, columns)
        else:
            np.add.at(record, rng.integers(0, columns, int(rng.integers(1, 3 * columns))), 1)
        return record

    def blank(self, entries):
        return [np.zeros(-(-entries // int(self.estimator().n_components)), dtype=np.int32)]


class SbnAdapter(Adapter):
    """Sigmoid belief networks, both bounds. A record is a vector of 0 and 1."""

    estimator_type = SigmoidBeliefNetwork
    small, wide, many = 6, 12, 9000

    @property
    def _quadratic(self) -> bool:
        return self.estimator().bound != "pg"

    def model(self, estimator, records):
        kind = _QuadraticModel if estimator.bound != "pg" else _PolyaGammaModel
        return kind(estimator, np.ascontiguousarray(records, dtype=np.uint8))

    def start(self, model):
        return State(np.zeros(model.statistics_shape))

    def prepare(self, model, mechanism, sampler):
        model.set_spacing(mechanism.spacing)

    def sharp(self, model):
        if not self._quadratic:
            # z = 1 and psi = 0: all six blocks at their longest.
            model._w, model._variances = np.zeros_like(model._w), np.zeros_like(model._variances)
            model._b = np.full_like(model._b, 60.0)

    def scramble(self, model, rng):
        if self._quadratic:
            while model._step < model._mean_steps:
                model.mstep(State(rng.standard_normal(model.statistics_shape) * 0.5))
        model._w = rng.standard_normal(model._w.shape) * 10.0 ** rng.uniform(-3, 1.5)
        model._variances = rng.random(model._w.shape)
        model._b = rng.standard_normal(model._b.shape) * 3
        model._c = rng.standard_normal(model._c.shape) * 3

    def poison(self, model):
        model._w = np.full_like(model._w, np.nan)
        model._c = np.full_like(model._c, np.nan)

    def worst_pair(self):
        return np.ones(self.small, dtype=np.uint8), np.zeros(self.small, dtype=np.uint8)

    def tight(self, neighbors):
        # The bound for replacing one is not reached where q(z) has one sign for all records.
        return self._quadratic or neighbors == "add_remove" and self.estimator().clip == 1

    def base(self, n):
        return [(np.arange(self.small) + i) % 2 for i in range(n)]

    def generated(self, rng, columns):
        return (rng.random(columns) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])).astype(np.uint8)

    def blank(self, entries):
        estimator = self.estimator()
        k = int(estimator.n_components)
        each = k + 1 if estimator.bound != "pg" else k * (k + 3) // 2 + 2
        return [np.arange(-(-entries // each)) % 2]

    def exact_sums(self, model, records, words, spacing, n_threads=1):
        # The finished sums are rounded to the noise's lattice; what has to be exact is below it.
        parts: list[np.ndarray] = []
        model._add = lambda sums, name, fine, scale, spacing: parts.append(np.array(fine, dtype=np.int64).reshape(-1))
        try:
            super().exact_sums(model, records, words, spacing, n_threads)
        finally:
            del model._add
        return np.concatenate(parts)


class LogisticAdapter(Adapter):
    """Bayesian logistic regression. A record is (row, y)."""

    estimator_type = BayesianLogisticRegression
    small, wide, many = 3, 32, 40_000

    def model(self, estimator, records):
        rows = logistic.check_rows(
            logistic._with_constant(np.array([x for x, _ in records]), estimator._constant), np.array([y for _, y in records])
        )
        return logistic._Model(estimator, rows)

    def start(self, model):
        return State(np.zeros(model.statistics_shape))

    def prepare(self, model, mechanism, sampler):
        model.prepare(mechanism, sampler)

    def sharp(self, model):
        # The first step as it is: <xi> = b/4, and a row at its bound has both blocks at theirs.
        pass

    def scramble(self, model, rng):
        d = model._d
        center = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 1)
        factor = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-3, 0)
        model._center, model._mean = center, center.copy()
        model._moment = factor @ factor.T + np.outer(center, center)
        model._step = int(rng.integers(1, 3))

    def poison(self, model):
        model._moment = np.full((model._d, model._d), np.nan)
        model._center = np.full(model._d, np.nan)
        model._step = 1

    def _unit(self, column, sign=1.0):
        row = np.zeros(self.small)
        row[column] = sign * float(self.estimator().row_norm)
        return row

    def worst_pair(self):
        trials = float(self.estimator().n_trials)
        return (self._unit(0), trials), (self._unit(0, -1.0), trials)

    def tight(self, neighbors):
        estimator = self.estimator()
        return neighbors == "add_remove" and estimator.sensitivity == "proven" and estimator.linear_share is None

    def base(self, n):
        return [(self._unit(1 + i % (self.small - 1)), float(i % 2)) for i in range(n)]

    def generated(self, rng, columns):
        row = rng.standard_normal(columns) * 10.0 ** rng.uniform(-2, 2)
        if rng.random() < 0.2:
            row[rng.integers(columns)] = rng.choice([0.0, 1e6, -1e6])
        return row, float(rng.integers(2)) * float(self.estimator().n_trials)

    def blank(self, entries):
        return [(np.zeros(max(1, math.isqrt(2 * entries) - 2)), 0.0)]

    def exact_sums(self, model, records, words, spacing, n_threads=1):
        # As it is before the finished sums are rounded to the noise's lattice.
        class Unrounded:
            """The kernels, but for the rounding of finished sums."""

            blr_round = staticmethod(lambda *arguments: None)

            def __getattr__(self, name):
                return getattr(native, name)

        logistic.native = Unrounded()
        try:
            return super().exact_sums(model, records, words, spacing, n_threads)
        finally:
            logistic.native = native


#: Adapter of each model, by the name of the command line.
ADAPTERS = {"lda": LdaAdapter, "sbn": SbnAdapter, "blr": LogisticAdapter}


def adapter_for(model, settings: dict | None = None) -> Adapter:
    """The adapter of a name, an estimator class, an estimator with parameters or an adapter.

    Parameters
    ----------
    model : {"lda", "sbn", "blr"}, estimator class, unfitted estimator or Adapter
        An adapter of your own audits a model of your own.
    settings : dict or None
        Constructor arguments; they override those of an estimator or adapter.

    Raises
    ------
    ValueError
        If no adapter is known, or an argument is not a parameter of the model.
    """
    settings = dict(settings or {})
    if isinstance(model, Adapter):
        return type(model)({**model.settings, **settings})
    for name, adapter in ADAPTERS.items():
        kind = adapter.estimator_type
        if model == name or model is kind or type(model) is kind:
            if type(model) is kind:
                settings = {**model.get_params(), **settings}
            unknown = sorted(set(settings) - set(kind._parameter_names()))
            if unknown:
                raise ValueError(f"settings: {unknown[0]!r} is not a parameter of {kind.__name__}")
            return adapter(settings)
    raise ValueError(
        f"model={model!r}: expected one of {', '.join(map(repr, ADAPTERS))}, their class or an estimator, or an Adapter "
        "(`conjugate_adapter` makes one of a ConjugateEstimator)"
    )


def squared_norm(array: np.ndarray) -> int:
    """Sum of squares of an integer array, in integers of any length."""
    return sum(int(v) * int(v) for v in array[array != 0].tolist())


def is_close_below(square: int, bound: float) -> bool:
    """Whether a squared distance reaches its bound, up to what clipping and truncation keep back."""
    return square >= (1.0 - EQUALITY) * bound and math.isfinite(bound)
