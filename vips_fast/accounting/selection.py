"""Select the best of several private runs: Renyi bounds with proofs.

The bounds are of Papernot & Steinke 2022 ("Hyperparameter Tuning with Renyi Differential Privacy").

A mechanism Q gives outputs that are totally ordered. A number of runs K is drawn without looking at the data. Q is run
K times with fresh coins, and only the largest output is released. Outputs that tie count as ordered by a coin of their
own, so that keeping the first of them is as good. Let Q and Q' be its laws on two neighboring data sets, and A and A'
the selection's. Let alpha > 1, eps(alpha) be a bound of D_alpha both ways, and f(x) = E[x^K].

*Lemma (theirs, 7).* Let S = sum_y A(y)^alpha A'(y)^(1-alpha) over the outputs of Q. Then S <= e^((alpha-1) eps(alpha))
max f'(q)^alpha f'(q')^(1-alpha), the maximum over the probabilities q, q' that Q and Q' give to one (randomized) event.
*Proof.* The largest of K is y or below with probability f(Q(<= y)). So A(y) = f(Q(<= y)) - f(Q(< y)) = Q(y) E[f'(q_U)].
Here U is uniform on [0, 1], and q_U = Q(< y) + U Q(y) is the probability of "below y, or y and a coin". Likewise A'
with the same U. The function a^alpha b^(1-alpha) is jointly convex. So A(y)^alpha A'(y)^(1-alpha) is at most the mean
over U of Q(y)^alpha Q'(y)^(1-alpha) f'(q_U)^alpha f'(q'_U)^(1-alpha). Sum over y. (Densities take the place of
probabilities where outputs are continuous.)

*Truncated negative binomial (theirs, theorem 2).* Let eta = shape > 0 and gamma in (0, 1). Then f(x) = ((1 - (1-gamma)
x)^-eta - 1) / (gamma^-eta - 1). For eta = 0 it is its limit ln(1 - (1-gamma) x) / ln gamma. K >= 1 always. For every
order b > 1

    D_alpha(A | A') <= eps(alpha) + (1 + eta) ((1 - 1/b) eps(b) + ln(1/gamma) / b) + ln E[K] / (alpha - 1).

*Proof.* f'(x) = E[K] gamma^(eta+1) (1 - (1-gamma) x)^-(eta+1), as f'(1) = E[K]. Let u = 1 - (1-gamma) q. It is the
probability that Q gives to "not the event, or a coin that shows gamma"; u' is the same for Q'. Both are >= gamma. The
term of that event in the sum of D_b(Q' | Q) is u'^b u^(1-b) <= e^((b-1) eps(b)). So u'/u <= u^(-1/b) e^((1-1/b)
eps(b)) <= gamma^(-1/b) e^((1-1/b) eps(b)). Then f'(q)^alpha f'(q')^(1-alpha) = E[K] (gamma / u)^(eta+1)
(u'/u)^((alpha-1)(eta+1)) is at most E[K] (gamma^(-1/b) e^((1-1/b) eps(b)))^((alpha-1)(eta+1)). The lemma, the
logarithm, and a division by alpha - 1 give the bound. At mean 1 gamma is 1, the selection is one run, and the bound is
eps(alpha) at b -> 1.

*Poisson (theirs, theorem 6, with the event of no run counted).* Let the mean be m and f(x) = e^(m (x - 1)). Suppose P(Q
in E) <= (1 + 1/(alpha-1)) P(Q' in E) + delta for all events E and both ways,

    D_alpha(A | A') <= ln(e^((alpha-1)(eps(alpha) + m delta) + ln m) + e^-m) / (alpha - 1).

*Proof.* f'(q)^alpha f'(q')^(1-alpha) = m exp(m ((alpha-1) a' - alpha a)) with a = 1 - q, a' = 1 - q', and (alpha-1) a'
- alpha a = (alpha-1) (a' - (1 + 1/(alpha-1)) a) <= (alpha-1) delta. The output "no run" has the probability e^-m under
both laws and adds e^-m to S. Here delta comes from the Renyi bounds of Q (`rdp.delta_from_rdp`).

A Renyi divergence does not fall with its order, so a bound at a larger order holds at a smaller one, too. The
accountant's minimum over orders takes what of that is of use.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from .checks import FloatArray
from .solver import find_threshold


def truncated_negative_binomial_mean(gamma: float, shape: float) -> float:
    """Compute E[K] of the truncated negative binomial distribution.

    It is shape (1/gamma - 1) / (1 - gamma^shape), at shape 0 (1/gamma - 1) / ln(1/gamma), by their definition 1.
    `gamma` is in (0, 1] and `shape` >= 0.
    """
    log = -math.log(gamma)
    if log == 0.0:
        return 1.0
    # (e^log - 1) / log over (1 - e^(-shape log)) / (shape log).
    below = 1.0 if shape * log == 0.0 else -math.expm1(-shape * log) / (shape * log)
    return math.expm1(log) / log / below


@lru_cache(maxsize=256)
def stopping_probability(mean: float, shape: float) -> float:
    """Find gamma of the truncated negative binomial of this mean.

    The mean is >= 1. Gamma is rounded down, which is upwards in the bound.
    """
    if mean == 1.0:
        return 1.0
    # In t = ln(1/gamma); the mean grows with it.
    low, high = 0.0, 1.0
    while truncated_negative_binomial_mean(math.exp(-high), shape) < mean:
        low, high = high, 2.0 * high
    enough = find_threshold(
        lambda t: truncated_negative_binomial_mean(math.exp(-t), shape) >= mean, low, high, atol=1e-14, rtol=1e-14
    )
    return math.exp(-enough) * (1.0 - 1e-12)


def selected_curve(
    mean: float,
    shape: float | None,
    orders: FloatArray,
    run: FloatArray,
    known: FloatArray,
    curve: FloatArray,
    delta_at: Callable[[float], float],
) -> FloatArray:
    """Bound the Renyi divergences of a selection at `orders` > 1.

    `run` are the bounds of one run at `orders`, and `curve` those at the orders `known`. The proof chooses its order b
    among these. ``delta_at(epsilon)`` is the delta of one run there. All are float64 of one dimension.
    """
    above = orders - 1.0
    if shape is None:
        with np.errstate(over="ignore"):
            closeness = np.log1p(1.0 / above)
        delta = np.array([delta_at(float(epsilon)) for epsilon in closeness])
        return np.logaddexp(above * (run + mean * delta) + math.log(mean), -mean) / above
    gamma = stopping_probability(mean, shape)
    every = float(np.min((1.0 - 1.0 / known) * curve - math.log(gamma) / known))
    # At b -> 1 the least of them is 0 + ln(1 / gamma).
    every = min(every, -math.log(gamma))
    expected = max(mean, truncated_negative_binomial_mean(gamma, shape))
    return run + (1.0 + shape) * every + math.log(expected) / above
