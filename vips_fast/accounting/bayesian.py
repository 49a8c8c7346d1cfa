"""The Bayesian accountant of Triastcyn & Faltings (2019).

It makes a statement about a random record of the data at hand, which is not differential privacy.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .checks import LARGEST, count, numbers, open_probability, positive, probability
from .generic import check_order, log_moment
from .printing import rounded_up


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
    of their contributions. ``noise_sd`` is in the units of these. Let c_i be the ln-moment of pair i
    (`generic_log_moment`) at ``order`` lambda >= 1, and x_i = exp(T c_i). (Hoelder's inequality turns the expectation
    of a product over steps into a product of T-th powers.) Then the step costs

        ln(mean x + t sd(x) / sqrt(m - 1)) / T,

    where t is the gamma-quantile of Student's t with m - 1 degrees of freedom. Gamma in (0, 1) is the ``confidence`` of
    each step's estimate. After all steps epsilon = (sum of costs - ln delta) / lambda, and the stated delta grows by
    1 - gamma^T for the estimates.

    The result is not differential privacy. It needs records that are independent and identically distributed, says
    nothing about atypical records, and depends on the data. So it must not be published without protection of its
    own. It has no event: a ledger or budget cannot take it.
    """

    def __init__(
        self, sampling_probability: float, noise_sd: float, steps: int, order: int = 8, confidence: float = 1.0 - 1e-10
    ) -> None:
        self._q, self._sd = probability("sampling_probability", sampling_probability), positive("noise_sd", noise_sd)
        self._steps, self._order = count("steps", steps, 1), check_order(order)
        self._confidence = open_probability("confidence", confidence)
        self._done = 0
        self._cost = 0.0
        self._pairs: int | None = None

    def step(self, distances: ArrayLike) -> None:
        """Record one step by L2 distances of random pairs' contributions.

        There are m >= 3 pairs. Raises ValueError for fewer than 3 pairs, negative or non-finite distances, or more
        steps than planned.
        """
        try:
            distances = numbers("distances", distances, "in [0, 1e100]", lambda x: (x >= 0.0) & (x <= LARGEST))
        except ValueError:
            # They are private: the message holds none.
            raise ValueError("distances: expected finite numbers in [0, 1e100], at least 3") from None
        if distances.ndim != 1 or len(distances) < 3:
            raise ValueError(f"distances: expected at least 3 pairs, got the shape {distances.shape}")
        if self._done >= self._steps:
            raise ValueError(f"all {self._steps} planned steps are recorded")
        from scipy.special import stdtrit

        m = len(distances)
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
        """State the guarantee after the recorded steps, at failure probability `delta`.

        The stated delta_mu adds 1 - gamma^steps to `delta`.
        """
        delta = open_probability("delta", delta)
        estimated = -math.expm1(self._done * math.log(self._confidence))
        return BayesianGuarantee(
            epsilon_mu=max(0.0, (self._cost - math.log(delta)) / self._order) if self._done else 0.0,
            delta_mu=min(1.0, delta + estimated),
            order=self._order,
            steps=self._done,
            pairs_per_step=self._pairs or 0,
        )
