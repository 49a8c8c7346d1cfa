"""Read out a network's published arrays, and draw records.

The arrays say something of records. All of it is post-processing.
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import expit, ndtri

from ...accounting.solver import halve_brackets
from ...data.types import Bits, Vector
from ...kernels.psd import psd_project
from ...kernels.sbn import record_blocks, sbn_pg
from ...kernels.threads import one_blas_thread

#: Thresholds and a factor; see `thresholded_normal`.
Normal = tuple[np.ndarray, np.ndarray]

#: Sweeps of the read-outs, which start afresh and are not part of a release.
READ_SWEEPS = 12

#: Records whose Polya-Gamma means are in memory at a time.
_SCORED = 4096

#: Correlations of the normals stay within the sine of this, and their matrix' eigenvalues above the second.
_WIDEST, _LEAST_EIGENVALUE = math.asin(0.99), 1e-3

#: Rounds of halving: angles to 10^-9.
_HALVINGS = 32

#: Nodes of the integral over the angle; values to 10^-8 for probabilities between .02 and .98.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

#: Pairs of units whose angles are found at a time.
_PAIRS = 2**14


def _visible_variance(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute posterior variances of visible biases, if the bound has them."""
    return arrays.get("visible_variance", np.zeros(len(arrays["visible_bias"])))


def polya_gamma_means(Y: np.ndarray, arrays: Mapping[str, np.ndarray], dtype: str, n_threads: int) -> np.ndarray:
    """Compute q(z = 1) of binary records under the Polya-Gamma bound.

    Y is (n, J), and the result float64, (n, K). `vips_fast.models.sbn.network.NetworkModel.specs` has the ``arrays``.
    """
    w, b, c = arrays["components"].T, arrays["hidden_bias"], arrays["visible_bias"]
    parameters = w, w**2 + arrays["weight_variances"].T, c, _visible_variance(arrays), b, expit(b)
    return sbn_pg(Y, *parameters, n_sweeps=READ_SWEEPS, dtype=dtype, n_threads=n_threads).z


def record_bounds(Y: np.ndarray, arrays: Mapping[str, np.ndarray], dtype: str, n_threads: int) -> Vector:
    """Compute the variational lower bound of each record's log p(y).

    It is in nats: float64, (n,); see `SigmoidBeliefNetwork.score`.
    """
    w, variances, b = arrays["components"], arrays["weight_variances"], arrays["hidden_bias"]
    log_on, log_off = -np.logaddexp(0.0, -b), -np.logaddexp(0.0, b)
    bounds = np.empty(len(Y))
    for first, last in record_blocks(len(Y), _SCORED):
        part = Y[first:last]
        z = polya_gamma_means(part, arrays, dtype, n_threads)
        psi = z @ w + arrays["visible_bias"]
        square = psi**2 + _visible_variance(arrays) + (z * (1 - z)) @ w**2 + z @ variances
        t = np.sqrt(np.maximum(square, 0.0))
        # log(2 cosh(t/2)) without overflow.
        likelihood = ((part - 0.5) * psi - t / 2 - np.log1p(np.exp(-t))).sum(axis=1)
        q, r = np.clip(z, 1e-300, 1.0), np.clip(1 - z, 1e-300, 1.0)
        prior = z * (np.log(q) - log_on) + (1 - z) * (np.log(r) - log_off)
        bounds[first:last] = likelihood - prior.sum(axis=1)
    return bounds


def joint_excess(first: np.ndarray, second: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Compute the excess probability that both of two normals are small.

    It is P(u < a, v < b) - P(u < a) P(v < b), elementwise. u and v are standard normals with correlation sin(angle).
    The derivative of a bivariate normal distribution with respect to its correlation is its density (Plackett 1954). So
    this is the integral over t from 0 to the angle of exp(-(a^2 + b^2 - 2 a b sin t) / (2 cos^2 t)) / (2 pi).
    """
    t = 0.5 * angle[:, None] * (_NODES + 1.0)
    a, b, sine = first[:, None], second[:, None], np.sin(t)
    density = np.exp(-0.5 * (a * a + b * b - 2.0 * a * b * sine) / (1.0 - sine * sine))
    return np.asarray(density @ _WEIGHTS * angle / (4.0 * math.pi))


def thresholded_normal(mean: np.ndarray, covariance: np.ndarray) -> Normal:
    """Find thresholds and a factor for binary variables with given moments.

    The thresholds are h, (K,), and the factor L, (K, K). With standard normals u, z = (L u < h) has E[z] = ``mean``.
    Its covariance off the diagonal is ``covariance``, if binary variables can have it (Emrich & Piedmonte 1991). The
    correlations are found pair by pair. Their matrix is made positive definite, which moves the covariances of z if
    they could not all be had together; the means stay.
    """
    K, h = len(mean), ndtri(mean)
    rows, columns = np.triu_indices(K, 1)
    angles = np.empty(len(rows))
    for first in range(0, len(rows), _PAIRS):
        k, m = rows[first : first + _PAIRS], columns[first : first + _PAIRS]

        def short(angle: np.ndarray, k: np.ndarray = k, m: np.ndarray = m) -> np.ndarray:
            return np.asarray(joint_excess(h[k], h[m], angle) < covariance[k, m])

        low, high = halve_brackets(short, np.full(len(k), -_WIDEST), np.full(len(k), _WIDEST), _HALVINGS)
        angles[first : first + _PAIRS] = 0.5 * (low + high)
    correlation = np.eye(K)
    correlation[rows, columns] = correlation[columns, rows] = np.sin(angles)
    with one_blas_thread(K):
        correlation = psd_project(correlation, _LEAST_EIGENVALUE)
        scale = 1.0 / np.sqrt(np.diag(correlation))
        return h, np.linalg.cholesky(correlation * np.outer(scale, scale))


def hidden_normal(arrays: Mapping[str, np.ndarray]) -> Normal | None:
    """Compute `thresholded_normal` of a network's hidden units.

    None if their covariance was not released.
    """
    if "hidden_covariance" not in arrays:
        return None
    return thresholded_normal(expit(arrays["hidden_bias"]), arrays["hidden_covariance"])


def drawn(arrays: Mapping[str, np.ndarray], normal: Normal | None, n_samples: int, rng: np.random.Generator) -> Bits:
    """Draw records from a network: uint8, (n_samples, J).

    ``normal`` is the network's `hidden_normal`; None draws the hidden units independently.
    """
    K = len(arrays["hidden_bias"])
    if normal is None:
        z = rng.random((n_samples, K)) < expit(arrays["hidden_bias"])
    else:
        thresholds, factor = normal
        z = rng.standard_normal((n_samples, K)) @ factor.T < thresholds
    chance = expit(z.astype(np.float64) @ arrays["components"] + arrays["visible_bias"])
    return np.asarray(rng.random(chance.shape) < chance, dtype=np.uint8)
