"""The VIPS article's Algorithms 5 and 6.

Letter by letter, and as its authors' public code runs them.

Two forms a model: PRINTED and AUTHORS. Constants that the article does not print (tau_0, kappa, priors, starts) are
the code's. Topics need no form of their own: `LatentDirichletAllocation.paper` is Algorithm 3, and the authors' code
differs from it in the noise of strong composition only. Noise is numpy's and there is no ledger, so nothing here is
private.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import expit, kve

from vips_fast.kernels import pg_mean

PRINTED, AUTHORS = "as printed", "authors' code"
TAU, KAPPA = 1024.0, 0.7
#: The repaired eigenvalue of a regression's statistic ("some value near zero"), and the least one of a network's.
NEAR_ZERO, LEAST_EIGENVALUE = 1e-4, 1e-3


def rates(form: str, steps: int, first: int = 0) -> list[float]:
    """List the weights (1024 + t)^-0.7 of new statistics. The authors' code begins with 1."""
    found = [(TAU + t) ** -KAPPA for t in range(first, first + steps)]
    return [1.0, *found[1:]] if form == AUTHORS else found


def first_weight(steps: int) -> float:
    """Compute the first minibatch's weight at the end. In the authors' code."""
    return float(np.prod([1.0 - rate for rate in rates(AUTHORS, steps)[1:]]))


def batches(n: int, size: int, steps: int, rng: Generator) -> Iterator[np.ndarray]:
    """Draw the indices of each minibatch, without replacement."""
    for _ in range(steps):
        yield np.arange(n) if size == n else rng.permutation(n)[:size]


def symmetric(sd: float, K: int, rng: Generator, J: int | None = None) -> np.ndarray:
    """Draw symmetric noise as AnalyzeGauss does; J matrices if J is given."""
    upper = np.triu(rng.normal(0.0, sd, (K, K) if J is None else (J, K, K)))
    return upper + np.swapaxes(np.triu(upper, 1), -1, -2)


def repaired(matrices: np.ndarray, below: float, value: float) -> np.ndarray:
    """Set the eigenvalues less than ``below`` to ``value``."""
    w, v = np.linalg.eigh(matrices)
    w = np.where(w < below, value, w).astype(v.dtype)
    return np.asarray((v * w[..., None, :]) @ np.swapaxes(v, -1, -2))


class Regression(NamedTuple):
    """q(m) of Bayesian logistic regression, and E[alpha]."""

    mean: np.ndarray
    covariance: np.ndarray
    alpha: float


def regression_start(form: str, d: int) -> Regression:
    """Start from the prior's E[m m^T], or from the code's matrix of ones."""
    return Regression(np.ones(d), np.zeros((d, d)), 1.0) if form == AUTHORS else Regression(np.zeros(d), np.eye(d), 1.0)


def regression_statistics(X: np.ndarray, y: np.ndarray, q: Regression) -> tuple[np.ndarray, np.ndarray]:
    """Compute the means of (y - 1/2) x and of <xi> x x^T (Eqs. 47-50)."""
    moments = q.covariance + np.outer(q.mean, q.mean)
    xi = pg_mean(np.sqrt(np.einsum("ni,ni->n", X @ moments, X)))
    return X.T @ (y - 0.5) / len(X), (X.T * xi) @ X / len(X)


def fit_regression(
    form: str, X: np.ndarray, y: np.ndarray, sigma: float, size: int, steps: int, rng: Generator
) -> Regression:
    """Run Algorithm 5 on rows X, (n, d), and labels 0 or 1.

    Rows have a norm of at most 1; ``sigma`` 0 is without noise. As printed there is noise for 2/S and 1/(2S) (Eqs. 57,
    59), and the natural parameters nu + N s, with E[alpha] I, move by rho_t from the prior's. The authors have noise
    for 1/S and 1/(2S); their first step replaces, and q(alpha) moves by rho_t.
    """
    n, d = X.shape
    q, shape_rate = regression_start(form, d), np.array([1.0, 1.0])
    natural = np.zeros(d), np.eye(d)
    for rate, batch in zip(rates(form, steps, int(form == PRINTED)), batches(n, size, steps, rng), strict=True):
        s1, s2 = regression_statistics(X[batch], y[batch], q)
        if sigma:
            s1 = s1 + rng.normal(0.0, sigma * (2.0 if form == PRINTED else 1.0) / size, d)
            s2 = repaired(s2 + symmetric(sigma / (2.0 * size), d, rng), 0.0, NEAR_ZERO)
        new = n * s1, n * s2 + q.alpha * np.eye(d)
        natural = tuple((1 - rate) * old + rate * part for old, part in zip(natural, new, strict=True))
        covariance = np.linalg.inv(natural[1])
        mean = covariance @ natural[0]
        found = np.array([1.0 + d / 2, 1.0 + (mean @ mean + np.trace(covariance)) / 2])
        weight = rate if form == AUTHORS else 1.0
        shape_rate = (1 - weight) * shape_rate + weight * found
        q = Regression(mean, covariance, shape_rate[0] / shape_rate[1])
    return q


class Network(NamedTuple):
    """q(W, b, c) of a sigmoid belief network, with E[w_j w_j^T] of each pixel."""

    W: np.ndarray
    moments: np.ndarray
    c: np.ndarray
    c_variance: np.ndarray
    b: np.ndarray
    b_variance: np.ndarray
    prior: "Shrinkage"


class Shrinkage:
    """The three-parameter beta normal prior of the weights.

    As printed, q(xi) has the rate E[zeta] without E[phi] (docs/errata.md).
    """

    def __init__(self, form: str, J: int, K: int):
        self.form, self.precision = form, np.ones((J, K))
        self.xi, self.phi, self.omega = np.full((J, K), 0.5), np.ones(K), 0.5

    def update(self, square: np.ndarray) -> None:
        """Take E[w^2] through the four posteriors in turn."""
        J, K = square.shape
        root = np.sqrt(2 * self.xi * square)
        ratio = kve(1, np.maximum(root, 1e-12)) / kve(0, np.maximum(root, 1e-12))
        zeta = np.sqrt(square / (2 * self.xi)) * ratio
        self.precision = np.sqrt(2 * self.xi / np.maximum(square, 1e-300)) * ratio
        self.xi = 1.0 / (zeta if self.form == PRINTED else zeta + self.phi)
        self.phi = (J + 1) / 2 / (self.omega + self.xi.sum(axis=0))
        self.omega = (K + 1) / 2 / (1 + self.phi.sum())


def network_start(form: str, J: int, K: int, rng: Generator) -> Network:
    """Draw the authors' start, which the article does not print."""
    W, c, b = (0.1 * rng.normal(size=shape) for shape in ((J, K), J, K))
    moments = W[:, :, None] * W[:, None, :]
    return Network(W, moments, c, np.zeros(J), b, np.zeros(K), Shrinkage(form, J, K))


def pairs(z: np.ndarray) -> np.ndarray:
    """Compute E[z z^T] of independent units, a row each."""
    own = np.eye(z.shape[1], dtype=z.dtype) * (z * (1 - z))[:, None]
    return np.asarray(z[:, :, None] * z[:, None, :] + own).reshape(len(z), -1)


def bounded(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Keep values within +-1e12. As printed, noise lets the parameters grow without end."""
    return np.asarray(np.clip(values, -1e12, 1e12).astype(dtype))


def printed_curvature(z: np.ndarray, q: Network) -> np.ndarray:
    """Compute <xi> by Eq. 67, with the covariances of the weights."""
    J, K = q.W.shape
    linear, constant = bounded(2 * q.W.T * q.c, z.dtype), bounded(q.c**2 + q.c_variance, z.dtype)
    square = pairs(z) @ bounded(q.moments.reshape(J, K * K), z.dtype).T + z @ linear + constant
    return pg_mean(np.sqrt(np.maximum(square, 0.0)))


def printed_units(y: np.ndarray, xi: np.ndarray, z: np.ndarray, q: Network) -> np.ndarray:
    """Sweep once over the units by Eqs. 69-71, with E[w_jl w_jk] of all pairs."""
    J, K = q.W.shape
    coupling = (xi @ bounded(q.moments.reshape(J, K * K), xi.dtype)).reshape(len(y), K, K)
    linear = q.b + (y - 0.5 - xi * q.c) @ q.W
    z = z.copy()
    for k in range(K):
        z[:, k] = 0.0
        z[:, k] = expit(linear[:, k] - np.einsum("nl,nl->n", coupling[:, k], z) - coupling[:, k, k] / 2)
    return z


def authors_units(y: np.ndarray, xi: np.ndarray, z: np.ndarray, q: Network, order: Iterable[int]) -> np.ndarray:
    """Sweep once as the code does, without the weights' covariances."""
    square, psi, z = np.diagonal(q.moments, axis1=1, axis2=2), z @ q.W.T + q.c, z.copy()
    own = xi @ square / 2
    for k in order:
        psi -= z[:, k, None] * q.W[:, k]
        z[:, k] = expit(q.b[k] + (y - 0.5 - xi * psi) @ q.W[:, k] - own[:, k])
        psi += z[:, k, None] * q.W[:, k]
    return z


def noisy(
    value: np.ndarray,
    largest: float,
    size: int,
    sigma: float,
    rng: Generator,
    low: float = -np.inf,
    top: float = np.inf,
) -> np.ndarray:
    """Add the noise of Eq. 72 to a block. Cut it to a range as the code does."""
    if not sigma:
        return value
    return np.clip(value + rng.normal(0.0, np.sqrt(7) * sigma * largest / size, np.shape(value)), low, top)


def fit_network(
    form: str,
    Y: np.ndarray,
    K: int,
    sigma: float,
    size: int,
    steps: int,
    rng: Generator,
    watch: Callable[[int, Network], None] | None = None,
) -> Network:
    """Run Algorithm 6 on binary rows Y, (n, J); ``watch(step, q)`` sees each step."""
    q = network_start(form, Y.shape[1], K, rng)
    step: Callable[..., Network]
    step = _PrintedNetwork(len(Y), *q.W.shape) if form == PRINTED else _AuthorsNetwork(len(Y), size, q, rng)
    for t, (rate, batch) in enumerate(zip(rates(form, steps, 1), batches(len(Y), size, steps, rng), strict=True)):
        q = step(Y[batch].astype(np.float32), q, sigma, rate, rng)
        if watch is not None:
            watch(t + 1, q)
    return q


class _PrintedNetwork:
    """Take a step as printed. Blocks averaged by rho_t from the prior, then appendix 5."""

    def __init__(self, n: int, J: int, K: int):
        self.n = n
        shapes: dict[str, Any] = dict(s1=K, s2=K, s3=J, s4=J, s5=(J, K), s6=(J, K), s7=(J, K, K))
        self.average = {name: np.zeros(shape) for name, shape in shapes.items()}

    def __call__(self, y: np.ndarray, q: Network, sigma: float, rate: float, rng: Generator) -> Network:
        for name, value in printed_release(y, q, sigma, rng).items():
            self.average[name] += rate * (value - self.average[name])
        return printed_parameters(self.average, self.n, q)


def printed_release(y: np.ndarray, q: Network, sigma: float, rng: Generator) -> dict[str, np.ndarray]:
    """Noise the seven blocks of Eqs. 65-72. s_7 is made positive definite as in Section 6.2."""
    size, (J, K) = len(y), q.W.shape
    z = np.tile(expit(q.b).astype(np.float32), (size, 1))
    xi = printed_curvature(z, q).astype(np.float32)
    z = printed_units(y, xi, z, q).astype(np.float32)
    root, whole = np.sqrt(K), np.sqrt(J * K)
    s7 = (xi.T @ pairs(z) / size).reshape(J, K, K)
    if sigma:
        spread = np.sqrt(7) * sigma * np.sqrt(J) * K / 4 / size
        s7 = repaired((s7 + symmetric(spread, K, rng, J)).astype(np.float32), 0.0, NEAR_ZERO)
    mean = noisy(z.mean(axis=0), root, size, sigma, rng)
    return dict(
        s1=mean - 0.5,
        # B = E[xi^(1)] is no mean over records: its printed sensitivity has no 1/S.
        s2=noisy(pg_mean(np.sqrt(q.b**2 + q.b_variance)), root / 4, 1, sigma, rng),
        s3=noisy(y.mean(axis=0), np.sqrt(J), size, sigma, rng) - 0.5,
        s4=noisy(xi.mean(axis=0), np.sqrt(J) / 4, size, sigma, rng),
        s5=noisy(xi.T @ z / size, whole / 4, size, sigma, rng),
        s6=noisy(y.T @ z / size, whole, size, sigma, rng) - 0.5 * mean,
        s7=s7,
    )


def printed_parameters(s: dict[str, np.ndarray], n: int, q: Network) -> Network:
    """Solve appendix 5 with its factor 1/2 in Eq. 88; negative curvatures count as 0."""
    J, K = q.W.shape
    covariance = np.linalg.inv(n * s["s7"] + q.prior.precision[:, :, None] * np.eye(K))
    W = np.einsum("jkl,jl->jk", covariance, n * (s["s6"] - q.c[:, None] * s["s5"]))
    c_variance = 1 / (1 + n * np.maximum(s["s4"], 0.0))
    c = c_variance * n * (s["s3"] - 0.5 * (s["s5"] * W).sum(axis=1))
    b_variance = 1 / (1 + n * np.maximum(s["s2"], 0.0))
    b = b_variance * n * s["s1"]
    moments = covariance + W[:, :, None] * W[:, None, :]
    q.prior.update(np.diagonal(moments, axis1=1, axis2=2))
    return Network(W, moments, c, c_variance, b, b_variance, q.prior)


class _AuthorsNetwork:
    """Take a step of their code. Hidden units are carried over minibatches, statistics are cut."""

    def __init__(self, n: int, size: int, q: Network, rng: Generator):
        self.n = n
        self.natural: dict[str, np.ndarray] = {}
        self.z = (expit(q.b) > rng.random((size, len(q.b)))).astype(np.float32)

    def _move(self, name: str, mean: np.ndarray, variance: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """Move (mean / variance, 1 / variance) by the rate."""
        new = np.array([mean / variance, 1 / variance])
        old = self.natural.get(name, new)
        self.natural[name] = (1 - rate) * old + rate * new
        first, second = self.natural[name]
        return first / second, 1 / second

    def __call__(self, y: np.ndarray, q: Network, sigma: float, rate: float, rng: Generator) -> Network:
        size, (J, K) = len(y), q.W.shape
        whole = np.sqrt(J * K)
        xi = pg_mean(np.abs(self.z @ q.W.T + q.c)).astype(np.float32)
        self.z = z = authors_units(y, xi, self.z, q, rng.permutation(K)).astype(np.float32)
        pixels = noisy(y.mean(axis=0), np.sqrt(J), size, sigma, rng, 0.0, 1.0)
        both = noisy(y.T @ z / size, whole, size, sigma, rng, 0.0, 1.0)
        units = noisy(z.mean(axis=0), np.sqrt(K), size, sigma, rng, 0.0, 1.0)
        cross = noisy(xi.T @ z / size, whole, size, sigma, rng, 0.0, 1.0)
        pair = (xi.T @ pairs(z) / size).reshape(J, K, K)
        if sigma:
            pair = pair + symmetric(np.sqrt(7) * sigma * np.sqrt(J) * K / 4 / size, K, rng, J)
            pair = repaired(np.clip(pair, 0.0, 0.25).astype(np.float32), LEAST_EIGENVALUE, LEAST_EIGENVALUE)
            # With noise the code takes this mean for a sum.
            cross = cross / size
        right = self.n * (both - 0.5 * units - q.c[:, None] * cross)
        precision = q.prior.precision
        W = np.linalg.solve(self.n * pair + precision[:, :, None] * np.eye(K), right[:, :, None])[:, :, 0]
        W, variance = self._move("W", W, 1 / (self.n * cross + precision), rate)
        curvature = noisy(xi.mean(axis=0), np.sqrt(J) / 2, size, sigma, rng, top=0.25)
        c = self.n * (pixels - 0.5 - (cross * W).sum(axis=1)) / (1 + self.n * curvature)
        c, c_variance = self._move("c", c, 1 / (1 + self.n * curvature), rate)
        own = noisy(pg_mean(np.abs(q.b)), np.sqrt(K) / 4, 1, sigma, rng, 0.0, 0.25)
        b, b_variance = self._move("b", self.n * (units - 0.5) / (1 + self.n * own), 1 / (1 + self.n * own), rate)
        q.prior.update(W**2 + variance)
        moments = W[:, :, None] * W[:, None, :] + variance[:, :, None] * np.eye(K)
        return Network(W, moments, c, c_variance, b, b_variance, q.prior)


def reconstruct(form: str, Y: np.ndarray, q: Network, rng: Generator, sweeps: int = 5) -> np.ndarray:
    """Predict pixels from each image's own hidden units. By their means, or by a draw as in the code."""
    z = np.tile(expit(q.b), (len(Y), 1))
    for _ in range(sweeps):
        if form == PRINTED:
            z = printed_units(Y, printed_curvature(z, q), z, q)
        else:
            z = authors_units(Y, pg_mean(np.abs(z @ q.W.T + q.c)), z, q, range(len(q.b)))
    return np.asarray(expit((z >= rng.random(z.shape) if form == AUTHORS else z) @ q.W.T + q.c))
