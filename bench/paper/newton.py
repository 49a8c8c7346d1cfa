"""Double-noise Newton (Ganesh, Haghifam, Steinke & Thakurta 2023, algorithm 3)."""

import math
from types import SimpleNamespace

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit

from vips_fast.accounting import gaussian_noise_multiplier


def direction_sensitivity(length, s, least):
    """Bound how far a direction moves when the Hessian gains a term.

    The direction (H + least I)^-1 g, |g| = length, if H >= 0 becomes H + v v^T, |v|^2 <= s.

    With A = H + l I, by the Sherman-Morrison formula A^-1 g - A'^-1 g = A^-1 v (v^T A^-1 g) / (1 + v^T A^-1 v) = A^-1/2
    u (u^T A^-1/2 g) / (1 + |u|^2), u = A^-1/2 v. As A^-1 <= I/l, |u|^2 <= s/l and the norm is at most |g|/l |u|^2 / (1
    + |u|^2) <= |g| s / (l^2 + l s).
    """
    return length * s / (least**2 + least * s)


class DoubleNoiseNewton:
    """Take Newton steps from a noised gradient, and noise their direction.

    For adding or removing a record.

    Rows, with the constant 1, are scaled down to the norm hypot(row_norm, 1) = R. With the mean loss over the public n
    and H its Hessian, a step spends rho/T of zCDP: ``gradient_share`` on the gradient (sensitivity R/n), and of the
    rest ``trace_share`` on tr H (sensitivity R^2/(4 n)) and the rest on the direction. With l = max((tr / (n^2
    rho_d))^(1/3), 1/n) in units of R^2, tr the noised trace, the direction is (H + l I)^-1 g, g the noised gradient.

    The direction's sensitivity is `direction_sensitivity` with s = R^2/(4 n): a record's part of the Hessian, be it
    that of the loss or its bound X^T X / (4 n) (``bound=True``).

    The noise is numpy's: this is a table's row and no release.
    """

    def __init__(self, epsilon, delta, *, row_norm=1.0, n_steps=40, gradient_share=0.75, trace_share=0.1, bound=True):
        # All noise is Gaussian: the steps together are one Gaussian mechanism, exactly, of mu^2 = 2 rho.
        self.rho = 0.5 / gaussian_noise_multiplier(epsilon, delta) ** 2
        self.privacy_ = SimpleNamespace(epsilon=epsilon)
        self.row_norm, self.n_steps, self.bound = row_norm, n_steps, bound
        self.shares = gradient_share, trace_share

    def _design(self, X):
        """Rows and constant, of a norm of at most 1."""
        X = np.hstack([X.toarray() if sparse.issparse(X) else X, np.ones((X.shape[0], 1))])
        return X / np.maximum(np.linalg.norm(X, axis=1), math.hypot(self.row_norm, 1))[:, None]

    def fit(self, X, y):
        """Rows and labels 0 and 1."""
        rng, X = np.random.default_rng(), self._design(X)
        n, d = X.shape
        share, of_trace = self.shares
        step = self.rho / self.n_steps
        for_gradient, for_trace = share * step, of_trace * (1 - share) * step
        for_direction = (1 - of_trace) * (1 - share) * step
        w, s, upper = np.zeros(d), 0.25 / n, X.T @ X / (4 * n)
        for _ in range(self.n_steps):
            p = expit(X @ w)
            g = X.T @ (p - y) / n + rng.normal(size=d) / n / math.sqrt(2 * for_gradient)
            hessian = upper if self.bound else (X * (p * (1 - p))[:, None]).T @ X / n
            trace = max(np.trace(hessian) + s * rng.normal() / math.sqrt(2 * for_trace), 0.0)
            least = max((trace / (n**2 * for_direction)) ** (1 / 3), 1 / n)
            noise = direction_sensitivity(np.linalg.norm(g), s, least) / math.sqrt(2 * for_direction)
            w -= linalg.solve(hessian + least * np.eye(d), g, assume_a="pos") + noise * rng.normal(size=d)
        self._weights = w
        return self

    def decision_function(self, X):
        """x . w of the rows."""
        return self._design(X) @ self._weights

    def predict_proba(self, X):
        """Probabilities of 0 and 1."""
        p = expit(self.decision_function(X))
        return np.stack([1 - p, p], axis=1)
