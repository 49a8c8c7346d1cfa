"""Running sums: coefficients, sensitivity, errors and epsilon.

Sensitivities are compared with brute force, and epsilon with other ways to it.
"""

import functools
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from vips_fast import accounting as acc
from vips_fast.accounting import running_sum
from vips_fast.accounting.running_sum import BITS, coefficients, noise_factors, participation_norm, prefix_noise, unmix
from vips_fast.kernels.noise import rounded_gaussian


@functools.cache
def dense(n):
    """Make C from the definition."""
    out = np.zeros((n, n))
    for t, j in itertools.product(range(n), range(n)):
        if t >= j:
            out[t, j] = math.floor(Fraction(math.comb(2 * (t - j), t - j), 4 ** (t - j)) * 2**BITS) / 2**BITS
    return out


@pytest.mark.parametrize("n", [1, 2, 30, 365])
def test_coefficients_and_estimates_are_those_of_the_matrix(n):
    c, rng = dense(n), np.random.default_rng(n)
    np.testing.assert_array_equal(coefficients(n) / 2**BITS, c[:, 0])
    assert (np.diff(coefficients(n)) <= 0).all() and coefficients(n).min() >= 0
    x = rng.normal(size=(n, 3))
    np.testing.assert_allclose(unmix(c @ x), x, atol=1e-12)
    np.testing.assert_allclose(unmix((c @ x)[: n // 2 + 1]), x[: n // 2 + 1], atol=1e-12)
    weights = rng.normal(size=(4, n))
    np.testing.assert_allclose(noise_factors(weights), weights @ np.linalg.inv(c), atol=1e-12)
    np.testing.assert_allclose(
        prefix_noise(n), np.linalg.norm(np.tril(np.ones((n, n))) @ np.linalg.inv(c), axis=1) * np.linalg.norm(c[:, 0])
    )


def patterns(n, k, b):
    """List all sets of at most k steps that are b apart."""
    for m in range(1, k + 1):
        for steps in itertools.combinations(range(n), m):
            if all(after - before >= b for before, after in itertools.pairwise(steps)):
                yield steps


@pytest.mark.parametrize(("n", "k", "b"), [(8, 1, 1), (8, 2, 1), (8, 3, 2), (9, 3, 3), (9, 9, 1), (7, 4, 3), (8, 2, 8)])
def test_no_pattern_of_a_unit_moves_the_sums_further(n, k, b):
    c, rng, bound = dense(n), np.random.default_rng(0), participation_norm(n, k, b)
    furthest = max(np.linalg.norm(c[:, list(steps)].sum(axis=1)) for steps in patterns(n, k, b))
    assert furthest <= bound <= furthest * (1 + 1e-12)
    for steps in patterns(n, k, b):
        moved = rng.normal(size=(n, 4))  # any contributions of norm 1, of any sign
        moved *= (np.isin(np.arange(n), steps) / np.linalg.norm(moved, axis=1))[:, None]
        assert np.linalg.norm(c @ moved) <= bound * (1 + 1e-12)


def test_the_sensitivity_is_no_smaller_than_one_column():
    """See mutants.

    One takes one entry for the column, the other several nights as if one.
    """
    assert participation_norm(30) > 1.4 and participation_norm(30, 2, 7) > 1.2 * participation_norm(30)
    assert participation_norm(30, 2, 1) > participation_norm(30, 2, 7) > participation_norm(30, 2, 29)
    assert participation_norm(30, 2, 30) == participation_norm(30, 5, 31) == participation_norm(30)


@pytest.mark.parametrize(("n", "least"), [(30, 2.55), (365, 6.5)])
def test_prefixes_have_less_noise_than_independent_noise_at_equal_epsilon(n, least):
    """Measure draws of the package's noise against the formula."""
    epsilon, delta, entries = 1.0, 1e-6, 4096
    event = acc.RunningSumEvent(1.0, n)
    noise = acc.calibrate_noise_multiplier(lambda z: acc.RunningSumEvent(z, n), epsilon, delta)
    alone = acc.gaussian_noise_multiplier(epsilon, delta)
    assert acc.epsilon(acc.RunningSumEvent(noise, n), delta) == pytest.approx(epsilon, rel=1e-4)
    key = bytes([n % 256]) * 32
    drawn = rounded_gaussian(1e6, (n, entries), unsafe_test_key=key) / 1e6
    other = rounded_gaussian(1e6, (n, entries), unsafe_test_key=key[::-1][:31] + b"x") / 1e6
    prefixes, independent = np.cumsum(unmix(drawn * noise), axis=0), np.cumsum(other * alone, axis=0)
    np.testing.assert_allclose(prefixes.std(axis=1), prefix_noise(n) * alone, rtol=0.05)
    # c_k = binomial(2k, k) / 4^k: the largest error of a prefix is the sum of their squares.
    square = math.fsum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(n))
    formula = math.sqrt(n) / square
    assert formula == pytest.approx(least, rel=0.002)
    ratio = independent[-1].std() / prefixes[-1].std()
    assert ratio == pytest.approx(formula, rel=0.05)
    # Over the last half of the prefixes, whose sds differ little, chance is smaller.
    half = slice(n // 2, n)
    measured = (independent[half] / np.sqrt(np.arange(1, n + 1)[half, None])).std() * math.sqrt(n)
    measured /= (prefixes[half] * (prefix_noise(n)[-1] / prefix_noise(n)[half])[:, None]).std()
    assert measured == pytest.approx(formula, rel=0.02)
    assert event.equivalent().noise_multiplier == pytest.approx(square**-0.5, rel=5e-3)


@pytest.mark.parametrize(("n", "k", "b"), [(30, 1, 1), (365, 1, 1), (365, 12, 28), (30, 30, 1)])
@pytest.mark.parametrize("z", [0.8, 3.0, 20.0])
def test_epsilon_is_that_of_an_independent_computation(n, k, b, z):
    """Compute the norm by the matrix, the profile in 40 digits.

    The profile is of Balle & Wang (2018).
    """
    c, delta = dense(n), 1e-6
    mu = np.linalg.norm(c[:, list(range(0, n, b))[:k]].sum(axis=1)) / z
    found = acc.epsilon(acc.RunningSumEvent(z, n, k, b), delta)
    with mpmath.workdps(40):

        def profile(epsilon):
            return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)

        assert profile(found) <= delta <= profile(found * (1 - 1e-9))


def test_every_accountant_and_filter_bounds_it_as_a_gaussian_mechanism():
    event, delta = acc.RunningSumEvent(4.0, 30, 2, 7), 1e-6
    plain = event.equivalent()
    assert acc.default_accountant(event) == "gaussian"
    for name in acc.ACCOUNTANTS:
        try:
            expected = acc.epsilon(plain, delta, name)
        except (ValueError, ImportError):
            continue
        assert acc.epsilon(event, delta, name) == expected
    both = acc.ComposedEvent((event, acc.PoissonSampledEvent(0.1, acc.GaussianEvent(2.0))))
    assert acc.epsilon(both, delta) > acc.epsilon(event, delta)
    assert acc.epsilon(acc.group_event(event, 3), delta) == pytest.approx(
        acc.epsilon(acc.group_event(plain, 3), delta), rel=1e-12
    )
    assert acc.event_from_json(event.to_json()) == event
    with pytest.raises(ValueError, match="can hold one mechanism"):
        acc.PoissonSampledEvent(0.1, event)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((0.0, 3), "noise_multiplier"),
        ((1.0, 0), "n_steps"),
        ((1.0, running_sum.MOST_STEPS + 1), "4096"),
        ((1.0, 3, 0), "participations"),
        ((1.0, 3, 1, 0), "separation"),
    ],
)
def test_bad_events_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        acc.RunningSumEvent(*wrong)


def test_dp_accounting_agrees():
    from dp_accounting.pld import privacy_loss_distribution as pld

    for z in (1.0, 5.0):
        sd = z / np.linalg.norm(dense(365)[:, 0])
        theirs = pld.from_gaussian_mechanism(sd, value_discretization_interval=1e-3).get_epsilon_for_delta(1e-6)
        assert acc.epsilon(acc.RunningSumEvent(z, 365), 1e-6) == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("n", [30, 365])
def test_later_releases_tell_nothing_more_about_a_prefix(n):
    """Compare each prefix with generalized least squares on all steps' releases."""
    c, rng, sums = dense(n), np.random.default_rng(0), np.tril(np.ones((n, n)))
    y = c @ rng.normal(size=n) + rng.normal(size=n)
    by_all = sums @ np.linalg.lstsq(c, y, rcond=None)[0]
    for t in (1, 2, n // 2, n):
        assert noise_factors(np.ones((1, t)))[0] @ y[:t] == pytest.approx(by_all[t - 1], abs=1e-8)
    covariance = sums @ np.linalg.inv(c.T @ c) @ sums.T
    of_all = np.sqrt(np.diag(covariance)) * participation_norm(n)
    np.testing.assert_allclose(of_all, prefix_noise(n), rtol=1e-8)
    # The first prefix has more noise than independent noise, and the last one far less.
    independent = np.sqrt(np.arange(1, n + 1))
    assert 1.4 < of_all[0] < 1.8 and (of_all / independent)[-1] < 0.4
