"""Privacy-loss distributions: exact where closed forms exist, never below the truth."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from events import QUIET, exact_delta, fixed, poisson
from hypothesis import example, given, settings
from hypothesis import strategies as st
from peers.attacks import Attack, epsilon_lower_bound

from vips_fast import accounting as acc
from vips_fast.accounting.privacy_loss import convolution, distribution
from vips_fast.accounting.privacy_loss.convolution import Part
from vips_fast.accounting.privacy_loss.dominating import pairs
from vips_fast.accounting.privacy_loss.pairs import GaussianPair, WithoutReplacementPair


def composed(parts, rtol):
    """Return the discretized composition of pairs, without any closed form."""
    loss = acc.PrivacyLoss(acc.ComposedEvent([]), rtol)
    loss._directions = [distribution.Direction([Part(pair, count) for pair, count in parts])]
    return loss


@settings(QUIET, max_examples=25)
@given(steps=st.integers(1, 10**5), log_mu=st.floats(-3, 1), log_delta=st.floats(-25, -1), log_rtol=st.floats(-6, -2))
@example(steps=4106, log_mu=1.14, log_delta=-16.7, log_rtol=-4.0)
@example(steps=1, log_mu=-0.04, log_delta=-0.68, log_rtol=-5.6)
# The tilted transform keeps its relative accuracy far below double rounding.
@example(steps=50, log_mu=0.0, log_delta=-60.0, log_rtol=-5.0)
@example(steps=50, log_mu=0.0, log_delta=-150.0, log_rtol=-5.0)
def test_gaussian_steps_compose_to_the_exact_gaussian(steps, log_mu, log_delta, log_rtol):
    mu, delta, rtol = 10**log_mu, 10**log_delta, 10**log_rtol
    exact = acc.gaussian_epsilon(mu, delta)
    got = composed([(GaussianPair(mu / math.sqrt(steps)), steps)], rtol).epsilon(delta)
    # exact is rounded up by 1e-12 itself.
    assert got >= exact * (1 - 1e-10)
    # The promise: rtol of epsilon, or of a thousandth of the loss's spread
    # where epsilon is smaller; the a-posteriori estimate may be off by two.
    assert got <= exact + 2 * rtol * max(exact, 1e-3 * mu)


@settings(QUIET, max_examples=15)
@given(steps=st.integers(2, 10**5), log_mu=st.floats(-2, 0.8), factor=st.floats(0, 4), log_rtol=st.floats(-6, -2))
def test_gaussian_steps_compose_to_the_exact_delta(steps, log_mu, factor, log_rtol):
    mu, rtol = 10**log_mu, 10**log_rtol
    eps = factor * mu * (1 + mu)
    exact = acc.gaussian_delta(mu, eps)
    got = composed([(GaussianPair(mu / math.sqrt(steps)), steps)], rtol).delta(eps)
    assert got >= exact * (1 - 1e-9)
    # Rounding of the transform is charged relative to delta: 1e-14 T or so.
    assert got <= exact * (1 + 3 * rtol + 1e-12 * steps) + 1e-280


@pytest.mark.parametrize(("q", "z"), [(0.25, 3.0), (0.004, 1.0), (1e-5, 0.5), (0.9, 10.0)])
@pytest.mark.parametrize("eps", [0.0, 0.01, 0.5, 2.0])
def test_one_sampled_step_is_exact(q, z, eps):
    with mpmath.workdps(40):
        inner = mpmath.log1p(mpmath.expm1(eps) / mpmath.mpf(q))
        exact = mpmath.mpf(q) * exact_delta(1 / mpmath.mpf(z), inner)
        # The removal direction, by its own integral form.
        base = mpmath.expm1(-eps) / mpmath.mpf(q)
        other = mpmath.mpf(0)
        if base > -1:
            at = mpmath.mpf(q) * exact_delta(1 / mpmath.mpf(z), mpmath.log1p(base))
            other = mpmath.exp(eps) * at - mpmath.expm1(eps)
    size = round(q * 10**6)
    for event, want in ((fixed(size, 10**6, z), exact), (poisson(q, z), max(exact, other))):
        # The mirrored direction subtracts numbers of size 1.
        assert want * (1 - mpmath.mpf(10) ** -13) <= acc.delta(event, eps) <= want * (1 + mpmath.mpf(10) ** -11)


@QUIET
@given(st.floats(0.05, 0.95), st.floats(0.2, 5.0), st.floats(0.0, 3.0))
def test_interval_masses_reproduce_the_profile(q, z, eps):
    """Each pair's masses give its closed-form delta. It is P(L > eps) - e^eps Q(L > eps)."""
    size = max(1, round(q * 100))
    noises, stated = [acc.GaussianEvent(z), acc.LaplaceEvent(z)], acc.ApproximateDPEvent(0.5, 0.01)
    events = [acc.PoissonSampledEvent(q, inner) for inner in (*noises, stated)]
    fixed_size = (*noises, acc.RandomizedResponseEvent(0.7, 4))
    for event in [*events, *(acc.WithoutReplacementEvent(size, 100, inner) for inner in fixed_size), stated]:
        for pair in pairs(event):
            p, mass = pair.masses(np.array([eps, np.inf]))
            direct = p[0] - math.exp(eps) * mass[0] + pair.p_infinite
            # Two numbers up to e^eps are subtracted and the profile is rounded up by 1e-12;
            # whether an edge takes an atom that it meets is no matter: its gain is zero.
            assert abs(pair.profile(eps) - max(0.0, direct)) <= 3e-12 * math.exp(eps)
            # All P-mass is accounted for, and Q has no more than 1.
            p, mass = pair.masses(np.array([-np.inf, -0.1, 0.0, 0.2, np.inf]))
            assert abs(p.sum() + pair.p_infinite - 1.0) <= 1e-13
            assert mass.sum() <= 1.0 + 1e-13


def binomial_profile_epsilon(eps0, steps, delta):
    """Exact epsilon of `steps` binary responses, by exact sums over the binomial."""
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(eps0)))
        mass = [mpmath.binomial(steps, i) * p**i * (1 - p) ** (steps - i) for i in range(steps + 1)]
        loss = [(2 * i - steps) * mpmath.mpf(eps0) for i in range(steps + 1)]

        def profile(e):
            return sum(m * (1 - mpmath.exp(e - x)) for m, x in zip(mass, loss, strict=True) if x > e)

        low, high = mpmath.mpf(0), steps * mpmath.mpf(eps0)
        for _ in range(120):
            mid = (low + high) / 2
            low, high = (low, mid) if profile(mid) <= delta else (mid, high)
        return float(high)


@pytest.mark.parametrize(("p", "steps", "delta"), [(0.55, 40, 1e-4), (0.7, 12, 1e-9), (0.501, 200, 1e-3)])
def test_randomised_response_is_exact(p, steps, delta):
    event = acc.SelfComposedEvent(acc.RandomizedResponseEvent(p), steps)
    exact = binomial_profile_epsilon(acc.RandomizedResponseEvent(p).epsilon, steps, delta)
    got = acc.epsilon(event, delta)
    # The grid is aligned with the two atoms: only rounding is left.
    assert exact * (1 - 1e-12) <= got <= exact * (1 + 2e-7)


@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("parts", [[0.5, 0.5], [0.1, 0.9], [0.25] * 4, [0.02] * 25 + [0.5]])
def test_laplace_noise_on_one_coordinate_is_the_worst(scale, parts):
    """A shift spread over coordinates costs no more than the same L1 shift of one."""
    one = acc.LaplaceEvent(scale)
    many = acc.ComposedEvent([acc.LaplaceEvent(scale / part) for part in parts])
    for share in (0.0, 0.05, 0.3, 0.7, 0.95):
        # The composition's delta is rounded up by at most 2e-6 of itself.
        assert acc.delta(many, share / scale, rtol=1e-6) <= acc.delta(one, share / scale) * (1 + 2e-6)


def test_delta_below_double_range():
    """Where tails underflow only the sum of the largest losses is stated."""
    three = acc.SelfComposedEvent(acc.LaplaceEvent(2.0), 3)
    assert acc.epsilon(three, 1e-300) == 1.5 and acc.delta(three, 1.5) == 0.0
    assert math.isinf(acc.epsilon(poisson(0.1, 1.0, 3), 1e-300))
    assert acc.epsilon(poisson(0.1, 1.0, 3), 1e-280) < 700


def test_poisson_accounting_is_not_sound_for_fixed_size_samples():
    """An explicit attack on fixed-size samples beats the guarantee of Poisson accounting."""
    attack = epsilon_lower_bound(fixed(1, 100, 1.0, 2000), 1e-5)
    assert attack > acc.epsilon(poisson(0.01, 1.0, 2000), 1e-5) * 1.02
    assert attack < acc.epsilon(fixed(1, 100, 1.0, 2000), 1e-5)


def test_both_directions_of_poisson_sampling_count():
    """At delta = 0.01 removing a record costs more than adding one. At 1e-6 it costs less."""
    loss = acc.PrivacyLoss(poisson(0.5, 1.0, 3), 1e-6)
    values = {}
    for delta in (1e-6, 1e-2):
        each = [d.epsilon(delta, 1e-6, d.rough_epsilon(delta, 1e-6)) for d in loss._directions]
        values[delta] = each
        assert loss.epsilon(delta) == max(each)
    assert values[1e-6][0] > values[1e-6][1] * 1.01


@settings(QUIET, max_examples=25)
@given(st.floats(0.002, 0.5), st.floats(0.5, 4.0), st.integers(2, 400), st.floats(-9, -2), st.booleans())
def test_monotone(q, z, steps, log_delta, replace):
    delta = 10**log_delta

    def eps(q=q, z=z, steps=steps, delta=delta):
        if replace:
            return acc.epsilon(fixed(round(q * 10**4), 10**4, z, steps), delta)
        return acc.epsilon(poisson(q, z, steps), delta)

    value = eps()
    # Each value is at most 1e-4 (or 1e-4 of a thousandth of the spread) above the truth.
    slack = 3e-4 * value + 1e-6 * q / z * math.sqrt(steps)
    assert eps(steps=2 * steps) >= value - slack
    assert eps(delta=delta / 3) >= value - slack
    assert eps(z=1.2 * z) <= value + slack
    assert eps(q=min(1.0, 1.3 * q)) >= value - slack
    assert eps(steps=1) <= value + slack


def test_runs_compose_alike_in_any_order_and_split():
    runs = [poisson(0.05, 1.24, 20), poisson(0.004, 1.0, 100), poisson(0.3, 5.0, 3)]
    assert len({acc.epsilon(acc.ComposedEvent(order), 1e-5) for order in itertools.permutations(runs)}) == 1
    whole = acc.epsilon(runs[0], 1e-4)
    parts = [acc.PoissonSampledEvent(0.05, acc.GaussianEvent(1.24))] * 20
    assert acc.epsilon(acc.ComposedEvent(parts), 1e-4) == whole
    nested = acc.SelfComposedEvent(acc.ComposedEvent([poisson(0.05, 1.24, 4), poisson(0.05, 1.24, 1)]), 4)
    assert acc.epsilon(nested, 1e-4) == whole


def test_sampling_everything_and_nothing():
    with_nothing = acc.ComposedEvent([poisson(0.05, 1.24, 20), poisson(0.0, 1.0, 5)])
    assert acc.epsilon(with_nothing, 1e-4) == acc.epsilon(poisson(0.05, 1.24, 20), 1e-4)
    full = acc.epsilon(poisson(1.0, 3.0, 5), 1e-5, "pld")
    exact = acc.gaussian_epsilon(math.sqrt(5) / 3, 1e-5)
    assert exact * (1 - 1e-12) <= full <= exact * (1 + 1e-4)


def outcomes(event):
    """Probabilities of each outcome of one release under (P, Q), for each direction, from first principles."""
    inner = getattr(event, "event", event)
    e, d = math.exp(inner.epsilon), inner.delta
    # The worst case of a statement: with probability delta the outcome names the data set.
    p = np.array([d, (1 - d) * e / (1 + e), (1 - d) / (1 + e), 0.0])
    q = p[::-1]
    if inner is event:
        return [(p, q)]
    rate = event.sampling_probability
    mixed = (1 - rate) * q + rate * p
    if isinstance(event, acc.PoissonSampledEvent):
        return [(mixed, q), (q, mixed)]
    # The upper half of the mixture's losses, their mirror image, and the rest at loss 0.
    up, low = mixed[:2], q[:2]
    rest = 1 - up.sum() - low.sum()
    return [(np.concatenate([up, low, [rest]]), np.concatenate([low, up, [rest]]))]


def enumerated_delta(parts, eps):
    found = []
    for direction in range(len(outcomes(parts[0][0]))):
        p = q = np.ones(1)
        for event, count in parts:
            one, other = outcomes(event)[direction]
            for _ in range(count):
                p, q = np.kron(p, one), np.kron(q, other)
        found.append(np.maximum(p - math.exp(eps) * q, 0.0).sum())
    return max(found)


STATEMENTS = acc.ApproximateDPEvent(0.3, 0.01), acc.ApproximateDPEvent(0.2, 0.02)


@pytest.mark.parametrize("counts", [(6, 0), (3, 3)], ids=["self-composition", "convolution"])
@pytest.mark.parametrize(
    "sampled",
    [
        lambda statement: statement,
        lambda statement: acc.PoissonSampledEvent(0.3, statement),
        lambda statement: acc.WithoutReplacementEvent(3, 10, statement),
    ],
    ids=["whole data", "add_remove", "replace_one"],
)
def test_infinite_losses_are_kept(sampled, counts):
    parts = [(sampled(statement), count) for statement, count in zip(STATEMENTS, counts, strict=True) if count]
    event = acc.ComposedEvent([acc.SelfComposedEvent(*part) for part in parts])
    infinite = 1 - math.prod((1 - outcomes(one)[0][0][0]) ** count for one, count in parts)
    top = math.fsum(math.log(max(np.max(p[1:] / q[1:]) for p, q in [outcomes(one)[0]])) * n for one, n in parts)
    for share in (0.05, 0.3, 0.7):
        eps = share * top
        exact = enumerated_delta(parts, eps)
        # Dropping the infinite losses would change delta by far more than it may be off.
        assert exact * (1 - 1e-9) <= acc.delta(event, eps) <= exact * (1 + 2e-4) < exact + infinite / 10
        assert eps * (1 - 1e-9) <= acc.epsilon(event, exact) <= eps * (1 + 3e-4)
    assert math.isinf(acc.epsilon(event, infinite * 0.999)) and acc.epsilon(event, infinite * 1.01) < top


@pytest.mark.parametrize("step", [acc.GaussianEvent(1.5, "replace_one"), fixed(3, 10, 0.8), poisson(0.3, 0.8)])
def test_infinite_losses_beside_a_continuous_mechanism(step):
    """A failure of probability d, independent of the rest. Delta = 1 - (1 - d)^n (1 - delta of the rest)."""
    event = acc.ComposedEvent([step, acc.SelfComposedEvent(acc.ApproximateDPEvent(0.0, 1e-3, step.relation), 5)])
    for eps in (0.1, 0.5, 1.0):
        exact = 1 - (1 - 1e-3) ** 5 * (1 - acc.delta(step, eps))
        assert exact * (1 - 1e-9) <= acc.delta(event, eps) <= exact * (1 + 2e-4)
        assert eps * (1 - 1e-6) <= acc.epsilon(event, exact) <= eps * (1 + 1e-3)


@pytest.mark.parametrize("pair", [GaussianPair(0.8), WithoutReplacementPair(0.4, GaussianPair(1.5))])
def test_a_cut_tail_is_an_infinite_loss(pair):
    """A grid that ends early may not lose the mass beyond."""
    exact = composed([(pair, 4)], 1e-6)
    direction = exact._directions[0]
    for eps in (0.2, 1.0):
        want = exact.delta(eps)
        high = pair.support(1e-12)[1] * 4
        grid = convolution.Convolution(direction.parts, direction.cumulants, 1e-3, 1e-3, -high, high, 1e-2, -30.0)
        assert grid.p_infinite > 1e-3
        assert grid.delta(eps)[0] >= want * (1 - 1e-5)


@settings(QUIET, max_examples=25)
@given(st.floats(0.005, 0.5), st.floats(0.6, 4.0), st.integers(2, 300), st.floats(-8, -1.5), st.booleans())
def test_never_below_a_proven_lower_bound(q, z, steps, log_delta, replace):
    delta = 10**log_delta
    event = fixed(max(1, round(200 * q)), 200, z, steps) if replace else poisson(q, z, steps)
    low = Attack(event, 1e-2).epsilon_lower(delta)
    coarse = acc.epsilon(event, delta, rtol=1e-2)
    fine = acc.epsilon(event, delta, rtol=1e-5)
    assert low <= fine <= coarse * (1 + 2e-5)
    # The bracket closes: 1 % of epsilon or of a thousandth of the spread, twice.
    assert coarse - low <= 0.05 * coarse + 1e-4 * q / z * math.sqrt(steps)


def test_splitting_keeps_both_masses():
    pair = WithoutReplacementPair(0.1, GaussianPair(1.0))
    grid = 0.05 * np.arange(-40, 120)
    mass, infinite = convolution.split(pair, grid)
    assert mass.min() >= 0.0
    assert abs(mass.sum() + infinite - 1.0) < 1e-14
    # Q-mass: sum of mass e^-loss; mass beyond the grid's low end is not in it.
    q_mass = float(mass @ np.exp(-grid))
    assert 1.0 - 1e-3 < q_mass <= 1.0 + 1e-12
