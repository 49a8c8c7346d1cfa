"""Records drawn from a network's published arrays."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import expit, ndtri

from ...accounting.solver import halve_brackets
from ...data.types import Bits
from ...kernels.psd import one_blas_thread, psd_project

#: Correlations of the normals are kept within the sine of this, and their matrix' eigenvalues above the second.
_WIDEST, _LEAST_EIGENVALUE = math.asin(0.99), 1e-3

#: Rounds of halving: angles to 10^-9.
_HALVINGS = 32

#: Nodes of the integral over the angle; values to 10^-8 for probabilities between .02 and .98.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

#: Pairs of units whose angles are found at a time.
_PAIRS = 2**14


def joint_excess(first: np.ndarray, second: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """P(u < a, v < b) - P(u < a) P(v < b) of standard normals u, v with correlation sin(angle), elementwise.

    The derivative of a bivariate normal distribution with respect to its correlation is its density (Plackett 1954), so
    that this is the integral over t from 0 to the angle of exp(-(a^2 + b^2 - 2 a b sin t) / (2 cos^2 t)) / (2 pi).
    """
    t = 0.5 * angle[:, None] * (_NODES + 1.0)
    a, b, sine = first[:, None], second[:, None], np.sin(t)
    density = np.exp(-0.5 * (a * a + b * b - 2.0 * a * b * sine) / (1.0 - sine * sine))
    return np.asarray(density @ _WEIGHTS * angle / (4.0 * math.pi))


def thresholded_normal(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds h, (K,), and a factor L, (K, K), so that z = (L u < h) for standard normals u has E[z] = ``mean`` and
    as its covariance off the diagonal ``covariance``, where binary variables can have it (Emrich & Piedmonte 1991).

    The correlations are found pair by pair. Their matrix is made positive definite, which moves the covariances
    of z where they could not all be had together; the means stay.
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


def hidden_normal(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """`thresholded_normal` of a network's hidden units; None where their covariance was not released.

    ``arrays`` are those of `vips_fast.models.sbn.network.NetworkModel.specs`.
    """
    if "hidden_covariance" not in arrays:
        return None
    return thresholded_normal(expit(arrays["hidden_bias"]), arrays["hidden_covariance"])


def drawn(
    arrays: Mapping[str, np.ndarray],
    normal: tuple[np.ndarray, np.ndarray] | None,
    n_samples: int,
    generator: np.random.Generator,
) -> Bits:
    """Records drawn from a network: uint8, (n_samples, J).

    ``normal`` is the network's `hidden_normal`; None draws the hidden units independently.
    """
    K = len(arrays["hidden_bias"])
    if normal is None:
        z = generator.random((n_samples, K)) < expit(arrays["hidden_bias"])
    else:
        thresholds, factor = normal
        z = generator.standard_normal((n_samples, K)) @ factor.T < thresholds
    chance = expit(z.astype(np.float64) @ arrays["components"] + arrays["visible_bias"])
    return np.asarray(generator.random(chance.shape) < chance, dtype=np.uint8)
