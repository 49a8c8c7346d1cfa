"""What epsilon means to somebody whose record is in the data: what an attacker can gain who knows everything else."""

import math
from dataclasses import dataclass

from ..accounting import PrivacyEvent, delta, epsilon, gaussian_mu, gaussian_noise_multiplier, group_event
from ..engine.statement import Privacy

#: The rate of false alarms at which an attacker's hits are stated.
FALSE_POSITIVES = 1e-3
#: Shares of epsilon at which the profile is asked; each gives a valid bound, so that few are enough.
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Gain:
    """The most that an attacker gains who knows all but whether somebody's records are in the data, or which they are.

    Attributes
    ----------
    size : int
        How many of the records (or of the units that are protected) are somebody's.
    epsilon, delta : float
        The guarantee for so many.
    guesses : float
        Share of right guesses of the best attacker who thought both cases equally likely: (1 + δ(0)) / 2, with δ(ε) the
        privacy profile, as δ(0) bounds the distance in total variation.
    odds : float
        The same as odds: right guesses for each wrong one, 1 where there is nothing to gain; inf for a sure attacker.
    hits : float
        Bound of the true-positive rate of tests whose false-positive rate α is 0.1 %: the least of e^ε α + δ(ε) over
        points of the profile, each of which is a bound (Dong, Roth & Su 2022, proposition 2.4).
    mu : float
        μ of Gaussian differential privacy: exactly that of the releases where they are whole-data Gaussian mechanisms
        (`exact`), else that of a Gaussian mechanism with the same ε at this δ.
    """

    size: int
    epsilon: float
    delta: float
    guesses: float
    odds: float
    hits: float
    mu: float
    exact: bool


def gain(privacy: Privacy, events: list[PrivacyEvent], size: int = 1) -> Gain | None:
    """What the releases let an attacker gain over somebody with ``size`` records; None where nothing is promised.

    ``events`` are all releases that a record was in: one event, or one for each part of the data set, of which the
    worst counts. Several records may lie in any parts, so that ``events`` then holds all releases in sequence.
    """
    if not privacy.private or not events:
        return None
    events = [group_event(event, size) for event in events]
    stated = max(epsilon(event, privacy.delta) for event in events)
    if math.isinf(stated):
        return None

    def profile(at: float) -> float:
        return min(1.0, max(delta(event, at, rtol=1e-3) for event in events))

    known = [gaussian_mu(event) for event in events]
    own = [mu for mu in known if mu is not None]
    exact = len(own) == len(known)
    mu = max(own) if exact else 0.0 if stated == 0.0 else 1.0 / gaussian_noise_multiplier(stated, privacy.delta)
    points = [share * stated for share in _SHARES]
    hits = min(math.exp(min(e, 700.0)) * FALSE_POSITIVES + profile(e) for e in points)
    advantage = profile(0.0)
    return Gain(
        size=size, epsilon=stated, delta=privacy.delta, guesses=(1.0 + advantage) / 2.0,
        odds=math.inf if advantage >= 1.0 else (1.0 + advantage) / (1.0 - advantage), hits=min(1.0, hits), mu=mu,
        exact=exact,
    )


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent, never rounded down, as a bound is printed; below 100 only where it is."""
    scale = 10.0**digits
    rounded = math.ceil(100.0 * share * scale - 1e-9) / scale
    return f"{min(rounded, 100.0):.{digits}f} %"
