"""The accountants of Triastcyn & Faltings (2019, version 1), as printed.

The figures of the accountants' paper share them.

The text that we have of the article has lost its numbers. `acc_table1` finds the numbers of the MNIST run from the
printed epsilons: batches of 64 of 60,000, a noise multiplier of 1, 100 epochs, delta = 10^-5, orders lambda up to 32.
"""

import math

import numpy as np
from peers.theorems import generic_epsilon_v1, log_moment, moments_accountant_epsilon

from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent, epsilon
from vips_fast.engine.backend import Threads

#: The MNIST run.
N, BATCH, NOISE, EPOCHS, DELTA, ORDERS = 60_000, 64, 1.0, 100, 1e-5, 32
Q = BATCH / N


def steps_of(epochs):
    """Count the steps of some epochs; each epoch's last batch is full."""
    return round(epochs * N / BATCH)


def moments(q, z, steps, delta, orders=ORDERS):
    """Compute epsilon of the moments accountant of Abadi et al. 2016.

    Their lambda = 1, ..., 32; for adding or removing a record; a bound.
    """
    return moments_accountant_epsilon(q, z, steps, delta, orders)


def moments_delta(q, z, steps, eps, orders=ORDERS):
    """Delta of the same."""
    exponents = [steps * float(log_moment(q, z, k)) - k * eps for k in range(1, orders + 1)]
    return math.exp(min(0.0, *exponents))


def generic(q, z, steps, delta):
    """Compute epsilon of the article's generic accountant as printed.

    "Sampling reduces the bound by q^2": NOT a bound.
    """
    return generic_epsilon_v1(q, z, steps, delta)


def generic_delta(q, z, steps, eps):
    """Compute delta of the same accountant.

    It is the least over real lambda of exp(a lambda (lambda + 1) - lambda epsilon).
    """
    a = steps * q * q / (2 * z * z)
    return math.exp(-((eps - a) ** 2) / (4 * a)) if eps > a else 1.0


def event(q, z, steps):
    """Return the run: Poisson sampling, add or remove one record."""
    one = GaussianEvent(z) if q >= 1 else PoissonSampledEvent(q, GaussianEvent(z))
    return SelfComposedEvent(one, steps)


def exact(q, z, steps, delta):
    """Tight epsilon, by the privacy loss distribution."""
    return epsilon(event(q, z, steps), delta)


def bayesian_v1(squared, delta):
    """Compute epsilon of the article's Bayesian accountant as printed.

    NOT differential privacy, and not a bound either.

    ``squared`` is the sum over the steps of q^2 (mean squared distance of two random contributions) / (2 sd^2). The
    printed cost of a step is the ln of the pairs' mean of exp(lambda (lambda + 1) q^2 d^2 / (2 sd^2)), exponents far
    below 1, and so their mean. It has neither the effect of sampling nor the estimate's own error.
    """
    return squared + 2 * math.sqrt(squared * math.log(1 / delta))


def mean_sd(values):
    """Mean and standard deviation, as text."""
    values = np.asarray(values, float)
    return f"{values.mean():.4f} ± {values.std(ddof=1) if len(values) > 1 else 0:.4f}"


class PairsBackend(Threads):
    """One thread that shows distances between contributions.

    In each step ``see`` gets the distances of some random pairs of records.

    ``distances`` makes them of a model and a block, the first half of whose records are paired with the second. The
    last ``left_out`` records are in no pair.
    """

    def __init__(self, n_pairs, distances, see, left_out=0):
        super().__init__(1)
        self._n, self._distances, self._see, self._left_out = 2 * n_pairs, distances, see, left_out
        self._generator = np.random.default_rng()

    def sum(self, model, records, rows, words, figures=None):
        """See `vips_fast.engine.backend.Backend`."""
        chosen = self._generator.integers(0, records.n_rows - self._left_out, self._n)
        self._see(self._distances(model, records.block(chosen)))
        return super().sum(model, records, rows, words, figures)
