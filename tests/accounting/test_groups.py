"""Persons with several records. Mixtures of Gaussians, exact if they are reached, never below the truth."""

import math
import re
from itertools import combinations, product

import mpmath
import numpy as np
import pytest
from events import QUIET, fixed, poisson
from hypothesis import given, settings
from hypothesis import strategies as st
from peers.attacks import epsilon_lower_bound

from vips_fast import accounting as acc
from vips_fast.accounting.privacy_loss import rows

GAUSSIAN = acc.GaussianEvent


def group_epsilon(event, k, delta, **options):
    return acc.epsilon(acc.group_event(event, k), delta, **options)


def exact_deltas(q, z, k, eps):
    """Delta of adding and of removing k equal rows in one Poisson sample, by the root of the likelihood ratio."""
    with mpmath.workdps(40):
        q, z, e = mpmath.mpf(q), mpmath.mpf(z), mpmath.exp(mpmath.mpf(eps))
        weights = [mpmath.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]

        def ratio(x):
            return sum(w * mpmath.exp((2 * j * x - j * j) / (2 * z * z)) for j, w in enumerate(weights))

        def above(level):
            low, high = -200 * z, 200 * z
            if ratio(low) >= level:
                return None
            for _ in range(160):
                x = (low + high) / 2
                low, high = (low, x) if ratio(x) > level else (x, high)
            return high

        x = above(e)
        add = sum(w * mpmath.ncdf((j - x) / z) for j, w in enumerate(weights)) - e * mpmath.ncdf(-x / z)
        x = above(1 / e)
        remove = mpmath.mpf(0)
        if x is not None:
            remove = mpmath.ncdf(x / z) - e * sum(w * mpmath.ncdf((x - j) / z) for j, w in enumerate(weights))
        return add, remove


STEPS = [(0.25, 1.0, 3, 0.3), (0.5, 0.7, 2, 1.3), (0.01, 2.0, 10, 0.02), (0.25, 3.84, 5, 0.5), (0.9, 20.0, 12, 1.0)]


@pytest.mark.parametrize("step", STEPS)
def test_one_sampled_step_is_exact(step):
    """Closed form and masses of both directions, against the densities."""
    q, z, k, eps = step
    pair = rows.dominating_rows(acc.group_event(acc.PoissonSampledEvent(q, GAUSSIAN(z)), k))
    for one, want in zip(pair, exact_deltas(q, z, k, eps), strict=True):
        p, other = one.masses(np.array([eps, np.inf]))
        assert want * (1 - mpmath.mpf(10) ** -13) <= one.profile(eps) <= want * (1 + mpmath.mpf(10) ** -10)
        assert abs(p[0] - math.exp(eps) * other[0] - float(want)) <= 1e-12 * math.exp(eps)
    assert acc.delta(acc.group_event(poisson(q, z), k), eps) == max(one.profile(eps) for one in pair)


@pytest.mark.parametrize("seed", range(4))
def test_equal_rows_are_the_worst(seed):
    """k rows that point anywhere against the pair of aligned ones. In the plane, by quadrature."""
    rng = np.random.default_rng(seed)
    k, q, z = 3, 0.3, 0.8
    angle = rng.uniform(0, 2 * math.pi, k) * (seed > 0)
    given_rows = np.column_stack([np.cos(angle), np.sin(angle)]) * (rng.uniform(0.3, 1.0, (k, 1)) ** (seed > 1))
    axis = np.linspace(-8.0, 8.0, 801)
    x, y = np.meshgrid(axis, axis)

    def density(at):
        return np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * z * z)) / (2 * math.pi * z * z)

    sets = [list(s) for j in range(k + 1) for s in combinations(range(k), j)]
    p = sum(q ** len(s) * (1 - q) ** (k - len(s)) * density(given_rows[s].sum(0)) for s in sets)
    one, other = rows.dominating_rows(acc.group_event(acc.PoissonSampledEvent(q, GAUSSIAN(z)), k))
    cell = (axis[1] - axis[0]) ** 2
    for eps in (0.0, 0.3, 0.8):
        for a, b, pair in ((p, density((0, 0)), one), (density((0, 0)), p, other)):
            # The error of the sum at the kink is of the order of the cells.
            got = np.maximum(a - math.exp(eps) * b, 0.0).sum() * cell
            assert got <= pair.profile(eps) + 2e-4
            assert seed > 0 or got >= pair.profile(eps) - 2e-4


#: q, z, steps, k, delta, and epsilon by the mixture of Gaussians of dp-accounting 0.6.0 with the interval 2e-4.
GOLDEN = [
    (0.25, 3.84, 20, 2, 1e-4, 2.2147602),
    (0.25, 3.84, 20, 5, 1e-4, 6.6126494),
    (0.05, 1.24, 20, 3, 1e-6, 4.9703017),
    (0.01, 1.0, 200, 2, 1e-5, 1.9465572),
]


@pytest.mark.parametrize(("q", "z", "steps", "k", "delta", "value"), GOLDEN)
def test_golden(q, z, steps, k, delta, value):
    """Two implementations, both upper bounds about 10^-6 above the exact value."""
    assert group_epsilon(poisson(q, z, steps), k, delta, rtol=1e-6) == pytest.approx(value, rel=2e-6)


def group_privacy(event, k, eps):
    """delta of k neighbors one after another."""
    return sum(math.exp(i * eps / k) for i in range(k)) * acc.delta(event, eps / k)


@settings(QUIET, max_examples=8)
@given(st.floats(0.01, 0.6), st.floats(0.6, 6.0), st.integers(1, 60), st.integers(2, 7), st.booleans())
def test_properties(q, z, steps, k, replace):
    event = fixed(max(1, round(100 * q)), 100, z, steps) if replace else poisson(q, z, steps)
    delta = 1e-5
    group = acc.group_event(event, k)
    fewer, eps = group_epsilon(event, k - 1, delta), acc.epsilon(group, delta)
    # Answers are up to 10^-4 above the bounds; group privacy's, without replacement, 10^-3.
    slack = 1 + (3e-3 if replace else 3e-4)
    assert acc.epsilon(event, delta) <= fewer * slack + 1e-6 and fewer <= eps * slack + 1e-6
    assert epsilon_lower_bound(group, delta) <= eps
    assert acc.delta(group, eps) <= delta * (1 + 2e-2)
    assert acc.delta(group, eps) <= group_privacy(event, k, eps) * (1 + 2e-2)


@pytest.mark.parametrize(("event", "both"), [(poisson(0.2, 1.3, 30), True), (fixed(20, 100, 1.3, 30), False)])
def test_one_row_is_the_plain_event(event, both):
    assert acc.group_event(event, 1) is event
    leaf, count = next(iter(event.leaves().items()))
    again = acc.SelfComposedEvent(acc.GroupEvent(leaf, 1), count)
    for delta in (1e-2, 1e-6):
        assert acc.epsilon(again, delta) == pytest.approx(acc.epsilon(event, delta), rel=2e-4)
    for eps in (0.0, 0.4):
        one, plain = acc.GroupEvent(leaf, 1), leaf
        assert acc.delta(one, eps) == pytest.approx(acc.delta(plain, eps), rel=1e-10)
    assert (len(acc.PrivacyLoss(again)._directions) == 2) is both


@pytest.mark.parametrize("k", [1, 2])
def test_samples_of_a_fixed_size_against_enumerated_neighbors(k):
    """n = 4 rows, S = 2, k of them replaced. Every data set on a grid of values, by quadrature; one is the bound."""
    z, grid = 1.0, np.linspace(-8.0, 10.0, 3001)
    values = (0.0, 0.5, 1.0)

    def output(data):
        sums = [data[i] + data[j] for i, j in combinations(range(4), 2)]
        return sum(np.exp(-0.5 * ((grid - s) / z) ** 2) for s in sums) / (6 * z * math.sqrt(2 * math.pi))

    event = acc.group_event(fixed(2, 4, z), k)
    for eps in (0.0, 0.3, 1.0):
        best = 0.0
        for rest in ((0.0,) * (4 - k), (*(0.0,) * (3 - k), 1.0)):
            outputs = [output((*rest, *own)) for own in product(values, repeat=k)]
            for p, r in product(outputs, repeat=2):
                best = max(best, np.trapezoid(np.maximum(p - math.exp(eps) * r, 0.0), grid))
        # Errors at the kink are of order (grid step)^2.
        bound = acc.delta(event, eps)
        assert 0.0 < best <= bound + 1e-5 and (k > 1 or best >= bound - 2e-5)
    # The attack is one of these data sets.
    assert epsilon_lower_bound(event, 0.05) <= acc.epsilon(event, 0.05)


def test_samples_that_always_hold_a_row_of_the_group():
    """S > n - k: eta = 1. A person with all n rows has S in each sample."""
    event = fixed(6, 10, 4.0, 5)
    everything = acc.gaussian_epsilon(math.sqrt(5) * 6 / 4, 1e-5)
    assert group_epsilon(event, 10, 1e-5) == pytest.approx(everything, rel=2e-4)
    assert group_epsilon(event, 50, 1e-5) == group_epsilon(event, 10, 1e-5)
    assert acc.epsilon(event, 1e-5) < group_epsilon(event, 7, 1e-5) <= everything * (1 + 2e-4)
    low = epsilon_lower_bound(acc.group_event(event, 7), 1e-5)
    assert 0.8 * group_epsilon(event, 7, 1e-5) < low < group_epsilon(event, 7, 1e-5)


def test_many_rows():
    """So many that one of them is always drawn, to double precision."""
    k = 100
    event = acc.group_event(poisson(0.3, 200.0, 4), k)
    low, high = epsilon_lower_bound(event, 1e-6), acc.epsilon(event, 1e-6)
    everything = acc.gaussian_epsilon(2 * k / 200.0, 1e-6)
    assert low <= high < everything and acc.gaussian_epsilon(2 * 0.3 * k / 200.0, 1e-6) < high


def test_events_of_other_mechanisms():
    assert acc.group_event(GAUSSIAN(2.0, "replace_one"), 4) == GAUSSIAN(0.5, "replace_one")
    assert acc.group_event(acc.LaplaceEvent(3.0), 2) == acc.LaplaceEvent(1.5)
    assert acc.group_event(acc.NonPrivateEvent(), 3) == acc.NonPrivateEvent()
    assert acc.group_event(acc.PoissonSampledEvent(1.0, GAUSSIAN(2.0)), 4) == GAUSSIAN(0.5, "add_remove")
    nothing = acc.PoissonSampledEvent(0.0, GAUSSIAN(2.0))
    assert acc.group_event(nothing, 4) == nothing
    both = acc.ComposedEvent([acc.PoissonSampledEvent(0.5, GAUSSIAN(2.0)), GAUSSIAN(2.0, "add_remove")])
    wanted = (acc.GroupEvent(both.events[0], 3), GAUSSIAN(2.0 / 3, "add_remove"))
    assert acc.group_event(both, 3).events == wanted
    # A minibatch's releases together are one: 1 / z^2 adds up.
    two = acc.PoissonSampledEvent(0.3, acc.SelfComposedEvent(GAUSSIAN(math.sqrt(2.0)), 2))
    assert group_epsilon(two, 3, 1e-5) == pytest.approx(group_epsilon(poisson(0.3, 1.0), 3, 1e-5), rel=1e-9)
    statement = acc.group_event(acc.ApproximateDPEvent(0.5, 1e-6), 3)
    assert statement.epsilon == 1.5 and statement.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.e))
    sampled = acc.group_event(acc.WithoutReplacementEvent(1, 10, acc.LaplaceEvent(2.0)), 3)
    assert sampled == acc.ApproximateDPEvent(3 * math.log1p(0.1 * math.expm1(0.5)), 0.0, "replace_one")


def test_accountants_that_know_no_groups_refuse():
    renyi = ("rdp",)  # it knows Poisson samples
    for event, knows in ((poisson(0.2, 1.3, 3), renyi), (fixed(20, 100, 1.3, 3), ())):
        group = acc.group_event(event, 3)
        best, refused = acc.epsilon(group, 1e-5), set()
        for name in acc.ACCOUNTANTS:
            try:
                assert acc.epsilon(group, 1e-5, name) >= best
            except (ValueError, ImportError) as error:
                assert re.search("accountant='pld'", str(error)), name
                refused.add(name)
        assert refused >= {*renyi, "gaussian"} - {*knows}
        assert not refused & {"pld", *knows} and epsilon_lower_bound(group, 1e-5) <= best


@pytest.mark.parametrize("q, z, k", [(0.25, 3.84, 5), (0.1, 0.5, 3), (0.01, 2.0, 10), (0.25, 10.0, 20)])
def test_renyi_divergences_of_poisson_samples(q, z, k):
    """Against the plain sums over j and a fine grid of outputs. Both directions."""
    group, grid = acc.GroupEvent(acc.PoissonSampledEvent(q, GAUSSIAN(z)), k), np.linspace(-40, 8 * k / z + 40, 200_001)
    j = np.arange(k + 1)
    weights = np.array([math.log(math.comb(k, i)) + i * math.log(q) + (k - i) * math.log1p(-q) for i in j])
    loss = np.logaddexp.reduce([w + i / z * grid - 0.5 * (i / z) ** 2 for i, w in zip(j, weights)])
    log_mass = -0.5 * grid**2 - 0.5 * math.log(2 * math.pi) + math.log(grid[1] - grid[0])
    for order in (1.5, 4.0, 8.0):
        wanted = max(np.logaddexp.reduce(a * loss + log_mass) / (order - 1) for a in (order, 1 - order))
        assert acc.renyi_divergence(group, order) == pytest.approx(wanted, rel=1e-6)
    run = acc.SelfComposedEvent(group, 20)
    assert acc.epsilon(run, 1e-5) <= acc.epsilon(run, 1e-5, "rdp")
    # Beyond the integral: the value for all rows drawn, which is never below.
    far = 1.01e4 * z / k
    assert acc.renyi_divergence(group, far) == 0.5 * far * (k / z) ** 2 >= acc.renyi_divergence(group, 0.98 * far)
