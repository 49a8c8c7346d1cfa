"""The smallest model of one's own, for the tests of several folders."""

import math
from types import SimpleNamespace

import numpy as np

from vips_fast.engine.backend import Threads
from vips_fast.engine.result import Public
from vips_fast.engine.sampling import FullSampler
from vips_fast.engine.units import UnitRecords
from vips_fast.models.conjugate import ConjugateEstimator, Table


class Mean(ConjugateEstimator):
    """Mean of vectors in the unit ball."""

    @staticmethod
    def statistics(records, parameters, out):
        for i in range(len(records)):
            norm = 0.0
            for j in range(records.shape[1]):
                norm += records[i, j] * records[i, j]
            for j in range(records.shape[1]):
                out[i, j] = records[i, j] / max(1.0, math.sqrt(norm))

    def n_statistics(self, n_columns):
        return n_columns

    def norm_bound(self, n_columns):
        return 1.0 + 1e-12

    def start(self, n_columns, rng):
        return (np.zeros(n_columns),)

    def mstep(self, mean, noise_sd, parameters):
        return (mean,)


def variant(function, **members):
    """Return the model above with another statistics function."""
    return type("Variant", (Mean,), {"statistics": staticmethod(function), **members})


def model_of(estimator, X, spacing=2.0**-20):
    """Return the model for records of X's columns, and X's records."""
    X = np.ascontiguousarray(X, dtype=float)
    model = estimator._model(Public(n_features=X.shape[1], n_columns=X.shape[1], n_records=max(len(X), 1), seed=0))
    model.prepare(SimpleNamespace(spacing=spacing), FullSampler(1))
    return model, Table(X)


def sums_of(model, table, rows=None, persons=None):
    """Return the sum of some rows' contributions in lattice units; of their persons', if these are given."""
    rows = np.arange(table.n_rows) if rows is None else np.asarray(rows)
    if persons is not None:
        table = UnitRecords(table.subset(rows), persons)
        rows = np.arange(table.n_rows)
    return Threads(1).sum(model, table, rows, np.zeros(len(rows), dtype=np.uint64))
