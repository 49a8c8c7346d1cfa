"""The paper's accountant for sampling without replacement: Wang, Balle & Kasiviswanathan 2019.

Theorems 9 and 27 are upper bounds of the Renyi divergences at integer orders. The accountant `WANG` computes them, for
the papers' figures; the package autodp has the same bounds.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vips_fast.accounting.accountant import Accountant
from vips_fast.accounting.checks import FloatArray
from vips_fast.accounting.events import PrivacyEvent, WithoutReplacementEvent, rate_and_mechanism, touching_leaves
from vips_fast.accounting.privacy_loss.pairs import GaussianPair, Pair, log_sum
from vips_fast.accounting.rdp import base_of, delta_of_curve, epsilon_of_curve, renyi_curve

_ORDERS = np.arange(2, 257)


def wang_rdp(event: WithoutReplacementEvent, orders: ArrayLike, bound: str = "thm9") -> FloatArray:
    """Bound Renyi divergence of an event on samples that are not empty at integer orders >= 2 (Wang et al. 2019).

    "thm9" holds for every base mechanism; "thm27" replaces its terms j >= 3 by exact even moments of e^L - 1 if these
    are smaller.
    """
    orders = np.asarray(orders, np.int64)
    q, base = event.sampling_probability, base_of(event.event)
    if q == 1.0:
        return np.array([base.divergence(float(a)) for a in orders])
    top = int(np.max(orders))
    j = np.arange(2, top + 1)
    eps = 0.5 * base.mu**2 * j if isinstance(base, GaussianPair) else np.array([base.divergence(float(k)) for k in j])
    # ln min(2, (e^(eps_inf) - 1)^j); a Gaussian has eps_inf = infinity.
    log_inf = np.full(len(j), math.log(2.0))
    if math.isfinite(base.max_loss):
        log_inf = np.minimum(log_inf, j * math.log(math.expm1(min(base.max_loss, 700.0))))
    term = (j - 1) * eps + log_inf
    second = math.log(4.0) + math.log(math.expm1(eps[0])) if eps[0] < 700.0 else math.inf
    term[0] = min(second, term[0])
    if bound == "thm27" and top >= 3:
        even = _log_even_moments(base, top + 1)
        lower, upper = even[2 * (j // 2)], even[2 * ((j + 1) // 2)]
        sharper = math.log(4.0) + 0.5 * (lower + upper)
        term[1:] = np.minimum(term[1:], sharper[1:])
    # ln C(a, j) q^j e^term for all orders a at once; -inf where j > a.
    terms = _log_binomials(tuple(orders.tolist()), top) + (term + j * math.log(q))
    largest = np.max(terms, axis=1)
    total = largest + np.log(np.sum(np.exp(terms - largest[:, None]), axis=1))
    return np.asarray(np.logaddexp(0.0, total) / (orders - 1))


@lru_cache(maxsize=4)
def _log_binomials(orders: tuple[int, ...], top: int) -> FloatArray:
    """Compute ln C(a, j) for `orders` a and j = 2 .. top; -inf if j > a."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(1.0, top + 2))
    a = np.array(orders)[:, None]
    j = np.arange(2, top + 1)[None, :]
    out = log_factorial[a] - log_factorial[j] - log_factorial[np.maximum(a - j, 0)]
    out = np.where(j <= a, out, -np.inf)
    out.setflags(write=False)
    return out


def _log_even_moments(base: Pair, top: int) -> FloatArray:
    """Compute ln E_Q[(e^L - 1)^k] at index k, for even k <= top + 1."""
    out = np.full(top + 2, -math.inf)
    loss, log_weight = base.under_q(float(top + 1), 0.5, False)
    with np.errstate(divide="ignore"):
        large = loss + np.log1p(-np.exp(-np.maximum(loss, 30.0)))
        log_abs = np.where(loss > 30.0, large, np.log(np.abs(np.expm1(np.minimum(loss, 30.0)))))
    for k in range(2, top + 2, 2):
        out[k] = log_sum(k * log_abs + log_weight)
    return out


def _curve(event: PrivacyEvent, bound: str = "thm9", orders: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
    orders = _ORDERS if orders is None else np.asarray(orders, np.int64)
    curve = np.zeros(len(orders))
    for leaf, repeats in touching_leaves(event).items():
        if isinstance(leaf, WithoutReplacementEvent):
            curve += repeats * wang_rdp(leaf, orders, bound)
        elif rate_and_mechanism(leaf)[0] == 1.0:
            curve += repeats * renyi_curve(leaf, orders)
        else:
            raise ValueError("expected samples without replacement and mechanisms on the whole data")
    return orders.astype(np.float64), curve


class WangAccountant(Accountant):
    """The paper's accountant: its bounds and its conversion.

    The bounds are for samples of a fixed size. For LDA with 20,000 of 400,000 documents, 20 steps and noise multiplier
    1.24 the paper prints epsilon = 2.38.
    """

    name = "wang"
    title = "analytical moments accountant"
    source = "Wang, Balle & Kasiviswanathan 2019, theorems 9 and 27"

    def epsilon(self, event: PrivacyEvent, delta: float, conversion: str = "classical", **options: Any) -> float:
        """Bound epsilon at the best of `orders`, by default 2 to 256, by a ``bound`` of `wang_rdp`."""
        return epsilon_of_curve(*_curve(event, **options), delta, conversion)

    def delta(self, event: PrivacyEvent, epsilon: float, conversion: str = "classical", **options: Any) -> float:
        """Bound delta, likewise."""
        return delta_of_curve(*_curve(event, **options), epsilon, conversion)


WANG = WangAccountant()
