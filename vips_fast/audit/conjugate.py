"""Audit of a model of one's own: the adapter of any `ConjugateEstimator`."""

from __future__ import annotations

import inspect

import numpy as np

from ..inference import State
from ..models.base import _same
from ..models.conjugate import _BLOCK, ConjugateEstimator, _checked_parameters, _checked_records, _ConjugateModel
from .adapters import Adapter
from .layers import relation

#: Candidates among which the pair that is furthest apart is looked for.
_CANDIDATES = 400


class _Wide(list):
    """Records of a release that is filled up with zeros to ``entries`` statistics."""

    entries = 0


class ConjugateAdapter(Adapter):
    """See `conjugate_adapter`, which makes one. A record is a row of what the estimator's ``records`` gives."""

    many = 16 * _BLOCK
    examples: np.ndarray
    parameters: tuple | None = None

    def model(self, estimator, records):
        rows = np.array(list(records))
        estimator.n_columns_, estimator.n_records_ = rows.shape[1], estimator._public_n_records(len(rows))
        model = _ConjugateModel(estimator, _checked_records(rows))
        if isinstance(records, _Wide):
            # The statistics function sees a longer array, and no record is any longer for it.
            model._n_statistics = max(model._n_statistics, records.entries)
            model.statistics_shape = (model._n_statistics,)
        return model

    def start(self, model):
        return State(np.zeros(model.statistics_shape))

    def sharp(self, model):
        if self.parameters is not None:
            model.parameters = self.parameters

    def scramble(self, model, rng):
        scale = model.clip_norm * 10.0 ** rng.uniform(-3, 1) / np.sqrt(model.statistics_shape[0])
        released = rng.standard_normal(model.statistics_shape) * scale
        model.mstep(State(released, noise_sd=scale, initial_weight=0.0, step=1))

    def poison(self, model):
        # Read-only like others: another type would be compiled anew.
        poisoned = tuple(np.full_like(array, np.nan) for array in model.parameters)
        for array in poisoned:
            array.flags.writeable = False
        model.parameters = poisoned

    def worst_pair(self):
        model = self.model(self.estimator(), self.examples)
        self.sharp(model)
        values, _ = model.evaluate(self.examples)
        norms = np.linalg.norm(values, axis=1)
        values *= np.minimum(1.0, model.clip_norm / np.maximum(norms, np.finfo(float).tiny))[:, None]
        if relation(self) == "replace_one":
            squares = (values**2).sum(axis=1)
            distances = squares[:, None] + squares[None, :] - 2 * values @ values.T
            first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
        else:
            first = int(np.argmax(norms))
            second = (first + 1) % len(self.examples)
        return self.examples[first], self.examples[second]

    def tight(self, neighbors):
        # Nobody has said that these records attain the bound.
        return False

    def base(self, n):
        return [self.examples[i % len(self.examples)] for i in range(n)]

    def generated(self, rng, columns):
        example = self.examples[rng.integers(len(self.examples))]
        kind = rng.integers(4)
        if kind < 2:
            return example
        drawn = rng.standard_normal(len(example)) * 10.0 ** rng.uniform(-3, 3)
        return drawn if kind == 2 else np.where(rng.random(len(example)) < 0.5, example, drawn)

    def blank(self, entries):
        records = _Wide(self.examples[:2])
        records.entries = entries
        return records


def conjugate_adapter(estimator: ConjugateEstimator, X, y=None, *, parameters: tuple | None = None) -> Adapter:
    """What `audit` needs to audit a model of your own.

    ``audit(conjugate_adapter(estimator, X, y))`` runs all layers on it. The bound is
    tried with pairs of the records given here, with changed copies of them and with
    random numbers; layers D and E take those two of the records that are furthest
    apart (for adding or removing one: the longest), so give records that come near
    the bound.

    Parameters
    ----------
    estimator : ConjugateEstimator
        Unfitted; its parameters are the settings that are audited.
    X, y : as for its ``fit``
        Public or invented records, at least two. Of more than 400 the first 400 count.
    parameters : tuple of arrays or None
        Parameters, as ``start`` and ``mstep`` return them, under which layers A and D
        look at these records: those that make the longest contributions. None takes
        the public start.

    Returns
    -------
    Adapter

    Raises
    ------
    TypeError
        If ``estimator`` is no ConjugateEstimator.
    ValueError
        If there are fewer than two records, or X, y or parameters are unusable.
    """
    if not isinstance(estimator, ConjugateEstimator):
        raise TypeError(f"estimator: expected an instance of a subclass of ConjugateEstimator, got {type(estimator).__name__}")
    examples = np.asarray(_checked_records(estimator.records(X, y)), dtype=np.float64)[:_CANDIDATES]
    if len(examples) < 2:
        raise ValueError(f"X has {len(examples)} row: expected at least 2 records")
    columns = examples.shape[1]
    members = dict(
        estimator_type=type(estimator), examples=examples, small=columns, wide=columns,
        parameters=None if parameters is None else _checked_parameters(parameters, type(estimator)),
    )
    defaults = inspect.signature(type(estimator).__init__).parameters
    settings = {name: value for name, value in estimator.get_params().items() if not _same(value, defaults[name].default)}
    return type(f"{type(estimator).__name__}Adapter", (ConjugateAdapter,), members)(settings)
