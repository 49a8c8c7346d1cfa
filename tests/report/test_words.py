"""What epsilon means in words. Bounds of an attacker's success, held against closed forms and against attacks."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from vips_fast.accounting import GaussianEvent, NonPrivateEvent, PoissonSampledEvent, SelfComposedEvent, epsilon
from vips_fast.accounting.printing import percent
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.statement import Privacy
from vips_fast.report import gain
from vips_fast.report.words import FALSE_POSITIVES


def stated(event, delta=1e-5, taints=()):
    facts = dict(relation="add_remove", unit="record", accountant="pld", steps=1, runs=())
    return Privacy(epsilon=epsilon(event, delta), delta=delta, event=event, taints=taints, **facts)


def gained(privacy, events, size=1):
    """Return the gain for events that were fixed ahead. Each at all of delta."""
    return gain(privacy, [(event, 1.0) for event in events], size)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_gains_of_a_gaussian_are_its_own(mu):
    """Of one Gaussian release everything is known. The best attacker is the test of N(0, 1) against N(mu, 1)."""
    event = GaussianEvent(1 / mu, "add_remove")
    found = gained(stated(event), [event])
    assert found.exact and found.mu == pytest.approx(mu, rel=1e-12)
    assert found.guesses == pytest.approx(norm.cdf(mu / 2), rel=1e-9)
    # The loss of one release is N(mu^2 / 2, mu^2).
    assert found.odds == pytest.approx(math.exp(mu**2 / 2 + mu * norm.isf(1e-5)), rel=1e-9)
    best = norm.sf(norm.isf(FALSE_POSITIVES) - mu)
    assert found.hits == pytest.approx(best, rel=1e-9)
    two = gained(stated(event), [event], size=2)
    assert two.mu == pytest.approx(2 * mu, rel=1e-12) and two.hits > found.hits


def test_no_attack_does_better():
    """Sampled releases, by the likelihood ratio of the best attacker. He sees them all, in 400,000 runs a side."""
    rate, z, steps, n = 0.2, 1.0, 4, 400_000
    event = SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(z, "add_remove")), steps)
    found = gained(stated(event), [event])
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


@pytest.mark.parametrize("delta", [0.01, 0.1])
@pytest.mark.parametrize(
    "rate, z, steps",
    [(1.0, 1.0, 1), (1.0, 3.0, 4), (0.2, 1.0, 4), (0.02, 0.6, 20)],
    ids=["one", "whole", "some", "few"],
)
def test_odds_pass_the_bound_no_more_often_than_delta(rate, z, steps, delta):
    """Exact odds of 400,000 runs a side.

    Too large with probability delta at most, whichever side is the truth.

    The odds of the average attacker, right guesses for each wrong one, are no bound: this attack passes them in a third
    of the runs.
    """
    event = SelfComposedEvent(PoissonSampledEvent(rate, GaussianEvent(z, "add_remove")), steps)
    found, rng, n = gained(stated(event, delta), [event]), np.random.default_rng(0), 400_000

    def loss(x):
        return np.log1p(rate * np.expm1((x - 0.5) / z**2)).sum(axis=1)

    noise = rng.normal(0, z, (n, steps))
    inside, outside = loss(noise + (rng.random((n, steps)) < rate)), -loss(noise)
    passed = [(side > math.log(found.odds)).mean() for side in (inside, outside)]
    assert max(passed) <= delta + 5 * math.sqrt(delta / n)
    assert max(passed) > 0.05 * delta  # and the bound is not idle
    average = found.guesses / (1 - found.guesses)
    assert max((side > math.log(average)).mean() for side in (inside, outside)) > 0.02 + delta
    if (rate, z, steps) == (1.0, 1.0, 1):
        assert average == pytest.approx(2.24, abs=5e-3) and (inside > math.log(average)).mean() > 0.37


def test_odds_of_calls_hold_at_every_end():
    """Stop at the first of 20 calls whose odds pass the report's. Delta is not passed, and the mutant's is."""
    z, delta, n = 3.0, 0.01, 100_000
    rng = np.random.default_rng(0)
    losses = np.cumsum(rng.normal(0.5 / z**2, 1 / z, (n, 20)), axis=1)
    ledger, limits, plain = Ledger(), [], []
    for _ in range(20):
        ledger.open({"delta": delta, "call": True})
        ledger.intend(GaussianEvent(z, "add_remove"), clip_norm=1.0, sensitivity=1.0)
        event, share = ledger.bound(delta)
        limits.append(math.log(gain(stated(event, delta), [(event, share)]).odds))
        plain.append(math.log(gained(stated(event, delta), [ledger.event()]).odds))
    assert (losses > limits).any(axis=1).mean() <= delta
    assert (losses > plain).any(axis=1).mean() > 3 * delta


def test_a_wrong_profile_is_caught():
    """Gains for twice the noise lie below the best attacker's."""
    event = GaussianEvent(1.0, "add_remove")
    found = gained(stated(event), [GaussianEvent(2.0, "add_remove")])
    assert found.guesses < norm.cdf(0.5) and found.hits < norm.sf(norm.isf(FALSE_POSITIVES) - 1.0)


def test_where_nothing_is_promised_nothing_is_said():
    event = GaussianEvent(1.0, "add_remove")
    assert gained(stated(event, taints=("noise_multiplier=0",)), [event]) is None
    assert gained(stated(event), []) is None
    assert gained(stated(event), [event, NonPrivateEvent()]) is None


def test_the_worst_part_counts():
    weak, strong = GaussianEvent(1.0, "add_remove"), GaussianEvent(5.0, "add_remove")
    assert gained(stated(weak), [strong, weak]) == gained(stated(weak), [weak])


@pytest.mark.parametrize(
    "share, digits, said",
    [(0.5, 1, "50.0 %"), (0.50001, 1, "50.1 %"), (0.001, 2, "0.10 %")]
    + [(1.0, 1, "100.0 %"), (0.99999, 1, "100.0 %"), (0.0, 1, "0.0 %")],
)
def test_shares_are_never_rounded_down(share, digits, said):
    assert percent(share, digits) == said and not math.isnan(share)
