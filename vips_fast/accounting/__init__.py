"""Privacy accounting: events, accountants and calibration.

An *event* describes a mechanism and how its data were sampled; an *accountant* computes (epsilon, delta) from events.
All bounds are rounded upwards: no function here under-reports.
"""

from .accountant import Accountant
from .accountants import ACCOUNTANTS, default_accountant, delta, epsilon
from .calibration import calibrate_noise_multiplier
from .events import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    Relation,
    SelfComposedEvent,
    WithoutReplacementEvent,
    event_from_dict,
    round_up_probability,
)
from .gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_noise_multiplier
from .groups import group_event
from .printing import rounded_down, rounded_up
from .privacy_loss import PrivacyLoss
from .rdp import renyi_divergence
from .tradeoff import attack_success, inference_success, true_positive_rate

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "ApproximateDPEvent",
    "ComposedEvent",
    "GaussianEvent",
    "GroupEvent",
    "LaplaceEvent",
    "NonPrivateEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "PrivacyLoss",
    "RandomAllocationEvent",
    "RandomizedResponseEvent",
    "Relation",
    "SelfComposedEvent",
    "WithoutReplacementEvent",
    "attack_success",
    "calibrate_noise_multiplier",
    "default_accountant",
    "delta",
    "epsilon",
    "event_from_dict",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "group_event",
    "inference_success",
    "renyi_divergence",
    "round_up_probability",
    "rounded_down",
    "rounded_up",
    "true_positive_rate",
]
