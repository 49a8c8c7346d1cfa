"""Textbook mechanisms: exact samplers, events, estimates.

Statistical checks use fresh randomness each time and fail once in a hundred million runs.
"""

import math

import numpy as np
import pytest
from peers import textbook

from vips_fast import accounting as acc

# Two-sided normal quantile for 2e-9: a test has up to 17 of these checks, and some have heavier tails.
SURE = 6.0


def test_rounded_laplace_has_the_rounded_law():
    t, n = 3, 50_000
    draws = np.array([textbook.rounded_laplace(t) for _ in range(n)])
    for k in range(-8, 9):
        p = -math.expm1(-0.5 / t) if k == 0 else math.exp(-abs(k) / t) * math.sinh(0.5 / t)
        # Mass of the Laplace law on [k - 1/2, k + 1/2].
        assert abs(np.mean(draws == k) - p) <= SURE * math.sqrt(p * (1 - p) / n), k


@pytest.mark.parametrize(("a", "b"), [(0, 5), (1, 5), (5, 5), (3, 7)])
def test_bernoulli_exp(a, b):
    n = 25_000
    p = math.exp(-a / b)
    hits = sum(textbook.bernoulli_exp(a, b) for _ in range(n))
    assert abs(hits / n - p) <= SURE * math.sqrt(p * (1 - p) / n)


def test_laplace_mechanism():
    value = np.linspace(-5, 5, 30_000).reshape(150, 200)
    released, event = textbook.laplace_mechanism(value, 2.0, 1.5, "replace_one")
    assert event == acc.LaplaceEvent(1.5, "replace_one")
    assert released.shape == value.shape and released.dtype == np.float64
    noise = (released - value).ravel()
    # |noise| has mean and sd b; truncation to 2^-28 of the scale is invisible.
    b = 3.0
    assert abs(np.abs(noise).mean() - b) <= SURE * b / math.sqrt(noise.size)
    assert abs(noise.mean()) <= SURE * b * math.sqrt(2 / noise.size)
    # On the lattice.
    spacing = math.ldexp(1.0, math.frexp(b)[1] - 28)
    assert np.all(released / spacing == np.rint(released / spacing))


def test_gaussian_mechanism():
    value = np.full(300_000, 7.25)
    released, event = textbook.gaussian_mechanism(value, 2.0, 1.5, "add_remove")
    assert event == acc.GaussianEvent(1.5, "add_remove")
    noise = released - value
    sd = 3.0
    # The sd counts the truncation: sqrt(d) 2^-21 of it at most, 2e-4 here.
    assert abs(noise.std() / sd - 1) <= SURE / math.sqrt(2 * noise.size) + 3e-4
    assert abs(noise.mean()) <= SURE * sd / math.sqrt(noise.size)
    scalar, _ = textbook.gaussian_mechanism(3.0, 1.0, 1.0)
    assert scalar.shape == ()


@pytest.mark.parametrize("k", [2, 3, 7])
def test_randomized_response(k):
    n = 90_000
    true = np.arange(n) % k
    p = textbook.randomized_response_truth_probability(1.2, k)
    reported, event = textbook.randomized_response(true, p, k)
    assert event.epsilon <= 1.2 and event.epsilon == pytest.approx(1.2, rel=1e-12)
    assert event.n_categories == k and event.relation == "replace_one"
    # Truth with probability p, every other category with (1 - p) / (K - 1).
    shift = (reported - true) % k
    for j in range(k):
        q = p if j == 0 else (1 - p) / (k - 1)
        assert abs(np.mean(shift == j) - q) <= SURE * math.sqrt(q * (1 - q) / n)
    estimate = textbook.randomized_response_frequencies(reported, event)
    assert estimate.sum() == pytest.approx(1.0, abs=1e-12)
    spread = math.sqrt(0.25 / n) / (p - (1 - p) / (k - 1))
    assert np.all(np.abs(estimate - 1 / k) <= SURE * spread + k / n)


def test_truth_probability_never_exceeds_epsilon():
    for eps in (0.0, 1e-6, 0.1, 1.0, 7.0, 30.0):
        for k in (2, 5, 1000):
            p = textbook.randomized_response_truth_probability(eps, k)
            # At p = 1/K itself the logarithms of epsilon round.
            assert acc.RandomizedResponseEvent(p, k).epsilon <= max(eps, 1e-15)
