"""Bound the power of any test for one unit, and the odds after."""

import math

import numpy as np

from .accountants import delta, epsilon
from .checks import open_probability, probability
from .events import NonPrivateEvent, PrivacyEvent, touching_leaves
from .gaussian import gaussian_mu

#: Epsilons for the profile; each gives a bound, so more of them only make it tighter.
_GRID = tuple(np.concatenate(([0.0], np.geomspace(0.01, 20.0, 40))).tolist())


def true_positive_rate(event: PrivacyEvent, false_positive_rate: float) -> float:
    """Bound the true-positive rate of a test at a false-positive rate a.

    A composition of whole-data Gaussian mechanisms with `gaussian_mu` mu allows Phi(Phi^-1(a) + mu), and a test attains
    it (Dong, Roth & Su 2022, Eq. 6). For any other event let E be the outputs that a test calls "in". For every
    epsilon >= 0, with the delta(epsilon) of the event's default accountant, which covers adding and removing,

        P(E | in) <= e^epsilon a + delta        and, from the complement with the roles changed,
        P(E | in) <= 1 - e^-epsilon (1 - a - delta),

    so the smallest of these over a grid of epsilons is a bound too (Wasserman & Zhou 2010; Dong, Roth & Su 2022,
    proposition 2.12). 1 for an event that is not private. Raises ValueError if the rate is not in [0, 1], or no
    accountant bounds the event.
    """
    a = probability("false_positive_rate", false_positive_rate)
    if any(isinstance(leaf, NonPrivateEvent) for leaf in touching_leaves(event)):
        return 1.0
    mu = gaussian_mu(event)
    if mu is not None:
        from scipy.special import ndtr, ndtri

        return 1.0 if a == 1.0 else float(ndtr(ndtri(a) + mu))
    best = 1.0
    for eps in _GRID:
        d = delta(event, eps)
        best = min(best, math.exp(eps) * a + d, 1.0 - math.exp(-eps) * max(0.0, 1.0 - a - d))
    return max(a, best)


def largest_loss(event: PrivacyEvent, failure: float) -> float:
    """Bound the privacy loss of one unit, except with probability `failure`.

    The loss is L = ln(P(outputs | truth) / P(outputs | the other case)): the releases multiply an attacker's odds for
    the truth by e^L. The bound holds whichever case is the truth. Infinity if the event is not private.

    *Proof.* For a composition of whole-data Gaussian mechanisms with mu, L is N(mu^2 / 2, mu^2), and the bound is its
    quantile. For any other event, delta(e) = E (1 - e^(e - L))_+ >= P(L > t) (1 - e^(e - t)) for every e < t. So
    t = e - ln(1 - delta(e) / failure) will do for every e with delta(e) < failure; the smallest of some is taken.
    delta(e) covers both cases. Raises ValueError if no accountant bounds the event.
    """
    failure = open_probability("failure", failure)
    if any(isinstance(leaf, NonPrivateEvent) for leaf in touching_leaves(event)):
        return math.inf
    mu = gaussian_mu(event)
    if mu is not None:
        from scipy.special import ndtri

        return max(0.0, 0.5 * mu * mu - mu * float(ndtri(failure)))
    return min(epsilon(event, share * failure) - math.log1p(-share) for share in (0.01, 0.05, 0.2, 0.5))
