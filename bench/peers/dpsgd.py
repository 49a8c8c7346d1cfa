"""Logistic regression by differentially private stochastic gradient descent."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse
from scipy.special import expit

from vips_fast.accounting import PrivacyEvent, SelfComposedEvent, calibrate_noise_multiplier, epsilon, gaussian_mu
from vips_fast.checks import check_choice, check_flag, check_number
from vips_fast.engine.budget import Budget
from vips_fast.engine.loop import Progress
from vips_fast.engine.model import Model, Release, array_of, steps_of
from vips_fast.engine.plan import Planned, Request, RunPlan, RunSchedule, Terms
from vips_fast.engine.result import FitResult, Public
from vips_fast.engine.sampling import Sampler, make_sampler
from vips_fast.engine.statement import Privacy
from vips_fast.kernels.logistic import Rows
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.estimator import ArraySpec
from vips_fast.models.logistic.spherical import MAX_COLUMNS

from .laplace import LaplaceMechanism, LaplaceSampler
from .linear import LinearClassifier
from .theorems import pure_epsilon, zcdp_epsilon, zcdp_rho_for_target

#: Scaling before truncation, so that rounding of the norm cannot pass the bound.
_SHRINK = 1.0 - 2.0**-40

#: scenario -> (sampling, neighbors, accountant that calibrates, norm of the clip)
_SCENARIOS = {
    "laplace": ("without_replacement", "replace_one", "basic", 1),
    "zcdp": ("full", "replace_one", "zcdp", 2),
    "poisson": ("poisson", "add_remove", "rdp", 2),
}


class OwnRequest(Request):
    """As the base's, but for the accountant that calibrates and the kind of noise."""

    def plan(self, budget: Budget | None = None) -> Planned:
        """Plan a run of the estimator whose request this is."""
        # A request's model is a method of the estimator.
        own: Any = cast(MethodType, self.model).__self__
        if self.purchase is not None or budget is not None:
            raise ValueError(f"after, budget: expected None for {type(own).__name__}")
        public, terms = self.public, self.terms
        schedule = own._schedule(public, terms)
        sampler, n_steps, delta = schedule.sampler, schedule.n_steps, terms.target(public.n_records).delta
        model = own._model(public)
        z = own._noise(sampler, n_steps, delta) if own.private else 0.0
        kind: Any = LaplaceMechanism if own.scenario == "laplace" else GaussianMechanism
        mechanism = kind(z, model.sensitivity(sampler.relation), model.clip)
        model.prepare(mechanism, sampler)
        known = "fitted with private=False" if not own.private else "noise_multiplier=0"
        taints = tuple(dict.fromkeys((*((known,) if z == 0 else ()), *self.taints)))
        plan = RunPlan(sampler, mechanism, n_steps, delta, taints=taints)
        return Planned(self, plan, model, self.settings, None, None)


@dataclass(kw_only=True, eq=False, repr=False)
class DPSGDLogisticRegression(LinearClassifier):
    """Logistic regression by noisy clipped gradient steps.

    Abadi et al. 2016; Song, Chaudhuri & Sarwate 2013.

    theta_{t+1} = theta_t - learning_rate (mean clipped gradient + noise +
    alpha theta_t), with the package's own sampling, lattice, noise and ledger.

    Parameters
    ----------
    scenario : {"poisson", "zcdp", "laplace"}
        "laplace": pure epsilon; Laplace noise, batches of a fixed size without replacement, gradients clipped in the L1
        norm, replace one record.
        "zcdp": Gaussian noise, all records in each step, replace one record.
        "poisson": Gaussian noise, Poisson batches, add or remove one record.
    accountant : str or None
        The accountant that calibrates the noise. "textbook" takes the one that goes with the scenario: sums of
        amplified epsilons for "laplace", zCDP with its simple conversion for "zcdp", Renyi divergences for "poisson".
        None takes the tightest sound one ("laplace" stays with delta = 0).
    clip_norm : float
        Bound of one record's gradient, in the L2 norm (L1 for "laplace").
    learning_rate, alpha : float
        Step size and ridge penalty.
    batch_size : float or None
        (Expected) records of a batch; None takes all.
    average : bool
        Return the mean of the second half of the iterates instead of the last.
    n_steps, fit_intercept, epsilon, delta, noise_multiplier, private, n_records
        As in the package's other estimators; "laplace" takes no delta.
    n_jobs, random_state, callback

    Notes
    -----
    Replacing a clipped gradient moves the sum by at most 2 clip_norm, adding or removing
    one by clip_norm. With "laplace" and the textbook's accountant the scale on
    the mean gradient is 2 clip_norm / (m ln(1 + (e^(epsilon / T) - 1) n / m)).
    """

    _most_columns: ClassVar[int] = MAX_COLUMNS

    scenario: str = field(default="poisson", kw_only=False)
    accountant: str | None = "textbook"
    clip_norm: float = 1.0
    learning_rate: float = 1.0
    alpha: float = 0.0
    batch_size: float | None = None
    n_steps: int = 100
    average: bool = True
    noise_multiplier: float | None = None
    n_jobs: int | None = None
    callback: Callable[[Progress], None] | None = None

    @property  # type: ignore[misc]  # a field of the base, which cannot be given here
    def sampling(self) -> str:  # type: ignore[override]  # it follows from the scenario
        """Name the sampling of the scenario."""
        return _SCENARIOS[self.scenario][0]

    def _check_parameters(self) -> None:
        check_choice("scenario", self.scenario, tuple(_SCENARIOS))
        for name in ("average", "fit_intercept"):
            check_flag(name, getattr(self, name))
        for name in ("clip_norm", "learning_rate"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)
        check_number("alpha", self.alpha, 0, math.inf, high_open=True)
        if self.scenario == "laplace" and self.delta is not None:
            raise ValueError(f"delta={self.delta!r}: expected None, scenario 'laplace' has delta = 0")
        super()._check_parameters()

    def request(self, public: Public, **how: Any) -> Request:
        return OwnRequest(**vars(super().request(public, **how)))

    def _schedule(self, public: Public, terms: Terms) -> RunSchedule:
        sampling, relation, _, order = _SCENARIOS[self.scenario]
        # The public number of records sets the rate, never the rows.
        sampler = make_sampler(sampling, relation, public.n_records, self.batch_size)
        if order == 1:
            sampler = LaplaceSampler(public.n_records, int(sampler.expected_batch_size))
        return RunSchedule(sampler, int(self.n_steps), int(self.n_steps))

    def _epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Compute the epsilon that calibrates the noise."""
        if self.scenario == "laplace":
            return pure_epsilon(event)
        name = self._calibrating
        if name == "zcdp":
            mu = gaussian_mu(event)
            assert mu is not None
            return zcdp_epsilon(mu**2 / 2, delta, "simple")
        return epsilon(event, delta, name)

    @property
    def _calibrating(self) -> str | None:
        return _SCENARIOS[self.scenario][2] if self.accountant == "textbook" else self.accountant

    def _noise(self, sampler: Sampler, n_steps: int, delta: float) -> float:
        """Find the noise multiplier, or refuse the run."""
        target = 1.0 if self.epsilon is None else float(self.epsilon)

        def event(z: float) -> PrivacyEvent:
            return SelfComposedEvent(sampler.event(z), n_steps)

        if self.noise_multiplier is not None:
            z = float(self.noise_multiplier)
            if z > 0 and self.epsilon is not None:
                would = self._epsilon(event(z), delta)
                if would > target:
                    raise ValueError(
                        f"noise_multiplier={z:g} with {n_steps} steps gives epsilon = {would:.4g}: "
                        f"expected at most epsilon={target:g}; raise noise_multiplier or leave it None"
                    )
            return z
        if self.scenario == "laplace":
            # T ln(1 + q (e^(1/z) - 1)) = epsilon, solved for z and rounded up.
            q = sampler.expected_batch_size / sampler.n_records
            return (1.0 + 1e-12) / math.log1p(math.expm1(target / n_steps) / q)
        if self._calibrating == "zcdp":
            return (1.0 + 1e-12) * math.sqrt(n_steps / (2.0 * zcdp_rho_for_target(target, delta)))
        return calibrate_noise_multiplier(event, target, delta, self._calibrating)

    @property
    def privacy_(self) -> Privacy:
        """The guarantee; for "laplace" the pure one."""
        result = self._fitted()
        return pure_statement(result) if result.settings["scenario"] == "laplace" else result.privacy

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        # |p - y| <= 1: no gradient is longer than its record.
        clip = float(self.clip_norm) if public.scale is None else 1.001 * public.scale
        order = _SCENARIOS[self.scenario][3]
        if order == 1 and public.scale is not None:
            clip *= math.sqrt(public.n_features + 1)  # the L1 norm of a record
        return GradientModel(
            public.n_features + bool(self.fit_intercept),
            clip=clip,
            order=order,
            rate=float(self.learning_rate),
            alpha=float(self.alpha),
            first=int(self.n_steps) // 2 if self.average else int(self.n_steps) - 1,
        )

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return {"samples": ArraySpec((1, public.n_features + bool(self.fit_intercept)))}


def pure_statement(result: FitResult) -> Privacy:
    """State a ledger whose events all have delta = 0."""
    privacy, event = result.privacy, result.ledger.event()
    if not privacy.private or event is None:
        return replace(privacy, delta=0.0)
    return replace(privacy, epsilon=pure_epsilon(event), delta=0.0, accountant="basic")


class GradientModel(Model):
    """Clipped, truncated gradients of the logistic loss.

    A record's integers depend only on that record and theta, bit for bit. Sums over its stored entries run one after
    the other (`numpy.bincount`), and all else is elementwise. Neither the batch nor the block has an influence.
    """

    def __init__(self, d: int, *, clip: float, order: int, rate: float, alpha: float, first: int):
        self.shape, self.clip, self._order = (d,), clip, order
        self._rate, self._alpha, self._first = rate, alpha, first
        self._theta, self._sum = np.zeros(d), np.zeros(d)
        self._step = 0

    def sensitivity(self, relation: str) -> float:
        """Give C for adding or removing a record, 2 C for replacing one."""
        return self.clip if relation == "add_remove" else 2.0 * self.clip

    def prepare(self, mechanism: Any, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = mechanism.spacing

    def contribute(self, block: Rows, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        np.add.at(out, *self.contributions(block))

    def contributions(self, block: Rows) -> tuple[np.ndarray, np.ndarray]:
        """List columns and int64 values of some records' integer gradients. Only stored entries, record by record."""
        n = block.n_rows
        starts = np.arange(n + 1) * self.shape[0] if block.indptr is None else block.indptr
        columns = np.tile(np.arange(self.shape[0]), n) if block.indptr is None else block.indices
        values = np.ones(len(columns)) if block.unit else block.values.astype(np.float64)
        row_of = np.repeat(np.arange(n), np.diff(starts))

        def total(entries: np.ndarray) -> np.ndarray:
            """Sums over each record's entries, one after the other."""
            return np.bincount(row_of, entries, n)

        # Overflow makes a norm infinite and the contribution zero, silently: a warning would tell of the record.
        with np.errstate(all="ignore"):
            residual = expit(total(values * self._theta[columns])) - block.y
            gradients = residual[row_of] * values
            norm = total(np.abs(gradients)) if self._order == 1 else np.sqrt(total(gradients * gradients))
            factor = np.minimum(1.0, self.clip / norm) * (_SHRINK / self._spacing)
            good = np.isfinite(norm) & np.isfinite(factor)
            factor = np.where(good, factor, 0.0)
            units = np.trunc(np.where(good[row_of], gradients, 0.0) * factor[row_of]).astype(np.int64)
        # The bound in integers, exactly: g is a power of two. A record over it (none by the
        # margin above) contributes nothing.
        numerator, denominator = (self.clip / self._spacing).as_integer_ratio()
        bound = numerator**self._order // denominator**self._order
        size = np.zeros(n, dtype=np.int64)
        np.add.at(size, row_of, np.abs(units) if self._order == 1 else units * units)
        units[(size > bound)[row_of]] = 0
        return columns, units

    def update(self, release: Release) -> None:
        """Take one step of gradient descent."""
        self._theta = self._theta - self._rate * (release.values + self._alpha * self._theta)
        if self._step >= self._first:
            self._sum = self._sum + self._theta
        self._step += 1

    def state(self) -> dict[str, np.ndarray]:
        return {"theta": self._theta.copy(), "sum": self._sum.copy(), "step": np.array([float(self._step)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        theta, total = array_of(state, "theta", self.shape), array_of(state, "sum", self.shape)
        self._theta, self._sum, self._step = theta, total, steps_of(state)

    def result(self) -> dict[str, np.ndarray]:
        """Give the mean of the averaged iterates."""
        return {"samples": self._sum[None] / max(1, self._step - self._first)}


def dense(block: Rows, d: int) -> np.ndarray:
    """Give the rows of a block as a float64 table."""
    if block.indptr is None:
        return block.values.reshape(block.n_rows, d).astype(np.float64)
    values = np.ones(len(block.indices)) if block.unit else block.values.astype(np.float64)
    return np.asarray(sparse.csr_array((values, block.indices, block.indptr), shape=(block.n_rows, d)).toarray())
