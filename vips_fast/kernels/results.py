"""What the kernels return."""

from typing import NamedTuple

import numpy as np

__all__ = ["LdaEStep", "LogisticEStep", "SbnEStep"]


class LdaEStep(NamedTuple):
    """Result of an LDA E-step over D documents, K topics, V words."""

    gamma: np.ndarray  #: (D, K) float64, variational Dirichlet parameters of each document.
    sstats: np.ndarray  #: (K, V) float64, sum of the (clipped) contributions c_i phi_ik.
    n_iter: np.ndarray  #: (D,) int32, rounds done for each document.
    norms: np.ndarray  #: (D,) float64, L2 norm of each contribution before clipping.


class LogisticEStep(NamedTuple):
    """Result of a logistic regression E-step over n records of d features."""

    linear: np.ndarray  #: (d,) float64, sum of the (clipped) linear statistics.
    quadratic: np.ndarray  #: (d (d + 1) / 2,) float64, packed upper triangle of the sum of the quadratic statistics.
    xi: np.ndarray  #: (n,) float64, mean of each record's Polya-Gamma variable.
    norms: np.ndarray  #: (n,) float64, joint norm of each scaled contribution before clipping.


class SbnEStep(NamedTuple):
    """Result of a sigmoid belief network's Polya-Gamma E-step, n records."""

    z: np.ndarray  #: (n, K) float64, probabilities q(z_k = 1).
    xi: np.ndarray  #: (n, J) float64, Polya-Gamma means at that z.
