"""The trade-off curve of a claim. Known curves, and no point below an explicit test."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from vips_fast.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    true_positive_rate,
)

RATES = [0.0, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0]


def test_gaussian_mechanisms_have_their_own_curve():
    event = SelfComposedEvent(GaussianEvent(4.0), 4)
    for a in RATES:
        assert true_positive_rate(event, a) == pytest.approx(float(norm.cdf(norm.ppf(a) + 0.5)), abs=1e-12)


def test_pure_and_approximate_privacy():
    """The curve of (epsilon, delta) is the smaller of two lines. Dong, Roth & Su (2022), Eq. 4."""
    epsilon, d = 1.0, 1e-3
    event = ApproximateDPEvent(epsilon, d)
    for a in RATES:
        exact = min(1.0, math.exp(epsilon) * a + d, 1 - math.exp(-epsilon) * max(0.0, 1 - d - a))
        found = true_positive_rate(event, a)
        # The grid of epsilons may miss the event's own by a few per cent.
        assert exact - 1e-12 <= found <= 1.35 * exact + 1e-12
        assert true_positive_rate(NonPrivateEvent(), a) == 1.0


def test_a_sampled_mechanism_lies_between_its_attack_and_its_whole_data_form():
    """One step at rate q. "the sum is beyond t" has the rates 1 - Phi(t), and a mixture of it with Phi's shift."""
    q, z = 0.3, 1.0
    event = PoissonSampledEvent(q, GaussianEvent(z))
    for a in RATES[1:-1]:
        attained = (1 - q) * a + q * float(norm.cdf(norm.ppf(a) + 1 / z))
        allowed = true_positive_rate(event, a)
        assert attained <= allowed * (1 + 1e-9)
        assert allowed <= true_positive_rate(GaussianEvent(z), a) * (1 + 1e-9)
        # Adding is the easier of the two sides where alarms are rare, and the profile finds it.
        assert a > 0.1 or allowed <= 1.1 * attained
    rates = np.array([true_positive_rate(event, a) for a in RATES])
    assert (np.diff(rates) >= 0).all() and (rates >= RATES).all()
