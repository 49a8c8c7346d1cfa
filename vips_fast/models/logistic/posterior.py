"""The posterior of the coefficients given noised statistics whose law is known: the read-out of the last step.

Everything here is post-processing of released numbers: it costs no privacy. What was released says

    gradient = H (m - at) + N(0, v I + J),    matrix = S + noise of known law,

with S = sum of w <xi> x x^T over the records, their weights w being those of the clip, and three things that are not
released and follow from what is:

- H = sum of w p (1 - p) x x^T, the curvature of the weighted likelihood, and J = sum of w^2 p (1 - p) x x^T, the
  variance of the labels in the gradient (the "sandwich" of Huber 1967): `Curvature`.
- S itself, of which the noise hides a part: `second_moment`.
- alpha, the precision of the prior, whose q(alpha) is a Gamma distribution.

`posterior_given` integrates over alpha and the error of H, as Bernstein & Sheldon (2019) do by sampling for linear
regression, where H is the matrix itself.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, gammaincinv

from ...data.types import Vector
from ...kernels.logistic import pg_mean
from .spectrum import NODES, WEIGHTS

#: Nodes of alpha's distribution, at quantiles.
_ALPHA_NODES = 7
#: Nodes and weights of the posterior's own spread of a logit.
INNER, INNER_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
INNER_WEIGHTS = INNER_WEIGHTS / INNER_WEIGHTS.sum()
#: Standard deviations of the noise from which a positive value is taken as it is seen.
_AS_SEEN = 300.0
#: Square of the posterior's spread over the logits' beyond which the mean does not trust the curvature.
_FAR = 0.05


def second_moment(
    matrix: np.ndarray, noise_sd: float, diagonal_sd: float, constant: bool, about_means: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate S and how uncertain its entries are.

    S is (d, d) and positive definite; the uncertainty is variances of its entries in their own units, (d, d).
    ``matrix`` is S + noise, of standard deviation ``noise_sd`` off the diagonal and ``diagonal_sd`` on it; the last
    column is that of the ``constant``, if there is one. Entries of the diagonal are those of `positive_moments`; S_ij
    is sqrt(S_ii S_jj) r_ij with r_ij ~ N(r, t), r and t fitted to all: shrinkage toward a common correlation, with a
    noise that is known. The constant's column c has r_ic ~ N(0, t), of a t of its own. With ``about_means`` r_ij ~ N(r
    + r_ic r_jc, t): where columns are never negative, independent ones have that; without a constant it says nothing.
    The second result has the posterior variances of r_ij, r_jj being S_jj over its mean.
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
        center = np.outer(r[:k, -1], r[:k, -1])[pairs] if about_means and k < d else 0.0
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
    """Posterior means and variances of r ~ N(m, t) seen with noise of these variances, t and a ``common`` m by EM."""
    weight = (noise + np.median(noise)) ** -2.0
    mean = float(np.average(seen, weights=1 / noise)) if common else 0.0
    t = max(float((weight * ((seen - mean) ** 2 - noise)).sum() / weight.sum()), 0.0)
    for _ in range(30):
        if common:
            mean = float(np.average(seen, weights=1 / (t + noise)))
        trust = t / (t + noise)
        t = float(np.mean((trust * (seen - mean)) ** 2 + trust * noise))
    trust = t / (t + noise)
    return mean + trust * (seen - mean), trust * noise


def positive_moments(seen: np.ndarray, noise_sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Estimate positive values seen with noise: means and variances, (d,).

    Their prior is fitted to all of them: the weights of points from a fiftieth of the noise to above the largest value
    (Kiefer & Wolfowitz's maximum likelihood, by EM), so that many small values among few large ones are known as small.
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
class Weighting:
    """How a record was weighted in the last step, as far as its logit a and its length say it.

    ``scale_linear``, ``scale_quadratic`` and ``kept`` are those of `LogisticStatistics`, ``kept`` infinite where no
    record is scaled down; ``start`` is the share in S of the first step, whose <xi> is b/4 and whose weights are 1.
    """

    scale_linear: float
    scale_quadratic: float
    kept: float
    n_trials: float
    start: float

    def of(self, size: np.ndarray, xi: np.ndarray, length: float) -> np.ndarray:
        """Weights of records of this length whose residual may be as large as ``size``."""
        norms = np.hypot(size * (length / self.scale_linear), xi * (length * length / self.scale_quadratic))
        return np.minimum(1.0, self.kept / np.maximum(norms, 1e-300))

    def trials(self, a: np.ndarray, wide: float) -> tuple[Any, Any]:
        """Average the trials, and trials p (1 - p), over logits N(a, wide^2)."""
        p = expit(a[:, None] + wide * INNER)
        return self.n_trials, self.n_trials * ((p * (1 - p)) @ INNER_WEIGHTS)


@dataclass(frozen=True)
class Curvature:
    """What follows from S for the likelihood's own curvature, at a posterior N(mean, covariance).

    ``local``, (d, d), is H, averaged over the posterior, and ``labels`` J; ``far``, in [0, 1], says how much of the
    logits' range the posterior covers.

    Notes
    -----
    The logits a = x . mean of the records are taken to be N(a0, s^2), their spread under the posterior of m to be
    N(0, c^2), and the rest of x to be a linear function of a and independent of it otherwise. Then every sum f(a) x x^T
    is, with B = S U for U = (e_c / x_c, mean), e_c being the direction of the constant x_c, and E = U^T S U,

        (F_0 / E_0) (S - B E^-1 B^T) + B E^-1 [[F_0, F_1], [F_1, F_2]] E^-1 B^T,    F_k = sum of f(a) a^k.

    Across the logits H/S is E[w p (1 - p)] / E[w <xi>]; along them both are weighted by a^2, where p (1 - p) is
    smaller: at s = 2.5 the ratios are 0.73 and 0.34. a0, s and c come from E and tr(covariance S). For f = w <xi> the
    formula gives S, whatever the law of the logits is.
    """

    local: np.ndarray
    labels: np.ndarray
    far: float

    @classmethod
    def of(
        cls, S: np.ndarray, mean: np.ndarray, covariance: np.ndarray, constant: float, n: float, weighting: Weighting
    ) -> Self:
        """From S, positive definite; without a ``constant`` (0) logits have the mean 0, and ``n`` records give S."""
        size = float(mean @ S @ mean)
        directions = [mean] if size > 0 else []
        if constant:
            first = np.zeros(len(S))
            first[-1] = 1 / constant
            directions.insert(0, first)
            # A mean along the constant alone is no second direction: all logits are the same then.
            if size > 0 and (first @ S @ mean) ** 2 > (1 - 1e-9) * size * float(first @ S @ first):
                directions.pop()
        mass = float(S[-1, -1]) / constant**2 if constant else 0.0
        first_moment = float(S[-1] @ mean) / constant if constant else 0.0
        spread, trace = float(np.vdot(covariance, S)), float(np.trace(S))
        (of_s, of_h, of_j), far = _fit_logits(mass, first_moment, size, spread, trace, n, weighting)
        unit = (mass or n * of_s[0]) / of_s[0]
        if not directions:
            return cls(of_h[0] / of_s[0] * S, of_j[0] / of_s[0] * S, far)
        U = np.stack(directions, axis=1)
        B = S @ U
        half = np.linalg.solve(U.T @ B, B.T)
        rest = S - B @ half

        def full(f: np.ndarray) -> np.ndarray:
            inside = np.array([[f[0], f[1]], [f[1], f[2]]])
            if len(half) < 2:
                inside = inside[:1, :1] if constant else inside[1:, 1:]
            result = (f[0] / of_s[0]) * rest + unit * (half.T @ inside @ half)
            symmetric: np.ndarray = (result + result.T) / 2
            return symmetric

        return cls(full(of_h), full(of_j), far)


def _fit_logits(
    mass: float, first: float, second: float, spread: float, trace: float, n: float, weighting: Weighting
) -> tuple[np.ndarray, float]:
    """Fit the law of the logits.

    Gives, for f = w <xi>, w p (1 - p) and w^2 p (1 - p), the means of f, f a, f a^2; and ``far``. Takes the sums of
    f, f a, f a^2, f (x^T covariance x) and f |x|^2 for f = w <xi>; a ``mass`` of 0 is unknown.
    """
    start = weighting.start
    total = mass or n * weighting.n_trials / 8
    center, scale = first / total, 1.0
    for rounds in range(61):
        wide = math.sqrt(max(spread, 0.0) / total)
        a = center + scale * NODES
        b, slope = weighting.trials(a, wide)
        xi = pg_mean(np.hypot(a, wide)) * b
        w = weighting.of(b / 2 + xi * np.abs(a), xi, math.sqrt(trace / total))
        seen = start * b / 4 + (1 - start) * w * xi
        powers = WEIGHTS * np.stack([np.ones_like(a), a, a * a])
        moments = np.stack([powers @ seen, powers @ (w * slope), powers @ (w * w * slope)])
        if rounds == 60:
            break
        # The next law has the first two moments under f that S says.
        m, target = moments[0] / moments[0, 0], second / total
        change = first / total - m[1] if mass else 0.0
        have, want = m[2] - m[1] ** 2 if mass else m[2], target - (first / total) ** 2 if mass else target
        factor = math.sqrt(max(want, 1e-12) / max(have, 1e-300))
        if abs(change) + abs(factor - 1) < 1e-10:
            break
        center, scale = center + change, min(scale * factor, 30.0)
        total = mass or n * float(moments[0, 0])
    return moments, wide**2 / (wide**2 + _FAR * scale**2)


def along_logits(
    curvature: Curvature, mean: Vector, gradient: Vector, at: Vector, variance: float, sampling: float, alpha: float
) -> Vector:
    """Scale ``mean``, (d,), by a factor from the averages and the prior.

    All other directions are fixed.
    Along the mean the curvature falls fastest, so that averages over steps that were on their way reach it last, and
    there it is known best. Where the posterior covers much of the logits' range (`Curvature.far`) the local curvature
    along them is that of nowhere in particular, a step by its inverse goes too far, and the mean stays.
    """
    toward = curvature.local @ mean
    h, length = float(mean @ toward), float(mean @ mean)
    noise = variance * length + float(mean @ curvature.labels @ mean) + sampling * h
    if not (h > 0 and noise > 0):
        return mean
    trust = h / noise
    step = trust * float(mean @ gradient + toward @ (at - mean)) - alpha * length
    return mean * (1 + (1 - curvature.far) * step / (trust * h + alpha * length))


def posterior_given(
    curvature: Curvature,
    hidden: np.ndarray,
    error: np.ndarray,
    gradient: Vector,
    at: Vector,
    variance: float,
    sampling: float,
    alpha: tuple[float, float],
) -> tuple[Vector, np.ndarray]:
    """Compute the mean and covariance of m given a noised gradient.

    ``variance`` is the noise of an entry of the gradient. ``sampling`` times the curvature is the variance of drawing
    records. ``hidden``, (d, d), is the second result of `second_moment`. ``error``, (d, d), is the expected (m - at)
    (m - at)^T so far. ``alpha`` has the shape and rate of q(alpha).

    Notes
    -----
    With H the curvature and D its error, the gradient is H (m - at) + D (m - at) + N(0, v I + J + k H). The entries of
    D are independent, with the variances h_ij = H_ii H_jj ``hidden``_ij. So D (m - at) is further noise: its
    covariance has sum_j h_ij E_jj on the diagonal and h_ij E_ij elsewhere, E being ``error``. The longer the way from
    ``at``, the less the gradient says. Given alpha the posterior is normal, and alpha follows q(alpha).
    """
    shape, rate = alpha
    alphas = np.maximum(gammaincinv(shape, (np.arange(_ALPHA_NODES) + 0.5) / _ALPHA_NODES) / rate, 1e-300)
    H, scale = curvature.local, np.diag(curvature.local)
    law = scale[:, None] * scale * hidden
    noise = law * error + curvature.labels + sampling * H
    noise.flat[:: len(H) + 1] = law @ np.diag(error) + np.diag(curvature.labels) + sampling * scale + variance
    trusted = _solved(noise, H).T
    precision = trusted @ H
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    # (d, alphas): variances along the eigenvectors, and means.
    given = 1 / (np.maximum(values, 0.0)[:, None] + alphas)
    means = given * (vectors.T @ (trusted @ (gradient + H @ at)))[:, None]
    mean = means.mean(axis=1)
    apart = (means - mean[:, None]) / math.sqrt(_ALPHA_NODES)
    covariance = vectors @ (np.diag(given.mean(axis=1)) + apart @ apart.T) @ vectors.T
    return vectors @ mean, (covariance + covariance.T) / 2


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system that is positive definite but for rounding; of many solutions take the shortest.

    An absurd scale of the rows can round the matrix to a singular one, when the releases are already made.
    """
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
