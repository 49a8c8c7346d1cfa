"""Compute the coefficients' posterior given noised statistics of known law.

It is the read-out of the last step.

Everything here is post-processing of released numbers: it costs no privacy. In step t the center is a_t. A record x
with the label y contributes (y - b/2 - <xi> x . a_t) x and <xi> x x^T. Both are times the weight w of its clip, which
depends on x . a_t and |x|. Averages over the steps were released, with noise of known law:

    gradient = sum over steps and records of w (y - b/2 - <xi> x . a_t) x + noise,    matrix = S + noise.

Given coefficients m, the expected value of y - b/2 is b tanh(x . m / 2) / 2. Its sum is no linear function of m, and
the centers of early steps are far from m. So the expected gradient is computed for the steps as they were (`Path`),
with records of a normal law whose second moments give S (`Records`). `second_moment` estimates S from the matrix.

`posterior_given` linearizes statistically (Garcia-Fernandez et al. 2015): the expected gradient and the curvature are
averages over the posterior itself, whose width smooths them. It integrates over the error of S, as Bernstein & Sheldon
(2019) do by sampling for linear regression. It also integrates over alpha, the precision of the prior.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from ...data.types import Vector
from ...kernels.logistic import pg_mean

#: From this many standard deviations of the noise on a positive value is taken as it is seen.
_AS_SEEN = 300.0
#: Nodes of a standard normal, and the weights that give the means of f, f z and f z^2: (nodes, 3).
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = (_WEIGHTS / _WEIGHTS.sum()) * _NODES ** np.arange(3)[:, None]
_WEIGHTS = _WEIGHTS.T
#: Standard deviations of a logit under the prior, and the logarithms of their weights: around 2, by a factor of 2.
_PRIOR_LOGITS = np.geomspace(2.0, 8.0, 5)
_PRIOR_WEIGHTS = -0.5 * np.log2(_PRIOR_LOGITS / 2) ** 2
#: Factors of logits, and the logarithms of their weights: around 1, by a factor of 2.
_FACTORS = np.geomspace(0.25, 8.0, 21)
_FACTOR_WEIGHTS = -0.5 * np.log2(_FACTORS) ** 2
#: By how much, over the curvature, records of another law than a normal one may move the gradient: on Adult .24 to .4.
_OTHER_LAW = 0.4


def second_moment(
    matrix: np.ndarray, noise_sd: float, diagonal_sd: float, constant: bool, about_means: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate S and how uncertain its entries are.

    S is (d, d) and positive definite; the uncertainty is variances of its entries in their own units, (d, d).
    ``matrix`` is S + noise, of standard deviation ``noise_sd`` off the diagonal and ``diagonal_sd`` on it. The last
    column belongs to the ``constant``, if there is one. `positive_moments` has the entries of the diagonal. S_ij is
    sqrt(S_ii S_jj) r_ij with r_ij ~ N(r, t), r and t fitted to all. That is shrinkage toward a common correlation, with
    a noise that is known. The constant's column c has r_ic ~ N(0, t), of a t of its own. With ``about_means`` r_ij ~
    N(r + r_ic r_jc, t): where columns are never negative, independent ones have that; without a constant it says
    nothing. The second result has the posterior variances of r_ij, r_jj being S_jj over its mean.
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
    """Estimate r ~ N(m, t) from noisy values, by EM.

    Returns posterior means and variances, for noise of these variances, t and a ``common`` m.
    """
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
class Path:
    """Centers of the steps, and their shares in the averages.

    ``points`` is (t, d); ``gradient`` and ``matrix``, (t,), are the shares of the steps in the two averages. The
    scales, (t,), and ``kept`` come from `LogisticStatistics`; ``kept`` is infinite if no record is scaled down.
    """

    points: np.ndarray
    gradient: np.ndarray
    matrix: np.ndarray
    scale_linear: np.ndarray
    scale_quadratic: np.ndarray
    kept: float
    n_trials: float

    @property
    def told_at(self) -> np.ndarray:
        """Points that tell the trials of records in each step, (t, d)."""
        return self.points

    def at_centers(self, logits: np.ndarray) -> np.ndarray:
        """Turn logits x . `told_at` into those at the centers, (t, nodes)."""
        return logits

    def trials(self, logits: np.ndarray) -> np.ndarray | float:
        """Give the expected trials of records with these logits."""
        return self.n_trials

    def weighted(self, logits: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute a trial's <xi> and clip weight, by record length.

        ``logits``, (t, nodes), are x . a_t.
        """
        b, xi = self.trials(logits), pg_mean(logits)
        linear, quadratic = length / self.scale_linear[:, None], length**2 / self.scale_quadratic[:, None]
        norms = np.hypot(b * (0.5 + xi * np.abs(logits)) * linear, b * xi * quadratic)
        return xi, self._weight(norms, linear, quadratic)

    def _weight(self, norms: np.ndarray, linear: np.ndarray, quadratic: np.ndarray) -> np.ndarray:
        return np.asarray(np.minimum(1.0, self.kept / np.maximum(norms, 1e-300)))

    def of_gradient(self) -> "Path":
        """Leave out the steps that do not count in the gradient."""
        used = self.gradient > 0
        names = ("points", "gradient", "matrix", "scale_linear", "scale_quadratic")
        return replace(self, **{name: getattr(self, name)[used] for name in names})


@dataclass(frozen=True)
class Records:
    """``n`` records of a normal law.

    It has mean, (d,), and covariance, (d, d), which is 0 for the constant.

    Notes
    -----
    A sum of f(x . a, x . m) x, or of f x x^T, needs the means of f times powers of two standard normals. These are u,
    which is x . a standardized, and v, the part of x . m that does not depend on u. Given both, x is mean + u k + v l
    and a rest that does not depend on them. The rest has the covariance C - k k^T - l l^T.
    """

    n: float
    mean: Vector
    covariance: np.ndarray

    @classmethod
    def of(cls, S: np.ndarray, path: Path, constant: float, n: float) -> "Records":
        """Find the law under which ``path`` gives the matrix S, positive definite.

        The ``constant`` tells the number of records; without one (0) it is ``n``, and the mean is 0.
        """
        total, mean = S * (8 / path.n_trials), np.zeros(len(S))
        for _ in range(30):
            if constant:
                n = float(total[-1, -1]) / constant**2
                mean = total[-1] / (constant * n)
            made = cls(n, mean, total / n - np.outer(mean, mean))
            share, seen = made._matrix_of(path)
            change = (S - seen) / share
            total = total + change
            if np.abs(change).max() <= 1e-8 * np.abs(total).max():
                break
        return made

    @property
    def length(self) -> float:
        """Root mean square length of a record."""
        return math.sqrt(max(float(self.mean @ self.mean + np.trace(self.covariance)), 0.0))

    def spread(self, covariance: np.ndarray) -> float:
        """Mean variance of a logit under this covariance of the coefficients."""
        return max(float(self.mean @ covariance @ self.mean + np.vdot(covariance, self.covariance)), 0.0)

    def _along(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute logits x . a_t at nodes, (t, nodes), and k.

        k has shape (t, d).
        """
        toward = points @ self.covariance
        deviation = np.sqrt(np.maximum(np.einsum("td,td->t", points, toward), 1e-12))[:, None]
        return (points @ self.mean)[:, None] + deviation * _NODES, toward / deviation

    def _sum(self, parts: list[tuple[np.ndarray, np.ndarray]], zeroth: float) -> np.ndarray:
        """Sum f x x^T.

        ``parts`` are pairs of directions whose outer products add to the law's own moments.
        """
        result = zeroth * (self.covariance + np.outer(self.mean, self.mean))
        for left, right in parts:
            result += left.T @ right
        symmetric: np.ndarray = (result + result.T) * (0.5 * self.n)
        return symmetric

    def _matrix_of(self, path: Path) -> tuple[float, np.ndarray]:
        """Mean of w <xi>, and the matrix that the path gives."""
        logits, k = self._along(path.told_at)
        xi, weight = path.weighted(path.at_centers(logits), self.length)
        f = path.matrix[:, None] * ((weight * path.trials(logits) * xi) @ _WEIGHTS)
        share = float(f[:, 0].sum())
        return share, self._sum(
            [((f[:, 2:] - f[:, :1]) * k, k), (2 * (f[:, 1:2] * k), np.tile(self.mean, (len(k), 1)))], share
        )

    def expected(self, path: Path, m: Vector, spread: float) -> tuple[Vector, np.ndarray, np.ndarray]:
        """Compute expected gradient, curvature H and label variance J.

        The curvature is in m, and J is the variance that the labels bring to the gradient.

        Take coefficients around ``m`` under which a logit has the variance ``spread``. These are averages over them of
        the logistic function of a normal variable, by MacKay's (1992) approximation. J is the sum of w^2 p (1 - p) x
        x^T, the middle of the "sandwich" of Huber (1967).
        """
        path = path.of_gradient()
        logits, k = self._along(path.points)
        xi, weight = path.weighted(logits, self.length)
        toward = self.covariance @ m
        shared = k @ m
        own = np.sqrt(np.maximum(m @ toward - shared**2, 1e-12))
        rest = (toward - shared[:, None] * k) / own[:, None]
        v = float(self.mean @ m) + shared[:, None, None] * _NODES[:, None] + own[:, None, None] * _NODES
        smooth = 1 / math.sqrt(1 + math.pi / 8 * spread)
        p, b = expit(smooth * v), path.trials(v)
        slope, w = b * smooth * p * (1 - p), weight[:, :, None]

        def moments(f: np.ndarray) -> np.ndarray:
            """Compute means of f u^i v^j over the nodes.

            They are in the shares of the gradient: (t, 3, 3).
            """
            return np.asarray(path.gradient[:, None, None] * (_WEIGHTS.T @ (f @ _WEIGHTS)))

        def matrix(f: np.ndarray) -> np.ndarray:
            along = f[:, 1, 0, None] * k + f[:, 0, 1, None] * rest
            return self._sum(
                [
                    ((f[:, 2, 0] - f[:, 0, 0])[:, None] * k, k),
                    ((f[:, 0, 2] - f[:, 0, 0])[:, None] * rest, rest),
                    (2 * f[:, 1, 1, None] * k, rest),
                    (2 * along.sum(axis=0)[None], self.mean[None]),
                ],
                float(f[:, 0, 0].sum()),
            )

        f = moments(w * b * (p - 0.5 - (xi * logits)[:, :, None]))
        gradient = f[:, 0, 0].sum() * self.mean + f[:, 1, 0] @ k + f[:, 0, 1] @ rest
        return self.n * gradient, matrix(moments(w * slope)), matrix(moments(w * w * slope))


@dataclass(frozen=True)
class Observed:
    """The released part of the gradient, with its laws.

    ``variance`` is the noise of an entry of the ``gradient``, (d,). ``sampling`` times the curvature is the variance of
    drawing records. ``labels`` corrects J by releases. ``hidden``, (d, d), is the second result of `second_moment`.
    ``start``, (d,), is a cautious estimate, which moved as if the curvature were the largest that there could be.

    Notes
    -----
    Let g be the expected gradient at m, H its curvature and D the error of H. Let a be the average center. The gradient
    is g + D (m - a) + N(0, v I + J + k H). The entries of D are independent, with the variances h_ij = H_ii H_jj
    ``hidden``_ij. So D (m - a) is further noise. Its covariance has sum_j h_ij E_jj on the diagonal and h_ij E_ij
    elsewhere. Here E is (m - a) (m - a)^T at the mean, and the variance that m has from the data: C - alpha C C, if C
    is its covariance. The longer the way from a, the less the gradient says.
    The mean is s + f K (K + alpha)^-1 (m' - s). Here s is ``start``, m' is the posterior mean without D, and K + alpha
    the precision with it. And f = tr(K (K + alpha)^-1) / d is the share of the directions that are known. So the prior
    shrinks toward 0 if noise hides an effect, but toward s if noise hides the curvature: this ranks records better.
    """

    records: Records
    path: Path
    gradient: Vector
    variance: float
    sampling: float
    hidden: np.ndarray
    start: Vector
    labels: Callable[[np.ndarray], np.ndarray] = lambda expected: expected

    def given(self, alpha: float, mean: Vector, covariance: np.ndarray) -> tuple[Vector, np.ndarray, float]:
        """Find mean and covariance of m given ``alpha``.

        They come from the ones nearby. The third result is the logarithm of alpha's evidence.
        """
        d, center = len(mean), self.path.gradient @ self.path.points
        for step in range(20):
            expected, H, J = self.records.expected(self.path, mean, self.records.spread(covariance))
            J = self.labels(J)
            scale, way = np.diag(H), mean - center
            law = scale[:, None] * scale * self.hidden
            # In a direction that no record has, the covariance is the prior's, but an error of H multiplies nothing.
            own = covariance - alpha * (covariance @ covariance)
            error = law * (np.outer(way, way) + own)
            error.flat[:: d + 1] = law @ (way**2 + own.diagonal())
            known = J + self.sampling * H + self.variance * np.eye(d)
            # Were the curvature known; and as it is.
            trusted, noise = _solved(known, H).T, known + error
            sure, precision = ((one + one.T) / 2 + alpha * np.eye(d) for one in (trusted @ H, _solved(noise, H).T @ H))
            covariance = np.linalg.inv(precision)
            covariance = (covariance + covariance.T) / 2
            within = mean + _solved(sure, trusted @ (self.gradient - expected) - alpha * mean) - self.start
            share = 1 - alpha * float(covariance.trace()) / d
            change = self.start + share * (within - alpha * (covariance @ within)) - mean
            # Shorter steps end a cycle; none goes where the logistic function is flat.
            reach = math.sqrt(self.records.spread(np.outer(change, change)))
            change *= min(1.0 if step < 5 else 0.6, 2 / max(reach, 1e-300))
            mean = mean + change
            if np.abs(change).max() <= 1e-3 * np.sqrt(covariance.diagonal().min()):
                break
        off = self.gradient - expected
        # A column that no record has brings no noise, whatever alpha is.
        told = noise.diagonal() > 0
        logs = d * math.log(alpha) - np.linalg.slogdet(precision)[1] - np.linalg.slogdet(noise[told][:, told])[1]
        return mean, covariance, 0.5 * float(logs - off @ _solved(noise, off) - alpha * mean @ mean)


def posterior_given(observed: Observed, prior: tuple[float, float], start: Vector) -> tuple[Vector, np.ndarray]:
    """Compute the mean and covariance of m.

    Alpha has a Gamma ``prior`` of this shape and rate. The evidence weighs values of alpha. They give a logit a
    standard deviation of 1/2 to 16 under the prior of m. A gradient that says nothing so leaves wide intervals.
    """
    alphas = observed.records.length**2 / _PRIOR_LOGITS**2
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
    return mean, apart.T @ apart + np.einsum("k,kij->ij", weight, np.array(inside))


def calibrating_factor(
    seen: float, variance: float, expected: Callable[[float], tuple[float, float]], curvature: float
) -> Vector:
    """Compute mean and variance of the factor that calibrates logits, (2,).

    ``seen`` is the average over the steps of m . g. Here g is a step's noised gradient and m the mean read from all
    earlier steps; ``variance`` is its noise's. ``expected`` gives mean and variance of m . g without noise if the
    logits have a factor, and ``curvature`` is m . H m.

    Notes
    -----
    A cautious mean is too short if noise hides the curvature. Its noise is in the gradients that it was read from, so
    these agree with it too well. Noise of later steps is independent of it. So m . g then has the expectation that it
    has at the true coefficients. And c m is calibrated if its expected gradient agrees along m. The factor c is the
    posterior mean, log c being N(0, log(2)^2). A difference that records of another law could explain says nothing.
    """
    apart, allowed = seen - expected(1.0)[0], _OTHER_LAW * curvature
    seen -= min(max(apart, -allowed), allowed)
    logs = _FACTOR_WEIGHTS.copy()
    for k, factor in enumerate(_FACTORS.tolist()):
        mean, spread = expected(factor)
        logs[k] -= 0.5 * (seen - mean) ** 2 / max(variance + spread, 1e-300)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    factor = float(weight @ _FACTORS)
    return np.array([factor, float(weight @ (_FACTORS - factor) ** 2)])


def factor_by_law(records: Records, path: Path, along: Vector, sampling: float) -> Vector:
    """Compute `calibrating_factor` for records of a normal law.

    ``along`` has the averages over the steps of m . g, of its noise's variance, and of m. ``sampling`` is as in
    `Observed`.
    """
    mean = along[2:]

    def expected(factor: float) -> tuple[float, float]:
        gradient, H, J = records.expected(path, factor * mean, 0.0)
        return float(mean @ gradient), float(mean @ (J + sampling * H) @ mean)

    curvature = float(mean @ records.expected(path, mean, 0.0)[1] @ mean)
    return calibrating_factor(float(along[0]), float(along[1]), expected, curvature)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a system that is positive definite but for rounding.

    Of many solutions take the shortest.

    An absurd scale of the rows can round the matrix to a singular one, when the releases are already made.
    """
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
