"""Composition theorems, zCDP and conversions against enumeration and closed forms."""

import itertools
import math

import mpmath
import pytest
from events import QUIET
from hypothesis import given
from hypothesis import strategies as st
from peers import theorems

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


def optimal(epsilons, delta, **options):
    event = acc.ComposedEvent([acc.ApproximateDPEvent(e) for e in epsilons])
    return acc.epsilon(event, delta, options.pop("accountant", "optimal"), **options)


@QUIET
@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=7), st.floats(-6, -0.7))
def test_optimal_composition_equals_enumeration(epsilons, log_delta):
    want, got = enumerated_epsilon(epsilons, 10**log_delta), optimal(epsilons, 10**log_delta)
    # Bisection to 2^-100, sums of at most 128 terms, 1e-12 upwards on purpose.
    assert got == pytest.approx(want, abs=1e-10)
    assert got >= want - 1e-13


def test_large_compositions_use_the_loss_distribution():
    epsilons = [0.01 * (1 + i % 7) for i in range(70)]
    assert optimal(epsilons[:21], 1e-5) <= optimal(epsilons, 1e-5)
    assert optimal(epsilons, 1e-5) == pytest.approx(optimal(epsilons, 1e-5, accountant="pld", rtol=1e-7), rel=3e-6)


@QUIET
@given(st.floats(0.001, 1.0), st.integers(1, 500), st.floats(-9, -2))
def test_order_of_the_theorems(eps, k, log_slack):
    slack = 10**log_slack
    best = acc.epsilon(acc.SelfComposedEvent(acc.ApproximateDPEvent(eps), k), slack, "optimal")
    kairouz, _ = theorems.kairouz_composition(eps, 0.0, k, slack)
    strong, _ = theorems.strong_composition(eps, 0.0, k, slack)
    basic, _ = theorems.basic_composition([(eps, 0.0)] * k)
    assert best <= kairouz * (1 + 1e-10) + 1e-12
    assert kairouz <= min(strong, basic) * (1 + 1e-12)


def test_zcdp():
    rho, delta = 0.3, 1e-6
    assert theorems.zcdp_rho_gaussian(1.5, 3.0) == 0.125
    simple = acc.zcdp_epsilon(rho, delta, "simple")
    assert simple == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)), rel=1e-15)
    assert theorems.zcdp_rho_for_target(simple, delta) == pytest.approx(rho, rel=1e-13)
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
    eps, delta = theorems.amplify_epsilon_delta(1.0, 1e-5, 0.05)
    # The one-step privacy-loss distribution of the worst base says the same.
    event = acc.PoissonSampledEvent(0.05, acc.ApproximateDPEvent(1.0, 1e-5))
    assert acc.delta(event, eps) == pytest.approx(delta, rel=1e-9)
    assert acc.delta(event, 0.99 * eps) > 2 * delta


def test_add_remove_gives_replace_one():
    """Two Gaussians at distance 2 compose two neighbors at distance 1."""
    eps2, delta2 = theorems.add_remove_to_replace_one(0.7, acc.gaussian_delta(1.0, 0.7))
    assert acc.gaussian_delta(2.0, eps2) <= delta2


@pytest.mark.parametrize("name", ["basic", "strong", "optimal"])
def test_steps_share_delta(name):
    """Four statements of 1e-6 each fail with more than 3e-6 together."""
    steps = acc.SelfComposedEvent(acc.ApproximateDPEvent(0.1, 1e-6), 4)
    assert acc.epsilon(steps, 3e-6, name) == math.inf
    assert acc.epsilon(steps, 1e-5, name) < 2.0
