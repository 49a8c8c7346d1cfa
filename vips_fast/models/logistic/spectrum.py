"""Eigenvalues of a noised symmetric matrix, by the known law of the noise: how far a step may go."""

import math
from collections.abc import Mapping

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import erfcx

from ...engine.model import array_of

#: Above this dimension eigenvectors come from Lanczos iterations.
LARGE = 512

#: Nodes and weights of the expectation of a function of a standard normal.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Spectrum:
    """The eigenvalues of a noised symmetric matrix S, with bounds.

    The known law of its noise gives them.

    The noise is symmetric with independent normal entries of standard deviation s off the diagonal: its eigenvalues
    fill [-2 s sqrt(d), 2 s sqrt(d)] (Wigner). S is of low rank, or that plus c I. Take an eigenvalue c + L with L > s
    sqrt(d). It shows as v = c + L + s^2 d / L > c + 2 s sqrt(d), and its eigenvector as one with squared overlap 1 -
    s^2 d / L^2 with the true one. A smaller L does not show (Benaych-Georges & Nadakuditi 2011). So the eigenvalues
    above the edge are de-biased: L = (v - c + sqrt((v - c)^2 - 4 s^2 d))/2. All others could be up to s sqrt(d) or c,
    with the mean that the trace leaves.

    A c below s sqrt(d) is hidden, and one above 6 s sqrt(d) shows as it is: both are taken for 0. Between them noise
    lowers eigenvalues c to near or under the edge. With c = 0 steps along them would be up to three times as long as
    they should be, and twice is unstable already. The number c is the median eigenvalue. Above LARGE it is the median
    of those that show if most do, or else the mean of the others.

    ``vectors``, (d, k), are the eigenvectors that show. ``upper``, (k,), and ``bulk_upper`` are the largest eigenvalue
    there could be, along them and elsewhere, which a step may not ignore. ``likely``, (k,), and ``bulk_likely`` are the
    estimate of v^T S v along them and elsewhere.
    """

    def __init__(self, matrix: np.ndarray, noise_sd: float):
        d = len(matrix)
        if noise_sd == 0:
            values, vectors = np.linalg.eigh(matrix)
            self.vectors = np.ascontiguousarray(vectors)
            self.upper = self.likely = np.maximum(values, 0.0)
            self.bulk_upper = self.bulk_likely = 0.0
            return
        hidden = noise_sd * math.sqrt(d)
        edge = 2 * hidden
        if d <= LARGE:
            values, vectors = np.linalg.eigh(matrix)
            usual = _usual(float(values[(d - 1) // 2] + values[d // 2]) / 2, hidden)
        else:
            values, vectors = _above(matrix, edge)
            rest = (np.trace(matrix) - values.sum()) / max(d - len(values), 1)
            usual = _usual(float(np.median(values) if 2 * len(values) > d else rest), hidden)
        shown = values > usual + edge
        values, self.vectors = values[shown], np.ascontiguousarray(vectors[:, shown])
        excess = (values - usual + np.sqrt((values - usual) ** 2 - edge**2)) / 2
        self.upper, self.bulk_upper = usual + excess, max(hidden, usual)
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
        """Restore a `state`, bit for bit.

        ValueError if an array is not of this dimension.
        """
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
        """Estimate S: ``likely`` along the vectors, elsewhere diagonal.

        The noised diagonal tells the diagonal as far as it can.

        An entry of the diagonal has noise of ``diagonal_sd`` only, far less than the edge of the spectrum. Its estimate
        is the posterior mean under an exponential prior with the mean ``bulk_likely``.
        """
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
    """Compute the posterior mean of a nonnegative value.

    It has an exponential prior, and is seen with normal noise.

    ``noise_sd`` and ``prior_mean`` are above 0, and so is the mean.
    """
    # A normal with this mean, cut off below 0; phi/Phi(z) = sqrt(2/pi) / erfcx(-z/sqrt(2)).
    z = (np.asarray(observed) - noise_sd**2 / prior_mean) / noise_sd
    far = z < -1e3
    with np.errstate(over="ignore"):
        mean = z + math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
    return noise_sd * np.where(far, -1 / np.where(far, z, -1.0), np.maximum(mean, 0.0))


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


def _usual(value: float, hidden: float) -> float:
    """Take the eigenvalue of most directions, or 0 if unneeded.

    Steps may need it; see `Spectrum`.
    """
    return value if hidden < value < 6 * hidden else 0.0


def _above(matrix: np.ndarray, edge: float) -> tuple[np.ndarray, np.ndarray]:
    """Find eigenvalues above ``edge`` with their vectors, by Lanczos.

    There are few if the dimension is large.
    """
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
