"""Composition theorems, zCDP and conversions against enumeration and closed forms."""

import itertools
import math

import mpmath
import pytest
from events import QUIET
from hypothesis import given
from hypothesis import strategies as st

from vips_fast import accounting as acc


def enumerated_epsilon(epsilons, delta):
    """Optimal composition of pure mechanisms by listing all 2^k outcomes."""
    atoms = []
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        atoms.append((sum(s * e for s, e in zip(signs, epsilons, strict=True)), p))
    low, high = 0.0, sum(epsilons)
    for _ in range(100):
        mid = (low + high) / 2
        value = math.fsum(p * -math.expm1(mid - x) for x, p in atoms if x > mid)
        low, high = (low, mid) if value <= delta else (mid, high)
    return high


@QUIET
@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=7), st.floats(-6, -0.7))
def test_optimal_composition_equals_enumeration(epsilons, log_delta):
    delta = 10**log_delta
    want = enumerated_epsilon(epsilons, delta)
    got = acc.optimal_composition_heterogeneous(epsilons, delta)
    # Bisection to 2^-100, sums of at most 128 terms, 1e-12 upwards on purpose.
    assert got == pytest.approx(want, abs=1e-10)
    assert got >= want - 1e-13


@QUIET
@given(st.floats(0.01, 1.0), st.integers(1, 10), st.floats(0, 1e-3), st.floats(-6, -1))
def test_homogeneous_composition_equals_enumeration(eps, k, delta, log_total):
    total = 10**log_total
    slack = 1 - (1 - total) / (1 - delta) ** k
    got = acc.optimal_composition_epsilon(eps, delta, k, total)
    if slack < 0:
        assert math.isinf(got)
    else:
        assert got == pytest.approx(enumerated_epsilon([eps] * k, slack), abs=1e-9 / max(slack, 1e-9) * 1e-6 + 1e-10)


def test_large_heterogeneous_composition_uses_the_loss_distribution():
    epsilons = [0.01 * (1 + i % 7) for i in range(70)]
    exact_parts = acc.optimal_composition_heterogeneous(epsilons[:21], 1e-5)
    assert exact_parts <= acc.optimal_composition_heterogeneous(epsilons, 1e-5)
    event = acc.ComposedEvent([acc.ApproximateDPEvent(e) for e in epsilons])
    assert acc.optimal_composition_heterogeneous(epsilons, 1e-5) == pytest.approx(
        acc.epsilon(event, 1e-5, rtol=1e-7), rel=3e-6
    )


@QUIET
@given(st.floats(0.001, 1.0), st.integers(1, 500), st.floats(-9, -2))
def test_order_of_the_theorems(eps, k, log_slack):
    slack = 10**log_slack
    optimal = acc.optimal_composition_epsilon(eps, 0.0, k, slack)
    kairouz, _ = acc.kairouz_composition(eps, 0.0, k, slack)
    strong, _ = acc.strong_composition(eps, 0.0, k, slack)
    basic, _ = acc.basic_composition([(eps, 0.0)] * k)
    assert optimal <= kairouz * (1 + 1e-10) + 1e-12
    assert kairouz <= min(strong, basic) * (1 + 1e-12)


def test_zcdp():
    rho, delta = 0.3, 1e-6
    assert acc.zcdp_rho_gaussian(1.5, 3.0) == 0.125
    simple = acc.zcdp_epsilon(rho, delta, "simple")
    assert simple == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)), rel=1e-15)
    assert acc.zcdp_rho_for_target(simple, delta) == pytest.approx(rho, rel=1e-13)
    tight = acc.zcdp_epsilon(rho, delta)
    assert acc.gaussian_epsilon(math.sqrt(2 * rho), delta) < tight < simple
    # The inverse of the tight conversion.
    assert acc.zcdp_delta(rho, tight) == pytest.approx(delta, rel=1e-6)
    event = acc.ComposedEvent([acc.GaussianEvent(2.0), acc.SelfComposedEvent(acc.LaplaceEvent(4.0), 2)])
    assert acc.zcdp_rho(event) == pytest.approx(1 / 8 + 2 / 32, rel=1e-15)
    with mpmath.workdps(30):
        best = min(
            alpha * rho + mpmath.log(1 - 1 / alpha) - mpmath.log(alpha * delta) / (alpha - 1)
            for alpha in (1 + mpmath.mpf(2) ** (mpmath.mpf(i) / 64) for i in range(-64, 640))
        )
    # A grid of orders 1 % apart misses the minimum by a relative 1e-4 at most.
    assert best * (1 - 1e-4) <= tight <= best


def test_amplification():
    eps, delta = acc.amplify_epsilon_delta(1.0, 1e-5, 0.05)
    assert eps == pytest.approx(math.log(1 + 0.05 * (math.e - 1)), rel=1e-14)
    assert delta == pytest.approx(5e-7, rel=1e-15)
    assert acc.amplify_epsilon_delta(1000.0, 0.0, 0.5)[0] == 1000.0
    # The one-step privacy-loss distribution of the worst base says the same.
    event = acc.PoissonSampledEvent(0.05, acc.ApproximateDPEvent(1.0, 1e-5))
    assert acc.delta(event, eps) == pytest.approx(delta, rel=1e-9)
    assert acc.delta(event, 0.99 * eps) > 2 * delta
    assert acc.amplify_rdp_poisson(lambda i: i * 0.5, 0.0, 3) == 0.0
    assert acc.amplify_rdp_poisson(lambda i: i * 0.5, 1.0, 3) == 1.5


def test_add_remove_gives_replace_one():
    """Two Gaussians at distance 2 compose two neighbors at distance 1."""
    eps, delta = 0.7, acc.gaussian_delta(1.0, 0.7)
    eps2, delta2 = acc.add_remove_to_replace_one(eps, delta)
    assert (eps2, delta2) == (1.4, pytest.approx((1 + math.exp(0.7)) * delta))
    assert acc.gaussian_delta(2.0, eps2) <= delta2


@pytest.mark.parametrize("name", ["basic", "strong", "optimal"])
def test_steps_share_delta(name):
    """Four statements of 1e-6 each fail with more than 3e-6 together."""
    steps = acc.SelfComposedEvent(acc.ApproximateDPEvent(0.1, 1e-6), 4)
    assert acc.epsilon(steps, 3e-6, name) == math.inf
    assert acc.epsilon(steps, 1e-5, name) < 2.0
