"""Amplification by sampling and conversion between relations, as functions of numbers."""

import math
from collections.abc import Callable

from .checks import count, non_negative, probability


def amplify_epsilon_delta(epsilon: float, delta: float, sampling_probability: float) -> tuple[float, float]:
    """Compute (epsilon, delta) of an (epsilon, delta)-DP mechanism on a random sample.

    It is (ln(1 + q (e^epsilon - 1)), q delta) (Balle, Barthe & Gaboardi 2018, theorems 8 and 9). It holds for Poisson
    sampling under add/remove, or sampling without replacement under replace-one. The base mechanism's statement has to
    be under the same relation.
    """
    epsilon, delta = non_negative("epsilon", epsilon), probability("delta", delta)
    q = probability("sampling_probability", sampling_probability)
    if epsilon > 700.0:
        return epsilon, q * delta
    return math.log1p(q * math.expm1(epsilon)), q * delta


def amplify_rdp_poisson(rdp: Callable[[int], float], sampling_probability: float, order: int) -> float:
    """Bound Renyi divergence at integer `order` >= 2 on a Poisson sample.

    ``rdp(i)`` is the divergence of the base mechanism at integer order i >= 2. The bound for add/remove is (1/(k-1))
    ln((1-q)^(k-1) (1 + (k-1) q) + sum_{i=2..k} C(k, i) (1-q)^(k-i) q^i e^((i-1) rdp(i))) (Zhu & Wang 2019, theorem 6).
    It is for mechanisms whose odd central moments of the likelihood ratio are not negative, such as the Gaussian and
    the Laplace mechanism.
    """
    q, k = probability("sampling_probability", sampling_probability), count("order", order, 2, 10**6)
    if q == 0.0:
        return 0.0
    if q == 1.0:
        return non_negative(f"rdp({k})", rdp(k))
    terms = [(k - 1) * math.log1p(-q) + math.log1p((k - 1) * q)]
    for i in range(2, k + 1):
        log_binomial = math.lgamma(k + 1) - math.lgamma(i + 1) - math.lgamma(k - i + 1)
        grown = (i - 1) * non_negative(f"rdp({i})", rdp(i))
        terms.append(log_binomial + (k - i) * math.log1p(-q) + i * math.log(q) + grown)
    top = max(terms)
    return max(0.0, (top + math.log(math.fsum(math.exp(t - top) for t in terms))) / (k - 1))


def add_remove_to_replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Convert an add/remove guarantee to replace-one: one removal, one addition.

    It is (2 epsilon, (1 + e^epsilon) delta). The converse is false: replace-one says nothing about data sets of
    different sizes.
    """
    epsilon, delta = non_negative("epsilon", epsilon), probability("delta", delta)
    if epsilon > 700.0:
        return 2.0 * epsilon, 1.0 if delta else 0.0
    return 2.0 * epsilon, min(1.0, (1.0 + math.exp(epsilon)) * delta)
