"""The article's algorithms as printed and as its authors run them. Compared with loops over scalars."""

import itertools
import math

import common
import lda_fig2
import numpy as np
import pytest
from peers import vips
from peers.wang import WANG
from scipy.special import digamma, expit, k0, k1

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import epsilon


def mean_xi(c):
    return math.tanh(c / 2) / (2 * c) if c else 0.25


def clip_vectors(a, norm):
    length = math.sqrt((a * a).sum())
    return a * (norm / length) if length > norm else a


def test_topics_are_algorithm_3():
    """Make the second of two steps over all documents by hand."""
    rng = np.random.default_rng(0)
    D, V, K, N = 6, 7, 3, 60
    X = rng.multinomial(N, np.ones(V) / V, size=D)
    options = lda_fig2.printed_options(length_method="scale", mean_change_tol=1e-10)
    common_options = dict(n_components=K, n_jobs=1, random_state=0, batch_size=D, doc_length=N, clip=0.1, delta=1e-4)
    fits = [
        LatentDirichletAllocation.paper(noise_multiplier=1e-9, n_steps=steps, options=options, **common_options).fit(X)
        for steps in (1, 2)
    ]
    before, after = (fit.components_.T for fit in fits)
    beta = np.exp(digamma(before) - digamma(before.sum(axis=0)))
    s = np.zeros((V, K))
    for counts in X:
        gamma = np.full(K, 1 / K + N / K)
        for _ in range(3000):
            phi = beta * np.exp(digamma(gamma) - digamma(gamma.sum()))
            phi /= phi.sum(axis=1, keepdims=True)
            gamma = 1 / K + counts @ phi
        s += clip_vectors(counts[:, None] * phi / D, 0.1 * N / D)
    rho = (1024 + 2) ** -0.7
    expected = (1 - rho) * before + rho * (1 / K + D * s)
    np.testing.assert_allclose(after, expected, rtol=1e-5)
    assert abs(after - before).max() > 0.01


def test_the_three_noises_of_strong_composition():
    """Compare with 2.85, 3.80 and 4.40. The last has the authors' δ of a step."""
    target = epsilon(lda_fig2.event(20_000, 1.24), 1e-4, WANG)
    sizes = (20_000, 400_000, 20, 1e-4)
    found = [common.strong_composition_noise(target, *sizes)]
    found += [common.strong_composition_noise(target, *sizes, common.CLASSICAL, each) for each in (None, 1e-6)]
    assert [f"{z:.2f}" for z in found] == ["2.85", "3.80", "4.40"]
    # Their σ spends ε whole: sqrt(2 J ln(1/δ'')) ε' + J ε' (e^ε' - 1), by hand.
    step = math.log1p(0.05 * math.expm1(math.sqrt(2 * math.log(1.25e6)) / found[2]))
    whole = math.sqrt(40 * math.log(1 / (1e-4 - 1e-6))) * step + 20 * step * math.expm1(step)
    assert whole == pytest.approx(target, rel=1e-6)


@pytest.mark.parametrize("form", [vips.PRINTED, vips.AUTHORS])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_regression_is_algorithm_5(form, sigma):
    rng = np.random.default_rng(1)
    n, d, size = 8, 2, 5
    X = rng.normal(size=(n, d)) / 4
    y = rng.integers(0, 2, n)
    q = vips.fit_regression(form, X, y, sigma, size, 3, np.random.default_rng(7))

    rng, printed = np.random.default_rng(7), form == vips.PRINTED
    moments, alpha, a, b = (np.eye(d) if printed else np.ones((d, d))), 1.0, 1.0, 1.0
    nu1, nu2 = np.zeros(d), np.eye(d)
    for t in range(3):
        rho = (1024 + t + 1) ** -0.7 if printed else (1.0 if t == 0 else (1024 + t) ** -0.7)
        s1, s2 = np.zeros(d), np.zeros((d, d))
        for i in rng.permutation(n)[:size]:
            xi = mean_xi(math.sqrt(X[i] @ moments @ X[i]))
            s1 += (y[i] - 0.5) * X[i] / size
            s2 += xi * np.outer(X[i], X[i]) / size
        if sigma:
            s1 += rng.normal(0, sigma * (2 / size if printed else 1 / size), d)
            noise = rng.normal(0, sigma / (2 * size), (d, d))
            s2 += [[noise[min(i, j), max(i, j)] for j in range(d)] for i in range(d)]
            values, vectors = np.linalg.eigh(s2)
            s2 = sum((v if v >= 0 else 1e-4) * np.outer(u, u) for v, u in zip(values, vectors.T))
        nu1 = (1 - rho) * nu1 + rho * n * s1
        nu2 = (1 - rho) * nu2 + rho * (n * s2 + alpha * np.eye(d))
        covariance = np.linalg.inv(nu2)
        mean = covariance @ nu1
        moments = covariance + np.outer(mean, mean)
        w = 1.0 if printed else rho
        a = (1 - w) * a + w * (1 + d / 2)
        b = (1 - w) * b + w * (1 + (mean @ mean + np.trace(covariance)) / 2)
        alpha = a / b
    np.testing.assert_allclose(q.mean, mean, rtol=1e-10)
    np.testing.assert_allclose(q.covariance, covariance, rtol=1e-10)
    assert q.alpha == pytest.approx(alpha)


def network(J=3, K=3, seed=2):
    rng = np.random.default_rng(seed)
    q = vips.network_start(vips.PRINTED, J, K, rng)
    root = rng.normal(size=(J, K, K))
    W = rng.normal(size=(J, K))
    moments = root @ np.swapaxes(root, 1, 2) + W[:, :, None] * W[:, None, :]
    return q._replace(W=W, moments=moments, c_variance=rng.random(J), b_variance=rng.random(K))


def expected(z, function):
    states = itertools.product((0, 1), repeat=len(z))
    return sum(math.prod(p if s else 1 - p for p, s in zip(z, state)) * function(np.array(state)) for state in states)


def test_the_networks_units_are_equations_67_to_71():
    rng = np.random.default_rng(3)
    J = K = 3
    q = network(J, K)
    Y, z = rng.integers(0, 2, (4, J)).astype(float), rng.random((4, K))
    xi = vips.printed_curvature(z, q)
    for n, j in itertools.product(range(4), range(J)):

        def square(state, j=j):
            return state @ q.moments[j] @ state + 2 * q.c[j] * q.W[j] @ state + q.c[j] ** 2 + q.c_variance[j]

        assert xi[n, j] == pytest.approx(mean_xi(math.sqrt(expected(z[n], square))))
    found = vips.printed_units(Y, xi, z, q)
    literal, dropped = z.copy(), z.copy()
    for n, k in itertools.product(range(4), range(K)):
        for units, covary in ((literal, True), (dropped, False)):
            d = q.b[k] + q.W[:, k] @ Y[n] - q.W[:, k].sum() / 2
            for j in range(J):
                psi_w = q.c[j] * q.W[j, k]
                for other in set(range(K)) - {k}:
                    both = q.moments[j, k, other] if covary else q.W[j, k] * q.W[j, other]
                    psi_w += both * units[n, other]
                d -= xi[n, j] * (2 * psi_w + q.moments[j, k, k]) / 2
            units[n, k] = expit(d)
    np.testing.assert_allclose(found, literal, rtol=1e-9)
    authors = vips.authors_units(Y, xi, z, q, range(K))
    np.testing.assert_allclose(authors, dropped, rtol=1e-9)
    assert abs(literal - dropped).max() > 0.01


def literal_noise(value, largest, size, sigma, rng):
    return value + rng.normal(0, math.sqrt(7) * sigma * largest / size, np.shape(value))


def symmetric_draws(sd, J, K, rng):
    draws = rng.normal(0, sd, (J, K, K))
    return np.array([[[d[min(k, m), max(k, m)] for m in range(K)] for k in range(K)] for d in draws])


def floored(matrix, below, value):
    values, vectors = np.linalg.eigh(matrix)
    return sum((value if v < below else v) * np.outer(u, u) for v, u in zip(values, vectors.T))


@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_the_networks_step_is_algorithm_6(sigma):
    rng = np.random.default_rng(4)
    J, K, S, N = 3, 2, 4, 40
    q = network(J, K)
    y = rng.integers(0, 2, (S, J)).astype(np.float32)
    released = vips.printed_release(y, q, sigma, np.random.default_rng(8))

    z = np.tile(expit(q.b), (S, 1))
    xi = vips.printed_curvature(z, q)
    z = vips.printed_units(y, xi, z, q)
    sums = dict(z=np.zeros(K), y=np.zeros(J), xi=np.zeros(J), xz=np.zeros((J, K)), yz=np.zeros((J, K)))
    moments = np.zeros((J, K, K))
    for n in range(S):
        sums["z"] += z[n] / S
        sums["y"] += y[n] / S
        sums["xi"] += xi[n] / S
        sums["xz"] += np.outer(xi[n], z[n]) / S
        sums["yz"] += np.outer(y[n], z[n]) / S
        for j in range(J):
            moments[j] += xi[n, j] * expected(z[n], lambda state: np.outer(state, state)) / S
    rng = np.random.default_rng(8)
    own = np.array([mean_xi(math.sqrt(b * b + v)) for b, v in zip(q.b, q.b_variance)])
    root, whole = math.sqrt(K), math.sqrt(J * K)
    if sigma:
        sd = math.sqrt(7) * sigma * math.sqrt(J) * K / (4 * S)
        moments = np.array([floored(m, 0.0, 1e-4) for m in moments + symmetric_draws(sd, J, K, rng)])
        sums["z"] = literal_noise(sums["z"], root, S, sigma, rng)
        own = literal_noise(own, root / 4, 1, sigma, rng)
        sums["y"] = literal_noise(sums["y"], math.sqrt(J), S, sigma, rng)
        sums["xi"] = literal_noise(sums["xi"], math.sqrt(J) / 4, S, sigma, rng)
        sums["xz"] = literal_noise(sums["xz"], whole / 4, S, sigma, rng)
        sums["yz"] = literal_noise(sums["yz"], whole, S, sigma, rng)
    centered = dict(s1=sums["z"] - 0.5, s2=own, s3=sums["y"] - 0.5, s4=sums["xi"], s5=sums["xz"])
    for name, value in (centered | dict(s6=sums["yz"] - 0.5 * sums["z"], s7=moments)).items():
        np.testing.assert_allclose(released[name], value, rtol=2e-4, atol=2e-5, err_msg=name)

    precision, zeta_a = q.prior.precision.copy(), 2 * q.prior.xi.copy()
    new = vips.printed_parameters(released, N, q)
    for j in range(J):
        covariance = np.linalg.inv(N * released["s7"][j] + np.diag(precision[j]))
        mean = covariance @ (N * (released["s6"][j] - q.c[j] * released["s5"][j]))
        np.testing.assert_allclose(new.W[j], mean, rtol=1e-6)
        np.testing.assert_allclose(new.moments[j], covariance + np.outer(mean, mean), rtol=1e-6)
        variance = 1 / (1 + N * max(released["s4"][j], 0))
        right = released["s3"][j] - 0.5 * sum(released["s5"][j, k] * mean[k] for k in range(K))
        assert new.c[j] == pytest.approx(variance * N * right) and new.c_variance[j] == pytest.approx(variance)
        for k in range(K):
            a, b = zeta_a[j, k], new.moments[j, k, k]
            assert new.prior.xi[j, k] == pytest.approx(
                1 / (math.sqrt(b / a) * k1(math.sqrt(a * b)) / k0(math.sqrt(a * b)))
            )
            assert new.prior.precision[j, k] == pytest.approx(
                math.sqrt(a / b) * k1(math.sqrt(a * b)) / k0(math.sqrt(a * b))
            )
    for k in range(K):
        variance = 1 / (1 + N * max(released["s2"][k], 0))
        assert new.b[k] == pytest.approx(variance * N * released["s1"][k])


@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_two_steps_of_the_authors_network(sigma):
    """Loop over images and pixels. The second step keeps the hidden units and moves by rho."""
    J, K, S, N = 3, 2, 4, 4
    Y = np.random.default_rng(5).integers(0, 2, (N, J)).astype(float)
    q = vips.fit_network(vips.AUTHORS, Y, K, sigma, S, 2, np.random.default_rng(9))

    rng = np.random.default_rng(9)
    W, c, b = 0.1 * rng.normal(size=(J, K)), 0.1 * rng.normal(size=J), 0.1 * rng.normal(size=K)
    H = (expit(b) > rng.random((S, K))).astype(float)
    square, invgamma = W * W, np.ones((J, K))
    xi_prior, phi, omega, old = np.full((J, K), 0.5), np.ones(K), 0.5, {}

    def cut(value, largest, size, low, top):
        return np.clip(literal_noise(value, largest, size, sigma, rng), low, top) if sigma else value

    def moved(name, mean, variance, rho):
        new = mean / variance, 1 / variance
        old[name] = tuple((1 - rho) * o + rho * p for o, p in zip(old.get(name, new), new))
        return old[name][0] / old[name][1], 1 / old[name][1]

    for step in (1, 2):
        rho, V = 1.0 if step == 1 else (1024 + step) ** -0.7, Y[np.arange(N)]
        gamma = np.array([[mean_xi(abs(W[j] @ H[n] + c[j])) for j in range(J)] for n in range(S)])
        for k in rng.permutation(K):
            for n in range(S):
                rest = W @ H[n] - W[:, k] * H[n, k] + c
                logit = b[k] + (V[n] - 0.5 - gamma[n] * rest) @ W[:, k] - gamma[n] @ square[:, k] / 2
                H[n, k] = expit(logit)
        whole = math.sqrt(J * K)
        v = cut(V.mean(axis=0), math.sqrt(J), S, 0, 1)
        hv = cut(V.T @ H / S, whole, S, 0, 1)
        h = cut(H.mean(axis=0), math.sqrt(K), S, 0, 1)
        tt = cut(gamma.T @ H / S, whole, S, 0, 1)
        HH = np.array([(H.T * gamma[:, j]) @ H + np.diag(((H - H * H).T * gamma[:, j]).sum(axis=1)) for j in range(J)])
        HH /= S
        if sigma:
            HH += symmetric_draws(math.sqrt(7) * sigma * math.sqrt(J) * K / (4 * S), J, K, rng)
            HH = np.array([floored(np.clip(m, 0, 0.25), 1e-3, 1e-3) for m in HH])
            tt = tt / S
        fresh = np.empty((J, K))
        for j in range(J):
            right = N * (hv[j] - 0.5 * h - c[j] * tt[j])
            fresh[j] = np.linalg.solve(np.diag(invgamma[j]) + N * HH[j], right)
        W, variance = moved("W", fresh, 1 / (N * tt + invgamma), rho)
        square = W * W + variance
        g = cut(gamma.mean(axis=0), math.sqrt(J) / 2, S, -np.inf, 0.25)
        c, _ = moved("c", N * (v - 0.5 - (tt * W).sum(axis=1)) / (N * g + 1), 1 / (N * g + 1), rho)
        g = cut(np.array([mean_xi(abs(x)) for x in b]), math.sqrt(K) / 4, 1, 0, 0.25)
        b, _ = moved("b", N * (h - 0.5) / (N * g + 1), 1 / (N * g + 1), rho)
        root = np.sqrt(2 * xi_prior * square)
        zeta = np.sqrt(square / (2 * xi_prior)) * k1(root) / k0(root)
        invgamma = np.sqrt(2 * xi_prior / square) * k1(root) / k0(root)
        xi_prior = 1 / (zeta + phi)
        phi = (0.5 + 0.5 * J) / (omega + xi_prior.sum(axis=0))
        omega = (0.5 + 0.5 * K) / (1 + phi.sum())
    for found, literal in ((q.W, W), (q.c, c), (q.b, b), (q.prior.precision, invgamma)):
        np.testing.assert_allclose(found, literal, rtol=2e-3, atol=2e-4)
