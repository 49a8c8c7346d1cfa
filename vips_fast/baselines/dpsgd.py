"""Logistic regression by differentially private stochastic gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import inference
from ..accounting import (
    LaplaceEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    calibrate_noise_multiplier,
    epsilon,
    pure_epsilon,
)
from ..accounting.textbook import _rounded_laplace
from ..kernels.lattice import MAX_NORM_UNITS, check_range, noise_spacing
from ..ledger import Ledger
from ..mechanisms import GaussianMechanism
from ..models.base import Privacy, PrivateEstimator, check_choice, check_number
from ..sampling import FixedSizeSampler, FullSampler, PoissonSampler
from ..threads import resolve_n_threads

#: Records whose gradients are held at a time.
_BLOCK = 4096

#: Scaling before truncation, so that rounding of the norm cannot pass the bound.
_SHRINK = 1.0 - 2.0**-40

#: scenario -> (sampling, neighbours, accountant that calibrates, norm of the clip)
_SCENARIOS = {
    "laplace": ("without_replacement", "replace_one", "basic", 1),
    "zcdp": ("full", "replace_one", "zcdp", 2),
    "poisson": ("poisson", "add_remove", "rdp", 2),
}


@dataclass(frozen=True)
class LaplaceMechanism:
    """Exactly rounded Laplace noise for an integer sum of clipped contributions.

    The twin of `vips_fast.mechanisms.GaussianMechanism` for the L1 norm:
    round(integer + Laplace) is post-processing of the Laplace mechanism.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise over ``sensitivity``; 0 adds nothing (not private).
    sensitivity : float
        L1 sensitivity of the sum.
    clip_norm : float
        L1 bound of one contribution.
    max_records : int
        Most records that one sum can hold.
    """

    noise_multiplier: float
    sensitivity: float
    clip_norm: float
    max_records: int

    def __post_init__(self):
        units = self.clip_norm / self.spacing
        if not 1 <= units < MAX_NORM_UNITS:
            raise ValueError(
                f"noise_multiplier={self.noise_multiplier!r}: the noise is "
                f"{self.noise_multiplier * self.sensitivity / self.clip_norm:.3g} times a whole contribution; "
                "expected at most 2^21 times"
            )
        check_range(self.max_records, units, "n_records")

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise: sqrt(2) times its scale."""
        return math.sqrt(2.0) * self.noise_multiplier * self.sensitivity

    @property
    def spacing(self) -> float:
        """Lattice spacing, a power of two, from public numbers alone."""
        return noise_spacing(self.noise_multiplier * self.sensitivity, self.clip_norm)

    def add_noise(self, sums: np.ndarray, key: bytes | None, n_threads: int = 1) -> None:
        """Add this release's noise to the int64 sum, in place, from the operating system's generator."""
        if self.noise_multiplier == 0:
            return
        if key is not None:
            raise ValueError("the Laplace mechanism takes no key")
        # Rounded up to a whole number of lattice steps: more noise, never less.
        scale = math.ceil(self.noise_multiplier * self.sensitivity / self.spacing * (1.0 + 2.0**-50))
        flat = sums.reshape(-1)
        for i in range(flat.size):
            flat[i] += _rounded_laplace(scale)


class _LaplaceSampler:
    """A sampler whose releases are Laplace mechanisms."""

    def __init__(self, sampler):
        self._sampler = sampler
        self.neighbors = sampler.neighbors
        self.n_records = sampler.n_records
        self.expected_batch_size = sampler.expected_batch_size
        self.draw = sampler.draw

    def event(self, noise_multiplier: float):
        inner = LaplaceEvent(noise_multiplier, self.neighbors)
        size = int(self.expected_batch_size)
        if size == self.n_records:
            return inner
        return WithoutReplacementEvent(size, self.n_records, inner)


class DPSGDLogisticRegression(PrivateEstimator):
    """Logistic regression by noisy clipped gradient steps.

    theta_{t+1} = theta_t - learning_rate (mean clipped gradient + noise +
    alpha theta_t), with the package's own sampling, lattice, noise and ledger.

    Parameters
    ----------
    scenario : {"poisson", "zcdp", "laplace"}
        "laplace": pure epsilon; Laplace noise, batches of a fixed size without
        replacement, gradients clipped in the L1 norm, replace one record.
        "zcdp": Gaussian noise, all records in each step, replace one record.
        "poisson": Gaussian noise, Poisson batches, add or remove one record.
    accountant : str or None
        The accountant that calibrates the noise. "textbook" takes the one that
        goes with the scenario: sums of amplified epsilons for "laplace", zCDP
        with its simple conversion for "zcdp", Renyi divergences for "poisson".
        None takes the tightest sound one ("laplace" stays with delta = 0).
    clip_norm : float
        Bound of one record's gradient, in the L2 norm (L1 for "laplace").
    learning_rate, alpha : float
        Step size and ridge penalty.
    batch_size : float or None
        (Expected) records of a batch; None takes all.
    n_steps : int
    average : bool
        Return the mean of the second half of the iterates instead of the last.
    fit_intercept : bool
    target_epsilon, target_delta, noise_multiplier : float or None
        As in the package's other estimators; "laplace" takes no target_delta.
    private : bool
        False fits without clipping and noise.
    n_records : int or None
        Public number of records; None takes the number of rows.
    n_jobs : int or None
        Threads of the noise.
    random_state : int, numpy Generator, RandomState or None
        Seeds the batches of a fit that is not private.
    callback : callable(step, epsilon, seconds) or None

    Attributes
    ----------
    coef_ : ndarray, float64, shape (1, n_features)
    intercept_ : ndarray, float64, shape (1,)
    classes_ : ndarray, [0, 1]
    privacy_, ledger_, n_features_in_

    Notes
    -----
    Sources: Abadi et al. 2016; Song, Chaudhuri & Sarwate 2013. Replacing a
    clipped gradient moves the sum by at most 2 clip_norm, adding or removing
    one by clip_norm. With "laplace" and the textbook's accountant the scale on
    the mean gradient is 2 clip_norm / (m ln(1 + (e^(epsilon / T) - 1) n / m)).
    """

    def __init__(
        self, scenario="poisson", *, accountant="textbook", clip_norm=1.0, learning_rate=1.0, alpha=0.0, batch_size=None,
        n_steps=100, average=True, fit_intercept=True, target_epsilon=None, target_delta=None, noise_multiplier=None,
        private=True, n_records=None, n_jobs=None, random_state=None, callback=None,
    ):
        self.scenario = scenario
        self.accountant = accountant
        self.clip_norm = clip_norm
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.average = average
        self.fit_intercept = fit_intercept
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    # ------------------------------------------------------------------ fit

    def _check_parameters(self) -> None:
        check_choice("scenario", self.scenario, tuple(_SCENARIOS))
        for name in ("private", "average", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected True or False")
        check_number("clip_norm", self.clip_norm, 0, math.inf, low_open=True, high_open=True)
        check_number("learning_rate", self.learning_rate, 0, math.inf, low_open=True, high_open=True)
        check_number("alpha", self.alpha, 0, math.inf, high_open=True)
        check_number("n_steps", self.n_steps, 1, 2**31, integer=True)
        if self.target_epsilon is not None:
            check_number("target_epsilon", self.target_epsilon, 0, math.inf, low_open=True, high_open=True)
        if self.target_delta is not None:
            if self.scenario == "laplace":
                raise ValueError(f"target_delta={self.target_delta!r}: expected None, scenario 'laplace' has delta = 0")
            check_number("target_delta", self.target_delta, 0, 1, low_open=True, high_open=True)
        if self.noise_multiplier is not None:
            check_number("noise_multiplier", self.noise_multiplier, 0, math.inf, high_open=True)
        if self.n_records is not None:
            check_number("n_records", self.n_records, 1, 2**53, integer=True)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback={self.callback!r}: expected a callable or None")
        resolve_n_threads(self.n_jobs)

    def _sampler(self, n_rows: int):
        size = n_rows if self.batch_size is None else self.batch_size
        check_number("batch_size", size, 0, n_rows, low_open=True)
        if self.scenario == "poisson":
            return PoissonSampler(n_rows, float(size))
        if self.scenario == "zcdp":
            if size != n_rows:
                raise ValueError(f"batch_size={self.batch_size!r}: expected None, scenario 'zcdp' takes all records")
            return FullSampler(n_rows, "replace_one")
        return _LaplaceSampler(FixedSizeSampler(n_rows, check_number("batch_size", size, 1, n_rows, integer=True)))

    def _epsilon(self, event, delta: float) -> float:
        """The epsilon that calibrates."""
        if self.scenario == "laplace":
            return pure_epsilon(event)
        name, options = self._calibrating()
        return epsilon(event, delta, name, **options)

    def _calibrating(self) -> tuple[str | None, dict]:
        if self.accountant != "textbook":
            return self.accountant, {}
        name = _SCENARIOS[self.scenario][2]
        return name, {"conversion": "simple"} if name == "zcdp" else {}

    def _noise(self, sampler, n_steps: int, delta: float) -> float:
        """The noise multiplier of the run; refuses a run over its target."""
        target = 1.0 if self.target_epsilon is None else float(self.target_epsilon)

        def event(z):
            return SelfComposedEvent(sampler.event(z), n_steps)

        if self.noise_multiplier is not None:
            z = float(self.noise_multiplier)
            if z > 0 and self.target_epsilon is not None:
                would = self._epsilon(event(z), delta)
                if would > target:
                    raise ValueError(
                        f"noise_multiplier={z:g} with {n_steps} steps gives epsilon = {would:.4g}: "
                        f"expected at most target_epsilon={target:g}; raise noise_multiplier or leave it None"
                    )
            return z
        if self.scenario == "laplace":
            # T ln(1 + q (e^(1/z) - 1)) = epsilon, solved for z and rounded up.
            q = sampler.expected_batch_size / sampler.n_records
            z = (1.0 + 1e-12) / math.log1p(math.expm1(target / n_steps) / q)
            return z
        name, options = self._calibrating()
        return calibrate_noise_multiplier(event, target, delta, name, **options)

    def fit(self, X, y):
        """Fit to records X and labels y.

        Parameters
        ----------
        X : array_like, shape (n_records, n_features)
            Finite; its scaling must not have been learned from the records.
        y : array_like, shape (n_records,)
            Labels 0 and 1.

        Returns
        -------
        DPSGDLogisticRegression
            Itself.

        Raises
        ------
        ValueError
            For a parameter out of range, bad input, or a run over its target;
            before anything is released.
        """
        self._check_parameters()
        X, y = _check_records(X, y)
        n_rows, n_features = X.shape
        sampler = self._sampler(n_rows)
        n_steps = int(self.n_steps)
        delta = 0.0 if self.scenario == "laplace" else self._delta(self._public_n_records(n_rows))
        order = _SCENARIOS[self.scenario][3]
        model = _Gradient(self, X, y, order)
        z = self._noise(sampler, n_steps, delta) if self.private else 0.0
        mechanism = (LaplaceMechanism if order == 1 else GaussianMechanism)(
            z, model.sensitivity(sampler.neighbors), model.clip_norm, n_rows
        )
        ledger = Ledger()
        if not self.private:
            ledger.taint("fitted with private=False")
        elif z == 0.0:
            ledger.taint("noise_multiplier=0")
        if getattr(self, "_unsafe_test_key", None) is not None and self.private:
            ledger.taint("unsafe_test_key: noise and sampling are known")

        def spent() -> float:
            if not ledger.private:
                return math.inf
            return pure_epsilon(ledger.event()) if self.scenario == "laplace" else ledger.epsilon(delta)

        report = None
        if self.callback is not None:

            def report(step, seconds):
                self.callback(step, spent(), seconds)

        state = inference.State(np.zeros(model.statistics_shape))
        self.ledger_ = ledger
        inference.run(
            model, sampler, mechanism, ledger, self._randomness(), state, n_steps=n_steps,
            # A step size of 1: the state holds this step's noised mean gradient alone.
            schedule=inference.Schedule(1.0, 0.0), n_threads=resolve_n_threads(self.n_jobs), callback=report,
        )
        theta = model.result()
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = n_features
        self.coef_ = theta[None, :n_features].copy()
        self.intercept_ = theta[n_features:].copy() if self.fit_intercept else np.zeros(1)
        self.privacy_ = Privacy(
            epsilon=spent(),
            delta=delta,
            neighbors=sampler.neighbors,
            accountant="basic" if self.scenario == "laplace" else ledger.accountant() or "none",
            steps=state.step,
            noise_multiplier=z,
            sampling="full" if sampler.expected_batch_size == n_rows else _SCENARIOS[self.scenario][0],
            batch_size=sampler.expected_batch_size,
            n_records=self._public_n_records(n_rows),
            taints=ledger.taints,
        )
        return self

    # ------------------------------------------------------------- read-outs

    def decision_function(self, X) -> np.ndarray:
        """Log-odds of label 1, shape (n,)."""
        self._check_fitted()
        X = np.asarray(X, float)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has shape {X.shape}: expected (n, {self.n_features_in_})")
        return X @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of labels 0 and 1, shape (n, 2)."""
        from scipy.special import expit

        p = expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X) -> np.ndarray:
        """Labels, shape (n,)."""
        return (self.decision_function(X) > 0).astype(int)

    def score(self, X, y) -> float:
        """Accuracy."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def _arrays(self):
        return {"coef": self.coef_, "intercept": self.intercept_}

    def _restore(self, arrays):
        self.coef_, self.intercept_ = arrays["coef"], arrays["intercept"]
        self.classes_ = np.array([0, 1])


def _check_records(X, y) -> tuple[np.ndarray, np.ndarray]:
    """X as float64 and y as float64 of 0 and 1; messages hold no values."""
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y)
    if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
        raise ValueError(f"X has shape {X.shape}: expected (n_records, n_features), both at least 1")
    if y.shape != (X.shape[0],):
        raise ValueError(f"y has shape {y.shape}: expected ({X.shape[0]},)")
    if not np.all(np.isfinite(X)):
        raise ValueError("X: expected finite numbers")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("y: expected labels 0 and 1")
    return X, y.astype(np.float64)


class _Gradient:
    """Clipped, truncated gradients of the logistic loss, for the engine's loop.

    A record's integers depend on that record and theta alone, bit for bit:
    sums over features run column by column with elementwise operations, so
    that neither the batch nor the block has an influence.
    """

    def __init__(self, estimator: DPSGDLogisticRegression, X, y, order: int) -> None:
        self._order = order
        self._private = bool(estimator.private)
        columns = [np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])]
        if estimator.fit_intercept:
            columns.append(np.ones(len(y)))
        self._columns, self._y = columns, y
        self._rate, self._alpha = float(estimator.learning_rate), float(estimator.alpha)
        self._first = int(estimator.n_steps) // 2 if estimator.average else int(estimator.n_steps) - 1
        self._theta = np.zeros(len(columns))
        self._sum = np.zeros(len(columns))
        self._kept = 0
        self.statistics_shape = (len(columns),)
        self.clip_norm = float(estimator.clip_norm)
        if not self._private:
            # |p - y| <= 1: no gradient is longer than its record.
            norms = np.zeros(len(y))
            for column in columns:
                norms += np.abs(column)
            self.clip_norm = max(1e-300, 1.001 * float(norms.max()))

    def sensitivity(self, neighbors: str) -> float:
        """C for adding or removing a record, 2 C for replacing one."""
        return self.clip_norm if neighbors == "add_remove" else 2.0 * self.clip_norm

    def estep(self, records, words, spacing, sums, n_threads) -> None:
        # floor((C / g)^2) and floor(C / g), exactly: g is a power of two.
        ratio = self.clip_norm / spacing
        numerator, denominator = ratio.as_integer_ratio()
        bound = numerator // denominator
        if self._order == 2:
            bound = numerator**2 // denominator**2
        for first in range(0, len(records), _BLOCK):
            units = self.contributions(records[first : first + _BLOCK], spacing, bound)
            for j, column in enumerate(units):
                sums[j] += int(column.sum(dtype=np.int64))

    def contributions(self, records, spacing: float, bound: int) -> list[np.ndarray]:
        """Integer gradients of some records, one int64 array a feature."""
        from scipy.special import expit

        columns = [column[records] for column in self._columns]
        # Overflow makes a norm infinite and the contribution zero, silently:
        # a warning would tell of the record.
        with np.errstate(all="ignore"):
            margin = np.zeros(len(records))
            for column, weight in zip(columns, self._theta):
                margin += column * weight
            residual = expit(margin) - self._y[records]
            gradients = [residual * column for column in columns]
            norm = np.zeros(len(records))
            for gradient in gradients:
                norm += np.abs(gradient) if self._order == 1 else gradient * gradient
            if self._order == 2:
                norm = np.sqrt(norm)
            factor = np.minimum(1.0, self.clip_norm / norm) * (_SHRINK / spacing)
        good = np.isfinite(norm) & np.isfinite(factor)
        units = []
        for gradient in gradients:
            scaled = np.where(good, gradient, 0.0) * np.where(good, factor, 0.0)
            units.append(np.trunc(scaled).astype(np.int64))
        # The bound in integers; a record over it (none by the margin above)
        # contributes nothing.
        size = np.zeros(len(records), dtype=np.int64)
        for column in units:
            size += np.abs(column) if self._order == 1 else column * column
        over = size > bound
        if over.any():
            for column in units:
                column[over] = 0
        return units

    def project(self, released) -> None:
        """Nothing to repair in a gradient."""

    def mstep(self, state) -> None:
        self._theta = self._theta - self._rate * (state.average + self._alpha * self._theta)
        if state.step > self._first:
            self._sum += self._theta
            self._kept += 1

    def result(self) -> np.ndarray:
        """The mean of the iterates that are kept."""
        return self._sum / max(1, self._kept)
