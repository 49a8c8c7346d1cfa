"""Test k of t minibatches a unit against simulation and PLD_accounting."""

import math
from itertools import combinations

import numpy as np
import pytest

from vips_fast import accounting as acc

DRAWS = 200_000


def run(k, t, z, epochs=1):
    return acc.SelectedAllocationEvent(k, t, epochs, acc.GaussianEvent(z))


def simulated(k, t, z, epsilon):
    """Estimate delta of the exact law, and its standard error. The law is the mean over all k-subsets."""
    x = np.random.default_rng(0).standard_normal((DRAWS, t)) / z - 0.5 / z**2
    ratio = np.mean([np.exp(x[:, list(chosen)].sum(1)) for chosen in combinations(range(t), k)], axis=0)
    both = np.maximum(ratio - math.exp(epsilon), 0.0), np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0)
    return max((one.mean(), one.std() / math.sqrt(DRAWS)) for one in both)


@pytest.mark.parametrize("k, t, z", [(2, 4, 1.0), (2, 5, 1.0), (3, 4, 1.5), (1, 4, 1.0)])
def test_the_bound_is_above_the_exact_law_and_near_it(k, t, z):
    for epsilon in (0.5, 1.5):
        exact, error = simulated(k, t, z, epsilon)
        bound = acc.delta(run(k, t, z), epsilon)
        assert exact - 5 * error <= bound <= 1.35 * exact
        # A mutant: k epochs over all t minibatches, where several of a unit's can be one.
        wrong = acc.delta(acc.RandomAllocationEvent(t, k, acc.GaussianEvent(z)), epsilon)
        assert k == 1 or wrong < exact - 5 * error


def test_the_ends_are_known_events():
    one, dealt = run(1, 6, 1.2, 3), acc.RandomAllocationEvent(6, 3, acc.GaussianEvent(1.2))
    assert acc.epsilon(one, 1e-5) == acc.epsilon(dealt, 1e-5)
    # In all of t minibatches: t Gaussian mechanisms.
    whole = acc.SelfComposedEvent(acc.GaussianEvent(3.0, "add_remove"), 8)
    assert acc.epsilon(run(4, 4, 3.0, 2), 1e-5) == pytest.approx(acc.epsilon(whole, 1e-5), rel=1e-4)
    spent = [acc.epsilon(run(k, 6, 3.0), 1e-5) for k in (1, 2, 3, 4, 6)]
    assert (np.diff(spent) > 0).all()


@pytest.mark.parametrize("k, t, z", [(2, 4, 1.0), (3, 10, 2.0)])
def test_the_attack_is_below(k, t, z):
    # All outputs together are N(k, t z^2) against N(0, t z^2).
    lower = acc.epsilon_lower_bound(run(k, t, z), 1e-5)
    assert lower == pytest.approx(acc.gaussian_epsilon(k / (z * math.sqrt(t)), 1e-5), rel=1e-2)
    assert lower <= acc.epsilon(run(k, t, z), 1e-5)


def test_a_second_opinion():
    """PLD_accounting 2.0 has 5.3133 on a grid of 0.01. It bounds by the same blocks."""
    assert acc.epsilon(run(2, 4, 1.0), 1e-5) == pytest.approx(5.3108, abs=1e-3)
    assert acc.epsilon(run(2, 4, 1.0), 1e-5) < 5.3133


def test_events_round_trip_and_refuse():
    event = run(2, 5, 1.5, 3)
    assert acc.event_from_json(event.to_json()) == event and event.relation == "add_remove"
    for bad, match in (
        (lambda: run(6, 5, 1.0), "n_selected=6: expected an integer <= n_batches = 5"),
        (lambda: run(0, 5, 1.0), "n_selected"),
        (lambda: acc.SelectedAllocationEvent(2, 5, 1, acc.LaplaceEvent(1.0)), "Gaussian events only"),
        (lambda: acc.PoissonSampledEvent(0.1, event), "one mechanism"),
        (lambda: acc.epsilon(event, 1e-5, "rdp"), "pld"),
        (lambda: acc.group_event(event, 2), "known"),
    ):
        with pytest.raises(ValueError, match=match):
            bad()
