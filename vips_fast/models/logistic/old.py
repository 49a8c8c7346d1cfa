"""Private Bayesian logistic regression with Polya-Gamma variables (Algorithms 4 and 5 of Park et al. 2020)."""

from __future__ import annotations

import math
import os

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import erfcx, expit

from ..inference import Schedule, State
from ..kernels import native
from ..kernels.blr import accumulate, check_rows, factor_spacing, pg_mean, triangle_size, unpack_upper
from ..kernels.psd import psd_project
from ..threads import resolve_n_threads
from .base import PrivateEstimator, check_choice, check_number

#: Share of the squared contribution bound that goes to the linear statistic, in
#: the first step and in the others, where both are released around a centre.
LINEAR_SHARE = (0.3, 0.95)

#: The same without a centre, where the linear statistic of every step is the same.
LINEAR_SHARE_UNCENTRED = 0.5

#: Nodes and weights of the expectation of a function of a standard normal.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

#: The curvature of the likelihood over that of its Polya-Gamma bound is never
#: taken to be less than this: a Newton step is then at most 1/0.55 < 2 of a step
#: that is safe in every direction.
_LEAST_CURVATURE = 0.55

#: Above this dimension eigenvectors are renewed only when the noise of the
#: averaged second moment has fallen by 5 %.
_LARGE = 512


class BayesianLogisticRegression(PrivateEstimator):
    """Bayesian logistic regression whose posterior may be published.

    The model is p(y | x, m) = Binomial(b, sigmoid(x . m)), m ~ N(0, 1/alpha I),
    alpha ~ Gamma(prior_shape, prior_rate) (Eq. 43). With a Polya-Gamma variable xi
    for each record it is conjugate: in each step the expected statistics
    s1 = (y - b/2) x and s2 = <xi> x x^T (Eqs. 47-50) of the records are clipped,
    summed exactly and released with Gaussian noise, both in one release; everything
    after that is post-processing.

    Parameters
    ----------
    row_norm : float
        Public bound of the rows' L2 norm (without the intercept). Rows beyond it are
        scaled down to it, in ``fit`` and in prediction; nothing is divided by the
        data's own maximum. Not used with ``private=False``.
    fit_intercept : bool
    intercept_scaling : float
        The constant that is appended to each row for the intercept. It counts in the
        norm: rows are bounded by hypot(row_norm, intercept_scaling).
    n_trials : float
        b: the number of trials of each record, or the public bound of ``trials`` in
        `fit`. 1 is classification, more is regression of counts.
    prior_shape, prior_rate : float
        a0 and b0 of alpha's Gamma prior.
    n_steps : int
        Releases.
    sampling : {"full", "poisson", "without_replacement"}
    neighbors : {"add_remove", "replace_one"} or None
        None takes the relation that the sampling is accounted under ("add_remove"
        for "full" and "poisson").
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    target_epsilon, target_delta : float or None
        The guarantee; the noise multiplier is calibrated for it before the run.
        target_delta None is min(1e-5, 1/(10 n_records)).
    noise_multiplier : float or None
        Noise standard deviation over the L2 sensitivity, instead of a target. With
        both, a run that would pass the target is refused. With neither, the target
        is epsilon = 1. 0 adds no noise and marks the model NOT PRIVATE.
    linear_share : float, pair of float, or None
        How the noise is split: the share of the squared bound of a contribution that
        s1 may use, in the first step and in the others (or in all). s1's noise has a
        standard deviation in proportion to share^-1/2, s2's to (1 - share)^-1/2. None
        is (0.3, 0.95) with a centre, else 0.5.
    center : bool
        True takes the statistics of each step around a released estimate m0, which
        is the same model in m - m0: s1 = (y - b/2 - <xi> x . m0) x. The noise of s2
        then multiplies m - m0, not m. False is the paper's form.
    residual_clip : float
        With a centre, a record's s1 is bounded by residual_clip * b * row norm (the
        largest there can be is 1) by a weight that does not depend on its y. At 0.5
        and less the weight is in proportion to 1/max(p, 1 - p), p the released
        model's probability for the record.
    form : {"orthonormal", "analyze_gauss"}
        Noise of s2 off the diagonal: 1/sqrt(2) of that on the diagonal, which is
        what the Frobenius sensitivity needs, or the same (the paper, Eq. 58).
    update : {"average", "paper"}
        "average" keeps un-projected averages of the releases and takes the known law
        of their noise into account at read-out. "paper" is Algorithm 5: negative
        eigenvalues of each noised s2 go to 0 and the natural parameters move by
        rho_t; it needs ``center=False``.
    noise_aware : bool
        With ``update="average"``: True makes the posterior that of m given the
        noised statistics, with the likelihood's own curvature in place of that of
        its bound; False takes the statistics as if they had no noise (Eq. 54), but for
        eigenvalues that the noise can hide.
    learning_decay, learning_offset : float
        kappa and tau_0 of the averaging rate (tau_0 + t)^-kappa, t = 0, 1, ….
        An offset of None is 1.
    private : bool
        False fits without clipping and noise.
    sensitivity : {"proven", "paper"}
        "paper" (with ``update="paper"``) takes Eqs. 57 and 59, 2 b R for s1 and
        b R^2 / 2 for s2, as if they were one block's, in place of ``linear_share``.
        They are above what is needed.
    n_records : int or None
        Public number of records; None takes the number of rows as public.
    n_jobs : int or None
        Threads; -1 for all processors, None for ``VIPS_FAST_NUM_THREADS`` or 1.
    random_state : int, numpy Generator, RandomState or None
        Seeds the minibatches, only without privacy.
    unsafe_diagnostics : bool
        True keeps figures of the training records in ``diagnostics_`` and marks the
        model NOT PRIVATE.
    callback : callable(step, epsilon, seconds) or None
        Called after each step with what is public.

    Attributes
    ----------
    coef_ : ndarray, float64, shape (1, d)
        Posterior mean of the coefficients.
    intercept_ : ndarray, float64, shape (1,)
    covariance_ : ndarray, float64, shape (d + 1, d + 1) or (d, d)
        Posterior covariance of (coefficients, weight of the constant), the latter
        being intercept / intercept_scaling.
    prior_shape_, prior_rate_, prior_precision_ : float
        a_N, b_N (Eq. 53) and <alpha> = a_N / b_N.
    classes_ : ndarray, shape (2,)
        The two labels, sorted; for ``n_trials`` other than 1, [0, 1].
    privacy_ : `vips_fast.Privacy`
    ledger_ : `vips_fast.Ledger`
    n_steps_, n_features_in_ : int
    diagnostics_ : list of dict or None
        With ``unsafe_diagnostics``, for each step the drawn ``records`` and how many of
        them were ``clipped``.

    Notes
    -----
    *Sensitivity.* A record's contribution is (s1/C1, s2/C2), s2 with its Frobenius
    norm, scaled down to norm 1. So adding or removing a record moves the sum by at
    most 1 and replacing one by at most 2. Without a centre, |s1|/C1 <= a and
    |s2|/C2 <= b with a^2 + b^2 = 1, and for two records s1 = a u, s2 = b u u^T, u.u'
    = t: |difference|^2 <= 2a^2 + 2b^2 + 2a^2 |t| - 2b^2 t^2, or, if one of the two
    has <xi> = 0, at most 4a^2 + b^2; the largest over t is
    max{2 + a^4/(2b^2) if a^2 <= 2b^2 else 4a^2, 4a^2 + b^2}.

    *Rounding.* s2 is summed on a finer grid than that of the noise and the sum is
    rounded to it, which can add one unit of the noise's grid a coordinate to the
    distance of two sums. The clip bound is lowered by that: the stated sensitivity
    includes it.

    *Labels.* The two values of y are taken as public.
    """

    _estimator_type = "classifier"

    def __init__(
        self, *, row_norm=1.0, fit_intercept=True, intercept_scaling=1.0, n_trials=1, prior_shape=0.01, prior_rate=0.01,
        n_steps=20, sampling="full", neighbors=None, batch_size=None, target_epsilon=None, target_delta=None,
        noise_multiplier=None, linear_share=None, center=True, residual_clip=0.5, form="orthonormal", update="average",
        noise_aware=True, learning_decay=0.5, learning_offset=None, private=True, sensitivity="proven", n_records=None,
        n_jobs=None, random_state=None, unsafe_diagnostics=False, callback=None,
    ):
        self.row_norm = row_norm
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.n_trials = n_trials
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.linear_share = linear_share
        self.center = center
        self.residual_clip = residual_clip
        self.form = form
        self.update = update
        self.noise_aware = noise_aware
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.private = private
        self.sensitivity = sensitivity
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.unsafe_diagnostics = unsafe_diagnostics
        self.callback = callback

    # ------------------------------------------------------------- fitting

    def fit(self, X, y, trials=None):
        """Fit to rows and their labels or counts.

        Parameters
        ----------
        X : array or scipy sparse matrix, shape (n, d)
            Finite numbers.
        y : array, shape (n,)
            Two labels of any kind, or with ``n_trials`` other than 1 numbers of
            successes, in [0, trials].
        trials : array, shape (n,), or None
            Numbers of trials, at most ``n_trials``; None is ``n_trials`` for all.

        Returns
        -------
        BayesianLogisticRegression

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are unusable, or the run would overspend.
            Nothing has been spent then.
        MemoryError
            If the statistics do not fit the machine.
        """
        self._check_parameters()
        classes, target = self._check_target(y, trials)
        rows = check_rows(_with_constant(X, self._constant), target, trials)
        if rows.n_rows == 0:
            raise ValueError("X has no rows: expected at least one record")
        n_threads = resolve_n_threads(self.n_jobs)
        _check_memory(rows.n_features, n_threads)
        n_steps = int(self.n_steps)
        model = _Model(self, rows)
        sampler, mechanism, ledger = self._set_up(model, rows.n_rows, n_steps)
        model.prepare(mechanism, sampler)
        state = State(np.zeros(model.statistics_shape))
        self.n_features_in_ = rows.n_features - (self._constant > 0)
        self._run(model, state, sampler, mechanism, ledger, n_steps, rows.n_rows, schedule=model.engine_schedule())
        self.n_steps_ = state.step
        self.classes_ = classes
        self._restore(model.arrays())
        return self

    @property
    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    @property
    def _row_bound(self) -> float:
        """Public bound of the rows with their constant."""
        return math.hypot(float(self.row_norm), self._constant)

    def _check_parameters(self) -> None:
        for name in ("row_norm", "intercept_scaling"):
            check_number(name, getattr(self, name), 0, 1e100, low_open=True)
        check_number("n_trials", self.n_trials, 0, 1e9, low_open=True)
        for name in ("prior_shape", "prior_rate"):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        check_number("residual_clip", self.residual_clip, 0, 1, low_open=True)
        check_choice("form", self.form, ("orthonormal", "analyze_gauss"))
        for name in ("fit_intercept", "center", "noise_aware"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected True or False")
        self._check_privacy_parameters()
        self._shares()
        if self.update == "paper" and self.center:
            raise ValueError("center=True: expected False with update='paper', which has no centre")
        if self.sensitivity == "paper" and self.update != "paper":
            raise ValueError("sensitivity='paper': expected 'proven' with update='average', which the paper does not have")
        if self.sampling != "full" and self.batch_size is None:
            raise ValueError(f"batch_size=None: expected a number with sampling={self.sampling!r}")

    def _shares(self) -> tuple[float, float]:
        share = self.linear_share
        if share is None:
            share = LINEAR_SHARE if self.center else LINEAR_SHARE_UNCENTRED
        pair = tuple(share) if isinstance(share, (tuple, list)) else (share, share)
        if len(pair) != 2:
            raise ValueError(f"linear_share={share!r}: expected a number or a pair")
        first = check_number("linear_share", pair[0], 0, 1, low_open=True, high_open=True)
        return first, check_number("linear_share", pair[1], 0, 1, low_open=True)

    def _check_target(self, y, trials):
        """The two classes, and y as numbers of successes."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y has shape {y.shape}: expected one dimension")
        if self.n_trials != 1 or trials is not None:
            if y.dtype.kind not in "fiub":
                raise TypeError(f"y has dtype {y.dtype}: expected numbers of successes")
            successes = y.astype(np.float64)
            top = np.asarray(float(self.n_trials) if trials is None else trials)
            if top.ndim and top.shape != y.shape:
                raise ValueError(f"trials has shape {top.shape}: expected {y.shape}, one entry for each row of X")
            if top.dtype.kind not in "fiub":
                raise TypeError(f"trials has dtype {top.dtype}: expected numbers")
            if not np.isfinite(top).all() or (top < 0).any() or (top > self.n_trials).any():
                raise ValueError(f"trials: expected numbers in [0, {self.n_trials}], the public bound n_trials")
            if not ((successes >= 0) & (successes <= top)).all():
                raise ValueError("y: expected numbers of successes in [0, trials]")
            return np.array([0, 1]), successes
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("y: expected two labels, found NaN or infinity")
        try:
            classes = np.unique(y)
        except TypeError:
            raise TypeError("y: expected labels of one kind, all numbers or all strings") from None
        if len(classes) != 2:
            raise ValueError(f"y has {len(classes)} different labels: expected 2")
        if classes.dtype.kind == "O":
            if not all(isinstance(label, str) for label in classes):
                raise TypeError("y: expected labels of one kind, all numbers or all strings")
            classes = classes.astype(str)
        return classes, (y == classes[1]).astype(np.float64)

    # ------------------------------------------------------------ read-outs

    def _rows_of(self, X):
        """Rows with their constant, scaled down to the bound as in fit, as CSR or dense."""
        self._check_fitted()
        X = _with_constant(X, self._constant)
        rows = check_rows(X, np.zeros(X.shape[0]))
        d = rows.n_features - (self._constant > 0)
        if d != self.n_features_in_:
            raise ValueError(f"X has {d} columns: expected {self.n_features_in_}, as in fit")
        if sparse.issparse(X):
            X = sparse.csr_array(X)
            square = np.asarray(X.multiply(X).sum(axis=1)).reshape(-1)
        else:
            square = np.einsum("ij,ij->i", X, X)
        norm = np.sqrt(square)
        scale = np.minimum(1.0, self._row_bound / np.maximum(norm, self._row_bound)) if self.private else np.ones(len(norm))
        return X, scale

    def _weights(self) -> np.ndarray:
        weights = self.coef_[0]
        return np.append(weights, self.intercept_[0] / self._constant) if self._constant else weights

    def decision_function(self, X) -> np.ndarray:
        """Posterior mean of x . m.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)

        Returns
        -------
        ndarray, float64, shape (n,)
        """
        X, scale = self._rows_of(X)
        return np.asarray(X @ self._weights()).reshape(-1) * scale

    def decision_variance(self, X) -> np.ndarray:
        """Posterior variance of x . m, shape (n,)."""
        X, scale = self._rows_of(X)
        result = np.empty(X.shape[0])
        for first in range(0, X.shape[0], 4096):
            part = X[first : first + 4096]
            product = part @ self.covariance_
            if sparse.issparse(part):
                result[first : first + 4096] = np.asarray(part.multiply(product).sum(axis=1)).reshape(-1)
            else:
                result[first : first + 4096] = np.einsum("ij,ij->i", part, product)
        return np.maximum(result, 0.0) * scale**2

    def predict_proba(self, X) -> np.ndarray:
        """Posterior predictive probabilities of the two classes, or of failure and success of one trial.

        The expectation of sigmoid(x . m) over the posterior of m, not the value at
        its mean.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)

        Returns
        -------
        ndarray, float64, shape (n, 2)
        """
        mean, sd = self.decision_function(X), np.sqrt(self.decision_variance(X))
        p = np.zeros(len(mean))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            p += weight * expit(mean + sd * node)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X) -> np.ndarray:
        """The more probable class of each row."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def score(self, X, y, trials=None) -> float:
        """Accuracy on labels; on counts, the mean log predictive probability of a trial.

        Parameters
        ----------
        X, y, trials
            As in `fit`; public test data, nothing is noised here.
        """
        if self.n_trials == 1 and trials is None:
            y = np.asarray(y)
            predicted = self.predict(X)
            if y.shape != predicted.shape:
                raise ValueError(f"y has shape {y.shape}: expected ({len(predicted)},), one entry for each row of X")
            return float((predicted == y).mean())
        _, y = self._check_target(y, trials)
        p = np.clip(self.predict_proba(X)[:, 1], 1e-300, 1 - 1e-16)
        b = np.full(len(y), float(self.n_trials)) if trials is None else np.asarray(trials, dtype=np.float64)
        return float((y * np.log(p) + (b - y) * np.log1p(-p)).sum() / b.sum())

    def credible_interval(self, level=0.9) -> np.ndarray:
        """Central posterior intervals of the coefficients.

        Parameters
        ----------
        level : float
            In (0, 1).

        Returns
        -------
        ndarray, float64, shape (d, 2)
        """
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        self._check_fitted()
        from scipy.special import ndtri

        half = ndtri(0.5 + level / 2) * np.sqrt(np.diag(self.covariance_)[: self.coef_.shape[1]])
        return np.stack([self.coef_[0] - half, self.coef_[0] + half], axis=1)

    def _arrays(self):
        return {
            "weights": self._weights(), "covariance": self.covariance_, "classes": self.classes_,
            "prior": np.array([self.prior_shape_, self.prior_rate_]), "n_steps": np.array(self.n_steps_),
        }

    def _restore(self, arrays):
        weights = arrays["weights"]
        d = len(weights) - (self._constant > 0)
        self.coef_ = weights[None, :d].copy()
        self.intercept_ = weights[d:] * self._constant if self._constant else np.zeros(1)
        self.covariance_ = arrays["covariance"]
        self.prior_shape_, self.prior_rate_ = (float(v) for v in arrays["prior"])
        self.prior_precision_ = self.prior_shape_ / self.prior_rate_
        if "classes" in arrays:
            self.classes_, self.n_steps_ = arrays["classes"], int(arrays["n_steps"])

    def __sklearn_tags__(self):
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(multi_class=False),
            input_tags=InputTags(sparse=True),
        )


def _with_constant(X, constant: float):
    """X with a column of ``constant`` at the end (none if 0); dtype problems are left to the check of rows."""
    if sparse.issparse(X):
        if not constant or X.ndim != 2:
            return X
        dtype = X.dtype if X.dtype.kind == "f" else np.float64
        if X.dtype.kind not in "fiub":
            return X
        return sparse.hstack([X.astype(dtype), sparse.csr_array(np.full((X.shape[0], 1), constant, dtype))], format="csr")
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"X has dtype {X.dtype} and shape {X.shape}: expected a table of numbers")
    X = X.astype(X.dtype if X.dtype == np.float32 else np.float64, copy=False)
    return np.hstack([X, np.full((len(X), 1), constant, X.dtype)]) if constant else X


def _check_memory(n_features: int, n_threads: int) -> None:
    """Refuse, before anything is spent, statistics that the machine cannot hold."""
    triangles = 3 + (n_threads - 1 if n_threads * triangle_size(n_features) * 8 <= 2**28 else 0)
    need = 8 * (triangles * triangle_size(n_features) + 6 * n_features**2)
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if need > have:
        raise MemoryError(
            f"{n_features} features: the statistics need about {need / 2**30:.1f} GiB, and the machine has "
            f"{have / 2**30:.1f} GiB"
        )


class _Spectrum:
    """What the known law of its noise says about a noised symmetric matrix.

    S + noise, the noise symmetric with independent normal entries of standard
    deviation s off the diagonal: its eigenvalues fill [-2 s sqrt(d), 2 s sqrt(d)]
    (Wigner). An eigenvalue L > s sqrt(d) of S shows as v = L + s^2 d / L > 2 s
    sqrt(d), and its eigenvector as one with squared overlap 1 - s^2 d / L^2 with
    the true one; a smaller L does not show (Benaych-Georges & Nadakuditi 2011).
    So the eigenvalues above the edge are de-biased, L = (v + sqrt(v^2 - 4 s^2 d))/2,
    and all others could be up to s sqrt(d), with the mean that the trace leaves.

    Attributes
    ----------
    vectors : (d, k) array
        Eigenvectors of what shows.
    upper, bulk_upper : (k,) array, float
        Largest eigenvalue there could be, along the vectors and elsewhere: what a
        step may not ignore.
    likely, bulk_likely : (k,) array, float
        Estimate of v^T S v along the vectors and elsewhere.
    """

    def __init__(self, matrix: np.ndarray, noise_sd: float):
        d = len(matrix)
        hidden = noise_sd * math.sqrt(d)
        edge = 2 * hidden
        if noise_sd == 0:
            values, self.vectors = np.linalg.eigh(matrix)
            self.upper = self.likely = np.maximum(values, 0.0)
            self.bulk_upper = self.bulk_likely = 0.0
            return
        if d <= _LARGE:
            values, vectors = np.linalg.eigh(matrix)
            shown = values > edge
            values, vectors = values[shown], vectors[:, shown]
        else:
            values, vectors = _above(matrix, edge)
        self.vectors = vectors
        self.upper = (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2
        self.bulk_upper = hidden
        left = (np.trace(matrix) - self.upper.sum()) / max(d - len(values), 1)
        self.bulk_likely = float(min(max(left, 0.0), hidden)) if len(values) < d else 0.0
        overlap = 1 - (hidden / self.upper) ** 2
        self.likely = overlap * self.upper + (1 - overlap) * self.bulk_likely

    def apply(self, top, bulk: float, vector: np.ndarray) -> np.ndarray:
        """Product of the matrix with these eigenvalues and a vector."""
        return bulk * vector + self.vectors @ ((top - bulk) * (self.vectors.T @ vector))

    def likely_matrix(self, matrix: np.ndarray, diagonal_sd: float) -> np.ndarray:
        """Estimate of S: ``likely`` along the vectors; elsewhere diagonal, as far as the noised diagonal tells.

        An entry of the diagonal has noise of ``diagonal_sd`` only, far less than the
        edge of the spectrum. Its estimate is the posterior mean under an
        exponential prior with the mean ``bulk_likely``.
        """
        shown = (self.vectors * self.likely) @ self.vectors.T
        rest = nonnegative_mean(np.diag(matrix), diagonal_sd, max(self.bulk_likely, 1e-3 * diagonal_sd))
        rest = np.maximum(rest - np.diag(shown), 0.0)
        # (I - V V^T) rest (I - V V^T)
        inside = self.vectors.T * rest
        half = self.vectors @ (inside - 0.5 * (inside @ self.vectors) @ self.vectors.T)
        shown -= half
        shown -= half.T
        shown.flat[:: len(shown) + 1] += rest
        return shown

    def matrix(self, top, bulk: float) -> np.ndarray:
        """The matrix with these eigenvalues."""
        result = (self.vectors * (top - bulk)) @ self.vectors.T
        result += result.T
        result *= 0.5
        result.flat[:: len(result) + 1] += bulk
        return result


def nonnegative_mean(observed, noise_sd: float, prior_mean: float) -> np.ndarray:
    """Posterior mean of a value with an exponential prior that is seen with normal noise.

    Parameters
    ----------
    observed : array, float64
    noise_sd, prior_mean : float
        Above 0.

    Returns
    -------
    ndarray, float64
        Above 0.
    """
    # A normal with this mean, cut off below 0; phi/Phi(z) = sqrt(2/pi) / erfcx(-z/sqrt(2)).
    z = (np.asarray(observed) - noise_sd**2 / prior_mean) / noise_sd
    far = z < -1e3
    with np.errstate(over="ignore"):
        mean = z + math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))
    return noise_sd * np.where(far, -1 / np.where(far, z, -1.0), np.maximum(mean, 0.0))


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Inverse of a positive definite matrix, which is overwritten."""
    # A symmetric matrix is its own transpose: LAPACK works on the upper triangle in place.
    factor, info = linalg.lapack.dpotrf(matrix.T, lower=0, overwrite_a=1)
    if info == 0:
        inverse, info = linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    if info:
        raise np.linalg.LinAlgError(f"LAPACK info {info}: the posterior precision is not positive definite")
    inverse = np.triu(inverse)
    inverse += np.triu(inverse, 1).T
    return inverse


def _above(matrix: np.ndarray, edge: float):
    """Eigenvalues above ``edge`` with their vectors, by Lanczos: few are there where the dimension is large."""
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
    return linalg.eigh(matrix, subset_by_value=(edge, math.inf), driver="evr")


def curvature_ratio(moment: float, n_trials: float) -> float:
    """Curvature of the likelihood over that of its Polya-Gamma bound, for logits of a given size.

    The bound's curvature b tanh(a/2)/(2a) is above the likelihood's, b p (1 - p), for
    every logit a but 0. The ratio of their means is taken over a ~ N(0, c^2), c being
    the solution of b c tanh(c/2)/2 = moment, where moment = sum_n <xi_n> a_n^2 / n is
    known from released numbers: tr(<m m^T> S) / n.

    Parameters
    ----------
    moment : float
    n_trials : float

    Returns
    -------
    float
        In [0.55, 1].
    """
    # c tanh(c/2)/2 = v is solved by c between sqrt(4 v) (small) and 2 v + 2 (large); Newton from above.
    v = max(moment, 0.0) / n_trials
    c = 2 * v + 2
    for _ in range(60):
        t = math.tanh(c / 2)
        change = (c * t / 2 - v) / (t / 2 + c * (1 - t * t) / 4)
        c -= change
        if abs(change) <= 1e-12 * c:
            break
    if c > 6:
        # The ratio is below 0.5 here, and too narrow a function of a for the nodes.
        return _LEAST_CURVATURE
    a = c * np.abs(_NODES)
    p = expit(a)
    return max(_LEAST_CURVATURE, float(_WEIGHTS @ (p * (1 - p)) / (_WEIGHTS @ pg_mean(a))))


class _Model:
    """The statistics, their bounds and the M-step, for the engine."""

    def __init__(self, estimator, rows):
        self._estimator, self._rows = estimator, rows
        self._n = estimator._public_n_records(rows.n_rows)
        if rows.n_rows > 2 * self._n:
            raise ValueError(f"n_records={self._n}: expected at least half the number of rows of X, {rows.n_rows}")
        self._d = d = rows.n_features
        self._b = b = float(estimator.n_trials)
        self._off = math.sqrt(2.0) if estimator.form == "orthonormal" else 1.0
        self._step = 0
        self.diagnostics = None
        self._alpha = estimator.prior_shape / estimator.prior_rate
        self._mean, self._covariance, self._moment = np.zeros(d), None, None
        self.statistics_shape = (d + triangle_size(d),)
        self._paper = estimator.sensitivity == "paper"
        if estimator.private:
            self._bound = R = estimator._row_bound
            self.clip_norm = math.hypot(1 / 4, 1 / 2) if self._paper else 1.0
        else:
            # Nothing is clipped: no record reaches the joint norm.
            self._bound = R = max(_largest_norm(rows), 1e-150) * (1 + 1e-12)
            self.clip_norm = 1.5
        self._linear_bound, self._quadratic_bound = b * R, b * R * R / 4
        self._center = np.zeros(d)
        self._rate = Schedule(
            1.0 if estimator.learning_offset is None else float(estimator.learning_offset), float(estimator.learning_decay)
        )
        self._gradient = self._at = self._matrix = None
        self._precision = self._variance = self._sampling = 0.0
        self._spectrum = None

    # -- privacy

    def _scales(self) -> tuple[float, float]:
        """C1 and C2 of the current step."""
        estimator = self._estimator
        if not estimator.private:
            return self._linear_bound, self._quadratic_bound
        if self._paper:
            return 2 * self._linear_bound, 2 * self._quadratic_bound
        share = estimator._shares()[min(self._step, 1)]
        linear = (float(estimator.residual_clip) if estimator.center else 0.5) * self._linear_bound
        return linear / math.sqrt(share), self._quadratic_bound / math.sqrt(1 - share) if share < 1 else math.inf

    def sensitivity(self, neighbors: str) -> float:
        """See the estimator's notes."""
        if neighbors == "add_remove":
            return self.clip_norm
        bound = 2 * self.clip_norm
        if not self._estimator.center and self._estimator.private:
            for share in set(self._estimator._shares()):
                a, b = (1 / 4, 1 / 2) if self._paper else (math.sqrt(share), math.sqrt(1 - share))
                tight = max(2 * a * a + 2 * b * b + a**4 / (2 * b * b) if a * a <= 2 * b * b else 4 * a * a, 4 * a * a + b * b)
                bound = min(bound, math.sqrt(tight)) if share == max(self._estimator._shares()) else bound
        return bound

    def paper_sensitivity(self, neighbors: str) -> float:
        """Eqs. 57 and 59: each block's own sensitivity is its unit."""
        return 1.0

    def prepare(self, mechanism, sampler) -> None:
        """Take the lattice from the mechanism; everything that can fail fails here."""
        self._noise_free = mechanism.noise_multiplier == 0
        # Of the public number of records: read-outs depend on it.
        self._fraction = sampler.expected_batch_size / self._n
        n, spacing = 2 * self._n, mechanism.spacing
        self._grid = factor_spacing(self.clip_norm, n)
        # One unit a coordinate, and what the product with sqrt(2) in doubles can add.
        error = 3 * 2.0**-53 * n * self.clip_norm / spacing
        slack = math.sqrt(triangle_size(self._d)) * spacing * (1 + 2 * error)
        if slack > 0.25 * self.clip_norm:
            raise ValueError(
                f"noise_multiplier={mechanism.noise_multiplier:.4g}: too large for {self._d} features, the rounding of their "
                f"second moments would take {slack / self.clip_norm:.0%} of a contribution; expected at most 25 %"
            )
        self._clip = self.clip_norm - (slack if self._estimator.private else 0.0)

    def engine_schedule(self) -> Schedule:
        """The paper's step sizes for the paper's update; else each release is averaged here, where its centre is known."""
        return self._rate if self._estimator.update == "paper" else Schedule(1.0, 0.0)

    # -- E-step

    def estep(self, records, words, spacing, sums, n_threads):
        """Add the truncated contributions: coordinates of s1/C1, then of s2/C2 in the chosen form."""
        rows = self._rows if len(records) == self._rows.n_rows else self._rows.take(records)
        centred = self._estimator.center and self._step > 0
        linear, quadratic = self._scales()
        norms = None if self.diagnostics is None else np.zeros(len(records))
        fresh = accumulate(
            rows, self._moment, row_norm=self._bound, n_trials=self._b, scale_linear=linear, scale_quadratic=quadratic,
            clip_norm=self._clip, spacing=spacing, factor_grid=self._grid, center=self._center if centred else None,
            label_free=self._estimator.center, n_threads=n_threads, norms=norms,
        )
        if norms is not None:
            self.diagnostics.append({"records": len(norms), "clipped": int((norms > self._clip).sum())})
        unit = self._grid * self._grid / spacing
        native.blr_round(self._d, unit, unit * self._off, fresh[self._d :])
        sums += fresh

    # -- M-step

    def _unpack(self, average) -> np.ndarray:
        """s2 / C2 as a matrix."""
        return unpack_upper(average[self._d :], self._d, 1 / self._off)

    def project(self, released):
        """Negative eigenvalues of the noised s2 to 0."""
        d, start = self._d, self._d
        matrix = psd_project(self._unpack(released))
        for i in range(d):
            released[start] = matrix[i, i]
            np.multiply(matrix[i, i + 1 :], self._off, out=released[start + 1 : start + d - i])
            start += d - i

    def mstep(self, state: State) -> None:
        """q(m) and q(alpha) from the release or, for the paper's update, from the running average."""
        if self._estimator.update == "paper":
            self._mstep_paper(state)
        else:
            self._mstep_average(state)
        estimator = self._estimator
        self._shape = estimator.prior_shape + self._d / 2
        self._prior_rate = estimator.prior_rate + 0.5 * (self._mean @ self._mean + np.trace(self._covariance))
        self._alpha = self._shape / self._prior_rate
        center = self._center if estimator.center else self._mean
        self._moment = self._covariance + np.outer(center, center)
        self._step += 1

    def _mstep_paper(self, state):
        linear, quadratic = self._scales()
        precision = self._unpack(state.average)
        precision *= self._n * quadratic
        precision.flat[:: self._d + 1] += self._alpha
        self._covariance = _inverse(precision)
        self._mean = self._covariance @ (self._n * linear * state.average[: self._d])

    def _mstep_average(self, state):
        linear, quadratic = self._scales()
        noise = state.noise_sd * self._n
        fresh, noise_gradient = state.average[: self._d] * (self._n * linear), noise * linear
        exact = self._noise_free and self._fraction == 1
        rate = 1.0 if exact else self._rate.rate(self._step)

        # Averages of the gradients and of the points they were taken at.
        if self._gradient is None:
            rate, self._gradient, self._at = 1.0, np.zeros(self._d), np.zeros(self._d)
        self._gradient += rate * (fresh - self._gradient)
        self._at += rate * (self._center - self._at)
        self._variance = (1 - rate) ** 2 * self._variance + (rate * noise_gradient) ** 2
        self._sampling = (1 - rate) ** 2 * self._sampling + rate**2 * (1 / self._fraction - 1)

        if exact:
            self._mstep_exact(self._unpack(state.average) * (self._n * quadratic))
            return
        if math.isfinite(quadratic):
            self._average_matrix(state, quadratic, noise, rate)
        spectrum, alpha = self._spectrum, self._alpha
        aware = self._estimator.noise_aware
        ratio = 1.0
        if aware and self._estimator.center and self._covariance is not None:
            # tr(<m m^T> S) of the last posterior.
            size = self._mean @ spectrum.apply(spectrum.likely, spectrum.bulk_likely, self._mean)
            spread = self._covariance @ spectrum.vectors
            inside = np.einsum("ij,ij->j", spectrum.vectors, spread)
            size += inside @ (spectrum.likely - spectrum.bulk_likely) + spectrum.bulk_likely * np.trace(self._covariance)
            ratio = curvature_ratio(size / self._n, self._b)
        self._read_out(ratio, aware)

        if self._estimator.center and self._step == 0 and self._estimator._constant:
            self._center[-1] = self._base_rate(fresh[-1], noise_gradient)
        elif self._estimator.center:
            # One Newton step with the largest curvature there could be, damped where
            # the noise of one release says less than the prior.
            def gain(curvature):
                damping = alpha * noise_gradient**2 if aware else 0.0
                return curvature / (curvature * curvature + alpha * curvature + damping) if curvature > 0 else 1 / alpha

            top = np.array([gain(ratio * value) for value in spectrum.upper])
            bulk = gain(ratio * spectrum.bulk_upper) if len(spectrum.upper) < self._d else 0.0
            self._center = self._center + spectrum.apply(top, bulk, fresh - alpha * self._center)

    def _mstep_exact(self, curvature):
        """What the read-out and the Newton step come to if all records are in and there is no noise."""
        ratio = 1.0
        if self._estimator.noise_aware and self._estimator.center and self._covariance is not None:
            size = self._mean @ curvature @ self._mean + np.vdot(curvature, self._covariance)
            ratio = curvature_ratio(size / self._n, self._b)
        curvature *= ratio
        right = self._gradient + curvature @ self._at
        curvature.flat[:: self._d + 1] += self._alpha
        self._covariance = _inverse(curvature)
        self._mean = self._covariance @ right
        if self._estimator.center:
            self._center = self._center + self._covariance @ (self._gradient - self._alpha * self._center)

    def _base_rate(self, gradient, noise_sd):
        """Weight of the constant that gives the observed share of successes, all others being 0.

        The first gradient is sum (y - b/2) x. A start from there keeps what all
        records have in common out of the directions that the noise hides, where
        later steps are too short to correct it.
        """
        constant = self._estimator._constant
        unit = self._n * self._b * constant
        least = min(0.5, max(3 * noise_sd / unit, 1e-3))
        share = min(max(0.5 + gradient / unit, least), 1 - least)
        return math.log(share / (1 - share)) / constant

    def _average_matrix(self, state, quadratic, noise, rate):
        """Average of the noised s2, each weighted by its precision, and its spectrum."""
        fresh = self._unpack(state.average)
        fresh *= self._n * quadratic
        # Standard deviation off the diagonal, which sets the spectrum of the noise.
        sd = noise * quadratic / self._off
        if sd > 0:
            total = self._precision + sd**-2
            rate = sd**-2 / total
        else:
            total = math.inf
        if self._matrix is None:
            self._matrix = fresh
        else:
            fresh -= self._matrix
            fresh *= rate
            self._matrix += fresh
        self._precision = total
        if self._spectrum is None or self._last() or self._d <= _LARGE or total > 1.1 * self._seen or sd == 0:
            self._seen = total
            self._spectrum = _Spectrum(self._matrix, 0.0 if sd == 0 else total**-0.5)

    def _read_out(self, ratio, aware):
        """q(m) given the averages: gradient + S (m0 - m) seen with noise, and the prior."""
        spectrum, alpha = self._spectrum, self._alpha

        def parts(curvature):
            """Posterior precision, and the factors of the gradient and of the centre in the mean."""
            curvature = np.asarray(curvature) * ratio
            if not aware:
                return curvature + alpha, np.ones_like(curvature), curvature
            noise = self._variance + self._sampling * curvature
            trust = np.divide(curvature, curvature + noise, out=np.ones_like(curvature), where=curvature + noise > 0)
            return trust * curvature + alpha, trust, trust * curvature

        # Where the noise hides the curvature, the mean moves as if it were the
        # largest there could be: too large a step is worse than too small a one.
        top, bulk = parts(spectrum.upper), parts(spectrum.bulk_upper)
        self._mean = spectrum.apply(top[1] / top[0], float(bulk[1] / bulk[0]), self._gradient) + spectrum.apply(
            top[2] / top[0], float(bulk[2] / bulk[0]), self._at
        )
        if not aware:
            self._covariance = spectrum.matrix(1 / top[0], float(1 / bulk[0]))
        elif self._noise_free or (self._d > _LARGE and not self._last()):
            top, bulk = parts(spectrum.likely), parts(spectrum.bulk_likely)
            self._covariance = spectrum.matrix(1 / top[0], float(1 / bulk[0]))
        else:
            self._covariance = self._aware_covariance(ratio)

    def _last(self) -> bool:
        return self._step + 1 == int(self._estimator.n_steps)

    def _aware_covariance(self, ratio):
        """Posterior covariance where the curvature is what is likely of each column.

        A column of few records has little curvature though the noise could hide more.
        """
        L = self._spectrum.likely_matrix(self._matrix, self._precision**-0.5 * self._off)
        L *= ratio
        # With c an eigenvalue of L and noise of variance v + k c in the gradient, the
        # precision is alpha + c^2 / (v + (1 + k) c).
        seen = L * (1 + self._sampling)
        seen.flat[:: self._d + 1] += self._variance
        half = linalg.solve_triangular(linalg.cholesky(seen, lower=True, overwrite_a=True), L, lower=True, overwrite_b=True)
        precision = half.T @ half
        precision.flat[:: self._d + 1] += self._alpha
        return _inverse(precision)

    def arrays(self):
        """What the estimator keeps; all of it released."""
        return {
            "weights": self._mean, "covariance": self._covariance, "prior": np.array([self._shape, self._prior_rate]),
        }


def _largest_norm(rows) -> float:
    """Largest L2 norm of the rows (only for fits that are not private)."""
    square = rows.values.astype(np.float64) ** 2
    if rows.indptr is None:
        return math.sqrt(square.reshape(rows.n_rows, rows.n_features).sum(axis=1).max())
    running = np.concatenate([[0.0], np.cumsum(square)])
    return math.sqrt((running[rows.indptr[1:]] - running[rows.indptr[:-1]]).max())
