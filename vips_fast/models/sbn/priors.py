"""Priors of a belief network and their posteriors, from released quantities."""

from collections.abc import Mapping

import numpy as np
from scipy.special import k0e, k1e, logit

from ...engine.model import array_of
from ...kernels import pg_mean


def gig_means(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute means of X and 1/X under GIG(0, a, b).

    The generalized inverse Gaussian has arrays of floats > 0. Density proportional to exp(-(a x + b / x) / 2) / x. E[X]
    = sqrt(b/a) R and E[1/X] = sqrt(a/b) R, R = K_1(s) / K_0(s), s = sqrt(a b). The exponentially scaled Bessel
    functions keep R finite for large s, where both underflow. For s below 1e-300 R is -1 / (s log s) to double
    precision, and the floor gives its value there.
    """
    s = np.sqrt(a) * np.sqrt(b)
    small = np.maximum(s, 1e-300)
    ratio = k1e(small) / k0e(small)
    return np.sqrt(b / a) * ratio, np.sqrt(a / b) * ratio


class WeightPrior:
    """The weights' prior precisions, (J, K), and hyper-posteriors.

    The latter are for shrinkage (appendix 5). Two of the printed updates do not follow from the model and are corrected
    (as in Gan et al. 2015). q(xi_jk) is Gam(1, E[zeta_jk] + E[phi_k]), and the print leaves out E[phi_k].

    ``kind`` is "tpbn" or "gaussian", whose weights have the given ``variance``; ``phi`` is the scale of the shrinkage,
    None learns it.
    """

    def __init__(self, kind: str, n_visible: int, n_hidden: int, variance: float, phi: float | None):
        self._shrinks, self._learns_phi = kind == "tpbn", phi is None
        self.precision = np.full((n_visible, n_hidden), 1.0 if self._shrinks else 1.0 / variance)
        self._xi = np.ones((n_visible, n_hidden))
        self._phi = np.full(n_hidden, 1.0 if phi is None else float(phi))
        self._omega = 1.0

    def update(self, second_moment: np.ndarray) -> None:
        """Do one pass of appendix 5 from E[w_jk^2]."""
        if not self._shrinks:
            return
        n_visible, n_hidden = second_moment.shape
        # Below the floor, 1/zeta is beyond any precision the data can oppose.
        zeta, self.precision = gig_means(2.0 * self._xi, np.maximum(second_moment, 1e-12))
        self._xi = 1.0 / (zeta + self._phi)
        if self._learns_phi:
            self._phi = (n_visible / 2 + 0.5) / (self._omega + self._xi.sum(axis=0))
            self._omega = (n_hidden / 2 + 0.5) / (1.0 + float(self._phi.sum()))

    def state(self) -> dict[str, np.ndarray]:
        """Return arrays for `restore`; a Gaussian prior has none."""
        if not self._shrinks:
            return {}
        hyper = {"prior_xi": self._xi, "prior_phi": self._phi, "prior_omega": np.array([self._omega])}
        return {"prior_precision": self.precision, **hyper}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore a `state`; ValueError if it has another shape."""
        if not self._shrinks:
            return
        precision, xi = (array_of(state, name, self._xi.shape) for name in ("prior_precision", "prior_xi"))
        phi, omega = array_of(state, "prior_phi", self._phi.shape), array_of(state, "prior_omega", (1,))
        if min(precision.min(), xi.min(), phi.min(), omega[0]) <= 0:
            raise ValueError("state: the prior's arrays are expected to be positive")
        self.precision, self._xi, self._phi, self._omega = precision, xi, phi, float(omega[0])


def hidden_bias(mean: np.ndarray, n_records: float, variance: float) -> np.ndarray:
    """Compute q(b) of Eqs. 85 and 86, at their fixed point.

    There q(xi^(1)) is at its own optimum. ``mean``, (K,) in (0, 1), belongs to the hidden units, and ``variance`` to
    the prior of b. The iteration is the one of the Jaakkola-Jordan bound, which rises each time. From the log odds, the
    limit for a broad prior, it needs few rounds.
    """
    b = logit(mean)
    for _ in range(50):
        b = (mean - 0.5) / (1.0 / (variance * n_records) + pg_mean(b))
    return np.asarray(b)
