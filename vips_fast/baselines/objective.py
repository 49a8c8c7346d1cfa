"""Logistic regression by perturbing the objective once."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.sparse import linalg
from scipy.special import expit, ndtr, ndtri

from ..accounting import ApproximateDPEvent
from ..kernels.blr import check_rows
from ..ledger import Ledger
from ..models.base import Privacy, PrivateEstimator, check_number
from ..models.logistic import _largest_norm, _with_constant


class ObjectivePerturbationLogisticRegression(PrivateEstimator):
    """Empirical risk minimisation with a random linear term (Chaudhuri, Monteleoni & Sarwate 2011).

    theta minimises sum_n log(1 + exp(-s_n x_n . theta)) + (ridge / 2) |theta|^2 + b . theta,
    s_n = +-1, for one random b; theta is the only release. With ``target_delta=0``
    the norm of b is a Gamma variable and the guarantee is pure (the article's
    Algorithm 2); else b is Gaussian (Kifer, Smith & Thakurta 2012), with the constants of
    the notes below, which are smaller than theirs.

    Parameters
    ----------
    row_norm : float
        Public bound R of the rows' L2 norm (without the intercept); longer rows are
        scaled down to it.
    fit_intercept : bool
    intercept_scaling : float
        The constant that is appended to each row; it counts in the norm.
    target_epsilon : float
    target_delta : float or None
        0 for the pure form; None is min(1e-5, 1/(10 n_records)).
    curvature_share : float
        Share of epsilon that is spent on the record's curvature, in (0, 1): the ridge
        penalty is at least R^2 / (4 (exp(share * epsilon) - 1)).
    alpha : float
        Least ridge penalty on the sum of losses.
    private : bool
        False leaves b out.
    n_records : int or None
    random_state : ignored with privacy; here for scikit-learn's conventions.

    Attributes
    ----------
    coef_ : ndarray, shape (1, d)
    intercept_ : ndarray, shape (1,)
    classes_ : ndarray, shape (2,)
    ridge_, noise_sd_ : float
        The penalty in use; the standard deviation of an entry of b (0 for the pure form).
    privacy_, ledger_, n_features_in_

    Notes
    -----
    Let D' be D with one more record x, |x| <= R, and b(theta; D) the b for which theta is
    the minimiser: b' = b - g with g = l'(theta) x, |l'| <= 1. The density of theta is that
    of b times det(sum of curvatures + ridge), whose ratio between D' and D lies in
    [1, 1 + R^2 / (4 ridge)]; so with e = epsilon - ln(1 + R^2 / (4 ridge)) it is enough that the
    ratio of the densities of b is at most exp(e), up to probability delta.
    *Gamma*: density proportional to exp(-(e / R) |b|); |b| moves by at most R.
    *Gaussian*, standard deviation s: (|b' + g|^2 - |b'|^2) / (2 s^2) <= (2 R |u . b'| + R^2) / (2 s^2) with u the
    direction of x, which does not depend on theta, so u . b' is normal and the bound fails
    with probability 2 Phi(-(e s / R - R / (2 s))) = delta; the other direction is the same.

    The minimiser is found to a gradient norm of about 1e-6; the proof takes it as exact. The
    noise is floating-point: this is a baseline, not a hardened mechanism.
    """

    _estimator_type = "classifier"

    def __init__(
        self, *, row_norm=1.0, fit_intercept=True, intercept_scaling=1.0, target_epsilon=1.0, target_delta=None,
        curvature_share=0.1, alpha=0.0, private=True, n_records=None, random_state=None,
    ):
        self.row_norm = row_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.curvature_share = curvature_share
        self.alpha = alpha
        self.private = private
        self.n_records = n_records
        self.random_state = random_state

    def fit(self, X, y):
        """Fit to rows X, shape (n, d), dense or sparse, and two labels.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are unusable; nothing is spent.
        """
        for name in ("row_norm", "intercept_scaling"):
            check_number(name, getattr(self, name), 0, 1e100, low_open=True)
        target = check_number("target_epsilon", self.target_epsilon, 0, math.inf, low_open=True, high_open=True)
        share = check_number("curvature_share", self.curvature_share, 0, 1, low_open=True, high_open=True)
        check_number("alpha", self.alpha, 0, math.inf, high_open=True)
        if self.target_delta is not None:
            check_number("target_delta", self.target_delta, 0, 1, high_open=True)
        classes = np.unique(np.asarray(y))
        if len(classes) != 2:
            raise ValueError(f"y has {len(classes)} different labels: expected 2")
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        X = _with_constant(X, constant)
        rows = check_rows(X, np.asarray(y) == classes[1])
        d = rows.n_features
        n_records = self._public_n_records(rows.n_rows)
        delta = self._delta(n_records)
        bound = math.hypot(self.row_norm, constant) if self.private else _largest_norm(rows)
        A = sparse.csr_array(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        norms = np.sqrt(np.asarray((A.multiply(A) if sparse.issparse(A) else A * A).sum(axis=1)).reshape(-1))
        scale = np.minimum(1.0, bound / np.maximum(norms, bound))
        A = sparse.diags_array(scale) @ A if sparse.issparse(A) else A * scale[:, None]

        ledger = Ledger()
        b, self.noise_sd_ = np.zeros(d), 0.0
        self.ridge_ = max(float(self.alpha), bound**2 / (4 * math.expm1(share * target)) if self.private else 0.0)
        if self.private:
            ledger.intend(ApproximateDPEvent(target, delta, "add_remove"), clip_norm=bound, sensitivity=bound)
            left = target - math.log1p(bound**2 / (4 * self.ridge_))
            generator = np.random.default_rng()  # seeded by the operating system
            direction = generator.normal(size=d)
            if delta == 0:
                b = direction / np.linalg.norm(direction) * generator.gamma(d, bound / left)
            else:
                self.noise_sd_ = gaussian_noise_sd(left, delta, bound)
                b = direction * self.noise_sd_
        else:
            ledger.taint("fitted with private=False")
        theta = _minimise(A, rows.y, self.ridge_, b)
        self.ledger_, self.classes_, self.n_features_in_ = ledger, classes, d - (constant > 0)
        self.coef_ = theta[None, : self.n_features_in_].copy()
        self.intercept_ = theta[self.n_features_in_ :] * constant if constant else np.zeros(1)
        self.privacy_ = Privacy(
            epsilon=target if self.private else math.inf, delta=delta, neighbors="add_remove", accountant="objective perturbation",
            steps=1, noise_multiplier=self.noise_sd_ / bound, sampling="full", batch_size=float(rows.n_rows),
            n_records=n_records, taints=ledger.taints,
        )
        return self

    def decision_function(self, X) -> np.ndarray:
        """x . theta, rows scaled down to the bound as in fit."""
        self._check_fitted()
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has shape {X.shape}: expected (n, {self.n_features_in_})")
        value = np.asarray(X @ self.coef_[0]).reshape(-1) + self.intercept_[0]
        if not self.private:
            return value
        square = np.asarray((X.multiply(X) if sparse.issparse(X) else X * X).sum(axis=1)).reshape(-1)
        bound = math.hypot(self.row_norm, constant)
        return value * np.minimum(1.0, bound / np.maximum(np.sqrt(square + constant**2), bound))

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the two classes, shape (n, 2)."""
        p = expit(self.decision_function(X))
        return np.stack([1 - p, p], axis=1)

    def predict(self, X) -> np.ndarray:
        """The more probable class of each row."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def score(self, X, y) -> float:
        """Accuracy."""
        return float((self.predict(X) == np.asarray(y)).mean())


def gaussian_noise_sd(epsilon: float, delta: float, bound: float) -> float:
    """s with 2 Phi(-(epsilon s / R - R / (2 s))) = delta (see the notes of the estimator)."""
    t = -ndtri(delta / 2)
    # epsilon s^2 - t R s - R^2 / 2 = 0.
    s = bound * (t + math.sqrt(t * t + 2 * epsilon)) / (2 * epsilon) * (1 + 1e-12)
    assert 2 * ndtr(-(epsilon * s / bound - bound / (2 * s))) <= delta
    return s


def _minimise(A, y, ridge: float, b: np.ndarray) -> np.ndarray:
    """The minimiser of the perturbed objective: Newton steps by conjugate gradients, halved until they descend."""
    sign = 2 * y - 1
    theta = np.zeros(A.shape[1])

    def value(theta, margin):
        return np.logaddexp(0, -margin).sum() + 0.5 * ridge * theta @ theta + b @ theta

    margin = sign * np.asarray(A @ theta).reshape(-1)
    here = value(theta, margin)
    for _ in range(200):
        gradient = np.asarray(A.T @ (-sign * expit(-margin))).reshape(-1) + ridge * theta + b
        if np.linalg.norm(gradient) < 1e-6:
            break
        weight = expit(margin) * expit(-margin)
        curvature = linalg.LinearOperator(
            (len(theta), len(theta)), dtype=np.float64,
            matvec=lambda v, w=weight: np.asarray(A.T @ (w * np.asarray(A @ v).reshape(-1))).reshape(-1) + ridge * v,
        )
        step, _ = linalg.cg(curvature, -gradient, rtol=1e-8, maxiter=20 * len(theta))
        for halving in range(40):
            there = theta + 0.5**halving * step
            new_margin = sign * np.asarray(A @ there).reshape(-1)
            new = value(there, new_margin)
            if new <= here:
                break
        else:
            break  # no descent left in double precision
        theta, margin, here = there, new_margin, new
    return theta
