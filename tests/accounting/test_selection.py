"""The best of several runs.

Against exact selections of small mechanisms, and against dp-accounting.
"""

import math
import warnings

import numpy as np
import pytest

from vips_fast import accounting as acc
from vips_fast.accounting import rdp, selection
from vips_fast.engine import filters

SHAPES = [0.0, 0.4, 1.0, 3.0, None]


def generating(mean, shape):
    """x -> E[x^K], written as in the paper's definitions 1 and 5."""
    if shape is None:
        return lambda x: np.exp(mean * (x - 1.0))
    gamma = selection.stopping_probability(mean, shape)
    if gamma == 1.0:
        return lambda x: x
    if shape == 0.0:
        return lambda x: np.log1p(-(1.0 - gamma) * x) / math.log(gamma)
    return lambda x: ((1.0 - (1.0 - gamma) * x) ** -shape - 1.0) / (gamma**-shape - 1.0)


def selected(law, mean, shape):
    """Compute the law of the largest of K outputs.

    Last stands the probability of no output, if that may be.
    """
    f = generating(mean, shape)
    cumulated = f(np.concatenate([[0.0], np.minimum(np.cumsum(law), 1.0)]))
    found = np.diff(cumulated)
    return np.append(found, cumulated[0]) if shape is None else found


def divergence(p, q, orders):
    """Compute the larger of both Renyi divergences, at each order.

    One is of p from q, the other of q from p.
    """
    a, b = np.log(p), np.log(q)
    both = (np.logaddexp.reduce(np.multiply.outer(orders, x - y) + y, axis=-1) for x, y in ((a, b), (b, a)))
    return np.maximum(*both) / (orders - 1.0)


def delta_of(p, q, epsilon):
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) for a, b in ((p, q), (q, p)))


def bound(p, q, mean, shape, orders):
    """`selected_curve` of a pair of laws, from their exact divergences."""

    known = 1.0 + np.geomspace(1e-2, 300.0, 120)
    one = divergence(p, q, known)
    return selection.selected_curve(
        mean, shape, orders, divergence(p, q, orders), known, one, lambda e: rdp.delta_from_rdp(known, one, e)
    )


def laws(n):
    """Pairs of laws of a few outputs, near each other and far."""
    draw = np.random.default_rng(5)
    for _ in range(n):
        size = int(draw.integers(2, 6))
        p = draw.dirichlet(np.full(size, 0.7)) + 1e-6
        q = p * np.exp(draw.normal(0.0, draw.choice([0.05, 0.5, 1.5]), size))
        yield p / p.sum(), q / q.sum()


ORDERS = np.array([1.05, 1.5, 2.0, 5.0, 20.0, 90.0])


@pytest.mark.parametrize("shape", SHAPES)
def test_no_exact_selection_is_above_the_bound(shape):
    for p, q in laws(40):
        for mean in (1.0, 1.3, 4.0, 25.0):
            a, b = selected(p, mean, shape), selected(q, mean, shape)
            assert a.sum() == pytest.approx(1.0, abs=1e-9)
            assert np.all(divergence(a, b, ORDERS) <= bound(p, q, mean, shape, ORDERS) * (1.0 + 1e-9) + 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_forgets_the_number_of_runs_is_caught(shape):
    """Two wrong bounds lie below an exact selection somewhere.

    One run's divergence, and a bound without its constant.
    """
    # One run shows a rare output seldom; the largest of many runs is mostly that.
    p, q = np.array([0.97, 0.03]), np.array([0.985, 0.015])
    a, b = selected(p, 25.0, shape), selected(q, 25.0, shape)
    exact = divergence(a, b, ORDERS)
    assert np.any(exact > 2.0 * divergence(p, q, ORDERS))
    assert np.all(exact <= bound(p, q, 25.0, shape, ORDERS))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("p", "mean"), [(0.7, 3.0), (0.52, 40.0), (0.95, 2.0)])
def test_profile_of_a_selected_response_is_never_below_the_exact_one(shape, p, mean):
    response = acc.RandomizedResponseEvent(p)
    event = acc.RepeatAndSelectEvent(response, mean, shape)
    for top in ((p, 1 - p), (1 - p, p)):
        a, b = selected(np.array(top), mean, shape), selected(np.array(top[::-1]), mean, shape)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
            assert delta_of(a, b, epsilon) <= acc.delta(event, epsilon) * (1.0 + 1e-9)
    # The event of one run, stated for the search, is refuted.
    assert any(delta_of(a, b, e) > 1.01 * acc.delta(response, e) for e in (0.0, 0.1, 0.2, 0.5, 1.0, 2.0))


@pytest.mark.parametrize("shape", [0.0, 1e-9, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("mean", [1.0, 1.0 + 1e-9, 1.5, 10.0, 1e4, 1e9])
def test_stopping_probability_has_the_mean(mean, shape):
    gamma = selection.stopping_probability(mean, shape)
    assert 0.0 < gamma <= 1.0
    got = selection.truncated_negative_binomial_mean(gamma, shape)
    assert got >= mean * (1.0 - 1e-12) and got == pytest.approx(mean, rel=1e-6)
    if mean == 10.0 and shape >= 0.3:
        # E[K] = f'(1), by differences.
        f = generating(mean, shape)
        assert (f(1.0) - f(1.0 - 1e-6)) / 1e-6 == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [4.0, 20.0])
def test_equal_to_dp_accounting(mean, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dp_accounting import NeighboringRelation, rdp
        from dp_accounting.dp_event import RepeatAndSelectDpEvent

        from vips_fast.accounting.dp_events import to_dp_event

        for z, steps, rate in ((1.5, 20, 0.05), (3.0, 1, 1.0)):
            score = acc.GaussianEvent(10.0)
            run = acc.SelfComposedEvent(acc.PoissonSampledEvent(rate, acc.GaussianEvent(z)), steps)
            both = acc.ComposedEvent((score.with_relation("add_remove"), run))
            event = acc.RepeatAndSelectEvent(both, mean, shape)
            theirs = to_dp_event(event)
            assert isinstance(theirs, RepeatAndSelectDpEvent)
            orders = list(1.0 + np.geomspace(0.05, 500.0, 90))
            account = rdp.RdpAccountant(orders, NeighboringRelation.ADD_OR_REMOVE_ONE)
            assert acc.epsilon(event, 1e-5) == pytest.approx(account.compose(theirs).get_epsilon(1e-5), rel=0.01)


def test_one_run_on_average_is_one_run():
    event = acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0))
    for shape in (0.0, 1.0, 5.0):
        once = acc.RepeatAndSelectEvent(event, 1.0, shape)
        assert acc.epsilon(once, 1e-5) == pytest.approx(acc.epsilon(event, 1e-5, "rdp"), rel=1e-6)


def test_other_accountants_filters_and_owners():
    run = acc.GaussianEvent(4.0, "add_remove")
    event = acc.RepeatAndSelectEvent(run, 10.0)
    assert acc.default_accountant(event) == acc.default_accountant(acc.ComposedEvent((run, event))) == "rdp"
    for name in acc.ACCOUNTANTS.keys() - {"rdp", "generic", "wang"}:
        with pytest.raises(ValueError):
            acc.epsilon(event, 1e-5, name)
    assert min(acc.epsilon(event, 1e-5, name) for name in ("generic", "wang")) >= acc.epsilon(event, 1e-5)
    # Whoever counts it as a run is refused, and so is the filter that counts mu^2.
    with pytest.raises(ValueError, match="Gaussian"):
        filters.gaussian_filter_epsilon({event: 1}, 1e-5)
    assert not filters.is_whole_gaussian(event)
    orders = filters.renyi_orders(5.0, 1e-5)
    assert filters.renyi_filter_epsilon({event: 1}, 1e-5, orders) >= acc.epsilon(event, 1e-5)
    attack, *rows = acc.compare(event, 1e-5)
    assert attack.epsilon == pytest.approx(acc.epsilon(run, 1e-5), rel=1e-6)
    assert {row.accountant for row in rows} == {"rdp", "generic", "wang"}
    assert acc.epsilon_lower_bound(acc.RepeatAndSelectEvent(run, 10.0, None), 1e-5) == 0.0
    two = acc.group_event(event, 2)
    assert two == acc.RepeatAndSelectEvent(acc.GaussianEvent(2.0, "add_remove"), 10.0)
    assert "rdp" not in acc.describe(event, 1e-5) and "Renyi" in acc.describe(event, 1e-5)


def test_nothing_and_no_guarantee():
    nothing = acc.RepeatAndSelectEvent(acc.PoissonSampledEvent(0.0, acc.GaussianEvent(1.0)), 5.0)
    assert acc.epsilon(nothing, 1e-5) == 0.0
    assert acc.epsilon(acc.RepeatAndSelectEvent(acc.NonPrivateEvent(), 5.0), 1e-5) == math.inf
    dealt = acc.RandomAllocationEvent(10, 3, acc.GaussianEvent(1.0))
    with pytest.raises(ValueError, match="no Renyi"):
        acc.epsilon(acc.RepeatAndSelectEvent(dealt, 5.0), 1e-5)
    with pytest.raises(ValueError, match="no Renyi bound of random allocation"):
        filters.renyi_filter_epsilon({acc.RepeatAndSelectEvent(dealt, 5.0): 1}, 1e-5, filters.renyi_orders(1.0, 1e-5))


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        ((acc.GaussianEvent(1.0), 0.5), ValueError, "mean must be >= 1"),
        ((acc.GaussianEvent(1.0), 0.0, None), ValueError, "mean must be a finite number > 0"),
        ((acc.GaussianEvent(1.0), 5.0, -0.1), ValueError, "shape must be"),
        ((acc.GaussianEvent(1.0), 5.0, math.inf), ValueError, "shape must be"),
        ((acc.GaussianEvent(1.0), math.nan), ValueError, "mean must be"),
        (("gaussian", 5.0), TypeError, "event must be a privacy event"),
    ],
)
def test_refused(values, error, match):
    with pytest.raises(error, match=match):
        acc.RepeatAndSelectEvent(*values)
    inner = acc.RepeatAndSelectEvent(acc.GaussianEvent(1.0), 2.0)
    with pytest.raises(ValueError, match="can hold one mechanism"):
        acc.PoissonSampledEvent(0.5, inner)


def test_as_json():
    for shape in SHAPES:
        event = acc.RepeatAndSelectEvent(acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0)), 3.0, shape)
        assert acc.event_from_json(event.to_json()) == event
        assert event.relation == "add_remove"
        with pytest.raises(ValueError, match="relation"):
            event.with_relation("replace_one")
