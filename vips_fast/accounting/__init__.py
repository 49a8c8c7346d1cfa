"""Privacy accounting: events, accountants, calibration and budgets.

An *event* describes a mechanism and how its data were sampled; an
*accountant* computes (epsilon, delta) from events.  All bounds are rounded
upwards: no function here under-reports.
"""

from .accountants import (
    ACCOUNTANTS,
    Accountant,
    default_accountant,
    delta,
    describe,
    epsilon,
    privacy_profile,
)
from .calibration import (
    calibrate_noise_multiplier,
    calibrate_sampling_probability,
    calibrate_steps,
)
from .events import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    event_from_dict,
    event_from_json,
)

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "ApproximateDPEvent",
    "ComposedEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "NonPrivateEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "RandomizedResponseEvent",
    "SelfComposedEvent",
    "WithoutReplacementEvent",
    "calibrate_noise_multiplier",
    "calibrate_sampling_probability",
    "calibrate_steps",
    "default_accountant",
    "delta",
    "describe",
    "epsilon",
    "event_from_dict",
    "event_from_json",
    "privacy_profile",
]
