"""What epsilon means in words: bounds of an attacker's success, held against closed forms and against attacks."""

import math

import numpy as np
import pytest
from cases import CASES
from scipy.stats import norm

from vips_fast.accounting import (
    GaussianEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    epsilon,
    group_event,
)
from vips_fast.engine.statement import Privacy
from vips_fast.report import gain
from vips_fast.report.words import FALSE_POSITIVES, percent


def stated(event, delta=1e-5, taints=()):
    return Privacy(
        epsilon=epsilon(event, delta),
        delta=delta,
        relation="add_remove",
        unit="record",
        accountant="pld",
        steps=1,
        noise_multiplier=1.0,
        sampling="full",
        batch_size=10,
        n_records=10,
        event=event,
        taints=taints,
    )


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_gains_of_a_gaussian_are_its_own(mu):
    """Of one Gaussian release everything is known: the best attacker is the test of N(0, 1) against N(mu, 1)."""
    event = GaussianEvent(1 / mu, "add_remove")
    found = gain(stated(event), [event])
    assert found.exact and found.mu == pytest.approx(mu, rel=1e-12)
    assert found.guesses == pytest.approx(norm.cdf(mu / 2), rel=1e-9)
    assert found.odds == pytest.approx(found.guesses / (1 - found.guesses), rel=1e-9)
    best = norm.sf(norm.isf(FALSE_POSITIVES) - mu)
    assert found.hits == pytest.approx(best, rel=1e-9)
    two = gain(stated(event), [event], size=2)
    assert two.mu == pytest.approx(2 * mu, rel=1e-12) and two.hits > found.hits


def test_no_attack_does_better():
    """Sampled releases, by the likelihood ratio of an attacker who sees them all, from 400,000 runs a side."""
    rate, z, steps, n = 0.2, 1.0, 4, 400_000
    event = SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(z, "add_remove")), steps)
    found = gain(stated(event), [event])
    rng = np.random.default_rng(0)

    def score(x):
        return np.log1p(rate * np.expm1((x - 0.5) / z**2)).sum(axis=1)

    out = score(rng.normal(0, z, (n, steps)))
    member = score(rng.normal(0, z, (n, steps)) + (rng.random((n, steps)) < rate))
    limit = np.quantile(out, 1 - FALSE_POSITIVES)
    hits = (member > limit).mean()
    guesses = ((member > 0).mean() + (out <= 0).mean()) / 2
    # The draws are fixed; three standard errors of each figure are 3 % and 0.2 %.
    assert hits <= 1.03 * found.hits and guesses <= found.guesses + 0.002
    # And the bounds are not idle.
    assert hits > 0.5 * found.hits and guesses > found.guesses - 0.01
    assert not found.exact and 0 < found.mu < 5


def test_a_wrong_profile_is_caught():
    """Gains that were computed for twice the noise lie below what the best attacker reaches."""
    event = GaussianEvent(1.0, "add_remove")
    found = gain(stated(event), [GaussianEvent(2.0, "add_remove")])
    assert found.guesses < norm.cdf(0.5) and found.hits < norm.sf(norm.isf(FALSE_POSITIVES) - 1.0)


def test_where_nothing_is_promised_nothing_is_said():
    event = GaussianEvent(1.0, "add_remove")
    assert gain(stated(event, taints=("noise_multiplier=0",)), [event]) is None
    assert gain(stated(event), []) is None
    assert gain(stated(event), [event, NonPrivateEvent()]) is None


def test_the_worst_part_counts():
    weak, strong = GaussianEvent(1.0, "add_remove"), GaussianEvent(5.0, "add_remove")
    assert gain(stated(weak), [strong, weak]) == gain(stated(weak), [weak])


def test_epsilon_of_an_owner_is_the_statements():
    make, data = CASES["lda"]
    privacy = make().fit(*data()).privacy_
    for size in (1, 2, 5):
        assert gain(privacy, [privacy.event], size).epsilon == privacy.for_group(size)
        assert group_event(privacy.event, size)


@pytest.mark.parametrize(
    "share, digits, said",
    [
        (0.5, 1, "50.0 %"),
        (0.50001, 1, "50.1 %"),
        (0.001, 2, "0.10 %"),
        (1.0, 1, "100.0 %"),
        (0.99999, 1, "100.0 %"),
        (0.0, 1, "0.0 %"),
    ],
)
def test_shares_are_never_rounded_down(share, digits, said):
    assert percent(share, digits) == said and not math.isnan(share)
