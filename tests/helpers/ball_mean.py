"""The smallest model of one's own, for the tests of several folders."""

import math

import numpy as np

from vips_fast.models.conjugate import ConjugateEstimator


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
