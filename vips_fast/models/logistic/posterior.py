"""Read noised statistics of known law: how far a step may go, and at last the coefficients' posterior.

Everything here is post-processing of released numbers: it costs no privacy.

In step t the center is a_t. A record x with the label y contributes (y - b p) x and b p (1 - p) x x^T, p being its
probability at the center. Both are times the weight w of its clip, which depends on x . a_t and |x|. Averages over the
last steps were released, with noise of known law:

    gradient = sum of w (y - b p) x + noise,    matrix = H + noise.

`Spectrum` says how large H may be, `second_moment` estimates it, `Observed` has the law of the gradient given m, and
`posterior_given` integrates over the error of H, as Bernstein & Sheldon (2019) do by sampling for linear regression,
and over alpha, the precision of the prior.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from ...data.types import Vector

#: Nodes and weights of the expectation of a function of a standard normal.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
#: From this many standard deviations of the noise on a positive value is taken as it is seen.
_AS_SEEN = 300.0
#: Standard deviations of a logit under the prior, and the logarithms of their weights: around 2, by a factor of 2.
_PRIOR_LOGITS = np.geomspace(2.0, 8.0, 5)
_PRIOR_WEIGHTS = -0.5 * np.log2(_PRIOR_LOGITS / 2) ** 2
#: Factors of logits, and the logarithms of their weights: around 1, by a factor of 2.
FACTORS = np.geomspace(0.25, 4.0, 17)
_FACTOR_WEIGHTS = -0.5 * np.log2(FACTORS) ** 2


class Spectrum:
    """The eigenvalues of a noised symmetric matrix S, as large as they may be.

    The noise is symmetric with independent normal entries of standard deviation s off the diagonal: its eigenvalues
    fill [-2 s sqrt(d), 2 s sqrt(d)] (Wigner). S is of low rank, or that plus c I. Take an eigenvalue c + L with L > s
    sqrt(d). It shows as v = c + L + s^2 d / L > c + 2 s sqrt(d). A smaller L does not show (Benaych-Georges &
    Nadakuditi 2011). So the eigenvalues above the edge are de-biased: L = (v - c + sqrt((v - c)^2 - 4 s^2 d))/2. All
    others could be up to s sqrt(d) or c.

    A c below s sqrt(d) is hidden, and one above 6 s sqrt(d) shows as it is: both are taken for 0. Between them noise
    lowers eigenvalues c to near or under the edge. With c = 0 steps along them would be up to three times as long as
    they should be, and twice is unstable already. The number c is the median eigenvalue.
    """

    def __init__(self, matrix: np.ndarray, noise_sd: float):
        values, vectors = np.linalg.eigh(matrix)
        hidden = noise_sd * math.sqrt(len(matrix))
        usual = float(values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        usual = usual if hidden < usual < 6 * hidden else 0.0
        shown = values - usual > 2 * hidden if noise_sd else np.ones(len(values), dtype=bool)
        excess = np.maximum(values[shown] - usual, 0.0)
        #: Eigenvectors that show, (d, k), their eigenvalues, and the largest that there may be elsewhere.
        self.vectors = np.ascontiguousarray(vectors[:, shown])
        self.upper = usual + (excess + np.sqrt(excess**2 - 4 * hidden**2)) / 2
        self.elsewhere = max(hidden, usual)

    def apply(self, of: Callable[[np.ndarray], np.ndarray], vector: np.ndarray) -> np.ndarray:
        """Multiply the matrix with a function of these eigenvalues and a vector."""
        *shown, rest = of(np.append(self.upper, self.elsewhere))
        product: np.ndarray = rest * vector + self.vectors @ ((np.array(shown) - rest) * (self.vectors.T @ vector))
        return product


def second_moment(
    matrix: np.ndarray, noise_sd: float, diagonal_sd: float, constant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate S and how uncertain its entries are.

    S is (d, d) and positive definite; the uncertainty is variances of its entries in their own units, (d, d).
    ``matrix`` is S + noise, of standard deviation ``noise_sd`` off the diagonal and ``diagonal_sd`` on it. The last
    column belongs to the ``constant``, if there is one. `positive_moments` has the entries of the diagonal. S_ij is
    sqrt(S_ii S_jj) r_ij with r_ij ~ N(r, t), r and t fitted to all. That is shrinkage toward a common correlation, with
    a noise that is known. The constant's column c has r_ic ~ N(0, t), of a t of its own, and then r_ij ~ N(r + r_ic
    r_jc, t): where columns are never negative, independent ones have that. The second result has the posterior
    variances of r_ij, r_jj being S_jj over its mean.
    """
    d = len(matrix)
    if noise_sd == 0:
        return matrix.copy(), np.zeros((d, d))
    k = d - 1 if constant and d > 1 else d
    seen = np.diag(matrix)
    diagonal, uncertain = np.maximum(seen, noise_sd), np.zeros(d)
    diagonal[:k], uncertain[:k] = positive_moments(seen[:k], diagonal_sd)
    scale = np.sqrt(np.outer(diagonal, diagonal))
    seen, noise = matrix / scale, (noise_sd / scale) ** 2
    r, variance_of_r = np.eye(d), np.zeros((d, d))
    if k < d:
        r[:k, k], variance_of_r[:k, k] = shrink(seen[:k, k], noise[:k, k])
        r[k], variance_of_r[k] = r[:, k], variance_of_r[:, k]
    pairs = np.triu_indices(k, 1)
    if len(pairs[0]):
        center = np.outer(r[:k, -1], r[:k, -1])[pairs] if k < d else 0.0
        found, variance_of_r[pairs] = shrink(seen[pairs] - center, noise[pairs], common=True)
        r[pairs] = found + center
        r.T[pairs], variance_of_r.T[pairs] = r[pairs], variance_of_r[pairs]
    variance_of_r.flat[:: d + 1] = uncertain / diagonal**2
    values, vectors = np.linalg.eigh(r)
    # What the noise can hide, and no more, keeps the matrix from being singular.
    values = np.maximum(values, max(min(0.1, float(variance_of_r.sum(axis=1).mean())), 1e-9 * values[-1]))
    r = (vectors * values) @ vectors.T
    return (r + r.T) * (0.5 * scale), variance_of_r


def shrink(seen: np.ndarray, noise: np.ndarray, common: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Estimate r ~ N(m, t) from noisy values, by EM.

    Returns posterior means and variances, for noise of these variances, t and a ``common`` m.
    """
    weight = (noise + np.median(noise)) ** -2.0

    def average(t: float) -> float:
        trust = 1 / (t + noise)
        return float((seen * trust).sum() / trust.sum())

    mean = average(0.0) if common else 0.0
    t = max(float((weight * ((seen - mean) ** 2 - noise)).sum() / weight.sum()), 0.0)
    for _ in range(30):
        if common:
            mean = average(t)
        trust = t / (t + noise)
        t = float(((trust * (seen - mean)) ** 2 + trust * noise).sum()) / len(seen)
    trust = t / (t + noise)
    return mean + trust * (seen - mean), trust * noise


def positive_moments(seen: np.ndarray, noise_sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Estimate positive values seen with noise: means and variances, (d,).

    Their prior is fitted to all of them. It has the weights of points from a fiftieth of the noise to above the largest
    value (Kiefer & Wolfowitz's maximum likelihood, by EM). So many small values among few large ones are known as
    small.
    """
    mean, variance = seen.copy(), np.full(len(seen), noise_sd**2)
    # Values far above the noise are as they are seen.
    if not (near := seen < _AS_SEEN * noise_sd).any():
        return mean, variance
    seen = seen[near]
    # Neighbors are never further apart than half the noise.
    low = np.geomspace(0.02, 5.5, 60)
    points = noise_sd * np.append(low, np.arange(6.0, 1.1 * float(seen.max()) / noise_sd, 0.5))
    log = -0.5 * ((seen[:, None] - points) / noise_sd) ** 2
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weight = np.full(len(points), 1 / len(points))
    for _ in range(40):
        shares = likelihood * weight
        weight = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0) + 1e-12
    shares = likelihood * weight
    shares /= shares.sum(axis=1, keepdims=True)
    mean[near] = shares @ points
    variance[near] = np.maximum(shares @ points**2 - mean[near] ** 2, 0.0)
    return mean, variance


@dataclass(frozen=True)
class Observed:
    """The released part of the gradient, with its laws.

    Let a be the average center, (d,), of the steps. ``gradient``, (d,), is the average gradient, with noise of
    ``variance`` in an entry. ``curvature``, (d, d), is the estimate of the likelihood's own, H, at these centers;
    ``hidden``, (d, d), is the second result of `second_moment` for it. ``labels``, (d, d), is the variance J that the
    outcomes bring to the gradient, and ``sampling`` times H that of drawing records. ``start``, (d,), is a cautious
    estimate, which moved as if the curvature were the largest that there could be. ``length`` is that of a row.
    ``doubt``, (d,), is a direction u along which H has a further error, of the standard deviation |u|^2.

    Notes
    -----
    A step's expected gradient is 0 at the true coefficients if they are its center, whatever rows and outcomes are, and
    H (m - a) near it. So the average is H (m - a) + N(0, v I + J + k H), but for the square of the way m - a, which the
    Newton steps have made short. Let D be the error of H, with independent entries of variance h_ij = H_ii H_jj
    ``hidden``_ij. Then D (m - a) is further noise. Its covariance has sum_j h_ij E_jj on the diagonal and h_ij E_ij
    elsewhere. Here E is (m - a) (m - a)^T at the mean, and the variance that m has from the data: C - alpha C C, if C
    is its covariance. The longer the way from a, the less the gradient says.
    The mean is s + f K (K + alpha)^-1 (m' - s). Here s is ``start``, m' is the posterior mean without D, and K + alpha
    the precision with it. And f = tr(K (K + alpha)^-1) / d is the share of the directions that are known. So the prior
    shrinks toward 0 if noise hides an effect, but toward s if noise hides the curvature: this ranks records better.
    """

    center: Vector
    gradient: Vector
    variance: float
    sampling: float
    curvature: np.ndarray
    hidden: np.ndarray
    labels: np.ndarray
    start: Vector
    length: float
    doubt: Vector

    @cached_property
    def _fixed(self) -> tuple[np.ndarray, ...]:
        """What does not depend on alpha: h, J + k H + v I, the gradient's weight H (J + …)^-1, and K's eigenvectors."""
        H = self.curvature
        known = self.labels + self.sampling * H
        known.flat[:: len(H) + 1] += self.variance
        return (
            np.outer(np.diag(H), np.diag(H)) * self.hidden,
            known,
            solved(known, H).T,
            *np.linalg.eigh(weighted(known, H)),
        )

    def given(self, alpha: float, mean: Vector, covariance: np.ndarray) -> tuple[Vector, np.ndarray, float]:
        """Find mean and covariance of m given ``alpha``.

        They come from the ones nearby. The third result is the logarithm of alpha's evidence.
        """
        d, H, u = len(mean), self.curvature, self.doubt
        law, known, trusted, values, vectors = self._fixed
        for _ in range(20):
            way = mean - self.center
            # In a direction that no record has, the covariance is the prior's, but an error of H multiplies nothing.
            own = covariance - alpha * (covariance @ covariance.T)
            noise = law * (np.outer(way, way) + own)
            noise.flat[:: d + 1] = law @ (way**2 + own.diagonal())
            noise += known
            noise += (float(u @ way) ** 2 + float(u @ own @ u)) * np.outer(u, u)
            precision = weighted(noise, H)
            precision.flat[:: d + 1] += alpha
            covariance = inverse(precision.copy())
            step = trusted @ (self.gradient - H @ way) - alpha * mean
            within = mean + vectors @ ((vectors.T @ step) / (values + alpha)) - self.start
            share = 1 - alpha * float(covariance.trace()) / d
            change = self.start + share * (within - alpha * (covariance @ within)) - mean
            mean = mean + change
            if np.abs(change).max() <= 1e-3 * np.sqrt(covariance.diagonal().min()):
                break
        off = self.gradient - H @ (mean - self.center)
        # A column that no record has brings no noise, whatever alpha is.
        told = noise.diagonal() > 0
        logs = d * math.log(alpha) - np.linalg.slogdet(precision)[1] - np.linalg.slogdet(noise[told][:, told])[1]
        return mean, covariance, 0.5 * float(logs - off @ solved(noise, off) - alpha * mean @ mean)


def posterior_given(observed: Observed, prior: tuple[float, float], start: Vector) -> tuple[Vector, np.ndarray, float]:
    """Compute the mean and covariance of m, and the mean alpha.

    Alpha has a Gamma ``prior`` of this shape and rate. The evidence weighs values of alpha. They give a logit a
    standard deviation of 1/2 to 16 under the prior of m. A gradient that says nothing so leaves wide intervals.
    """
    alphas = observed.length**2 / _PRIOR_LOGITS**2
    means, inside, evidence = np.empty((len(alphas), len(start))), [], prior[0] * np.log(alphas) - prior[1] * alphas
    mean, covariance = start, np.zeros((len(start), len(start)))
    for k, alpha in enumerate(alphas):
        mean, covariance, own = observed.given(float(alpha), mean, covariance)
        means[k], evidence[k] = mean, evidence[k] + own + _PRIOR_WEIGHTS[k]
        inside.append(covariance)
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    mean = weight @ means
    apart = np.sqrt(weight)[:, None] * (means - mean)
    covariance = apart.T @ apart + np.einsum("k,kij->ij", weight, np.array(inside))
    return mean, covariance, float(weight @ alphas)


def calibrating_factor(seen: float, variance: float, expected: Sequence[float]) -> Vector:
    """Compute mean and variance of the factor c that calibrates logits, (2,).

    ``seen`` is the average over the steps of m . g. Here g is a step's noised gradient and m the mean read from all
    earlier steps. ``expected`` has its expectation for c in `FACTORS`, and ``variance`` is its own.

    Notes
    -----
    A cautious mean is too short if noise hides the curvature. Its noise is in the gradients that it was read from, so
    these agree with it too well. Noise of later steps is independent of it. So m . g then has the expectation that it
    has at the true coefficients, and c m is calibrated if its expected gradient agrees along m. The factor is the
    posterior mean, log c being N(0, log(2)^2).
    """
    logs = _FACTOR_WEIGHTS - 0.5 * (seen - np.asarray(expected)) ** 2 / max(variance, 1e-300)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    factor = float(weight @ FACTORS)
    return np.array([factor, float(weight @ (FACTORS - factor) ** 2)])


def weighted(noise: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Compute H ``noise``^-1 H, symmetric; see `solved`."""
    root, info = linalg.lapack.dpotrf(noise, lower=1)
    if info:
        product = solved(noise, H).T @ H
        return np.asarray((product + product.T) / 2)
    half, _ = linalg.lapack.dtrtrs(root, H, lower=1)
    return np.asarray(half.T @ half)


def solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system that is positive definite but for rounding.

    Of many solutions take the shortest.

    An absurd scale of the rows can round the matrix to a singular one, when the releases are already made.
    """
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def inverse(matrix: np.ndarray) -> np.ndarray:
    """Invert a positive definite matrix, and overwrite it.

    The inverse is C-ordered and exactly symmetric.

    If rounding has made the matrix indefinite, eigenvalues below its precision are raised to that. A release is spent
    by then, and the model has to be read out of it whatever the noise was.
    """
    diagonal = np.diag(matrix).copy()
    # A symmetric matrix is its own transpose: LAPACK works on the upper triangle in place.
    factor, info = linalg.lapack.dpotrf(matrix.T, lower=0, overwrite_a=1)
    if info == 0:
        factor, info = linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    if info:
        # LAPACK wrote below and on the diagonal; above it the matrix is as it was.
        upper = np.triu(matrix, 1)
        values, vectors = np.linalg.eigh(upper + upper.T + np.diag(diagonal))
        values = np.maximum(values, len(matrix) * np.finfo(float).eps * np.abs(values).max())
        factor = (vectors / values) @ vectors.T
    lower = np.tri(len(factor), k=-1, dtype=bool)
    return np.ascontiguousarray(np.where(lower, factor.T, factor))
