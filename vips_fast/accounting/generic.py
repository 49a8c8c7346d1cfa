"""The generic accountant of Triastcyn & Faltings (2019), the moments accountant.

c(lambda) bounds the ln of the moment E[e^(lambda L)] of a step's loss L, and
epsilon = min_lambda (sum c(lambda) - ln delta) / lambda. For the Poisson-sampled Gaussian mechanism

    c(lambda) = ln E_{k ~ Bin(lambda+1, q)} e^((k^2 - k) / (2 z^2)),

which is the Renyi divergence of order lambda + 1 with the classical conversion (Mironov, Talwar & Zhang 2019); its
relation is add/remove.

The article's first version used a Gaussian with mean q C in place of the mixture ("sampling reduces the bound by
q^2"). That is not a bound; `generic_epsilon_v1` computes it for comparison and no accountant uses it.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from .accountant import Accountant
from .checks import LARGEST_NOISE, LEAST_NOISE, FloatArray, count, numbers, open_probability, probability
from .checks import noise_multiplier as check_noise
from .events import PoissonSampledEvent, PrivacyEvent, WithoutReplacementEvent
from .rdp import RdpAccountant, default_orders

_RDP = RdpAccountant()


def generic_log_moment(sampling_probability: float, noise_multiplier: ArrayLike, order: int) -> FloatArray:
    """Compute c(lambda) of a Poisson-sampled Gaussian step.

    Lambda is `order` >= 1. The noise multiplier is sd / L2 distance of the two contributions.
    """

    z = numbers(
        "noise_multiplier", noise_multiplier, "in [1e-9, 1e12]", lambda x: (x >= LEAST_NOISE) & (x <= LARGEST_NOISE)
    )
    return log_moment(probability("sampling_probability", sampling_probability), z, check_order(order))


#: The largest order: a moment is a sum of so many terms.
_MOST_ORDER = 10**6


def check_order(order: int, name: str = "order") -> int:
    """Return an order lambda >= 1 of a moment."""
    return count(name, order, 1, _MOST_ORDER)


def log_moment(q: float, z: FloatArray, order: int) -> FloatArray:
    """Compute `generic_log_moment`; noise multipliers may be infinite."""
    from scipy.special import gammaln

    n = order + 1
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


def moments_accountant_epsilon(
    sampling_probability: float, noise_multiplier: float, steps: int, delta: float, max_order: int | None = None
) -> float:
    """Compute the generic epsilon of equal steps, orders up to `max_order`.

    None takes floor(z^2 ln(1 / (q z))), the range of Abadi et al. 2016 (at least 1), which their published script uses.
    """
    q = probability("sampling_probability", sampling_probability)
    z, delta = check_noise(noise_multiplier), open_probability("delta", delta)
    steps = count("steps", steps)
    if max_order is not None:
        check_order(max_order, "max_order")
    else:
        max_order = max(1, math.floor(z * z * math.log(1.0 / (q * z)))) if 0.0 < q * z < 1.0 else 1
        max_order = min(max_order, 4096)  # every order gives a bound
    return min(
        (steps * float(log_moment(q, np.asarray(z), order)) - math.log(delta)) / order
        for order in range(1, max_order + 1)
    )


def generic_epsilon_v1(
    sampling_probability: float, noise_multiplier: float, steps: int, delta: float, *, heuristic: str
) -> float:
    """Return the first version's formula, which is NOT a bound.

    It is the minimum over real lambda of (T lambda (lambda + 1) q^2 / (2 z^2) - ln delta) / lambda. For q = 0.05,
    z = 1.24, 20 steps and delta = 1e-4 it gives 0.79 where the exact value is 0.93. `heuristic` must be ``"v1"``, so
    that nobody calls the function by accident. No event, accountant or budget accepts its result.
    """
    if heuristic != "v1":
        raise ValueError(
            "heuristic: expected 'v1', since it is no bound; for one use epsilon(event, delta, accountant='generic')"
        )
    q = probability("sampling_probability", sampling_probability)
    z, delta = check_noise(noise_multiplier), open_probability("delta", delta)
    a = count("steps", steps) * q * q / (2.0 * z * z)
    return a + 2.0 * math.sqrt(a * math.log(1.0 / delta))


def _orders(event: PrivacyEvent) -> FloatArray | None:
    """Choose integer orders if a step is sampled, else None.

    None stands for real orders.
    """
    sampled = False
    for leaf in event.leaves():
        if isinstance(leaf, WithoutReplacementEvent) and leaf.sampling_probability < 1.0:
            raise ValueError(
                "accountant='generic' covers Poisson sampling and whole-data mechanisms; "
                "use accountant='pld' or 'wang' for sampling without replacement"
            )
        sampled |= isinstance(leaf, PoissonSampledEvent) and leaf.sampling_probability < 1.0
    if not sampled:
        return None
    top = float(default_orders(event)[-1])
    grid = np.concatenate([np.arange(2.0, 65.0), np.geomspace(66.0, max(top, 67.0), 40)])
    return np.unique(np.floor(grid))


class GenericAccountant(Accountant):
    """The generic accountant: Renyi divergences at integer orders, with the classical conversion.

    A Gaussian release with z = 1 has divergence alpha / 2. Its epsilon is 5.2985, which is 1/2 + sqrt(2 ln 1e5)
    (Mironov 2017, corollary 3 and proposition 3):

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "generic"), 4)
    5.2985
    """

    name = "generic"
    title = "generic accountant"
    source = "Triastcyn & Faltings 2019; Mironov, Talwar & Zhang 2019; classical conversion"

    def check(self, event: PrivacyEvent) -> None:
        """Accept Poisson samples and mechanisms on the whole data."""
        _orders(event)
        _RDP.check(event)

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon at the best order."""
        return _RDP.epsilon(event, delta, "classical", _orders(event))

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta at the best order."""
        return _RDP.delta(event, epsilon, "classical", _orders(event))
