"""Errors in the papers' formulas, each refuted with numbers (docs/errata.md)."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from peers.theorems import generic_epsilon_v1, zcdp_epsilon, zcdp_rho_for_target
from peers.vips import AUTHORS, PRINTED, Shrinkage
from peers.wang import wang_rdp
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import gamma as gamma_function
from scipy.stats import norm

from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent, WithoutReplacementEvent, epsilon
from vips_fast.accounting.gaussian import gaussian_delta
from vips_fast.kernels import pg_mean

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errata.md"


def test_the_page_names_each_test():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert named == {name for name in globals() if name.startswith("test_")} - {"test_the_page_names_each_test"}


def test_replacing_a_document():
    n_words, size = 500, 20
    one, other = np.zeros((3, 4)), np.zeros((3, 4))
    one[0, 1] = other[2, 3] = n_words / size
    assert np.linalg.norm(one - other) == pytest.approx(math.sqrt(2) * n_words / size)
    assert np.linalg.norm(one - other) > 1.4 * n_words / size


def test_one_factor_of_n():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) / 2
    y = (rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)

    def fixed_point(factor):
        mean, second = np.zeros(2), np.eye(2)
        for _ in range(200):
            xi = pg_mean(np.sqrt(np.einsum("ni,ij,nj->n", X, second, X)))
            covariance = np.linalg.inv(factor * (X.T * xi) @ X + np.eye(2))
            mean = covariance @ (factor * X.T @ (y - 0.5))
            second = covariance + np.outer(mean, mean)
        return mean, xi

    def gradient(mean, xi):
        return X.T @ (y - 0.5) - (X.T * xi) @ X @ mean - mean

    right, printed = fixed_point(1.0), fixed_point(1 / len(X))
    assert np.abs(gradient(*right)).max() < 1e-8
    assert np.abs(gradient(*printed)).max() > 1.0 and abs(printed[0][0]) < 0.2 < 1.0 < right[0][0]


def test_regression_sensitivities():
    """Take the farthest of many pairs of records. Two more pairs reach the bounds."""
    rng = np.random.default_rng(4)

    def statistics(x, y, xi):
        return (y - 0.5) * x, xi * np.outer(x, x)

    def moved(one, other):
        return [float(np.linalg.norm(a - b)) for a, b in zip(statistics(*one), statistics(*other))]

    def record():
        x = rng.normal(size=3)
        return x / np.linalg.norm(x), rng.integers(0, 2), rng.random() / 4

    e, f = np.eye(3)[:2]
    pairs = [moved(record(), record()) for _ in range(2000)]
    pairs += [moved((e, 1, 0.25), (e, 0, 0.25)), moved((e, 1, 0.25), (f, 1, 0.25))]
    largest = np.max(pairs, axis=0)
    np.testing.assert_allclose(largest, [1.0, math.sqrt(2) / 4])
    assert np.all(largest < 0.8 * np.array([2.0, 0.5]))


def _network(rng, n_visible=4, n_hidden=3):
    return rng.normal(size=(n_visible, n_hidden)), rng.normal(size=n_visible), rng.random(n_visible) / 4


def test_cross_term():
    rng = np.random.default_rng(1)
    W, c, xi = _network(rng)

    def exact(z):
        return -0.5 * (W @ z + c) @ np.diag(xi) @ (W @ z + c)

    def sum_of_products(z, share):
        cross = share * np.sum(np.diag(c) @ W * np.outer(xi, z))
        return cross - 0.5 * sum(xi[j] * (W[j] @ z) ** 2 + xi[j] * c[j] ** 2 for j in range(len(c)))

    z = np.array([1.0, 0.0, 1.0])
    assert sum_of_products(z, -1.0) == pytest.approx(exact(z))
    assert abs(sum_of_products(z, -0.5) - exact(z)) > 1e-3


def test_mean_of_c():
    rng = np.random.default_rng(2)
    W, _, xi = _network(rng)
    y, z = rng.integers(0, 2, (30, 4)), rng.random((30, 3))

    def bound(c):
        psi = z @ W.T + c
        return -((y - 0.5) * psi - xi * psi**2 / 2).sum() + c @ c / 2

    def mean(share):
        return ((y - 0.5 - share * xi * (z @ W.T)).sum(axis=0)) / (1 + len(y) * xi)

    best = minimize(bound, np.zeros(4)).x
    np.testing.assert_allclose(mean(1.0), best, atol=1e-4)
    assert np.abs(mean(0.5) - best).max() > 0.05


def test_shrinkage_posterior():
    """E[xi | zeta] by quadrature, for xi ~ Gam(1/2, phi) and zeta | xi ~ Gam(1/2, xi)."""
    zeta, phi = 0.7, 2.5

    def joint(xi):
        return math.sqrt(xi) * math.exp(-xi * zeta) * math.exp(-phi * xi) / math.sqrt(xi) / gamma_function(0.5) ** 2

    exact = quad(lambda xi: xi * joint(xi), 0, math.inf)[0] / quad(joint, 0, math.inf)[0]
    assert exact == pytest.approx(1 / (zeta + phi), rel=1e-6)
    assert abs(exact - 1 / zeta) > 1.0
    for form in (AUTHORS, PRINTED):
        prior = Shrinkage(form, 1, 1)
        prior.phi[:], prior.xi[:] = phi, exact
        prior.update(np.array([[0.3]]))
        assert (float(prior.xi[0, 0]) < 1 / phi) == (form == AUTHORS)


def test_seven_blocks():
    """Count six blocks that replacing a record moves; the seventh is constant."""
    rng = np.random.default_rng(3)
    b_squared = rng.random(5)
    one, other = (pg_mean(np.sqrt(b_squared)) for _data in ("these records", "others"))
    moved = [1.0] * 6 + [float(np.linalg.norm(one - other))]
    assert np.linalg.norm(moved) == pytest.approx(math.sqrt(6))


def test_log_moment():
    """Integrate the log moment of a Gaussian that moves by Delta."""
    order, sigma = 4, 2.0
    for sensitivity in (0.1, 1.0, 3.0):
        sd = sensitivity * sigma

        def power(x, sd=sd, sensitivity=sensitivity):
            loss = norm.logpdf(x, 0, sd) - norm.logpdf(x, sensitivity, sd)
            return math.exp(norm.logpdf(x, 0, sd) + order * loss)

        moment = math.log(quad(power, -60 * sd, 60 * sd, points=[-order * sensitivity], limit=500)[0])
        assert moment == pytest.approx(order * (order + 1) / (2 * sigma**2), rel=1e-6)
        if sensitivity != 1:
            assert abs(moment / (order * (order + 1) * sensitivity**2 / (2 * sigma**2)) - 1) > 0.8


def test_polya_gamma_divergence():
    def density(x):
        n = np.arange(60)
        terms = (-1.0) ** n * (2 * n + 1) / math.sqrt(2 * math.pi * x**3) * np.exp(-((2 * n + 1) ** 2) / (8 * x))
        return max(float(terms.sum()), 0.0)

    for c in (0.5, 2.0, 6.0):

        def tilted(x, c=c):
            return math.cosh(c / 2) * math.exp(-c * c * x / 2) * density(x)

        mass = quad(tilted, 1e-3, 6, limit=200)[0]
        kl = quad(lambda x, c=c: tilted(x, c) * (math.log(math.cosh(c / 2)) - c * c * x / 2), 1e-3, 6, limit=200)[0]
        assert mass == pytest.approx(1, abs=1e-5)
        assert kl == pytest.approx(math.log(math.cosh(c / 2)) - c / 4 * math.tanh(c / 2), abs=1e-5)


def test_classical_gaussian():
    delta = 1e-5
    for target, holds in ((0.5, True), (0.99, True), (10.0, False)):
        sigma = math.sqrt(2 * math.log(1.25 / delta)) / target
        assert (gaussian_delta(target, sigma) <= delta) is holds


def test_printed_rate():

    def printed(rate, steps):
        orders = np.arange(2, 257)
        step = WithoutReplacementEvent(round(rate * 60_000), 60_000, GaussianEvent(1.0))
        return float(np.min(steps * wang_rdp(step, orders) + math.log(1e4) / (orders - 1)))

    assert f"{math.floor(100 * printed(400 / 60_000, 150)) / 100}" == "1.34"
    assert printed(400 / 50_000, 150) > 1.4


def test_sampling_is_a_mixture():
    exact = epsilon(SelfComposedEvent(PoissonSampledEvent(0.05, GaussianEvent(1.24)), 20), 1e-4)
    assert exact == pytest.approx(0.932, abs=1e-3)
    assert generic_epsilon_v1(0.05, 1.24, 20, 1e-4) == pytest.approx(0.790, abs=1e-3)


def test_replacing_does_not_imply_removing():
    records = ["a", "b", "c"]
    replaced, removed = ["a", "b", "d"], ["a", "b"]
    assert len(records) == len(replaced) and len(records) != len(removed)


def test_zcdp_of_a_gaussian():
    rho, sensitivity = 0.3, 2.0
    for variance, true in ((sensitivity**2 / (2 * rho), rho), (sensitivity**2 / rho, rho / 2)):
        assert sensitivity**2 / (2 * variance) == pytest.approx(true)


def test_zcdp_conversion():
    rho, delta = 1e-3, 1e-6
    exact = epsilon(GaussianEvent(math.sqrt(1 / (2 * rho))), delta)
    assert rho + 4 * rho * math.log(1 / delta) < exact / 2
    assert exact <= zcdp_epsilon(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_rho_of_a_target():
    target, delta = 0.5, 1e-6
    log = math.log(1 / delta)
    printed = math.sqrt(log + target) - math.sqrt(log)
    assert printed + 2 * math.sqrt(printed * log) > 3 * target
    assert printed**2 + 2 * math.sqrt(printed**2 * log) == pytest.approx(target)
    assert zcdp_rho_for_target(target, delta) >= printed**2 * (1 - 1e-9)


def test_noise_of_scenario_two():
    """Compute the rho of a mean that a record moves by B/n."""
    steps, bound, n, rho = 10, 2.0, 100, 0.5

    def spent(variance):
        return steps * (bound / n) ** 2 / (2 * variance)

    assert spent(steps * bound**2 / (2 * n**2 * rho)) == pytest.approx(rho)
    assert spent(steps * bound**2 / (n**2 * rho**2)) == pytest.approx(rho**2 / 2)
    assert spent(steps * bound**2 / (n**2 * 4.0**2)) > 4.0  # with rho = 4 the printed noise is too small


def test_clipped_gradients():
    bound = 1.5
    one, other = np.array([9.0, 0.0]), np.array([-4.0, 0.0])
    clipped = [min(bound, np.linalg.norm(g)) * g / np.linalg.norm(g) for g in (one, other)]
    assert np.linalg.norm(clipped[0] - clipped[1]) == pytest.approx(2 * bound)


def test_randomized_response():
    target, k = 1.0, 4
    truth = math.exp(target) / (k - 1 + math.exp(target))
    among_all = (truth + (1 - truth) / k) / ((1 - truth) / k)
    among_others = truth / ((1 - truth) / (k - 1))
    assert among_others == pytest.approx(math.exp(target)) and among_all > 1.5 * math.exp(target)


def test_loss_of_scenario_one():
    target, steps, bound, m, n = 2.0, 10, 1.0, 20, 100
    sigma = bound / (m * math.log1p(math.expm1(target / steps) * n / m))
    loss = math.log1p(math.expm1(bound / (sigma * m)) * m / n)
    assert steps * loss == pytest.approx(target)
    assert steps * (math.expm1(bound / (sigma * m)) * m / n + 1) > 5 * target


def test_scenario_three():
    alpha, bound, m, n, sigma = 3.0, 1.0, 20, 100, 0.1
    x = np.linspace(-5, 5, 400_001)
    p, q = norm.logpdf(x, bound / m, sigma), norm.logpdf(x, 0, sigma)
    exact = math.log(np.trapezoid(np.exp(alpha * p + (1 - alpha) * q), x)) / (alpha - 1)
    assert exact == pytest.approx(alpha * bound**2 / (2 * m**2 * sigma**2), rel=1e-6)
    assert alpha * bound**2 / (n**2 * sigma**2) < exact / 10
