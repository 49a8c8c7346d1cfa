"""Every type of event at every consumer: a figure that is right, or a refusal by type.

The truth of each row is computed here, from densities on a grid or in mpmath; no consumer may say less. A type of event
without a row fails.
"""

import json
import math
from dataclasses import dataclass
from itertools import product

import mpmath
import numpy as np
import pytest

from vips_fast import accounting as acc
from vips_fast.accounting import events
from vips_fast.accounting.accountants import ACCOUNTANTS
from vips_fast.engine import filters
from vips_fast.engine.budget import Budget

G, DELTA = acc.GaussianEvent, 1e-4


def gauss(x, mean=0.0, sd=1.0):
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def laplace(x, mean, scale):
    return np.exp(-np.abs(x - mean) / scale) / (2 * scale)


def grid(n, sd, points):
    """Return n coordinate arrays of a product grid, and the volume of a cell."""
    axis = np.linspace(-7 * sd, 7 * sd + 2, points)
    return np.meshgrid(*[axis] * n, indexing="ij", sparse=True), (axis[1] - axis[0]) ** n


def mixture(places, sd, points):
    """Masses of two laws: equal parts of N(place, sd^2 I), and N(0, sd^2 I)."""
    axes, cell = grid(len(places[0]), sd, points)
    p = sum(math.prod(gauss(x, m, sd) for x, m in zip(axes, place, strict=True)) for place in places) / len(places)
    return (p * cell).ravel(), (math.prod(gauss(x, 0.0, sd) for x in axes) * cell).ravel()


def of_masses(p, q):
    """Smallest epsilon at DELTA for both directions of two laws."""

    def delta(epsilon):
        e = math.exp(epsilon)
        return max(float(np.maximum(p - e * q, 0).sum()), float(np.maximum(q - e * p, 0).sum()))

    low, high = 0.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    return high


def of_gaussian(square, delta=DELTA):
    """Epsilon of a Gaussian mechanism with mu^2, in mpmath."""
    mu = mpmath.sqrt(square)

    def profile(e):
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)

    with mpmath.workdps(40):
        low, high = mpmath.mpf(0), mpmath.mpf(mu * mu / 2 + mu * 40)
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if profile(middle) > delta else (low, middle)
        return float(high)


def binomial(n, q, sd):
    """A person with n rows, each drawn with probability q, against nobody."""
    axes, cell = grid(1, sd, 20_001)
    x = axes[0]
    p = sum(math.comb(n, j) * q**j * (1 - q) ** (n - j) * gauss(x, j, sd) for j in range(n + 1))
    return of_masses(p * cell, gauss(x, 0.0, sd) * cell)


def fixed(q, sd):
    """One step without replacement, in closed form (Balle, Barthe & Gaboardi 2018)."""

    def delta(e):
        base = mpmath.log(1 + (mpmath.exp(e) - 1) / q)
        return q * (mpmath.ncdf(0.5 / sd - base * sd) - mpmath.exp(base) * mpmath.ncdf(-0.5 / sd - base * sd))

    low, high = 0.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    return high


def drawn_of_four(sd):
    """Two equal rows among four records, two of which are drawn, against zeros."""
    axes, cell = grid(1, sd, 20_001)
    x = axes[0]
    return of_masses((gauss(x, 0, sd) + 4 * gauss(x, 1, sd) + gauss(x, 2, sd)) / 6 * cell, gauss(x, 0, sd) * cell)


def beside_laplace(sd, scale):
    x, y = np.meshgrid(np.linspace(-8 * sd, 8 * sd + 1, 1_501), np.linspace(-25 * scale, 25 * scale + 1, 3_001))
    p, q = gauss(x, 1, sd) * laplace(y, 1, scale), gauss(x, 0, sd) * laplace(y, 0, scale)
    return of_masses(p.ravel() / p.sum(), q.ravel() / q.sum())


def response(p, n):
    """n binary answers of one person, all changed."""
    words = list(product((0, 1), repeat=n))
    one = np.array([math.prod(p if w else 1 - p for w in word) for word in words])
    return of_masses(one, np.array([math.prod(1 - p if w else p for w in word) for word in words]))


def stated(epsilon, delta):
    """The worst mechanism of a statement."""
    high, low = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return of_masses(np.array([delta, 0.0, high, low]), np.array([0.0, delta, low, high]))


EXACT, WHOLE = {"gaussian", "pld"}, {"pld", "rdp"}
THEIRS = {"dp-accounting"}


@dataclass
class Row:
    """What is known of an event: its truth, and who may say a figure."""

    event: acc.PrivacyEvent
    #: Epsilon at DELTA, and for somebody with two records; None if all of them may be in one minibatch.
    truth: float
    two: float | None
    #: The accountants that answer; all others refuse.
    answer: set
    #: mu^2 of Gaussian mechanisms on all the data that bound it; None: filters and odometers refuse.
    square: float | None = None
    renyi: bool = False
    reuses: bool = False
    steps: int = 1
    parts: int = 1


def dealt(n, sd):
    """Masses of n rows in two minibatches, each in one."""
    places = [tuple(sum(b == i for b in bins) for i in range(2)) for bins in product(range(2), repeat=n)]
    return of_masses(*mixture(places, sd, 1_201))


def rows():
    sd = 1.5
    poisson, dealing = acc.PoissonSampledEvent(0.25, G(sd)), acc.RandomAllocationEvent(2, 1, G(sd))
    x, cell = np.linspace(-60, 61, 200_001), 121 / 200_000
    of_laplace = {b: of_masses(laplace(x, 1, b) * cell, laplace(x, 0, b) * cell) for b in (2.0, 1.0)}
    gaussian, of_sum = (
        EXACT | WHOLE | THEIRS,
        acc.ComposedEvent((G(sd, "add_remove"), acc.LaplaceEvent(2.0, "add_remove"))),
    )
    square, sampled = 1 / sd**2, acc.ComposedEvent((poisson, acc.SelfComposedEvent(G(2.0, "add_remove"), 2)))
    one, two = of_gaussian(square), of_gaussian(4 * square)
    # For two records of a statement: Vadhan 2017, lemma 2.2.
    of_statement = stated(0.5, 1e-5), stated(1.0, 1e-5 * (1 + math.exp(0.5)))
    fixed_size, reused = (
        acc.WithoutReplacementEvent(2, 4, G(sd)),
        acc.RandomAllocationEvent(2, 4, G(2 * sd), reused=True),
    )
    rows_of_two = binomial(2, 0.25, sd), binomial(4, 0.25, sd)
    return [
        Row(acc.NonPrivateEvent("add_remove"), math.inf, math.inf, set(ACCOUNTANTS)),
        Row(G(sd, "add_remove"), one, two, gaussian, square, True),
        Row(acc.LaplaceEvent(2.0, "add_remove"), of_laplace[2.0], of_laplace[1.0], WHOLE | THEIRS, renyi=True),
        Row(acc.RandomizedResponseEvent(0.7), response(0.7, 1), response(0.7, 2), WHOLE, renyi=True),
        Row(acc.ApproximateDPEvent(0.5, 1e-5, "add_remove"), *of_statement, {"pld"}),
        Row(poisson, binomial(1, 0.25, sd), binomial(2, 0.25, sd), WHOLE | THEIRS, square, True),
        Row(fixed_size, fixed(0.5, sd), drawn_of_four(sd), WHOLE, square, True),
        Row(dealing, dealt(1, sd), dealt(2, sd), {"pld"}, square, steps=2),
        Row(reused, dealt(1, sd), None, {"pld"}, square, reuses=True, steps=8),
        Row(acc.RandomAllocationEvent(1, 9, G(3 * sd)), one, two, {"pld"}, square, steps=9, parts=9),
        Row(acc.GroupEvent(poisson, 2), *rows_of_two, WHOLE, 4 * square, True),
        Row(acc.GroupEvent(dealing, 2), dealt(2, sd), dealt(4, sd), {"pld"}, 4 * square, steps=2),
        Row(of_sum, beside_laplace(sd, 2.0), beside_laplace(sd / 2, 1.0), WHOLE | THEIRS, renyi=True),
        Row(sampled, of_gaussian(1 / 2), of_gaussian(4 / 2), WHOLE | THEIRS, square + 1 / 2, True),
        Row(
            acc.SelfComposedEvent(G(3.0, "add_remove"), 4),
            of_gaussian(4 / 9),
            of_gaussian(16 / 9),
            gaussian,
            4 / 9,
            True,
        ),
    ]


ROWS = rows()
EVERY = pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.event.kind}" for n, row in enumerate(ROWS)])


def types():
    found, stack = set(), [acc.PrivacyEvent]
    while stack:
        stack += (more := stack.pop().__subclasses__())
        found.update(one for one in more if "kind" in vars(one) and one.__module__.startswith("vips_fast."))
    return found


def test_every_type_has_a_row():
    assert {type(row.event) for row in ROWS} == types() == set(events._KINDS.values())
    # A new accountant or filter has to be in the table, too.
    assert set().union(*(row.answer for row in ROWS[1:])) == set(ACCOUNTANTS)
    assert filters.FILTERS == ("gaussian", "renyi")


# The figures of the grids are good to 1e-3.


@EVERY
@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_accountants(row, name):
    if name not in row.answer:
        with pytest.raises(ValueError, match="accountant="):
            acc.epsilon(row.event, DELTA, name)
        return
    said = acc.epsilon(row.event, DELTA, name)
    assert said >= row.truth * (1 - 1e-3)
    if name == acc.default_accountant(row.event) and row.square != 1 / 1.5**2 + 1 / 2:
        assert said <= row.truth * 1.005 or row.event.kind == "group"


@EVERY
def test_filters(row):
    counts = {row.event: 1}
    if row.square is None:
        refused = "non_private|laplace|randomized_response|approximate_dp"
        with pytest.raises(ValueError, match=f"no Gaussian mechanism is known to bound ({refused}): expected"):
            filters.gaussian_filter_epsilon(counts, DELTA)
    else:
        said = filters.gaussian_filter_epsilon(counts, DELTA)
        assert said == pytest.approx(of_gaussian(row.square), rel=1e-9) and said >= row.truth * (1 - 1e-3)
        # Repetitions add up.
        five = filters.gaussian_filter_epsilon({row.event: 2, acc.SelfComposedEvent(row.event, 3): 1}, DELTA)
        assert five == pytest.approx(of_gaussian(5 * row.square), rel=1e-9)
    orders = filters.renyi_orders(2.0, DELTA)
    if row.renyi:
        assert filters.renyi_filter_epsilon(counts, DELTA, orders) >= row.truth * (1 - 1e-3)
    else:
        with pytest.raises(ValueError, match=f"no Renyi bound of {row.event.kind.replace('_', ' ')}.*: expected"):
            filters.renyi_filter_epsilon(counts, DELTA, orders)


@EVERY
def test_budgets(row, tmp_path):
    for name, holds in (("gaussian", row.square is not None), ("renyi", row.renyi)):
        budget = Budget.create(
            tmp_path / name, 90.0, DELTA, dataset="d", filter=name, relation=row.event.relation or "add_remove"
        )
        if holds:
            with budget.reserve(row.event, 1) as held:
                held.release()
            assert budget.spent >= row.truth * (1 - 1e-3)
        elif row.event.kind != "approximate_dp":
            with pytest.raises(ValueError, match="expected"):
                budget.reserve(row.event, 1)


def own_level(size):
    """Level and share of delta, as the docstring of `filters` and `_level` say."""
    levels = [(float(j), 0.375 / (j * (j + 1))) for j in range(1, 9)]
    levels += [(8 * 1.125**i, 0.375 / ((8 + i) * (9 + i))) for i in range(1, 60)]
    levels += [(2 ** (-j / 2), 0.125 / (j * (j + 1))) for j in range(1, 60)]
    return min((level, share) for level, share in levels if level >= size)


def near_level(size, share):
    """`own_level`; at a border, where the sums round, the one with this share."""
    return next((one for one in map(own_level, (size * (1 - 3e-10), size)) if one[1] == share), own_level(size))


def check_odometer(first, later, square):
    """The first run and one Gaussian mechanism at the level: no smaller and no larger."""
    mu2 = 1 / first.noise_multiplier**2
    event, part = filters.odometer({first: 1}, later, DELTA)
    level, share = near_level(square / mu2, part)
    assert part == pytest.approx(share, rel=1e-12)
    assert acc.gaussian_mu(event) ** 2 == pytest.approx(mu2 * (1 + level), rel=1e-8)
    assert acc.epsilon(event, part * DELTA) == pytest.approx(of_gaussian(mu2 * (1 + level), share * DELTA), rel=1e-7)


@EVERY
def test_odometers_and_reserved_limits(row):
    first = G(1.25, row.event.relation)
    if row.square is None:
        for call in (
            lambda: filters.odometer({first: 1}, {row.event: 1}, DELTA),
            lambda: filters.reserved({first: 1}, {row.event: 1}, 3.0, DELTA),
        ):
            with pytest.raises(ValueError, match="no Gaussian mechanism is known to bound"):
                call()
        return
    for count in (1, 3):
        check_odometer(first, {row.event: count}, count * row.square)
    whole = of_gaussian(row.square + 1 / 1.25**2)
    assert filters.reserved({first: 1}, {row.event: 1}, whole * (1 + 1e-6), DELTA) is not None
    assert filters.reserved({first: 1}, {row.event: 1}, whole * (1 - 1e-3), DELTA) is None


@pytest.mark.parametrize("z", [math.sqrt(0.5) * (1 + 1e-10), math.sqrt(0.5), 2**0.25, 1.0, 3.0, 0.3])
@pytest.mark.parametrize("tiny", [-1e-10, -1e-16, 0.0, 1e-16, 1e-10])
def test_the_odometer_has_a_level_for_every_size(z, tiny):
    first = G(1.0, "add_remove")
    for later in (G(z * (1 + tiny), "add_remove"), G(z**2 * (1 + tiny), "add_remove")):
        check_odometer(first, {later: 1}, 1 / later.noise_multiplier**2)
    level, share = filters._level(z * (1 + tiny))
    assert (level, share) == pytest.approx(near_level(z * (1 + tiny), share), rel=1e-12)
    assert level * (1 + 2e-10) >= z * (1 + tiny)


@EVERY
def test_groups(row):
    if row.event.reuses_minibatches:
        # All of a person's rows may be in one minibatch.
        assert acc.epsilon(acc.group_event(row.event, 2), DELTA) >= dealt(2, 1.5) * (1 - 1e-3)
    else:
        assert acc.epsilon(acc.group_event(row.event, 2), DELTA) >= row.two * (1 - 1e-3)
        assert acc.group_event(row.event, 2).reuses_minibatches == row.reuses
    assert acc.group_event(row.event, 1) is row.event


@EVERY
def test_files(row):
    text = row.event.to_json()
    again = acc.event_from_dict(json.loads(text))
    assert again == row.event and hash(again) == hash(row.event) and again.to_json() == text
    # Canonical: a reader that sorts keys and drops spaces changes nothing.
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text


@EVERY
def test_what_an_event_says_of_itself(row):
    event = row.event
    for wrapped in (event, acc.SelfComposedEvent(event, 2), acc.ComposedEvent((event,))):
        assert wrapped.reuses_minibatches == row.reuses
    assert event.n_steps == row.steps
    part, number = event.split()
    assert number == row.parts and acc.epsilon(acc.SelfComposedEvent(part, number), DELTA) >= row.truth * (1 - 1e-3)
    assert (said := event.gaussian_mu_squared()) == (row.square and pytest.approx(row.square, rel=1e-12))
    if said is not None:
        # The bound is one: a Gaussian mechanism of this size is not easier to bear.
        assert acc.epsilon(G(said**-0.5, event.relation), DELTA) >= row.truth * (1 - 1e-3)


@EVERY
def test_risk(row):
    event = row.event
    worst = acc.delta(event, 0.0)
    assert acc.attack_success(event) == pytest.approx(0.5 + 0.5 * worst)
    for figure in (acc.true_positive_rate(event, 0.05), acc.inference_success(event, 0.05)):
        # Both are at least what the truth's epsilon allows of a Gaussian mechanism's delta.
        assert 0.05 <= figure <= 1.0
    if row.truth == math.inf:
        assert worst == acc.true_positive_rate(event, 0.05) == acc.inference_success(event, 0.05) == 1.0


def strange():
    @dataclass(frozen=True)
    class StrangeEvent(acc.PrivacyEvent):
        """A new type that has the other types' fields, and says nothing."""

        kind = "strange"
        event: acc.PrivacyEvent = G(9.0, "add_remove")
        noise_multiplier: float = 9.0
        n_epochs: int = 1
        sampling_probability: float = 0.01
        relation: str = "add_remove"

    return StrangeEvent()


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: acc.ComposedEvent((e, G(1.0, "add_remove")))])
def test_a_type_that_nobody_knows_is_refused(wrap, tmp_path):
    event = wrap(strange())
    first = {G(1.0, "add_remove"): 1}
    calls = [
        *[lambda name=name: acc.epsilon(event, DELTA, name) for name in ACCOUNTANTS],
        lambda: acc.epsilon(event, DELTA),
        lambda: acc.attack_success(event),
        lambda: filters.gaussian_filter_epsilon({event: 1}, DELTA),
        lambda: filters.renyi_filter_epsilon({event: 1}, DELTA, filters.renyi_orders(1.0, DELTA)),
        lambda: filters.odometer(first, {event: 1}, DELTA),
        lambda: filters.reserved(first, {event: 1}, 3.0, DELTA),
        lambda: acc.group_event(event, 2),
        lambda: acc.event_from_dict(event.to_dict()),
        lambda: acc.PoissonSampledEvent(0.1, event),
        lambda: acc.RandomAllocationEvent(2, 1, event),
        lambda: Budget.create(tmp_path / "b", 9.0, DELTA, dataset="d", filter="gaussian").reserve(event, 1),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError)):
            call()
