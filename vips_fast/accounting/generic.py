"""The generic and the Bayesian accountant of Triastcyn & Faltings (2019).

Generic accountant
    c(lambda) bounds the ln of the moment E[e^(lambda L)] of a step's loss and
    epsilon = min_lambda (sum c(lambda) - ln delta) / lambda.  For the
    Poisson-sampled Gaussian mechanism
    c(lambda) = ln E_{k ~ Bin(lambda+1, q)} e^((k^2 - k) / (2 z^2)),
    which is the Renyi divergence of order lambda + 1 with the classical
    conversion (Mironov, Talwar & Zhang 2019); relation add/remove.

    The article's first version used a Gaussian with mean q C in place of the
    mixture ("sampling reduces the bound by q^2").  That is not a bound;
    `generic_epsilon_v1` computes it for comparison and no accountant uses it.

Bayesian accountant
    A statement about a random record of the data at hand.  It is not
    differential privacy; see `BayesianAccountant`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

import numpy as np

__all__ = [
    "BayesianAccountant",
    "BayesianGuarantee",
    "generic_epsilon_v1",
    "generic_log_moment",
    "moments_accountant_epsilon",
]


def _check(q: float, z: float) -> tuple[float, float]:
    q, z = float(q), float(z)
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"sampling_probability must be in [0, 1], got {q!r}")
    if not (z > 0.0 and math.isfinite(z)):
        raise ValueError(f"noise_multiplier must be a finite number > 0, got {z!r}")
    return q, z


def generic_log_moment(sampling_probability: float, noise_multiplier, order: int) -> np.ndarray:
    """c(lambda) of one Poisson-sampled Gaussian step at lambda = `order` >= 1.

    Parameters
    ----------
    sampling_probability : float
        q in [0, 1].
    noise_multiplier : float or array_like
        sd / L2 distance of the two contributions; infinity for equal ones.
    order : int
        lambda.

    Returns
    -------
    ndarray
        float64, shape of `noise_multiplier`; each >= 0.
    """
    q = float(sampling_probability)
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"sampling_probability must be in [0, 1], got {q!r}")
    if isinstance(order, bool) or not isinstance(order, Integral) or order < 1:
        raise ValueError(f"order must be an integer >= 1, got {order!r}")
    z = np.asarray(noise_multiplier, float)
    if not np.all(z > 0.0):
        raise ValueError("noise_multiplier must be > 0")
    n = int(order) + 1
    k = np.arange(n + 1)
    from scipy.special import gammaln

    with np.errstate(divide="ignore", invalid="ignore"):
        log_pmf = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        log_pmf = log_pmf + np.where(k > 0, k * np.log(q), 0.0)
        log_pmf = log_pmf + np.where(k < n, (n - k) * np.log1p(-q), 0.0)
    exponent = (k * k - k) * (0.5 / z[..., None] ** 2)
    # ln(1 + sum pmf (e^x - 1)): exact also where the sum is tiny.
    big = exponent > 600.0
    small = np.sum(np.where(big, 0.0, np.exp(log_pmf) * np.expm1(np.where(big, 0.0, exponent))), -1)
    high = np.where(big, log_pmf + exponent, -np.inf)
    top = np.maximum(high.max(-1), 0.0)
    total = np.exp(-top) * (1.0 + small) + np.sum(np.exp(high - top[..., None]), -1)
    return np.where(big.any(-1), top + np.log(total), np.log1p(small))


def moments_accountant_epsilon(
    sampling_probability: float, noise_multiplier: float, steps: int, delta: float,
    max_order: int | None = None,
) -> float:
    """epsilon of the generic accountant for equal steps, with integer orders.

    Parameters
    ----------
    max_order : int or None
        Largest lambda.  None takes floor(z^2 ln(1 / (q z))), the range of
        Abadi et al. 2016 (at least 1), which their published script uses.
    """
    q, z = _check(sampling_probability, noise_multiplier)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    if max_order is None:
        max_order = max(1, math.floor(z * z * math.log(1.0 / (q * z)))) if 0.0 < q * z < 1.0 else 1
    return min(
        (steps * float(generic_log_moment(q, z, lam)) - math.log(delta)) / lam
        for lam in range(1, max_order + 1)
    )


def generic_epsilon_v1(
    sampling_probability: float, noise_multiplier: float, steps: int, delta: float,
    *, heuristic: str,
) -> float:
    """The first version's formula; NOT a bound.

    min over real lambda of (T lambda (lambda + 1) q^2 / (2 z^2) - ln delta) / lambda.
    For q = 0.05, z = 1.24, 20 steps and delta = 1e-4 it gives 0.79 where the
    exact value is 0.93.  `heuristic` must be ``"v1"``, so that no one calls
    it by accident.  No event, accountant or budget accepts its result.
    """
    if heuristic != "v1":
        raise ValueError(
            f"heuristic must be 'v1', got {heuristic!r}; for a bound use "
            "epsilon(event, delta, accountant='generic')"
        )
    q, z = _check(sampling_probability, noise_multiplier)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    a = steps * q * q / (2.0 * z * z)
    return a + 2.0 * math.sqrt(a * math.log(1.0 / delta))


@dataclass(frozen=True)
class BayesianGuarantee:
    """What the Bayesian accountant states: Bayesian DP, not DP.

    Attributes
    ----------
    epsilon_mu, delta_mu : float
        For a random record of the distribution the data came from, the
        privacy loss exceeds `epsilon_mu` with probability at most `delta_mu`.
    order : int
        The lambda in use.
    steps, pairs_per_step : int
    """

    epsilon_mu: float
    delta_mu: float
    order: int
    steps: int
    pairs_per_step: int

    def __str__(self) -> str:
        return (
            f"({self.epsilon_mu:.4g}, {self.delta_mu:.4g})-Bayesian differential privacy: a "
            "data-dependent statement about a random record, not differential privacy; it "
            "assumes independent, identically distributed records, and the figures are "
            "themselves private"
        )


class BayesianAccountant:
    """Bayesian accountant: the loss of random records instead of the worst one.

    In each step the caller draws m >= 3 pairs of records and passes the L2
    distances of their contributions.  With c_i the ln-moment of pair i
    (`generic_log_moment`) and T the planned number of steps, x_i =
    exp(T c_i) (Hoelder's inequality turns the expectation of a product over
    steps into a product of T-th powers), and the step costs

        ln(mean x + t sd(x) / sqrt(m - 1)) / T,

    t the gamma-quantile of Student's t with m - 1 degrees of freedom.  After
    all steps epsilon = (sum of costs - ln delta) / lambda, and the stated
    delta grows by 1 - gamma^T for the estimates.

    The result is not differential privacy.  It needs records that are
    independent and identically distributed, says nothing about atypical
    records, and depends on the data, so it must not be published without
    protection of its own.  It has no event: a ledger or budget cannot take it.

    Parameters
    ----------
    sampling_probability : float
        q of the Poisson sample.
    noise_sd : float
        Standard deviation of the noise, in the units of the distances.
    steps : int
        Planned number of steps T; fixed in advance.
    order : int
        lambda >= 1.
    confidence : float
        gamma in (0, 1): confidence of each step's estimate.
    """

    def __init__(
        self, sampling_probability: float, noise_sd: float, steps: int, order: int = 8,
        confidence: float = 1.0 - 1e-10,
    ) -> None:
        self._q, self._sd = _check(sampling_probability, noise_sd)
        if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
            raise ValueError(f"steps must be an integer >= 1, got {steps!r}")
        if isinstance(order, bool) or not isinstance(order, Integral) or order < 1:
            raise ValueError(f"order must be an integer >= 1, got {order!r}")
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
        self._steps, self._order, self._confidence = int(steps), int(order), float(confidence)
        self._done = 0
        self._cost = 0.0
        self._pairs: int | None = None

    def step(self, distances) -> None:
        """Record one step.

        Parameters
        ----------
        distances : array_like, shape (m,)
            L2 distances of the contributions of m >= 3 random pairs.

        Raises
        ------
        ValueError
            For fewer than 3 pairs, negative or non-finite distances, or more
            steps than planned.
        """
        distances = np.asarray(distances, float)
        if distances.ndim != 1 or len(distances) < 3:
            raise ValueError(f"distances must hold at least 3 pairs, got shape {distances.shape}")
        if not (np.all(np.isfinite(distances)) and np.all(distances >= 0.0)):
            raise ValueError("distances must be finite and >= 0")
        if self._done >= self._steps:
            raise ValueError(f"all {self._steps} planned steps are recorded")
        from scipy.stats import t as student

        m = len(distances)
        with np.errstate(divide="ignore"):
            c = generic_log_moment(self._q, self._sd / distances, self._order)
        y = self._steps * c
        # mean + quantile * sd / sqrt(m - 1) of e^y, relative to the largest.
        top = float(np.max(y))
        x = np.exp(y - top)
        quantile = max(0.0, float(student.ppf(self._confidence, m - 1)))
        estimate = float(np.mean(x)) + quantile * float(np.std(x)) / math.sqrt(m - 1)
        self._cost += max(0.0, (top + math.log(estimate)) / self._steps)
        self._done += 1
        self._pairs = m if self._pairs is None else min(m, self._pairs)

    def guarantee(self, delta: float) -> BayesianGuarantee:
        """The statement after the recorded steps, at failure probability `delta`.

        Parameters
        ----------
        delta : float
            In (0, 1); the stated delta_mu adds 1 - gamma^steps to it.
        """
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must be in (0, 1), got {delta!r}")
        estimated = -math.expm1(self._done * math.log(self._confidence))
        return BayesianGuarantee(
            epsilon_mu=max(0.0, (self._cost - math.log(delta)) / self._order) if self._done else 0.0,
            delta_mu=min(1.0, delta + estimated),
            order=self._order,
            steps=self._done,
            pairs_per_step=self._pairs or 0,
        )
