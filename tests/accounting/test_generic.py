"""The generic and the Bayesian accountant."""

import math

import mpmath
import numpy as np
import pytest
from events import poisson

from vips_fast import accounting as acc


@pytest.mark.parametrize(("q", "z", "lam"), [(0.05, 1.24, 7), (1e-4, 0.7, 3), (0.9, 30.0, 100), (0.01, 0.2, 60)])
def test_log_moment_is_the_binomial_sum(q, z, lam):
    with mpmath.workdps(60):
        n = lam + 1
        want = mpmath.log(
            mpmath.fsum(
                mpmath.binomial(n, k)
                * mpmath.mpf(q) ** k
                * (1 - mpmath.mpf(q)) ** (n - k)
                * mpmath.exp((k * k - k) / (2 * mpmath.mpf(z) ** 2))
                for k in range(n + 1)
            )
        )
    got = float(acc.generic_log_moment(q, z, lam))
    # The binomial weights come from log-gammas, good to about 1e-13 here.
    assert got == pytest.approx(float(want), rel=1e-11)
    # It is the Renyi divergence of order lambda + 1.
    assert got == pytest.approx(lam * acc.renyi_divergence(poisson(q, z), lam + 1.0), rel=1e-9)


def test_log_moment_limits():
    assert acc.generic_log_moment(0.0, 1.0, 5) == 0.0
    assert 0.0 <= acc.generic_log_moment(0.3, 1e12, 5) < 1e-22
    # Whole data: lambda (lambda + 1) / (2 z^2).
    assert float(acc.generic_log_moment(1.0, 2.0, 3)) == pytest.approx(12 / 8, rel=1e-14)
    assert acc.generic_log_moment(0.1, np.array([1.0, 2.0]), 2).shape == (2,)


def test_generic_accountant_is_the_classical_conversion():
    event = poisson(0.05, 1.24, 20)
    orders = np.arange(2.0, 65.0)
    want = acc.epsilon(event, 1e-4, "rdp", conversion="classical", orders=orders)
    assert acc.epsilon(event, 1e-4, "generic") == pytest.approx(want, rel=1e-12)
    script = acc.moments_accountant_epsilon(0.05, 1.24, 20, 1e-4, max_order=63)
    assert script == pytest.approx(want, rel=1e-9)
    # Un-sampled mechanisms: any real order.
    rho = 20 / (2 * 10.0**2)
    gaussian = acc.SelfComposedEvent(acc.GaussianEvent(10.0), 20)
    assert acc.epsilon(gaussian, 1e-4, "generic") == pytest.approx(acc.zcdp_epsilon(rho, 1e-4, "simple"), rel=1e-6)
    with pytest.raises(ValueError, match="pld"):
        acc.epsilon(acc.WithoutReplacementEvent(1, 10, acc.GaussianEvent(1.0)), 1e-4, "generic")


def test_first_version_is_no_bound_and_takes_no_event():
    value = acc.generic_epsilon_v1(0.05, 1.24, 20, 1e-4, heuristic="v1")
    assert value == pytest.approx(0.790, abs=5e-4)
    assert value < 0.9 * acc.epsilon_lower_bound(poisson(0.05, 1.24, 20), 1e-4)
    with pytest.raises(ValueError, match="generic"):
        acc.generic_epsilon_v1(0.05, 1.24, 20, 1e-4, heuristic="yes")
    with pytest.raises(TypeError):
        acc.generic_epsilon_v1(0.05, 1.24, 20, 1e-4)
    assert "v1" not in "".join(acc.ACCOUNTANTS)


def test_bayesian_accountant_of_equal_distances_is_the_generic_one():
    """Without spread the estimate is the moment itself."""
    steps, lam = 30, 6
    account = acc.BayesianAccountant(0.1, 2.0, steps, lam)
    for _ in range(steps):
        account.step(np.full(8, 1.5))
    guarantee = account.guarantee(1e-5)
    c = float(acc.generic_log_moment(0.1, 2.0 / 1.5, lam))
    assert guarantee.epsilon_mu == pytest.approx((steps * c - math.log(1e-5)) / lam, rel=1e-12)
    assert guarantee.delta_mu == pytest.approx(1e-5 + steps * 1e-10, rel=1e-6)
    assert (guarantee.order, guarantee.steps, guarantee.pairs_per_step) == (lam, steps, 8)
    assert "not differential privacy" in str(guarantee)


def test_bayesian_accountant_adds_uncertainty():
    """The formula, written out for one step."""
    from scipy.stats import t as student

    distances = np.array([0.2, 0.5, 0.9, 0.1])
    account = acc.BayesianAccountant(0.2, 1.0, 5, 3, confidence=0.99)
    account.step(distances)
    x = np.exp(5 * acc.generic_log_moment(0.2, 1.0 / distances, 3))
    cost = math.log(x.mean() + student.ppf(0.99, 3) * x.std() / math.sqrt(3)) / 5
    got = account.guarantee(0.01)
    assert got.epsilon_mu == pytest.approx((cost - math.log(0.01)) / 3, rel=1e-12)
    assert got.delta_mu == pytest.approx(0.01 + 0.01, rel=1e-9)
    surer = acc.BayesianAccountant(0.2, 1.0, 5, 3, confidence=0.999)
    surer.step(distances)
    assert surer.guarantee(0.01).epsilon_mu > got.epsilon_mu


def test_bayesian_accountant_has_no_event():
    account = acc.BayesianAccountant(0.1, 1.0, 3)
    assert not isinstance(account, acc.PrivacyEvent)
    with pytest.raises(TypeError, match="event"):
        acc.epsilon(account, 1e-5)


def test_steps_beyond_the_plan_are_refused():
    account = acc.BayesianAccountant(0.1, 1.0, 1)
    account.step([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="planned"):
        account.step([0.1, 0.2, 0.3])
