"""Attack success and trade-off curves against closed forms and explicit attackers."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from vips_fast import accounting as acc

RUNS = {
    "gaussian": lambda z: acc.SelfComposedEvent(acc.GaussianEvent(z, "add_remove"), 7),
    "poisson": lambda z: acc.SelfComposedEvent(acc.PoissonSampledEvent(0.05, acc.GaussianEvent(z)), 60),
    "without_replacement": lambda z: acc.SelfComposedEvent(
        acc.WithoutReplacementEvent(50, 1000, acc.GaussianEvent(z)), 60
    ),
    "random_allocation": lambda z: acc.RandomAllocationEvent(4, 2, acc.GaussianEvent(z)),
    "purchase": lambda z: acc.ComposedEvent(
        (
            acc.GaussianEvent(6.0, "add_remove"),
            acc.ApproximateDPEvent(0.0, 1e-6, "add_remove"),
            acc.GaussianEvent(z, "add_remove"),
        )
    ),
    "group": lambda z: acc.SelfComposedEvent(
        acc.GroupEvent(acc.PoissonSampledEvent(0.05, acc.GaussianEvent(z)), 3), 20
    ),
}


def test_sixty_percent_is_an_epsilon_of_2_29():
    event = acc.GaussianEvent(0.5 / norm.ppf(0.6))  # mu-GDP: Phi(mu / 2) = 0.6
    assert acc.attack_success(event) == pytest.approx(0.6) and acc.epsilon(event, 1e-6) == pytest.approx(2.29, abs=0.01)


@pytest.mark.parametrize("name", RUNS)
def test_more_noise_means_fewer_right_guesses(name):
    found = [acc.attack_success(RUNS[name](z)) for z in (2.0, 4.0, 8.0)]
    assert 1.0 > found[0] > found[1] > found[2] >= 0.5


@pytest.mark.parametrize("prior", [0.01, 0.3, 0.5, 0.9])
def test_success_at_a_prior_is_the_bayes_rule_of_two_gaussians(prior):
    mu = 0.8
    # "in" beyond the point where the posterior is one half.
    t = 0.5 * mu + math.log((1 - prior) / prior) / mu
    exact = prior * norm.sf(t - mu) + (1 - prior) * norm.cdf(t)
    assert acc.attack_success(acc.GaussianEvent(1 / mu), prior) == pytest.approx(exact, abs=1e-9)


def test_total_variation_of_one_sampled_step():
    q, z = 0.3, 0.7
    for event in (
        acc.PoissonSampledEvent(q, acc.GaussianEvent(z)),
        acc.WithoutReplacementEvent(3, 10, acc.GaussianEvent(z)),
    ):
        assert acc.attack_success(event) == pytest.approx(0.5 + 0.5 * q * (2 * norm.cdf(0.5 / z) - 1), rel=1e-6)


def test_guesses_of_secrets_are_bounded():
    """Simulate Bayes-optimal guesses of one of n corners of a simplex."""
    n, mu, draws = 10, 1.0, 40_000
    rng = np.random.default_rng(0)
    secrets = rng.integers(n, size=draws)
    seen = rng.standard_normal((draws, n))
    seen[np.arange(draws), secrets] += mu  # each value moves its own coordinate by the whole sensitivity
    right = float((seen.argmax(1) == secrets).mean())
    bound = acc.inference_success(acc.GaussianEvent(1 / mu), 1 / n)
    assert bound == pytest.approx(float(norm.cdf(norm.ppf(1 / n) + mu)), abs=1e-9)
    assert 0.25 < right < bound < 0.5
    # A line of values, which a yes-or-no secret is: P_a and P_b lie mu on either side of the law without.
    yes = rng.random(draws) < 0.5
    sums = rng.standard_normal(draws) + np.where(yes, mu, -mu)
    assert float(((sums > 0) == yes).mean()) <= acc.inference_success(acc.GaussianEvent(1 / mu), 0.5) + 0.01
    assert acc.inference_success(acc.GaussianEvent(1 / mu), 0.5) == pytest.approx(float(norm.cdf(mu)), abs=1e-9)
    # The bound for membership would be too small for it: a mutant of the right one.
    assert float(((sums > 0) == yes).mean()) > acc.attack_success(acc.GaussianEvent(1 / mu)) + 0.1


@pytest.mark.parametrize("name", ["poisson", "without_replacement", "purchase"])
def test_guesses_under_other_events_take_near_the_best_line(name):
    event = RUNS[name](brentq(lambda z: acc.attack_success(RUNS[name](z)) - 0.6, 0.3, 30.0, rtol=1e-3))
    lines = [(e, acc.delta(event, e)) for e in np.linspace(0.0, 4.0, 41).tolist()]
    last = 0.0
    for b in (1e-3, 0.01, 0.1, 0.5, 0.9):
        best = min(min(math.exp(e) * b + d, 1 - math.exp(-e) * max(0.0, 1 - b - d)) for e, d in lines)
        found = acc.inference_success(event, b)
        assert max(b, last) < found and 0.99 * best <= found <= 1.05 * best
        last = found


def test_no_privacy_and_no_release():
    assert acc.attack_success(acc.NonPrivateEvent()) == acc.inference_success(acc.NonPrivateEvent(), 0.01) == 1.0
    assert acc.attack_success(acc.PoissonSampledEvent(0.0, acc.GaussianEvent(1.0))) == 0.5
    assert acc.delta(acc.GaussianEvent(2.0), 0.0) == pytest.approx(2 * norm.cdf(0.25) - 1)


# ------------------------------------------------------------------- trade-off curves

RATES = [0.0, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0]


def test_gaussian_mechanisms_have_their_own_curve():
    event = acc.SelfComposedEvent(acc.GaussianEvent(4.0), 4)
    for a in RATES:
        assert acc.true_positive_rate(event, a) == pytest.approx(float(norm.cdf(norm.ppf(a) + 0.5)), abs=1e-12)


def test_pure_and_approximate_privacy():
    """The curve of (epsilon, delta) is the smaller of two lines. Dong, Roth & Su (2022), Eq. 4."""
    epsilon, d = 1.0, 1e-3
    event = acc.ApproximateDPEvent(epsilon, d)
    for a in RATES:
        exact = min(1.0, math.exp(epsilon) * a + d, 1 - math.exp(-epsilon) * max(0.0, 1 - d - a))
        found = acc.true_positive_rate(event, a)
        # The grid of epsilons may miss the event's own by a few per cent.
        assert exact - 1e-12 <= found <= 1.35 * exact + 1e-12
        assert acc.true_positive_rate(acc.NonPrivateEvent(), a) == 1.0


def test_a_sampled_mechanism_lies_between_its_attack_and_its_whole_data_form():
    """One step at rate q. "the sum is beyond t" has the rates 1 - Phi(t), and a mixture of it with Phi's shift."""
    q, z = 0.3, 1.0
    event = acc.PoissonSampledEvent(q, acc.GaussianEvent(z))
    for a in RATES[1:-1]:
        attained = (1 - q) * a + q * float(norm.cdf(norm.ppf(a) + 1 / z))
        allowed = acc.true_positive_rate(event, a)
        assert attained <= allowed * (1 + 1e-9)
        assert allowed <= acc.true_positive_rate(acc.GaussianEvent(z), a) * (1 + 1e-9)
        # Adding is the easier of the two sides where alarms are rare, and the profile finds it.
        assert a > 0.1 or allowed <= 1.1 * attained
    rates = np.array([acc.true_positive_rate(event, a) for a in RATES])
    assert (np.diff(rates) >= 0).all() and (rates >= RATES).all()
