"""Parallel composition: the account of a part bounds the loss of its records, and nothing less does."""

import itertools

import numpy as np
import pytest

from vips_fast import accounting as acc
from vips_fast.accounting.parts import accounts, composed

EPSILONS = (0.0, 0.2, 0.7, 1.5)


def parts_delta(spent, eps):
    """The largest of the parts' profiles, as the theorem says."""
    return max(acc.delta(composed(counts), eps) for counts in accounts(spent).values())


def parts_epsilon(spent, d):
    return max(acc.epsilon(composed(counts), d) for counts in accounts(spent).values())


def whole(z):
    return acc.GaussianEvent(z, "add_remove")


def joint_delta(releases, lies_in, eps):
    """Exact delta of adaptive randomized responses, (part, epsilon, epsilon after a 1) in order, by enumeration.

    A record of the parts in ``lies_in`` flips the true bit of every release that reads it. A release is tuned by the
    last outcome before it, whichever part that was of.
    """
    total = 0.0
    for seen in itertools.product((0, 1), repeat=len(releases)):
        p = q = 1.0
        for k, (part, calm, eager) in enumerate(releases):
            e = eager if k and seen[k - 1] else calm
            keeps = 1.0 / (1.0 + np.exp(-e))
            p *= keeps if seen[k] == 1 else 1.0 - keeps
            reads = part is None or part in lies_in
            q *= keeps if seen[k] == (0 if reads else 1) else 1.0 - keeps
        total += max(p - np.exp(eps) * q, 0.0)
    return total


FIXED = [("a", 0.4, 0.4), (None, 0.3, 0.3), ("b", 0.9, 0.9), ("a", 0.5, 0.5)]
ADAPTIVE = [("a", 0.4, 0.4), ("b", 0.2, 0.9), (None, 0.1, 0.3), ("a", 0.2, 0.5)]


def spent_by(releases):
    return {(part, acc.RandomizedResponseEvent(1.0 / (1.0 + np.exp(-eager)))): 1 for part, _, eager in releases}


@pytest.mark.parametrize("eps", EPSILONS)
def test_the_profile_is_the_largest_of_the_parts(eps):
    """Exact for fixed mechanisms. A bound if earlier outputs, of other parts too, tune them."""
    bound = parts_delta(spent_by(FIXED), eps)
    exact = [joint_delta(FIXED, {part}, eps) for part in "ab"]
    assert max(exact) <= bound + 1e-9 and bound == pytest.approx(max(exact), rel=1e-3, abs=1e-9)
    bound = parts_delta(spent_by(ADAPTIVE), eps)
    assert all(joint_delta(ADAPTIVE, {part}, eps) <= bound + 1e-9 for part in "ab")


def test_a_record_in_two_parts_is_not_covered():
    """What the theorem assumes is needed. In sequence they are covered, in parallel not."""
    spent = spent_by(FIXED)
    in_sequence = acc.ComposedEvent(tuple(event for _, event in spent))
    for eps in EPSILONS:
        both = joint_delta(FIXED, {"a", "b"}, eps)
        assert parts_delta(spent, eps) + 0.02 < both <= acc.delta(in_sequence, eps) + 1e-9


def test_epsilon_is_that_of_the_worst_part():
    sampled = acc.PoissonSampledEvent(0.1, whole(1.5))
    spent = {(None, sampled): 10, ("a", whole(4.0)): 1, ("b", whole(3.0)): 2, ("c", sampled): 3}
    each = {
        "a": acc.ComposedEvent((acc.SelfComposedEvent(sampled, 10), whole(4.0))),
        "b": acc.ComposedEvent((acc.SelfComposedEvent(sampled, 10), acc.SelfComposedEvent(whole(3.0), 2))),
        "c": acc.SelfComposedEvent(sampled, 13),
    }
    worst = {d: max(acc.epsilon(event, d) for event in each.values()) for d in (1e-3, 1e-6)}
    for d, value in worst.items():
        assert parts_epsilon(spent, d) == pytest.approx(value, rel=1e-3)
        assert parts_delta(spent, value) == pytest.approx(d, rel=1e-2)
    # The worst part at one delta need not be the worst at another: the maximum is of whole profiles.
    mixed = {("a", acc.PoissonSampledEvent(0.001, whole(0.3))): 1, ("b", whole(2.0)): 1}
    large = [parts_epsilon({key: 1}, 1e-2) for key in mixed]
    small = [parts_epsilon({key: 1}, 1e-7) for key in mixed]
    assert large[0] < large[1] and small[0] > small[1]
    assert parts_epsilon(mixed, 1e-2) == large[1] and parts_epsilon(mixed, 1e-7) == small[0]


def test_accounts():
    a, b = whole(1.0), whole(2.0)
    assert accounts({}) == {None: {}} and composed({}) is None
    assert accounts({(None, a): 2}) == {None: {a: 2}}
    assert accounts({("x", a): 1, (None, a): 2, ("y", b): 3}) == {"x": {a: 3}, "y": {a: 2, b: 3}}
