"""Bound guesses of a person's secrets: attributes and identity."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..accounting import PrivacyEvent, Relation, attack_success, inference_success

#: Secrets of the report, and the share of right guesses of each without the model.
SECRETS = (
    ("a yes-or-no attribute, both answers equally likely", 0.5),
    ("an attribute of ten equally likely values", 0.1),
    ("which of 100 persons a record belongs to", 0.01),
    ("which of 10,000 persons a record belongs to", 0.0001),
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

    ``bounds`` are as in `vips_fast.report.words.gain`. If one record is replaced by another, the two values of a
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
