"""The trade-off curve: the power that a guarantee leaves to any test for one unit, at a given rate of false alarms."""

import math

import numpy as np

from .accountants import delta
from .checks import probability
from .events import NonPrivateEvent, PrivacyEvent, touching_leaves
from .gaussian import gaussian_mu

#: Epsilons for the profile; each gives a bound, so more of them only make it tighter.
_GRID = tuple(np.concatenate(([0.0], np.geomspace(0.01, 20.0, 40))).tolist())


def true_positive_rate(event: PrivacyEvent, false_positive_rate: float) -> float:
    """The largest true-positive rate that a claim allows a test for one unit, at a false-positive rate a in [0, 1].

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
    for epsilon in _GRID:
        d = delta(event, epsilon)
        best = min(best, math.exp(epsilon) * a + d, 1.0 - math.exp(-epsilon) * max(0.0, 1.0 - a - d))
    return max(a, best)
