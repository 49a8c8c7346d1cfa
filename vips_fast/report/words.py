"""What epsilon means to somebody whose record is in the data: what an attacker can gain who knows everything else."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from ..accounting import PrivacyEvent, delta, epsilon, gaussian_mu, gaussian_noise_multiplier, group_event
from ..accounting.tradeoff import true_positive_rate
from ..engine.statement import Privacy

#: The rate of false alarms at which an attacker's hits are stated.
FALSE_POSITIVES = 1e-3


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
        Bound of the true-positive rate of tests whose false-positive rate is 0.1 %
        (`vips_fast.accounting.tradeoff.true_positive_rate`).
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

    known = [gaussian_mu(event) for event in events]
    own = [mu for mu in known if mu is not None]
    exact = len(own) == len(known)
    mu = max(own) if exact else 0.0 if stated == 0.0 else 1.0 / gaussian_noise_multiplier(stated, privacy.delta)
    advantage = min(1.0, max(delta(event, 0.0) for event in events))
    return Gain(
        size=size,
        epsilon=stated,
        delta=privacy.delta,
        guesses=(1.0 + advantage) / 2.0,
        odds=math.inf if advantage >= 1.0 else (1.0 + advantage) / (1.0 - advantage),
        hits=max(true_positive_rate(event, FALSE_POSITIVES) for event in events),
        mu=mu,
        exact=exact,
    )


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent, with so many digits behind the point, rounded up, as a bound is printed."""
    # The decimal that Python prints for a double reads back as that double: what is rounded up is no smaller.
    shown = Decimal(repr(float(share))).scaleb(2).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
    return f"{shown:f} %"
