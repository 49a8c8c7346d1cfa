"""Bound tests, guesses and odds about one unit."""

import math

import numpy as np

from ..checks import check_number
from .accountants import delta, epsilon, trivial_epsilon
from .checks import open_probability, probability
from .events import PrivacyEvent, check_event
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

    so the smallest of these over a grid of epsilons is a bound too. (See Wasserman & Zhou 2010 and proposition 2.12 of
    Dong, Roth & Su 2022.) It is 1 for an event that is not private. Raises ValueError if the rate is not in [0, 1], or
    no accountant bounds the event.
    """
    a = probability("false_positive_rate", false_positive_rate)
    if trivial_epsilon(check_event(event)) == math.inf:
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


def attack_success(event: PrivacyEvent, prior: float = 0.5) -> float:
    """Bound the right guesses whether a unit is in the data.

    The attacker knows everything else, sees all releases of `event`, and holds the case "in" for as likely as `prior`.
    The bound is for the better of both neighbors, and holds for replacing as for adding and removing.

    *Proof.* Let E be the outputs with the guess "in", p = `prior` <= 1/2 and e^eps = (1 - p) / p. The guess is right
    with probability

        p P(E | in) + (1 - p) (1 - P(E | out)) = 1 - p + p (P(E | in) - e^eps P(E | out)) <= 1 - p + p delta(eps),

    with equality for the best E if the accountant is exact. For p > 1/2 exchange the two cases; delta(eps) covers
    both. At p = 1/2 this is (1 + delta(0)) / 2, delta(0) the distance in total variation. A composition of whole-data
    Gaussian mechanisms has delta(0) = 2 Phi(mu / 2) - 1, so its success is Phi(mu / 2).

    Raises ValueError if the prior is not in (0, 1), or no accountant bounds the event.

    >>> from vips_fast.accounting import GaussianEvent, attack_success, gaussian_noise_multiplier
    >>> round(attack_success(GaussianEvent(gaussian_noise_multiplier(2.2872, 1e-6))), 4)
    0.6
    """
    p = open_probability("prior", prior)
    p = min(p, 1.0 - p)
    return 1.0 - p + p * min(1.0, delta(event, math.log((1.0 - p) / p)))


def inference_success(event: PrivacyEvent, baseline: float) -> float:
    """Bound the share of right guesses of a secret of one unit.

    The secret is any function of the unit's records: an attribute, the identity among candidates, or a reconstruction
    that is near enough. `baseline` b in (0, 1] is the share of right guesses of the best attacker without the releases.
    It is the probability of the likeliest value, or 1 / n for n equally likely candidates.

    *Proof* (Kulynych et al. 2025 have such bounds for f-differential privacy; this one is direct). Let the secret be a
    with probability w_a. Let P_a be the law of the outputs then, and Q their law without the unit, or with a fixed
    other unit in its place. Each P_a and Q are neighbors, under adding and removing as under replacing. Let F_a be the
    outputs with a guess that is right for a. Let T be a concave, rising bound of P_a(F) by Q(F), such as the least of
    the lines of `true_positive_rate`. The guess is right with probability

        sum_a w_a P_a(F_a) <= sum_a w_a T(Q(F_a)) <= T(sum_a w_a Q(F_a)) <= T(b).

    The last sum is the share of right guesses if the outputs are drawn from Q. These know nothing of the secret, so it
    is at most b. The attacker may know anything else, which is in w.

    The bound takes the lines of `true_positive_rate` near the slope at b of a Gaussian mechanism of the same total
    variation; every line bounds. It is exact for whole-data Gaussian mechanisms: Phi(Phi^-1(b) + mu).

    Raises ValueError if the baseline is not in (0, 1], or no accountant bounds the event.
    """
    b: float = check_number("baseline", baseline, 1e-300, 1.0)
    if trivial_epsilon(check_event(event)) == math.inf or b == 1.0:
        return 1.0
    if gaussian_mu(event) is not None:
        return true_positive_rate(event, b)
    from scipy.special import ndtri

    variation = min(1.0 - 1e-9, delta(event, 0.0))
    mu = 2.0 * float(ndtri(0.5 * (1.0 + variation)))
    best, slope = min(1.0, b + variation), -mu * float(ndtri(b)) - 0.5 * mu * mu
    for factor in (0.75, 1.0, 1.35):
        eps = factor * abs(slope)
        d = delta(event, eps)
        best = min(best, math.exp(eps) * b + d if slope > 0.0 else 1.0 - math.exp(-eps) * max(0.0, 1.0 - b - d))
    return max(b, best)


def largest_loss(event: PrivacyEvent, failure: float) -> float:
    """Bound the privacy loss of one unit, except with probability `failure`.

    The loss is L = ln(P(outputs | truth) / P(outputs | the other case)): the releases multiply an attacker's odds for
    the truth by e^L. The bound holds whichever case is the truth. Infinity if the event is not private.

    *Proof.* For a composition of whole-data Gaussian mechanisms with mu, L is N(mu^2 / 2, mu^2), and the bound is its
    quantile. Take any other event. Then delta(e) = E (1 - e^(e - L))_+ >= P(L > t) (1 - e^(e - t)) for every e < t. So
    t = e - ln(1 - delta(e) / failure) will do for every e with delta(e) < failure. The smallest of some is taken.
    delta(e) covers both cases. Raises ValueError if no accountant bounds the event.
    """
    failure = open_probability("failure", failure)
    if trivial_epsilon(check_event(event)) == math.inf:
        return math.inf
    mu = gaussian_mu(event)
    if mu is not None:
        from scipy.special import ndtri

        return max(0.0, 0.5 * mu * mu - mu * float(ndtri(failure)))
    return min(epsilon(event, share * failure) - math.log1p(-share) for share in (0.01, 0.05, 0.2, 0.5))
