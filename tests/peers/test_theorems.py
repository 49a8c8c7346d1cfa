"""The accountants of Triastcyn & Faltings: the moments accountant, its first version, and the Bayesian one."""

import math

import mpmath
import numpy as np
import pytest
from events import poisson
from peers import theorems
from peers.attacks import epsilon_lower_bound

from vips_fast import accounting as acc


@pytest.mark.parametrize(("q", "z", "lam"), [(0.05, 1.24, 7), (1e-4, 0.7, 3), (0.9, 30.0, 100), (0.01, 0.2, 60)])
def test_log_moment_is_the_binomial_sum(q, z, lam):
    with mpmath.workdps(60):
        n, rate, twice = lam + 1, mpmath.mpf(q), 2 * mpmath.mpf(z) ** 2
        drawn = [mpmath.binomial(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
        want = mpmath.log(mpmath.fsum(p * mpmath.exp((k * k - k) / twice) for k, p in enumerate(drawn)))
    got = float(theorems.log_moment(q, z, lam))
    # The binomial weights come from log-gammas, good to about 1e-13 here.
    assert got == pytest.approx(float(want), rel=1e-11)
    # It is the Renyi divergence of order lambda + 1.
    assert got == pytest.approx(lam * acc.renyi_divergence(poisson(q, z), lam + 1.0), rel=1e-9)


def test_the_moments_accountant_is_the_classical_conversion():
    event = poisson(0.05, 1.24, 20)
    want = acc.epsilon(event, 1e-4, "rdp", conversion="classical", orders=np.arange(2.0, 65.0))
    assert theorems.moments_accountant_epsilon(0.05, 1.24, 20, 1e-4, max_order=63) == pytest.approx(want, rel=1e-9)


def test_first_version_is_no_bound():
    value = theorems.generic_epsilon_v1(0.05, 1.24, 20, 1e-4)
    assert value == pytest.approx(0.790, abs=5e-4)
    assert value < 0.9 * epsilon_lower_bound(poisson(0.05, 1.24, 20), 1e-4)


def test_bayesian_accountant_of_equal_distances_is_the_moments_one():
    """Without spread the estimate is the moment itself."""
    steps, lam = 30, 6
    account = theorems.BayesianAccountant(0.1, 2.0, steps, lam)
    for _ in range(steps):
        account.step(np.full(8, 1.5))
    guarantee = account.guarantee(1e-5)
    c = float(theorems.log_moment(0.1, 2.0 / 1.5, lam))
    assert guarantee.epsilon_mu == pytest.approx((steps * c - math.log(1e-5)) / lam, rel=1e-12)
    assert guarantee.delta_mu == pytest.approx(1e-5 + steps * 1e-10, rel=1e-6)
    assert (guarantee.order, guarantee.steps, guarantee.pairs_per_step) == (lam, steps, 8)
    assert "not differential privacy" in str(guarantee)


def test_bayesian_accountant_adds_uncertainty():
    """The formula, written out for one step."""
    from scipy.stats import t as student

    distances = np.array([0.2, 0.5, 0.9, 0.1])
    account = theorems.BayesianAccountant(0.2, 1.0, 5, 3, confidence=0.99)
    account.step(distances)
    x = np.exp(5 * theorems.log_moment(0.2, 1.0 / distances, 3))
    cost = math.log(x.mean() + student.ppf(0.99, 3) * x.std() / math.sqrt(3)) / 5
    got = account.guarantee(0.01)
    assert got.epsilon_mu == pytest.approx((cost - math.log(0.01)) / 3, rel=1e-12)
    assert got.delta_mu == pytest.approx(0.01 + 0.01, rel=1e-9)
