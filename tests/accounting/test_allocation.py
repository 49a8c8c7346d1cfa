"""Random allocation between proven bounds. Quadrature, sampling and another implementation agree with them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from events import exact_group_profile
from peers.attacks import Attack, epsilon_lower_bound
from scipy import integrate, special

from vips_fast import accounting as acc
from vips_fast.accounting.privacy_loss.allocation import Kind, Law, combine_laws, merged


def run(t, z, epochs=1, reused=False):
    return acc.RandomAllocationEvent(t, epochs, acc.GaussianEvent(z), reused)


def bracket(event, delta):
    return epsilon_lower_bound(event, delta), acc.epsilon(event, delta)


def widths(t, epochs, mu, delta):
    """Bracket and its relative width. `mu` belongs to about the Gaussian mechanism that the run comes to."""
    event = run(t, 1.0 / math.sqrt(math.log1p(t * mu * mu / epochs)), epochs)
    below = Attack(event, 1e-4, 0, delta).epsilon_lower(delta)
    above = acc.PrivacyLoss(event, smallest=delta).epsilon(delta)
    assert 0.0 < below <= above
    return above / below - 1.0


@pytest.mark.parametrize(
    "t, epochs, mu, delta",
    [(2, 1, 0.06, 1e-6), (250, 100, 1.5, 1e-4), (4, 5 * 10**7, 0.06, 1e-4)]
    + [pytest.param(10_000, 1, 0.06, 1e-4, marks=pytest.mark.slow)]
    + [pytest.param(1_000, 10**6, 0.06, 1e-6, marks=pytest.mark.slow)],
)
def test_brackets_of_up_to_a_thousand_million_releases(t, epochs, mu, delta):
    assert widths(t, epochs, mu, delta) <= 1e-3


def some_law(rng, n, spread):
    """Return a law of n points and mean 1, to rounding. As it is given it is exact."""
    values = np.sort(np.exp(spread * rng.standard_normal(n)))
    masses = rng.exponential(size=n)
    return Law(values / np.average(values, weights=masses), masses / masses.sum(), 0.0, 0.0, 0.0)


def holds(law, exact, upper):
    """Tell whether `law` bounds the exact pairs (value, mass). That is for all functions (x - k)_+, (k - x)_+ and 1."""
    scale, factor = Fraction(law.value_error), Fraction(law.mass_error)
    sign = 1 if upper else -1
    masses = [Fraction(m) * (1 + sign * factor) for m in law.masses]
    values = [[Fraction(x) * (1 + sign * way * scale) for x in law.values] for way in (1, -1)]
    kinks = [*values[0], *values[1], *(x for x, _ in exact)]
    total = sum(m for _, m in exact)
    if sign * (sum(masses) - total) < 0:
        return False
    infinite = Fraction(law.infinite) * (1 + scale) * (1 + factor)
    for k in kinks[:: max(1, len(kinks) // 12)]:
        rises = sum(m * max(x - k, 0) for x, m in zip(values[0], masses, strict=True)) + infinite
        falls = sum(m * max(k - x, 0) for x, m in zip(values[1], masses, strict=True))
        if sign * (rises - sum(m * max(x - k, 0) for x, m in exact)) < 0:
            return False
        if sign * (falls - sum(m * max(k - x, 0) for x, m in exact)) < 0:
            return False
    return True


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("combine, of", [(np.add, Fraction.__add__), (np.multiply, Fraction.__mul__)])
def test_each_operation_bounds_the_exact_one(combine, of, upper):
    """In rational numbers, so that the least rounding counts."""
    rng = np.random.default_rng(5)
    wrong = dict.fromkeys(("no error", "other way", "other bound"), 0)
    for spread in (1e-7, 1.0):
        one, two = some_law(rng, 16, spread), some_law(rng, 12, spread)
        for a, b in ((one, two), (one, one)):
            exact = [
                (of(Fraction(x), Fraction(y)), Fraction(m) * Fraction(n))
                for x, m in zip(a.values, a.masses, strict=True)
                for y, n in zip(b.values, b.masses, strict=True)
            ]
            found = combine_laws(a, b, combine, Kind(1e-3, 0.8, 20.0, upper))
            assert found.value_error <= 1e-12 and found.mass_error <= 1e-12
            assert len(found.values) < len(exact) / 2
            assert holds(found, exact, upper)
            # Mutants: rounding that is not charged, or to the wrong side, and the bound of the other kind.
            wrong["no error"] += not holds(found._replace(value_error=0.0, mass_error=0.0), exact, upper)
            other_way = found._replace(value_error=-found.value_error, mass_error=-found.mass_error)
            wrong["other way"] += not holds(other_way, exact, upper)
            wrong["other bound"] += not holds(found, exact, not upper)
    assert wrong["no error"] >= 1 and wrong["other way"] == wrong["other bound"] == 4


@pytest.mark.parametrize("upper", [True, False])
def test_merging_bounds_what_is_merged(upper):
    law = some_law(np.random.default_rng(9), 400, 2.0)
    exact = [(Fraction(x), Fraction(m)) for x, m in zip(law.values, law.masses, strict=True)]
    for middle in (10.0, 60.0):
        found = merged(law, Kind(1e-2, 1.0, middle, upper))
        assert len(found.values) < 0.5 * len(exact) and found.mass_error <= 1e-13
        assert holds(found, exact, upper) and not holds(found, exact, not upper)


def exact_profile_of_two(z, epsilon):
    """Both directions for two minibatches. Integrate over one the closed form of the other."""
    mu = 1.0 / z

    def call(k, sign):
        """E (Y - k)_+ of a lognormal Y of mean 1 for the sign 1, and E (k - Y)_+ for -1."""
        if k <= 0.0:
            return (1.0 - k) if sign > 0 else 0.0
        a = (-math.log(k) + 0.5 * mu * mu) / mu
        return sign * (special.ndtr(sign * a) - k * special.ndtr(sign * (a - mu)))

    def expectation(f, bend):
        def weighted(g):
            return f(math.exp(mu * g - 0.5 * mu * mu)) * math.exp(-0.5 * g * g) / math.sqrt(2 * math.pi)

        edges = sorted({-12.0, min(max((math.log(bend) + 0.5 * mu * mu) / mu, -12.0), 12.0), 12.0})
        how = dict(epsabs=1e-13, epsrel=1e-11, limit=400)
        return sum(integrate.quad(weighted, low, high, **how)[0] for low, high in zip(edges, edges[1:]))

    up, down = 2.0 * math.exp(epsilon), 2.0 * math.exp(-epsilon)
    add = expectation(lambda y: 0.5 * call(up - y, 1), up)
    remove = expectation(lambda y: 0.5 * math.exp(epsilon) * call(down - y, -1), down)
    return add, remove


def profiles(event, direction, epsilon):
    """Bounds of delta in one direction."""
    both = (Attack(event, number=number)._directions[direction].parts[0].pair for number in (0, None))
    return [pair.profile(epsilon) for pair in both]


@pytest.mark.parametrize("z", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.5, 3.0])
def test_two_minibatches_by_quadrature(z, factor):
    epsilon = factor / z
    exact = exact_profile_of_two(z, epsilon)
    for direction, value in enumerate(exact):
        below, above = profiles(run(2, z), direction, epsilon)
        assert below - 1e-11 <= value <= above + 1e-11
        assert above - below <= 5e-3 * value + 1e-12
    assert acc.delta(run(2, z), epsilon) == pytest.approx(max(exact), rel=5e-3, abs=1e-12)


def sampled_profile(t, z, epochs, epsilon, n, rng):
    """Estimate delta of both directions, with their standard errors. From draws with and without the unit."""
    mu, found = 1.0 / z, []
    for holds in (True, False):
        loss = np.zeros(n)
        for _ in range(epochs):
            g = rng.standard_normal((n, t), dtype=np.float32).astype(np.float64)
            if holds:
                g[:, 0] += mu
            loss += np.log(np.exp(mu * g - 0.5 * mu * mu).mean(1))
        gain = -np.expm1(np.minimum(epsilon - loss if holds else epsilon + loss, 0.0))
        found.append((gain.mean(), gain.std() / math.sqrt(n)))
    return found


def against_samples(t, z, epochs, epsilon, n, seed):
    chunk = min(n, 10**6 // t)
    rng = np.random.default_rng(seed)
    parts = [sampled_profile(t, z, epochs, epsilon, chunk, rng) for _ in range(n // chunk)]
    for direction in (0, 1):
        mean = np.mean([part[direction][0] for part in parts])
        error = np.sqrt(np.sum([part[direction][1] ** 2 for part in parts])) / len(parts)
        below, above = profiles(run(t, z, epochs), direction, epsilon)
        assert below - 5 * error <= mean <= above + 5 * error
        assert error < 0.05 * mean


@pytest.mark.parametrize("t, z, epochs, epsilon", [(4, 1.5, 3, 0.5), (20, 0.8, 1, 0.3)])
def test_against_samples(t, z, epochs, epsilon):
    against_samples(t, z, epochs, epsilon, 200_000, seed=t)


@pytest.mark.parametrize("z", [0.3, 0.05, 1e-3])
def test_little_noise(z):
    """Ratios beyond the range of doubles are bounded all the same."""
    below, above = bracket(run(3, z, 30), 1e-6)
    assert 0.0 <= below <= above <= acc.gaussian_epsilon(math.sqrt(30) / z, 1e-6) * (1 + 1e-3)


def test_one_minibatch_is_the_whole_data():
    event = acc.ComposedEvent([run(1, 4.0, 3), run(1, 2.0, 2, reused=True), acc.GaussianEvent(3.0, "add_remove")])
    exact = acc.gaussian_epsilon(math.sqrt(3 / 16 + 2 / 4 + 1 / 9), 1e-5)
    assert exact <= acc.epsilon(event, 1e-5) <= exact * (1 + 1e-3)
    assert acc.epsilon(run(1, 4.0), 1e-5) == pytest.approx(acc.gaussian_epsilon(0.25, 1e-5), rel=1e-8)


def test_reused_minibatches():
    once = acc.epsilon(run(5, 2.0 / math.sqrt(7)), 1e-5)
    assert acc.epsilon(run(5, 2.0, 7, reused=True), 1e-5) == pytest.approx(once, rel=1e-12)
    # However the epochs are divided among events, and with other noise.
    parts = acc.ComposedEvent([acc.SelfComposedEvent(run(5, 2.0, 1, reused=True), 3), run(5, 1.0, 1, reused=True)])
    assert acc.epsilon(parts, 1e-5) == pytest.approx(once, rel=1e-12)
    # A fresh draw costs less; one draw for two runs costs more than either bound apart from the other.
    assert acc.epsilon(run(5, 2.0, 7), 1e-5) < 0.99 * once
    # Minibatches of another number are others.
    both = acc.ComposedEvent([run(5, 2.0, 2, reused=True), run(6, 2.0, 2, reused=True)])
    assert acc.epsilon(run(6, 2.0, 2, reused=True), 1e-5) < acc.epsilon(both, 1e-5)


def test_beside_other_events():
    words = acc.GaussianEvent(5.0, "add_remove")
    event = acc.ComposedEvent([words, run(4, 3.84, 5)])
    below, above = bracket(event, 1e-5)
    assert max(acc.epsilon(run(4, 3.84, 5), 1e-5), acc.epsilon(words, 1e-5)) < below <= above <= 1.01 * below
    known = acc.SelfComposedEvent(acc.GaussianEvent(3.84, "add_remove"), 5)
    assert above < acc.epsilon(acc.ComposedEvent([words, known]), 1e-5)
    epochs = acc.ComposedEvent([words, acc.SelfComposedEvent(run(4, 3.84), 5)])
    assert acc.epsilon(epochs, 1e-5) == above
    # A leak beside it adds up.
    leak = acc.ComposedEvent([acc.ApproximateDPEvent(0.0, 5e-6, "add_remove"), run(4, 3.84, 5)])
    assert acc.epsilon(leak, 1e-5) == pytest.approx(acc.epsilon(run(4, 3.84, 5), 5e-6), rel=1e-3)


def test_several_releases_of_a_minibatch():
    inner = acc.ComposedEvent([acc.GaussianEvent(3.0), acc.GaussianEvent(4.0)])
    event = acc.RandomAllocationEvent(6, 2, inner)
    assert event.relation == "add_remove"
    assert acc.epsilon(event, 1e-5) == acc.epsilon(run(6, 2.4, 2), 1e-5)
    assert acc.event_from_dict(event.to_dict()) == event


def test_delta_inverts_epsilon():
    event = run(10, 1.5, 3)
    for delta in (1e-3, 1e-9):
        assert acc.delta(event, acc.epsilon(event, delta)) == pytest.approx(delta, rel=5e-3)
    assert acc.epsilon(event, 1e-100) < acc.gaussian_epsilon(math.sqrt(3) / 1.5, 1e-100)


def test_two_rows_of_one_owner():
    z = 1.0
    one, two = run(2, z), acc.group_event(run(2, z), 2)
    assert isinstance(two, acc.GroupEvent) and acc.event_from_dict(two.to_dict()) == two
    for delta in (1e-2, 1e-4, 1e-6):
        bound = acc.epsilon(two, delta)
        assert acc.epsilon(one, delta) < epsilon_lower_bound(two, delta) * 1.01 < bound
        assert exact_group_profile(z, bound) <= delta
        # The mutants: twice the epsilon of one row, and its delta twice.
        assert exact_group_profile(z, 2 * acc.epsilon(one, delta)) > delta
    assert exact_group_profile(z, 2 * acc.epsilon(one, 5e-5)) > 1e-4


def test_owners_of_dealt_rows():
    event = run(4, 3.8397, 5)
    found = [acc.epsilon(acc.group_event(event, size), 1e-4) for size in (1, 2, 5)]
    assert found[0] == acc.epsilon(event, 1e-4) and 2 * found[0] < found[1] < found[2] / 2
    # Less than Poisson sampling at the same rate says of two rows, and than known minibatches.
    poisson = acc.SelfComposedEvent(acc.PoissonSampledEvent(0.25, acc.GaussianEvent(3.8397)), 20)
    assert found[1] < acc.epsilon(acc.group_event(poisson, 2), 1e-4)
    assert found[1] < acc.gaussian_epsilon(2 * math.sqrt(5) / 3.8397, 1e-4)
    # Reused minibatches are put together before the rows are, however the epochs are divided.
    reused = acc.SelfComposedEvent(run(4, 3.8397, 1, reused=True), 5)
    owner = acc.group_event(reused, 2)
    whole = acc.group_event(run(4, 3.8397, 5, reused=True), 2)
    assert acc.epsilon(owner, 1e-4) == pytest.approx(acc.epsilon(whole, 1e-4), rel=1e-5)
    assert acc.epsilon(owner, 1e-4) > found[1]
    # One minibatch is the whole data; beside other events the bound by known minibatches is left.
    assert acc.group_event(run(1, 4.0, 4), 3) == acc.SelfComposedEvent(acc.GaussianEvent(4.0 / 3, "add_remove"), 4)
    words = acc.GaussianEvent(20.0, "add_remove")
    mixed = acc.epsilon(acc.group_event(acc.ComposedEvent([words, event]), 2), 1e-4)
    assert mixed == pytest.approx(acc.gaussian_epsilon(math.sqrt(20 / 3.8397**2 + 4 / 400), 1e-4), rel=1e-3)


def test_epochs_whose_ratios_are_beyond_doubles():
    """Epsilon is finite and rises with the number of epochs. It is never above the known minibatch's."""
    epochs, one = (600, 720, 900, 1200), acc.GaussianEvent(1.0)
    found = [acc.epsilon(acc.RandomAllocationEvent(4, n, one, True), 1e-5) for n in epochs]
    known = [acc.epsilon(acc.GaussianEvent(n**-0.5), 1e-5) for n in epochs]
    assert found == sorted(set(found)) and all(a <= 1.001 * b for a, b in zip(found, known))
