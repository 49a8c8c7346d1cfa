"""Theorems of the papers as functions of numbers, and the accountants of Triastcyn & Faltings (2019).

The package accounts for events (`vips_fast.accounting.epsilon`). These are for comparisons with what is printed. They
take good numbers only: callers are figures and tests.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vips_fast.accounting import LaplaceEvent, PrivacyEvent, RandomizedResponseEvent, rounded_up
from vips_fast.accounting.events import rate_and_mechanism
from vips_fast.accounting.rdp import epsilon_of_curve

# ---------------------------------------------------------------- composition


def basic_composition(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Add epsilons and deltas of `parts` (Dwork & Roth 2014, theorem 3.16)."""
    parts = list(parts)
    return math.fsum(e for e, _ in parts), min(1.0, math.fsum(d for _, d in parts))


def strong_composition(epsilon: float, delta: float, k: int, slack: float) -> tuple[float, float]:
    """Compute a k-fold composition by Dwork & Roth 2014, theorem 3.20.

    epsilon' = sqrt(2 k ln(1/slack)) epsilon + k epsilon (e^epsilon - 1) and delta' = k delta + slack. Here `epsilon`
    and `delta` are the guarantee of each step and `slack`, in (0, 1), is the theorem's delta'.
    """
    total = math.sqrt(2.0 * k * math.log(1.0 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    return total, min(1.0, k * delta + slack)


def kairouz_composition(epsilon: float, delta: float, k: int, slack: float) -> tuple[float, float]:
    """Compute a k-fold composition by Kairouz, Oh & Viswanath 2015, theorem 3.4.

    The minimum of k epsilon and two bounds, whose mean is k epsilon (e^epsilon - 1) / (e^epsilon + 1). The slack gives
    delta' = 1 - (1 - delta)^k (1 - slack).
    """
    mean = k * epsilon * math.tanh(0.5 * epsilon)
    spread = math.sqrt(k) * epsilon
    total = min(
        k * epsilon,
        mean + spread * math.sqrt(2.0 * math.log(math.e + spread / slack)),
        mean + spread * math.sqrt(2.0 * math.log(1.0 / slack)),
    )
    return total, -math.expm1(k * math.log1p(-delta) + math.log1p(-slack))


def pure_epsilon(event: PrivacyEvent) -> float:
    """Add the steps' largest losses: epsilon with delta = 0; infinity where some mechanism has no pure guarantee.

    Basic composition (Dwork & Roth 2014, theorem 3.14), each sampled step at ln(1 + q (e^epsilon - 1)) (Balle, Barthe &
    Gaboardi 2018). At delta = 0 nothing smaller holds for Laplace mechanisms and randomized responses.
    """
    total = 0.0
    for leaf, repeats in event.leaves().items():
        rate, mechanism = rate_and_mechanism(leaf)
        if isinstance(mechanism, LaplaceEvent):
            each = 1.0 / mechanism.noise_multiplier
        elif isinstance(mechanism, RandomizedResponseEvent):
            each = mechanism.epsilon
        else:
            return math.inf
        total += repeats * math.log1p(rate * math.expm1(each))
    return total * (1.0 + 1e-15)


# ------------------------------------------------- amplification and relations


def amplify_epsilon_delta(epsilon: float, delta: float, sampling_probability: float) -> tuple[float, float]:
    """Compute (epsilon, delta) of an (epsilon, delta)-DP mechanism on a random sample.

    It is (ln(1 + q (e^epsilon - 1)), q delta) (Balle, Barthe & Gaboardi 2018, theorems 8 and 9). It holds for Poisson
    sampling under add/remove, or sampling without replacement under replace-one. The base mechanism's statement has to
    be under the same relation.
    """
    return math.log1p(sampling_probability * math.expm1(epsilon)), sampling_probability * delta


def add_remove_to_replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Convert an add/remove guarantee to replace-one: one removal, one addition.

    It is (2 epsilon, (1 + e^epsilon) delta). The converse is false: replace-one says nothing about data sets of
    different sizes.
    """
    return 2.0 * epsilon, min(1.0, (1.0 + math.exp(epsilon)) * delta)


# ----------------------------------------------------------------------- zCDP


def zcdp_rho_gaussian(sensitivity: float, sd: float) -> float:
    """rho = sensitivity^2 / (2 sd^2) (Bun & Steinke 2016, proposition 1.6)."""
    return sensitivity**2 / (2.0 * sd**2)


def zcdp_epsilon(rho: float, delta: float, conversion: str = "tight") -> float:
    """Compute epsilon of rho-zCDP at `delta`.

    "simple" is rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016, proposition 1.3). "Tight" is the minimum over real
    orders of Canonne, Kamath & Steinke 2020, proposition 12, with D_alpha = alpha rho.
    """
    best = math.sqrt(math.log(1.0 / delta) / rho)  # alpha - 1 of the simple conversion
    if conversion == "simple":
        return rho * (1.0 + 2.0 * best)
    orders = 1.0 + best * np.geomspace(1e-3, 1e3, 30_001)
    return epsilon_of_curve(orders, rho * orders, delta)


def zcdp_rho_for_target(epsilon: float, delta: float) -> float:
    """Return the rho whose simple conversion gives `epsilon` at `delta`.

    rho = (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2, in the form that does not cancel.
    """
    log_inv = math.log(1.0 / delta)
    return float((epsilon / (math.sqrt(log_inv + epsilon) + math.sqrt(log_inv))) ** 2)


# ------------------------------------------------------ Triastcyn & Faltings


def log_moment(q: float, noise_multiplier: ArrayLike, order: int) -> NDArray[np.float64]:
    """Bound the ln-moment c(lambda) of a Poisson-sampled Gaussian step, lambda = `order` >= 1.

    c(lambda) = ln E_{k ~ Bin(lambda+1, q)} e^((k^2 - k) / (2 z^2)), which is lambda times the Renyi divergence of order
    lambda + 1 (Mironov, Talwar & Zhang 2019). The noise multipliers are sd / L2 distance of the two contributions, and
    may be infinite.
    """
    from scipy.special import gammaln

    z, n = np.asarray(noise_multiplier, float), order + 1
    k = np.arange(n + 1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_pmf = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        log_pmf = log_pmf + np.where(k > 0, k * np.log(q), 0.0)
        log_pmf = log_pmf + np.where(k < n, (n - k) * np.log1p(-q), 0.0)
        exponent = (k * k - k) * (0.5 / z[..., None] ** 2)
    # ln(1 + sum pmf (e^x - 1)) is exact also where the sum is tiny.
    big = exponent > 600.0
    small = np.sum(np.where(big, 0.0, np.exp(log_pmf) * np.expm1(np.where(big, 0.0, exponent))), -1)
    high = np.where(big, log_pmf + exponent, -np.inf)
    top = np.maximum(high.max(-1), 0.0)
    total = np.exp(-top) * (1.0 + small) + np.sum(np.exp(high - top[..., None]), -1)
    return np.asarray(np.where(big.any(-1), top + np.log(total), np.log1p(small)))


def moments_accountant_epsilon(q: float, z: float, steps: int, delta: float, max_order: int | None = None) -> float:
    """Compute epsilon = min_lambda (steps c(lambda) - ln delta) / lambda, orders lambda up to `max_order`.

    None takes floor(z^2 ln(1 / (q z))), the range of Abadi et al. 2016 (at least 1), which their published script uses.
    """
    if max_order is None:
        max_order = max(1, math.floor(z * z * math.log(1.0 / (q * z)))) if 0.0 < q * z < 1.0 else 1
    return min((steps * float(log_moment(q, z, order)) - math.log(delta)) / order for order in range(1, max_order + 1))


def generic_epsilon_v1(q: float, z: float, steps: int, delta: float) -> float:
    """Return the formula of the article's first version, which is NOT a bound.

    It has a Gaussian with mean q C in place of the mixture ("sampling reduces the bound by q^2"): the minimum over real
    lambda of (T lambda (lambda + 1) q^2 / (2 z^2) - ln delta) / lambda. For q = 0.05, z = 1.24, 20 steps and delta =
    1e-4 it gives 0.79 where the exact value is 0.93.
    """
    a = steps * q * q / (2.0 * z * z)
    return a + 2.0 * math.sqrt(a * math.log(1.0 / delta))


@dataclass(frozen=True)
class BayesianGuarantee:
    """What the Bayesian accountant states: Bayesian differential privacy, not differential privacy.

    For a random record of the distribution that the data came from, the privacy loss exceeds `epsilon_mu` with
    probability at most `delta_mu`. `order` is the lambda in use.
    """

    epsilon_mu: float
    delta_mu: float
    order: int
    steps: int
    pairs_per_step: int

    def __str__(self) -> str:
        return (
            f"({rounded_up(self.epsilon_mu)}, {rounded_up(self.delta_mu)})-Bayesian differential privacy: a "
            "data-dependent statement about a random record, not differential privacy; it "
            "assumes independent, identically distributed records, and the figures are "
            "themselves private"
        )


class BayesianAccountant:
    """Accountant of the loss of random records instead of the worst one.

    In each of T planned steps, fixed in advance, the caller draws m >= 3 pairs of records. It passes the L2 distances
    of their contributions. ``noise_sd`` is in the units of these. Let c_i be the ln-moment of pair i (`log_moment`) at
    ``order`` lambda >= 1, and x_i = exp(T c_i). (Hoelder's inequality turns the expectation of a product over steps
    into a product of T-th powers.) Then the step costs

        ln(mean x + t sd(x) / sqrt(m - 1)) / T,

    where t is the gamma-quantile of Student's t with m - 1 degrees of freedom. Gamma in (0, 1) is the ``confidence`` of
    each step's estimate. After all steps epsilon = (sum of costs - ln delta) / lambda, and the stated delta grows by
    1 - gamma^T for the estimates.

    The result is not differential privacy. It needs records that are independent and identically distributed, says
    nothing about atypical records, and depends on the data. So it must not be published without protection of its own.
    """

    def __init__(
        self, sampling_probability: float, noise_sd: float, steps: int, order: int = 8, confidence: float = 1.0 - 1e-10
    ) -> None:
        self._q, self._sd, self._steps, self._order = sampling_probability, noise_sd, steps, order
        self._confidence, self._done, self._cost = confidence, 0, 0.0
        self._pairs: int | None = None

    def step(self, distances: ArrayLike) -> None:
        """Record one step by L2 distances of random pairs' contributions.

        Raises ValueError, without a distance in its message, for fewer than 3 pairs, distances that are negative or not
        finite, or more steps than planned.
        """
        from scipy.special import stdtrit

        distances = np.asarray(distances, float)
        m = distances.size
        if distances.ndim != 1 or m < 3 or not np.all((distances >= 0.0) & (distances < np.inf)):
            raise ValueError("distances: expected at least 3 finite numbers from 0")
        if self._done >= self._steps:
            raise ValueError(f"all {self._steps} planned steps are recorded")
        with np.errstate(divide="ignore"):
            y = self._steps * log_moment(self._q, self._sd / distances, self._order)
        # mean + quantile * sd / sqrt(m - 1) of e^y, relative to the largest.
        top = float(np.max(y))
        x = np.exp(y - top)
        quantile = max(0.0, float(stdtrit(m - 1, self._confidence)))
        estimate = float(np.mean(x)) + quantile * float(np.std(x)) / math.sqrt(m - 1)
        self._cost += max(0.0, (top + math.log(estimate)) / self._steps)
        self._done += 1
        self._pairs = m if self._pairs is None else min(m, self._pairs)

    def guarantee(self, delta: float) -> BayesianGuarantee:
        """State the guarantee after the recorded steps; delta_mu adds 1 - gamma^steps to `delta`."""
        estimated = -math.expm1(self._done * math.log(self._confidence))
        return BayesianGuarantee(
            epsilon_mu=max(0.0, (self._cost - math.log(delta)) / self._order) if self._done else 0.0,
            delta_mu=min(1.0, delta + estimated),
            order=self._order,
            steps=self._done,
            pairs_per_step=self._pairs or 0,
        )
