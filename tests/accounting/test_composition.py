"""Theorems of the papers and slides against closed forms and the accountants."""

import math

import mpmath
import pytest
from peers import theorems

from vips_fast import accounting as acc


def test_zcdp():
    rho, delta = 0.3, 1e-6
    assert theorems.zcdp_rho_gaussian(1.5, 3.0) == 0.125
    simple = theorems.zcdp_epsilon(rho, delta, "simple")
    assert simple == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)), rel=1e-15)
    assert theorems.zcdp_rho_for_target(simple, delta) == pytest.approx(rho, rel=1e-13)
    tight = theorems.zcdp_epsilon(rho, delta)
    assert acc.gaussian_epsilon(math.sqrt(2 * rho), delta) < tight < simple
    with mpmath.workdps(30):
        best = min(
            alpha * rho + mpmath.log(1 - 1 / alpha) - mpmath.log(alpha * delta) / (alpha - 1)
            for alpha in (1 + mpmath.mpf(2) ** (mpmath.mpf(i) / 64) for i in range(-64, 640))
        )
    # A grid of orders 1 % apart misses the minimum by a relative 1e-4 at most.
    assert best * (1 - 1e-4) <= tight <= best * (1 + 1e-6)


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


def test_pure_epsilon():
    event = acc.ComposedEvent(
        [
            acc.SelfComposedEvent(acc.WithoutReplacementEvent(1, 4, acc.LaplaceEvent(2.0, "replace_one")), 3),
            acc.RandomizedResponseEvent(0.75),
        ]
    )
    want = 3 * math.log(1 + 0.25 * math.expm1(0.5)) + math.log(3)
    assert theorems.pure_epsilon(event) == pytest.approx(want, rel=1e-14)
    assert theorems.pure_epsilon(acc.ComposedEvent([])) == 0.0
    # Removing a record from a Poisson sample costs less than adding one.
    sampled = acc.PoissonSampledEvent(0.25, acc.LaplaceEvent(2.0))
    assert theorems.pure_epsilon(sampled) == pytest.approx(math.log(1 + 0.25 * math.expm1(0.5)), rel=1e-14)
    for event in (acc.GaussianEvent(1.0), acc.NonPrivateEvent(), acc.ApproximateDPEvent(1.0, 1e-9)):
        assert math.isinf(theorems.pure_epsilon(event))


def test_order_of_the_theorems():
    for eps, k, slack in [(0.01, 500, 1e-9), (0.1, 30, 1e-5), (1.0, 7, 1e-2)]:
        best = acc.epsilon(acc.SelfComposedEvent(acc.ApproximateDPEvent(eps), k), slack)
        kairouz, strong = (
            theorem(eps, 0.0, k, slack)[0] for theorem in (theorems.kairouz_composition, theorems.strong_composition)
        )
        assert best <= kairouz * (1 + 2e-4) and kairouz <= min(strong, k * eps) * (1 + 1e-12)
        assert theorems.basic_composition([(eps, 0.0)] * k) == (pytest.approx(k * eps), 0.0)
