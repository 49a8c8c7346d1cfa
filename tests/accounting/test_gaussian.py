"""The exact Gaussian mechanism against 50-digit arithmetic."""

import mpmath
import pytest
from events import QUIET, exact_delta
from hypothesis import given
from hypothesis import strategies as st

from vips_fast import accounting as acc


@QUIET
@given(st.floats(-3, 1.5), st.floats(0, 12))
def test_delta_is_exact_and_rounded_up(log_mu, widths):
    mu = 10**log_mu
    eps = mu * mu / 2 + (widths - 3) * mu
    eps = max(eps, 0.0)
    exact = exact_delta(mu, eps)
    got = acc.gaussian_delta(mu, eps)
    assert got >= exact
    # Cancellation between the two terms costs a factor 1/mu of double rounding.
    assert got <= exact * (1 + 1e-11 / min(mu, 1.0)) + mpmath.mpf(10) ** -300


@pytest.mark.parametrize("mu", [50.0, 1e4, 1e9])
@pytest.mark.parametrize("a", [-3.0, 0.5, 3.0])
def test_no_digits_are_lost_at_large_epsilon(mu, a):
    eps = mu * (mu / 2 - a)
    assert exact_delta(mu, eps) <= acc.gaussian_delta(mu, eps) <= exact_delta(mu, eps) * (1 + 1e-6)


@QUIET
@given(st.floats(-3, 1.5), st.floats(-12, -0.5))
def test_epsilon_inverts_delta(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    eps = acc.gaussian_epsilon(mu, delta)
    assert exact_delta(mu, eps) <= delta
    if eps > 0:
        # The root moves by (relative error of delta) / slope; 1e-9 is far above it.
        assert exact_delta(mu, eps * (1 - 1e-9) - 1e-9 * mu) > delta


@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5), (0.0, 0.1)])
def test_noise_multiplier_is_the_smallest(eps, delta):
    z = acc.gaussian_noise_multiplier(eps, delta)
    assert exact_delta(1 / z, eps) <= delta < exact_delta((1 + 1e-9) / z, eps)


def test_answers_hold_as_computed():
    """A found epsilon or noise is on the safe side of the package's own profile, to the last bit."""
    for k in range(400):
        mu, delta = 10 ** (-2 + 0.01 * k), 10 ** (-1 - 0.025 * k)
        eps = acc.gaussian_epsilon(mu, delta)
        assert acc.gaussian_delta(mu, eps) <= delta
        z = acc.gaussian_noise_multiplier(mu, delta)
        assert acc.gaussian_delta(1 / z, mu) <= delta


@pytest.mark.parametrize(
    ("event", "mu"),
    [
        (
            acc.ComposedEvent([acc.SelfComposedEvent(acc.GaussianEvent(4.0), 3), acc.GaussianEvent(2.0)]),
            (7 / 16) ** 0.5,
        ),
        (acc.PoissonSampledEvent(1.0, acc.GaussianEvent(2.0)), 0.5),
        (acc.WithoutReplacementEvent(7, 7, acc.GaussianEvent(2.0)), 0.5),
    ],
)
def test_squares_add_up_and_a_whole_sample_is_the_whole_data(event, mu):
    assert acc.default_accountant(event) == "gaussian" and acc.gaussian_mu(event) == mu
    assert acc.epsilon(event, 1e-5) == acc.gaussian_epsilon(mu, 1e-5)


def test_extremes():
    assert acc.gaussian_delta(0.0, 1.0) == 0.0
    assert acc.gaussian_epsilon(0.0, 0.1) == 0.0
    assert acc.gaussian_epsilon(1.0, 0.9) == 0.0
