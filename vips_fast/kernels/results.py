"""What the kernels return."""

from typing import NamedTuple

import numpy as np

__all__ = ["LdaEStep", "SbnEStep"]


class LdaEStep(NamedTuple):
    """Result of an LDA E-step over D documents, K topics, V words."""

    gamma: np.ndarray  #: (D, K) float64, variational Dirichlet parameters of each document.
    sstats: np.ndarray  #: (K, V) float64, sum of the (clipped) contributions c_i phi_ik.
    n_iter: np.ndarray  #: (D,) int32, rounds done for each document.
    norms: np.ndarray  #: (D,) float64, L2 norm of each contribution before clipping.


class SbnEStep(NamedTuple):
    """Result of a sigmoid belief network's Polya-Gamma E-step, n records."""

    z: np.ndarray  #: (n, K) float64, probabilities q(z_k = 1).
    xi: np.ndarray  #: (n, J) float64, Polya-Gamma means at that z.
