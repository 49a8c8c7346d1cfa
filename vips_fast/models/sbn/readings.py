"""What a network's published arrays say of records; all of it post-processing."""

from collections.abc import Mapping

import numpy as np
from scipy.special import expit

from ...data.types import Vector
from ...kernels.sbn import record_blocks, sbn_pg

#: Sweeps of the read-outs, which start afresh and are not part of a release.
READ_SWEEPS = 12

#: Records whose Polya-Gamma means are in memory at a time.
_SCORED = 4096


def _visible_variance(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Posterior variances of the visible biases, where the bound has them."""
    return arrays.get("visible_variance", np.zeros(len(arrays["visible_bias"])))


def polya_gamma_means(Y: np.ndarray, arrays: Mapping[str, np.ndarray], dtype: str, n_threads: int) -> np.ndarray:
    """q(z = 1) of binary records Y, (n, J), under the Polya-Gamma bound: float64, (n, K).

    ``arrays`` are those of `vips_fast.models.sbn.network.NetworkModel.specs`.
    """
    w, variances, b = arrays["components"].T, arrays["weight_variances"].T, arrays["hidden_bias"]
    return sbn_pg(
        Y,
        w,
        w**2 + variances,
        arrays["visible_bias"],
        _visible_variance(arrays),
        b,
        expit(b),
        n_sweeps=READ_SWEEPS,
        dtype=dtype,
        n_threads=n_threads,
    ).z


def record_bounds(Y: np.ndarray, arrays: Mapping[str, np.ndarray], dtype: str, n_threads: int) -> Vector:
    """Variational lower bound of log p(y) of each record, in nats: float64, (n,); `SigmoidBeliefNetwork.score`."""
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
