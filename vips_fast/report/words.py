"""Say the meaning of epsilon for a person: an attacker's gain, and guesses of the person's secrets.

The attacker knows everything else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..accounting import (
    PrivacyEvent,
    Relation,
    attack_success,
    epsilon,
    gaussian_mu,
    gaussian_noise_multiplier,
    group_event,
    inference_success,
)
from ..accounting.tradeoff import largest_loss, true_positive_rate
from ..engine.statement import Privacy

#: Rate of false alarms for the stated hits of an attacker.
FALSE_POSITIVES = 1e-3
#: Secrets of the report, and the share of right guesses of each without the model.
SECRETS = (
    ("a yes-or-no attribute, both answers equally likely", 0.5),
    ("an attribute of ten equally likely values", 0.1),
    ("which of 100 persons a record belongs to", 0.01),
    ("which of 10,000 persons a record belongs to", 0.0001),
)


@dataclass(frozen=True)
class Gain:
    """Bounds of an attacker's gain about a person.

    The attacker knows everything except whether the person's records are in the data, or which ones these are.

    Attributes
    ----------
    size : int
        Number of the person's records, or of the privacy units.
    epsilon, delta : float
        The guarantee for this number.
    guesses : float
        Share of right guesses of the best attacker, if both cases were equally likely
        (`vips_fast.accounting.attack_success`).
    odds : float
        Bound of the attacker's odds for the truth after the releases, 1 to 1 before. They are at most this, except with
        probability δ over the noise (`vips_fast.accounting.tradeoff.largest_loss`). inf for no bound.
    hits : float
        Bound of the true-positive rate of tests whose false-positive rate is 0.1 %
        (`vips_fast.accounting.tradeoff.true_positive_rate`).
    mu : float
        μ of Gaussian differential privacy. It is exact (`exact`) if the releases are whole-data Gaussian mechanisms,
        else the μ of a Gaussian mechanism with the same ε at this δ.
    """

    size: int
    epsilon: float
    delta: float
    guesses: float
    odds: float
    hits: float
    mu: float
    exact: bool


def gain(privacy: Privacy, bounds: Sequence[tuple[PrivacyEvent, float]], size: int = 1) -> Gain | None:
    """Bound an attacker's gain about a person; None without a guarantee.

    The person has ``size`` records. ``bounds`` are about all releases that a record was in. They are an event and its
    share of delta (`Ledger.bound`), or one for each part of the data set. The worst part counts. Several records may
    lie in any parts; ``bounds`` then holds all releases in sequence.

    If an odometer bounds calls, ``guesses`` and ``hits`` hold if its level had been fixed ahead. ``odds`` need no such
    condition: the proof of the odometer holds word for word for the outcomes of a level whose loss is too large.
    """
    if not privacy.private or not bounds:
        return None
    bounds = [(group_event(event, size), share) for event, share in bounds]
    events = [event for event, _ in bounds]
    stated = max(epsilon(event, share * privacy.delta) for event, share in bounds)
    if math.isinf(stated):
        return None
    loss = max(largest_loss(event, share * privacy.delta) for event, share in bounds)

    known = [gaussian_mu(event) for event in events]
    own = [mu for mu in known if mu is not None]
    exact = len(own) == len(known) and all(share == 1.0 for _, share in bounds)
    mu = max(own) if exact else 0.0 if stated == 0.0 else 1.0 / gaussian_noise_multiplier(stated, privacy.delta)
    return Gain(
        size=size,
        epsilon=stated,
        delta=privacy.delta,
        guesses=max(map(attack_success, events)),
        odds=math.exp(loss) if loss < 700.0 else math.inf,
        hits=max(true_positive_rate(event, FALSE_POSITIVES) for event in events),
        mu=mu,
        exact=exact,
    )


@dataclass(frozen=True)
class SecretRisk:
    """Bound of the share of right guesses of a secret.

    Attributes
    ----------
    secret : str
    baseline, success : float
        Share of right guesses without the model, and at most with it
        (`vips_fast.accounting.inference_success`).
    """

    secret: str
    baseline: float
    success: float


def secret_risks(bounds: Sequence[tuple[PrivacyEvent, float]]) -> tuple[SecretRisk, ...]:
    """Bound the guesses of each of `SECRETS`, for the worst part.

    ``bounds`` are as in `gain`. If one record is replaced by another, the two values of a
    yes-or-no attribute are neighbors, and `attack_success` is the smaller bound.
    """
    events = [event for event, _ in bounds]
    if not events:
        return ()
    found = []
    for secret, baseline in SECRETS:
        success = max(inference_success(event, baseline) for event in events)
        if baseline == 0.5 and events[0].relation == Relation.REPLACE_ONE:
            success = min(success, max(map(attack_success, events)))
        found.append(SecretRisk(secret, baseline, success))
    return tuple(found)
