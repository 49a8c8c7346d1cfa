"""Logistic regression by perturbing the objective once."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import linalg
from scipy.special import expit, ndtr, ndtri

from vips_fast.accounting import ApproximateDPEvent
from vips_fast.checks import check_flag, check_number
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.result import FitResult, Public
from vips_fast.engine.statement import Privacy
from vips_fast.models.logistic.records import design
from vips_fast.models.parameters import BudgetLike
from vips_fast.models.readouts import Published

from .linear import LinearClassifier

#: The ledger of a pure guarantee is read at this delta; the statement is the pure one.
_SOME_DELTA = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class ObjectivePerturbationLogisticRegression(LinearClassifier):
    """Empirical risk minimization with a random linear term.

    The source is Chaudhuri, Monteleoni & Sarwate 2011.

    theta minimizes sum_n log(1 + exp(-s_n x_n . theta)) + (ridge / 2) |theta|^2 + b . theta, s_n = +-1, for one random
    b; theta is the only release. With ``delta=0`` the norm of b is a Gamma variable and the guarantee is pure
    (the article's Algorithm 2). Else b is Gaussian (Kifer, Smith & Thakurta 2012), with the constants of the notes
    below, which are smaller than theirs.

    ``row_norm`` is a public bound R of the rows' L2 norm (without the intercept); longer rows are scaled down to it.
    ``intercept_scaling`` is the constant that is appended to each row with ``fit_intercept``; it counts in the norm.
    ``delta`` None is min(1e-5, 1/(10 n_records)). ``curvature_share``, in (0, 1), is the share of epsilon that
    the record's curvature takes. The ridge penalty is at least R^2 / (4 (exp(share * epsilon) - 1)), and at least
    ``alpha`` on the sum of losses. ``private=False`` leaves b out. ``random_state`` is not used with privacy.

    Notes
    -----
    Let D' be D with one more record x, |x| <= R, and b(theta; D) the b for which theta is
    the minimizer: b' = b - g with g = l'(theta) x, |l'| <= 1. The density of theta is that
    of b times det(sum of curvatures + ridge), whose ratio between D' and D lies in
    [1, 1 + R^2 / (4 ridge)]. So with e = epsilon - ln(1 + R^2 / (4 ridge)) it is enough that the
    ratio of the densities of b is at most exp(e), up to probability delta.
    *Gamma*: density proportional to exp(-(e / R) |b|); |b| moves by at most R.
    *Gaussian*, standard deviation s: (|b' + g|^2 - |b'|^2) / (2 s^2) <= (2 R |u . b'| + R^2) / (2 s^2) with u the
    direction of x, which does not depend on theta, so u . b' is normal and the bound fails
    with probability 2 Phi(-(e s / R - R / (2 s))) = delta; the other direction is the same.

    The minimizer is found to a gradient norm of about 1e-6; the proof takes it as exact. The
    noise is floating-point: this is a baseline, not a hardened mechanism.
    """

    row_norm: float = 1.0
    intercept_scaling: float = 1.0
    epsilon: float = 1.0
    curvature_share: float = 0.1
    alpha: float = 0.0

    @property
    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _check_parameters(self) -> None:
        for name in ("row_norm", "intercept_scaling"):
            check_number(name, getattr(self, name), 0, 1e100, low_open=True)
        for name in ("fit_intercept", "private"):
            check_flag(name, getattr(self, name))
        check_number("epsilon", self.epsilon, 0, math.inf, low_open=True, high_open=True)
        check_number("curvature_share", self.curvature_share, 0, 1, low_open=True, high_open=True)
        check_number("alpha", self.alpha, 0, math.inf, high_open=True)
        check_number("delta", self.delta, 0, 1, high_open=True, optional=True)
        check_number("n_records", self.n_records, 1, 2**53, integer=True, optional=True)

    def fit(self, X: Any, y: Any, *, transcript: str | Path | None = None, budget: BudgetLike = None) -> Self:
        """Fit to rows X, (n, d), dense or sparse, and two labels.

        There is no transcript and no budget. Raises ValueError or TypeError if a parameter or the data are unusable;
        nothing is spent.
        """
        if transcript is not None:
            raise ValueError("transcript: expected None, this model is not made from releases of statistics")
        if budget is not None:
            raise ValueError("budget: expected None, no filter can bound this model's one release")
        self._check_parameters()
        records, facts = self._read(X, y)
        public = self._with_records(Public(n_records=1, seed=0, **facts), records.n_rows)
        delta = min(1e-5, 0.1 / public.n_records) if self._terms.delta is None else float(self._terms.delta)
        target = float(self.epsilon or 1.0)
        bound = math.hypot(self.row_norm, self._constant) if public.scale is None else public.scale
        curvature = bound**2 / (4 * math.expm1(self.curvature_share * target)) if self.private else 0.0
        ridge, noise_sd = max(float(self.alpha), curvature), 0.0
        A, scale = _scaled(design(X, self._constant), bound)
        A = sparse.diags_array(scale) @ A if sparse.issparse(A) else A * scale[:, None]

        ledger, b = Ledger(), np.zeros(records.rows.n_features)
        left = target - math.log1p(bound**2 / (4 * ridge)) if self.private else 0.0
        if self.private and delta > 0:
            noise_sd = gaussian_noise_sd(left, delta, bound)
        ledger.open(
            {
                "relation": "add_remove",
                "unit": "record",
                "sampling": "full",
                "n_records": public.n_records,
                "batch_size": float(public.n_records),
                "n_steps": 1,
                "noise_multiplier": noise_sd / bound,
                "clip_norm": bound,
                "sensitivity": bound,
                "delta": delta or _SOME_DELTA,
            }
        )
        if self.private:
            ledger.intend(ApproximateDPEvent(target, delta, "add_remove"), clip_norm=bound, sensitivity=bound)
            generator = np.random.default_rng()  # seeded by the operating system
            direction = generator.normal(size=len(b))
            length = noise_sd if delta > 0 else generator.gamma(len(b), bound / left) / np.linalg.norm(direction)
            b = direction * length
        else:
            ledger.taint("fitted with private=False")
        theta = _minimize(A, records.rows.y, ridge, b)
        if self._constant:
            theta[-1] *= self._constant
        arrays = {"samples": theta[None], "noise": np.array([ridge, noise_sd, bound])}
        self._result = FitResult.make(type(self).__name__, self._settings(), public, 1, arrays, {}, ledger)
        return self

    @property
    def privacy_(self) -> Privacy:
        """The guarantee, which is the target."""
        result = self._fitted()
        if not result.ledger.private:
            return result.privacy
        event = result.ledger.event()
        assert isinstance(event, ApproximateDPEvent)
        return replace(result.privacy, epsilon=event.epsilon, delta=event.delta, accountant="objective perturbation")

    ridge_ = Published[float]("noise", "The penalty in use.", 0)
    noise_sd_ = Published[float]("noise", "Standard deviation of an entry of b.", 1)

    def decision_function(self, X: Any) -> np.ndarray:
        """x . theta, rows scaled down to the bound as in fit."""
        settings = self._fitted().settings
        value = super().decision_function(X)
        if not settings["private"]:
            return value
        constant = float(settings["intercept_scaling"]) if settings["fit_intercept"] else 0.0
        return np.asarray(value * _scaled(design(X, constant), float(self._fitted().arrays["noise"][2]))[1])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the two classes, shape (n, 2)."""
        p = expit(self.decision_function(X))
        return np.stack([1 - p, p], axis=1)


def _scaled(matrix: Any, bound: float) -> tuple[Any, np.ndarray]:
    """Return rows as float64, and factors that keep the bound. The factors scale rows beyond the bound down to it."""
    matrix = matrix.astype(np.float64)
    squares = (matrix.multiply(matrix) if sparse.issparse(matrix) else matrix * matrix).sum(axis=1)
    return matrix, np.minimum(1.0, bound / np.maximum(np.sqrt(np.asarray(squares).reshape(-1)), bound))


def gaussian_noise_sd(epsilon: float, delta: float, bound: float) -> float:
    """Solve for the Gaussian noise s of a pair (epsilon, delta).

    It has 2 Phi(-(epsilon s / R - R / (2 s))) = delta. See the notes of the estimator.
    """
    t = -ndtri(delta / 2)
    # epsilon s^2 - t R s - R^2 / 2 = 0.
    s = bound * (t + math.sqrt(t * t + 2 * epsilon)) / (2 * epsilon) * (1 + 1e-12)
    assert 2 * ndtr(-(epsilon * s / bound - bound / (2 * s))) <= delta
    return float(s)


def _minimize(A: Any, y: np.ndarray, ridge: float, b: np.ndarray) -> np.ndarray:
    """Minimize the perturbed objective. Newton steps by conjugate gradients are halved until they descend."""
    sign = 2 * y - 1
    theta = np.zeros(A.shape[1])

    def value(theta: np.ndarray, margin: np.ndarray) -> float:
        return float(np.logaddexp(0, -margin).sum() + 0.5 * ridge * theta @ theta + b @ theta)

    margin = sign * np.asarray(A @ theta).reshape(-1)
    here = value(theta, margin)
    for _ in range(200):
        gradient = np.asarray(A.T @ (-sign * expit(-margin))).reshape(-1) + ridge * theta + b
        if np.linalg.norm(gradient) < 1e-6:
            break
        weight = expit(margin) * expit(-margin)
        curvature = linalg.LinearOperator(
            (len(theta), len(theta)),
            dtype=np.float64,
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
