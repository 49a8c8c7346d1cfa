"""What the known law of its noise says about a noised symmetric matrix, and about a curvature."""

import math
from collections.abc import Mapping

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import erfcx, expit

from ...engine.model import array_of
from ...kernels.logistic import pg_mean

#: Above this dimension eigenvectors come from Lanczos iterations.
LARGE = 512

#: Nodes and weights of the expectation of a function of a standard normal.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

#: The curvature of the likelihood over that of its Polya-Gamma bound is never taken to be less than this: a Newton step
#: is then at most 1/0.55 < 2 of a step that is safe in every direction.
LEAST_CURVATURE = 0.55


class Spectrum:
    """What the known law of its noise says about the eigenvalues of a noised symmetric matrix S + noise.

    Up to the dimension LARGE, ``moment`` is `second_moment`'s estimate, and ``upper`` are the eigenvalues of that plus
    a diagonal for what may be hidden. In units of the estimate's diagonal the error of each row has the sum of
    variances ``spread``, so that its eigenvalues are at most twice the root of that. Half of them is added: a step that
    divides by the result is then at most twice as long as a Newton step, which is stable.

    Above LARGE, S less the median c of its diagonal is taken to be of low rank, and c is 0 here. The noise is
    symmetric with independent normal entries of standard deviation s off the diagonal: its eigenvalues fill [-2 s
    sqrt(d), 2 s sqrt(d)] (Wigner). An eigenvalue L > s sqrt(d) of S shows as v = L + s^2 d / L > 2 s sqrt(d), and its
    eigenvector as one with squared overlap 1 - s^2 d / L^2 with the true one; a smaller L does not show
    (Benaych-Georges & Nadakuditi 2011). So the eigenvalues above the edge are de-biased, L = (v + sqrt(v^2 - 4 s^2
    d))/2, and all others could be up to s sqrt(d), with the mean that the trace leaves.

    ``vectors``, (d, k), are the eigenvectors of what shows; ``upper``, (k,), and ``bulk_upper`` the largest eigenvalue
    there could be, along them and elsewhere: what a step may not ignore; ``likely``, (k,), and ``bulk_likely`` the
    estimate of v^T S v along them and elsewhere.
    """

    #: The estimate of S up to the dimension LARGE.
    moment: np.ndarray | None = None

    def __init__(self, matrix: np.ndarray, noise_sd: float, diagonal_sd: float, constant: bool):
        d = len(matrix)
        if d <= LARGE or noise_sd == 0:
            self.moment, spread = second_moment(matrix, noise_sd, diagonal_sd, constant)
            cautious = self.moment.copy()
            cautious.flat[:: d + 1] += np.sqrt(spread) * np.diag(self.moment)
            values, vectors = np.linalg.eigh(cautious)
            self.vectors = np.ascontiguousarray(vectors)
            self.upper = self.likely = np.maximum(values, 0.0)
            if noise_sd > 0:
                self.likely = np.einsum("ij,ij->j", vectors, self.moment @ vectors)
            self.bulk_upper = self.bulk_likely = 0.0
            return
        hidden = noise_sd * math.sqrt(d)
        edge = 2 * hidden
        usual = max(float(np.median(np.diag(matrix))), 0.0)
        shifted = matrix.copy()
        shifted.flat[:: d + 1] -= usual
        values, vectors = _above(shifted, edge)
        self.vectors = np.ascontiguousarray(vectors)
        excess = (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2
        self.upper, self.bulk_upper = usual + excess, usual + hidden
        left = float(np.trace(matrix) - self.upper.sum()) / max(d - len(values), 1)
        self.bulk_likely = min(max(left, 0.0), self.bulk_upper) if len(values) < d else 0.0
        overlap = 1 - (hidden / excess) ** 2
        self.likely = overlap * self.upper + (1 - overlap) * self.bulk_likely

    def state(self) -> dict[str, np.ndarray]:
        """List the arrays for `from_state`."""
        return {
            "vectors": self.vectors.copy(),
            "eigenvalues": np.stack([self.upper, self.likely]),
            "bulk": np.array([self.bulk_upper, self.bulk_likely]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray], d: int) -> "Spectrum":
        """Restore a `state`, bit for bit; ValueError if an array is not one of this dimension."""
        self = cls.__new__(cls)
        self.vectors = array_of(state, "vectors")
        if self.vectors.ndim != 2 or len(self.vectors) != d or self.vectors.shape[1] > d:
            raise ValueError(f"state: 'vectors' has shape {self.vectors.shape}, expected ({d}, at most {d})")
        self.upper, self.likely = array_of(state, "eigenvalues", (2, self.vectors.shape[1]))
        self.bulk_upper, self.bulk_likely = array_of(state, "bulk", (2,)).tolist()
        return self

    def apply(self, top: np.ndarray, bulk: float, vector: np.ndarray) -> np.ndarray:
        """Multiply the matrix with these eigenvalues and a vector."""
        product: np.ndarray = bulk * vector + self.vectors @ ((top - bulk) * (self.vectors.T @ vector))
        return product

    def likely_matrix(self, matrix: np.ndarray, diagonal_sd: float) -> np.ndarray:
        """Estimate of S: `second_moment`'s, or ``likely`` along the vectors and diagonal elsewhere.

        An entry of the diagonal has noise of ``diagonal_sd`` only, far less than the edge of the spectrum. Its estimate
        is the posterior mean under an exponential prior with the mean ``bulk_likely``.
        """
        if self.moment is not None:
            return self.moment.copy()
        shown: np.ndarray = (self.vectors * self.likely) @ self.vectors.T
        rest = nonnegative_mean(np.diag(matrix), diagonal_sd, max(self.bulk_likely, 1e-3 * diagonal_sd))
        rest = np.maximum(rest - np.diag(shown), 0.0)
        # (I - V V^T) rest (I - V V^T)
        inside = self.vectors.T * rest
        half = self.vectors @ (inside - 0.5 * (inside @ self.vectors) @ self.vectors.T)
        shown -= half
        shown -= half.T
        shown.flat[:: len(shown) + 1] += rest
        return shown

    def matrix(self, top: np.ndarray, bulk: float) -> np.ndarray:
        """Compute the matrix with these eigenvalues."""
        result: np.ndarray = (self.vectors * (top - bulk)) @ self.vectors.T
        result += result.T
        result *= 0.5
        result.flat[:: len(result) + 1] += bulk
        return result


def nonnegative_mean(observed: np.ndarray, noise_sd: float, prior_mean: float) -> np.ndarray:
    """Posterior mean of a value with an exponential prior that is seen with normal noise.

    ``noise_sd`` and ``prior_mean`` are above 0, and so is the mean.
    """
    # A normal with this mean, cut off below 0; phi/Phi(z) = sqrt(2/pi) / erfcx(-z/sqrt(2)).
    z = (np.asarray(observed) - noise_sd**2 / prior_mean) / noise_sd
    far = z < -1e3
    with np.errstate(over="ignore"):
        mean = z + math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
    return noise_sd * np.where(far, -1 / np.where(far, z, -1.0), np.maximum(mean, 0.0))


def inverse(matrix: np.ndarray) -> np.ndarray:
    """Inverse of a positive definite matrix, which is overwritten; C-ordered and exactly symmetric.

    Where rounding has made the matrix indefinite, eigenvalues below its precision are raised to that: a release is
    spent by then, and the model has to be read out of it whatever the noise was.
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
    upper = np.triu(factor)
    return np.ascontiguousarray(upper + np.triu(upper, 1).T)


def _above(matrix: np.ndarray, edge: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues above ``edge`` with their vectors, by Lanczos: few are there where the dimension is large."""
    d, k = len(matrix), 4
    while k < d // 8:
        try:
            # 1e-4 of the eigenvalue: far below its noise.
            values, vectors = eigsh(matrix, k, which="LA", tol=1e-4, v0=np.ones(d))
        except ArpackNoConvergence:
            break
        if values.min() <= edge:
            return values[values > edge], vectors[:, values > edge]
        k *= 3
    values, vectors = linalg.eigh(matrix, subset_by_value=(edge, math.inf), driver="evr")
    return values, vectors


def curvature_ratio(moment: float, n_trials: float) -> float:
    """Curvature of the likelihood over that of its Polya-Gamma bound, for logits of a given size.

    The bound's curvature b tanh(a/2)/(2a) is above the likelihood's, b p (1 - p), for every logit a but 0. The ratio of
    their means is taken over a ~ N(0, c^2), c being the solution of b c tanh(c/2)/2 = moment, where moment = sum_n
    <xi_n> a_n^2 / n is known from released numbers: tr(<m m^T> S) / n.

    Returns a number in [0.55, 1].
    """
    # c tanh(c/2)/2 = v is solved by c between sqrt(4 v) (small) and 2 v + 2 (large); Newton from above.
    v = max(moment, 0.0) / n_trials
    c = 2 * v + 2
    for _ in range(60):
        t = math.tanh(c / 2)
        change = (c * t / 2 - v) / (t / 2 + c * (1 - t * t) / 4)
        c -= change
        if abs(change) <= 1e-12 * c:
            break
    if c > 6:
        # The ratio is below 0.5 here, and too narrow a function of a for the nodes.
        return LEAST_CURVATURE
    a = c * np.abs(NODES)
    p = expit(a)
    return max(LEAST_CURVATURE, float(WEIGHTS @ (p * (1 - p)) / (WEIGHTS @ pg_mean(a))))


def second_moment(
    matrix: np.ndarray, noise_sd: float, diagonal_sd: float, constant: bool, about_means: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate of S, (d, d), positive definite, and how uncertain it is, (d,): variances in its own units.

    ``matrix`` is S + noise, of standard deviation ``noise_sd`` off the diagonal and ``diagonal_sd`` on it; the last
    column is that of the ``constant``, if there is one. Entries of the diagonal are those of `positive_moments`; S_ij
    is sqrt(S_ii S_jj) r_ij with r_ij ~ N(r, t), r and t fitted to all: shrinkage toward a common correlation, with a
    noise that is known. The constant's column c has r_ic ~ N(0, t), of a t of its own. With ``about_means`` r_ij ~ N(r
    + r_ic r_jc, t): where columns are never negative, independent ones have that; without a constant it says nothing.
    The second result is, for each j, the sum over i of the posterior variances of r_ij, r_jj being S_jj over its mean.
    """
    d = len(matrix)
    if noise_sd == 0:
        return matrix.copy(), np.zeros(d)
    k = d - 1 if constant and d > 1 else d
    seen = np.diag(matrix)
    diagonal, uncertain = np.maximum(seen, noise_sd), np.zeros(d)
    diagonal[:k], uncertain[:k] = positive_moments(seen[:k], diagonal_sd)
    scale = np.sqrt(np.outer(diagonal, diagonal))
    seen, noise = matrix / scale, (noise_sd / scale) ** 2
    r, variance_of_r = np.eye(d), np.zeros((d, d))
    if k < d:
        r[:k, k], variance_of_r[:k, k] = _shrink(seen[:k, k], noise[:k, k])
        r[k], variance_of_r[k] = r[:, k], variance_of_r[:, k]
    pairs = np.triu_indices(k, 1)
    if len(pairs[0]):
        center = np.outer(r[:k, -1], r[:k, -1])[pairs] if about_means and k < d else 0.0
        found, variance_of_r[pairs] = _shrink(seen[pairs] - center, noise[pairs], common=True)
        r[pairs] = found + center
        r.T[pairs], variance_of_r.T[pairs] = r[pairs], variance_of_r[pairs]
    spread = variance_of_r.sum(axis=1) + uncertain / diagonal**2
    values, vectors = np.linalg.eigh(r)
    # What the noise can hide, and no more, keeps the matrix from being singular.
    values = np.maximum(values, max(min(0.1, float(spread.mean())), 1e-9 * values[-1]))
    r = (vectors * values) @ vectors.T
    return (r + r.T) * (0.5 * scale), spread


def _shrink(seen: np.ndarray, noise: np.ndarray, common: bool = False) -> tuple[np.ndarray, np.ndarray]:
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
    """Posterior means and variances, (d,), of positive values that are seen with normal noise of ``noise_sd`` > 0.

    Their prior is fitted to all of them: the weights of points from a fiftieth of the noise to above the largest value
    (Kiefer & Wolfowitz's maximum likelihood, by EM), so that many small values among few large ones are known as small.
    """
    points = np.geomspace(0.02 * noise_sd, 1.1 * max(float(seen.max()), 5 * noise_sd), 60)
    log = -0.5 * ((seen[:, None] - points) / noise_sd) ** 2
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weight = np.full(len(points), 1 / len(points))
    for _ in range(40):
        shares = likelihood * weight
        weight = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0) + 1e-12
    shares = likelihood * weight
    shares /= shares.sum(axis=1, keepdims=True)
    mean = shares @ points
    return mean, np.maximum(shares @ points**2 - mean**2, 0.0)
