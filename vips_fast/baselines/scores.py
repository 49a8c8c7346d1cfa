"""Baselines that release noised sums of clipped scores: DPVI, DP-SGLD, variational inference by sampling.

The score of a record is the gradient of its log-likelihood, (y - sigmoid(x . theta)) x.
All three are the package's own loop with another M-step. The contributions come from the
logistic regression kernel: around the centre theta and with <m m^T> = theta theta^T its
linear statistic is the score.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.special import expit

from ..accounting import BayesianAccountant
from ..inference import Schedule, State
from ..kernels.blr import accumulate, check_rows, factor_spacing
from ..models.base import PrivateEstimator, check_number, public_generator
from ..models.logistic import _largest_norm, _with_constant

#: Orders lambda among which the Bayesian accountant's result is the least.
_ORDERS = (1, 2, 4, 8, 16, 32, 64, 128)


class _ScoreEstimator(PrivateEstimator):
    """What the three have in common."""

    _estimator_type = "classifier"
    update, sensitivity, learning_decay, learning_offset = "average", "proven", 0.0, 1.0

    def _check_parameters(self) -> None:
        for name in ("clip_norm", "prior_precision"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ValueError(f"fit_intercept={self.fit_intercept!r}: expected True or False")
        self._check_privacy_parameters()
        if self.sampling != "full" and self.batch_size is None:
            raise ValueError(f"batch_size=None: expected a number with sampling={self.sampling!r}")

    def fit(self, X, y):
        """Fit to rows X, shape (n, d), dense or sparse, and two labels.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are unusable, or the run would overspend; nothing is spent.
        """
        self._check_parameters()
        classes = np.unique(np.asarray(y))
        if len(classes) != 2:
            raise ValueError(f"y has {len(classes)} different labels: expected 2")
        rows = check_rows(_with_constant(X, float(self.fit_intercept)), np.asarray(y) == classes[1])
        model = self._kind(self, rows)
        sampler, mechanism, ledger = self._set_up(model, rows.n_rows, int(self.n_steps))
        model.prepare(mechanism, sampler)
        self.n_features_in_ = rows.n_features - int(self.fit_intercept)
        # A rate of 1: the state holds the last release alone.
        self._run(
            model, State(np.zeros(model.statistics_shape)), sampler, mechanism, ledger, int(self.n_steps), rows.n_rows,
            schedule=Schedule(1.0, 0.0),
        )
        self.classes_ = classes
        self._samples = model.result(self)
        mean = self._samples.mean(axis=0)
        d = self.n_features_in_
        self.coef_ = mean[None, :d].copy()
        self.intercept_ = mean[d:].copy() if self.fit_intercept else np.zeros(1)
        return self

    def _scores(self, X, weights) -> np.ndarray:
        self._check_fitted()
        X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        d = self.n_features_in_
        if X.ndim != 2 or X.shape[1] != d:
            raise ValueError(f"X has shape {X.shape}: expected (n, {d})")
        value = np.asarray(X @ weights[:, :d].T)
        return value + weights[:, d] if self.fit_intercept else value

    def decision_function(self, X) -> np.ndarray:
        """x . theta at the mean of the kept parameters, shape (n,)."""
        self._check_fitted()
        return self._scores(X, self._samples.mean(axis=0, keepdims=True))[:, 0]

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the two classes, averaged over the kept parameters, shape (n, 2)."""
        self._check_fitted()
        p = expit(self._scores(X, self._samples)).mean(axis=1)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X) -> np.ndarray:
        """The more probable class of each row."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def score(self, X, y) -> float:
        """Accuracy."""
        return float((self.predict(X) == np.asarray(y)).mean())


class _ScoreModel:
    """Clipped scores as the engine's statistic; subclasses say where and what is done with them."""

    def __init__(self, estimator, rows):
        self._estimator, self._rows = estimator, rows
        self._n = estimator._public_n_records(rows.n_rows)
        self._d = rows.n_features
        self._theta = np.zeros(self._d)
        self._alpha = float(estimator.prior_precision)
        self._step = 0
        self.statistics_shape = (self._width(),)
        # Without privacy a bound that no score passes.
        self.clip_norm = float(estimator.clip_norm) if estimator.private else 1e3 * max(1.0, _largest_norm(rows))

    def _width(self) -> int:
        return self._d

    def sensitivity(self, neighbors: str) -> float:
        """C for adding or removing a record, 2 C for replacing one."""
        return self.clip_norm * (1.0 if neighbors == "add_remove" else 2.0)

    def prepare(self, mechanism, sampler) -> None:
        """Take what is public of the run."""
        self._batch = sampler.expected_batch_size
        #: Standard deviation of the noise on the gradient of the whole data's log-likelihood.
        self._noise = mechanism.noise_sd * self._n / self._batch

    def _at(self):
        """(rows, theta) of the step's scores, the rows being those that multiply the residual."""
        return self._rows, self._theta

    def estep(self, records, words, spacing, sums, n_threads):
        """Add the truncated clipped scores."""
        rows, theta = self._at()
        if len(records) != rows.n_rows:
            rows = rows.take(records)
        sums += accumulate(
            rows, np.outer(theta, theta), row_norm=1e100, n_trials=1.0, scale_linear=1.0, scale_quadratic=math.inf,
            clip_norm=self.clip_norm, spacing=spacing, factor_grid=factor_spacing(self.clip_norm, 2 * self._n),
            center=theta, linear_only=True, n_threads=n_threads,
        )

    def mstep(self, state) -> None:
        """One step with the noised gradient of the log-likelihood."""
        self._move(state.average * self._n)
        self._step += 1

    def _late(self) -> bool:
        return self._step >= int(self._estimator.n_steps) // 2


# ----------------------------------------------------------------- DPVI


class _DPVIModel(_ScoreModel):
    """theta = (mean, log sd); the gradient through m = mean + sd eta is (score, score eta sd)."""

    def __init__(self, estimator, rows):
        super().__init__(estimator, rows)
        self._generator = public_generator(estimator.random_state)
        self._mean, self._log_sd = np.zeros(self._d), np.full(self._d, math.log(float(estimator.initial_sd)))
        self._squares = np.zeros(2 * self._d)
        self._kept = []
        self._draw()

    def _width(self):
        return 2 * self._d

    def _draw(self):
        self._eta = self._generator.normal(size=self._d) * np.exp(self._log_sd)

    def _at(self):
        # Rows (x, x * eta sd); with theta = (mean, 1) their product is x . (mean + eta sd).
        rows, d = self._rows, self._d
        if rows.indptr is None:
            X = rows.values.reshape(rows.n_rows, d).astype(np.float64)
            rows = rows._replace(n_features=2 * d, values=np.hstack([X, X * self._eta]).reshape(-1))
        else:
            sizes = np.diff(rows.indptr)
            total = int(rows.indptr[-1])
            place = np.arange(total) + np.repeat(rows.indptr[:-1], sizes)
            indices, values = np.empty(2 * total, np.int32), np.empty(2 * total)
            indices[place], values[place] = rows.indices, rows.values
            second = place + np.repeat(sizes, sizes)
            indices[second], values[second] = rows.indices + d, rows.values * self._eta[rows.indices]
            rows = rows._replace(n_features=2 * d, indptr=2 * rows.indptr, indices=indices, values=values, unit=False)
        return rows, np.concatenate([self._mean, np.ones(d)])

    def _move(self, gradient):
        d, rate = self._d, float(self._estimator.learning_rate)
        # Prior and entropy: E log N(m | 0, 1/alpha) = -alpha (mean^2 + sd^2) / 2, entropy = sum log sd.
        gradient = gradient.copy()
        gradient[:d] -= self._alpha * self._mean
        gradient[d:] += 1 - self._alpha * np.exp(2 * self._log_sd)
        gradient /= self._n
        self._squares += gradient**2
        change = rate * gradient / np.sqrt(self._squares + 1e-16)
        self._mean = self._mean + change[:d]
        self._log_sd = np.clip(self._log_sd + change[d:], -20.0, 5.0)
        self._draw()
        if self._late():
            self._kept.append((self._mean, self._log_sd))

    def result(self, estimator):
        mean, log_sd = (np.mean(part, axis=0) for part in zip(*self._kept, strict=True))
        estimator.mean_, estimator.sd_ = mean, np.exp(log_sd)
        # Antithetic draws: their mean is exact.
        eta = public_generator(0).normal(size=(50, self._d)) * estimator.sd_
        return mean + np.concatenate([eta, -eta])


class DPVILogisticRegression(_ScoreEstimator):
    """Differentially private variational inference by clipped noisy gradients (Jälkö, Dikmen & Honkela 2017).

    q(m) is a product of normals; the gradient of the variational bound with respect to
    means and log standard deviations goes through one draw m = mean + sd eta a step,
    common to the minibatch. A record's part, (score, score eta sd), is clipped to an L2
    norm of ``clip_norm``; steps are Adagrad's. Means and log standard deviations of the
    second half of the steps are averaged.

    Parameters
    ----------
    clip_norm : float
    prior_precision : float
    learning_rate : float
        Adagrad's.
    initial_sd : float
        Standard deviations that q starts with.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier, private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds eta, which is public, and the minibatches of a fit that is not private.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, ledger_, n_features_in_
    mean_, sd_ : ndarray
        q's, the intercept last.
    """

    _kind = _DPVIModel

    def __init__(
        self, *, clip_norm=1.0, prior_precision=1.0, learning_rate=0.3, initial_sd=0.1, n_steps=200, sampling="poisson",
        neighbors=None, batch_size=None, target_epsilon=None, target_delta=None, noise_multiplier=None,
        fit_intercept=True, private=True, n_records=None, n_jobs=None, random_state=None, callback=None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.learning_rate = learning_rate
        self.initial_sd = initial_sd
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        for name in ("learning_rate", "initial_sd"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)


# -------------------------------------------------------------- DP-SGLD


class _SGLDModel(_ScoreModel):
    def __init__(self, estimator, rows):
        super().__init__(estimator, rows)
        #: Longest score that the default step size reckons with; without privacy the data's own.
        self._longest = min(self.clip_norm, 10.0) if estimator.private else _largest_norm(rows)
        # Langevin noise: with privacy seeded by the operating system.
        self._generator = np.random.default_rng() if estimator.private else public_generator(estimator.random_state)
        self._kept = []

    def _move(self, gradient):
        step = self._estimator.step_size
        if step is None:
            # Curvature is at most N C^2 / 4 + alpha: scores are no longer than C where p is near 1/2.
            step = 1.0 / (self._n * self._longest**2 / 4 + self._alpha)
        if self._noise > 0:
            # The private noise, (step / 2) sd, may not pass Langevin's sqrt(step).
            step = min(step, 4.0 / self._noise**2)
        rest = max(step - (0.5 * step * self._noise) ** 2, 0.0)
        self._theta = self._theta + 0.5 * step * (gradient - self._alpha * self._theta)
        self._theta = self._theta + math.sqrt(rest) * self._generator.normal(size=self._d)
        self.step_size = step
        if self._late():
            self._kept.append(self._theta)

    def result(self, estimator):
        estimator.step_size_ = self.step_size
        return np.array(self._kept)


class DPSGLDLogisticRegression(_ScoreEstimator):
    """Differentially private stochastic gradient Langevin dynamics (Wang, Fienberg & Smola 2015).

    theta moves by (step / 2) (gradient of the log posterior) + N(0, step), the gradient
    being that of a minibatch's clipped scores. The noise that privacy needs is part of
    Langevin's own: the step is at most 4 / sd^2, sd being that of the noise on the whole
    data's gradient, and what is left of the variance ``step`` is added. The second half of
    the iterates are the posterior's samples.

    Parameters
    ----------
    clip_norm : float
    prior_precision : float
    step_size : float or None
        None is 1 / (n C^2 / 4 + prior_precision), C being clip_norm, at most 10, or without
        privacy the longest row's norm; or less where privacy asks for it.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier, private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds the minibatches and Langevin's noise of a fit that is not private.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, ledger_, n_features_in_
    step_size_ : float
        The last step's size.
    """

    _kind = _SGLDModel

    def __init__(
        self, *, clip_norm=1.0, prior_precision=1.0, step_size=None, n_steps=500, sampling="poisson", neighbors=None,
        batch_size=None, target_epsilon=None, target_delta=None, noise_multiplier=None, fit_intercept=True,
        private=True, n_records=None, n_jobs=None, random_state=None, callback=None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.step_size = step_size
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        if self.step_size is not None:
            check_number("step_size", self.step_size, 0, math.inf, low_open=True, high_open=True)


# ------------------------------------- variational inference by sampling


class _SamplingModel(_ScoreModel):
    def __init__(self, estimator, rows):
        super().__init__(estimator, rows)
        self._kept = []
        self._accountants = []

    def prepare(self, mechanism, sampler):
        super().prepare(mechanism, sampler)
        estimator = self._estimator
        if estimator.bayesian_pairs:
            self._pairs = np.random.default_rng()
            q = self._batch / self._n
            self._accountants = [
                BayesianAccountant(q, mechanism.noise_sd, int(estimator.n_steps), order) for order in _ORDERS
            ]

    def estep(self, records, words, spacing, sums, n_threads):
        """Add the clipped scores; the Bayesian accountant also looks at pairs of records."""
        super().estep(records, words, spacing, sums, n_threads)
        if not self._accountants:
            return
        first, second = self._pairs.integers(0, self._rows.n_rows, size=(2, int(self._estimator.bayesian_pairs)))
        distances = np.linalg.norm(self._clipped(first) - self._clipped(second), axis=1)
        for accountant in self._accountants:
            accountant.step(distances)

    def _clipped(self, index):
        rows = self._rows.take(index)
        if rows.indptr is None:
            X = rows.values.reshape(len(index), self._d).astype(np.float64)
        else:
            X = sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=(len(index), self._d)).toarray()
        scores = (rows.y - expit(X @ self._theta))[:, None] * X
        return scores / np.maximum(1.0, np.linalg.norm(scores, axis=1) / self.clip_norm)[:, None]

    def _move(self, gradient):
        # Step sizes fall as t^-1/2; the noise of the release is the spread of q's mean of samples.
        step = float(self._estimator.learning_rate) / self._n / math.sqrt(1 + self._step)
        self._theta = self._theta + step * (gradient - self._alpha * self._theta)
        self.scale = step * self._noise * math.sqrt(self._estimator.n_samples)
        if self._late():
            self._kept.append(self._theta)

    def result(self, estimator):
        estimator.posterior_scale_ = self.scale
        estimator.bayesian_ = None
        if self._accountants:
            delta = estimator.privacy_.delta
            estimator.bayesian_ = min((a.guarantee(delta) for a in self._accountants), key=lambda g: g.epsilon_mu)
        return np.array(self._kept)


class VariationalSamplingLogisticRegression(_ScoreEstimator):
    """Variational inference that releases samples of q in place of its parameters (Triastcyn & Faltings 2019).

    In each step q is a normal whose mean is one gradient step from the mean of the last
    step's samples, and ``n_samples`` samples of it are released. No noise is added to the
    gradient: the samples' spread hides it, and their mean, which is all that is used of
    them, is the clipped gradient step plus normal noise of the spread over
    sqrt(n_samples). So a step is one Gaussian release, and ``posterior_scale_`` is the
    spread that the target needs.

    The article's q goes on from its own parameters, which were never released, but counts
    each step's divergence as if only that step's gradient separated two data sets; that is
    no guarantee. Starting from the released samples makes the count right.

    Parameters
    ----------
    clip_norm, prior_precision, learning_rate : float
        A step is learning_rate / sqrt(t) on the mean gradient of a record.
    n_samples : int
        Samples of q a step.
    bayesian_pairs : int
        Pairs of records a step for the Bayesian accountant; 0 leaves it out. Its result
        is a data-dependent statement about a random record, not differential privacy; it
        is itself private, and asking for it marks the model NOT PRIVATE.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier, private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds the minibatches of a fit that is not private.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, ledger_, n_features_in_
    posterior_scale_ : float
        Standard deviation of q in the last step.
    bayesian_ : `vips_fast.accounting.BayesianGuarantee` or None
        Least over a fixed list of orders.
    """

    _kind = _SamplingModel

    def __init__(
        self, *, clip_norm=1.0, prior_precision=1.0, learning_rate=10.0, n_samples=10, bayesian_pairs=0, n_steps=200,
        sampling="poisson", neighbors=None, batch_size=None, target_epsilon=None, target_delta=None,
        noise_multiplier=None, fit_intercept=True, private=True, n_records=None, n_jobs=None, random_state=None,
        callback=None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.learning_rate = learning_rate
        self.n_samples = n_samples
        self.bayesian_pairs = bayesian_pairs
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        check_number("learning_rate", self.learning_rate, 0, math.inf, low_open=True, high_open=True)
        check_number("n_samples", self.n_samples, 1, 2**31, integer=True)
        pairs = check_number("bayesian_pairs", self.bayesian_pairs, 0, 2**31, integer=True)
        if pairs in (1, 2):
            raise ValueError(f"bayesian_pairs={pairs}: expected 0 or at least 3")
        if pairs and (self.sampling == "without_replacement" or not self.private or self.noise_multiplier == 0):
            raise ValueError(f"bayesian_pairs={pairs}: expected 0 without noise or with sampling='without_replacement'")

    def _set_up(self, *args, **kwargs):
        sampler, mechanism, ledger = super()._set_up(*args, **kwargs)
        if self.bayesian_pairs:
            ledger.taint("bayesian_pairs: figures of pairs of training records were opened")
        return sampler, mechanism, ledger
