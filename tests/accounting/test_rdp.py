"""Renyi divergences against quadrature, libraries and each other."""

import math
from importlib import import_module

import mpmath
import numpy as np
import pytest
from events import QUIET, fixed, poisson
from hypothesis import given, settings
from hypothesis import strategies as st
from peers.wang import WANG

from vips_fast import accounting as acc
from vips_fast.accounting.rdp import delta_of_curve, epsilon_of_curve


def normal(x, mean, sd):
    return mpmath.npdf(x, mean, sd)


@pytest.mark.parametrize(("q", "z", "alpha"), [(0.3, 0.4, 1.2), (0.01, 2.0, 40.0)])
def test_poisson_divergence_is_exact(q, z, alpha):
    points = [-30 * z, 0, 0.5, 1, alpha, alpha + 30 * z]
    with mpmath.workdps(30):
        moment = mpmath.quad(
            lambda x: normal(x, 0, z) * (1 - q + q * mpmath.exp((2 * x - 1) / (2 * mpmath.mpf(z) ** 2))) ** alpha,
            points,
        )
        want = mpmath.log(moment) / (alpha - 1)
    got = acc.renyi_divergence(poisson(q, z), alpha)
    assert abs(got / want - 1) < 1e-9  # tiny excesses keep about 10 digits


@pytest.mark.parametrize(("q", "z", "alpha"), [(0.25, 0.5, 1.3), (0.01, 2.0, 40.0)])
def test_divergence_without_replacement_is_exact(q, z, alpha):
    with mpmath.workdps(30):

        def integrand(x):
            r = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * mpmath.mpf(z) ** 2))
            return normal(x, 0, z) * (r**alpha + r ** (1 - alpha) - r - 1)

        want = mpmath.log1p(mpmath.quad(integrand, [0.5, 1, 1 + z, alpha, alpha + 30 * z])) / (alpha - 1)
    got = acc.renyi_divergence(fixed(round(q * 1000), 1000, z), alpha)
    assert abs(got / want - 1) < 1e-9


@pytest.mark.parametrize("alpha", [1.5, 50.0])
def test_laplace_and_response_on_samples(alpha):
    """Moments by direct sums and quadrature of the densities."""
    b, q = 1.7, 0.2
    with mpmath.workdps(30):

        def lap(x, m):
            return mpmath.exp(-abs(x - m) / b) / (2 * b)

        def moment(p, r):
            points = [-40 * b, 0, 0.25, 0.5, 0.75, 1, 40 * b]
            return mpmath.quad(lambda x: p(x) ** alpha * r(x) ** (1 - alpha), points)

        def mixed(x):
            return (1 - q) * lap(x, 1) + q * lap(x, 0)

        both = [moment(mixed, lambda x: lap(x, 1)), moment(lambda x: lap(x, 1), mixed)]
        want = max(mpmath.log(m) for m in both) / (alpha - 1)
    got = acc.renyi_divergence(acc.PoissonSampledEvent(q, acc.LaplaceEvent(b)), alpha)
    assert abs(got / want - 1) < 1e-9

    p, k = 0.6, 4
    other = (1 - p) / (k - 1)
    want = math.log(p**alpha * other ** (1 - alpha) + other**alpha * p ** (1 - alpha) + (k - 2) * other) / (alpha - 1)
    got = acc.renyi_divergence(acc.RandomizedResponseEvent(p, k), alpha)
    assert abs(got / want - 1) < 1e-12


@settings(QUIET, max_examples=8)
@given(st.floats(0.002, 0.9), st.floats(0.5, 8.0), st.integers(1, 500), st.floats(-9, -1))
def test_order_of_the_accountants(q, z, steps, log_delta):
    """Each looser theorem stays above each tighter one."""
    delta = 10**log_delta
    size = max(1, round(1000 * q))
    for event in (poisson(q, z, steps), fixed(size, 1000, z, steps)):
        tight = acc.epsilon(event, delta, rtol=1e-5)
        rdp = acc.epsilon(event, delta, "rdp")
        assert tight <= rdp * (1 + 2e-5) + 1e-9
        assert rdp <= acc.epsilon(event, delta, "rdp", conversion="classical") + 1e-9
    event = fixed(size, 1000, z, steps)
    integer = np.arange(2, 65)
    profile = acc.epsilon(event, delta, "rdp", orders=integer)
    for bound in ("thm9", "thm27"):
        wang = acc.epsilon(event, delta, WANG, conversion="tight", bound=bound, orders=integer)
        assert wang >= profile * (1 - 1e-12)


@pytest.mark.parametrize("bound", ["thm9", "thm27"])
@pytest.mark.parametrize(("size", "n", "z", "steps", "delta"), [(50, 1000, 1.24, 20, 1e-4), (4, 1000, 3.0, 100, 1e-3)])
def test_wang_equals_autodp(bound, size, n, z, steps, delta):
    event = fixed(size, n, z, steps)
    bank, account = import_module("autodp.rdp_bank"), import_module("autodp.rdp_acct").anaRDPacct()
    flag = bound == "thm27"
    account.compose_subsampled_mechanism(
        lambda order: bank.RDP_gaussian({"sigma": z}, order), size / n, coeff=steps, improved_bound_flag=flag
    )
    theirs = account.get_eps(delta)
    ours = acc.epsilon(event, delta, WANG, bound=bound)
    # autodp also looks between integers, on chords of the same curve, with a tolerance of 1e-3.
    assert ours == pytest.approx(theirs, rel=1e-3)


@QUIET
@given(st.floats(0.01, 5.0), st.floats(0.0, 4.0))
def test_conversions_invert(rho, eps):
    orders = 1 + np.geomspace(0.05, 500, 60)
    for conversion in ("tight", "classical"):
        delta = delta_of_curve(orders, rho * orders, eps, conversion)
        if 1e-250 < delta < 1:
            assert epsilon_of_curve(orders, rho * orders, delta, conversion) == pytest.approx(eps, abs=1e-9)
