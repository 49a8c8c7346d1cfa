"""Privacy accounting: events, accountants, calibration and comparison.

An *event* describes a mechanism and how its data were sampled; an *accountant* computes (epsilon, delta) from events.
All bounds are rounded upwards: no function here under-reports.
"""

from .accountant import Accountant
from .accountants import ACCOUNTANTS, default_accountant, delta, describe, epsilon, privacy_profile
from .amplification import add_remove_to_replace_one, amplify_epsilon_delta, amplify_rdp_poisson
from .bayesian import BayesianAccountant, BayesianGuarantee
from .calibration import calibrate_noise_multiplier
from .comparison import ComparisonRow, compare, epsilon_lower_bound
from .composition import (
    basic_composition,
    kairouz_composition,
    optimal_composition_epsilon,
    optimal_composition_heterogeneous,
    pure_epsilon,
    strong_composition,
)
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
    SelectedAllocationEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    event_from_dict,
    event_from_json,
    round_up_probability,
)
from .gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_noise_multiplier
from .generic import generic_epsilon_v1, generic_log_moment, moments_accountant_epsilon
from .groups import group_event
from .parts import parts_delta, parts_epsilon
from .printing import rounded_down, rounded_up
from .privacy_loss import PrivacyLoss
from .rdp import delta_from_rdp, epsilon_from_rdp, renyi_divergence
from .tradeoff import attack_success, inference_success, true_positive_rate
from .wang import wang_rdp
from .zcdp import zcdp_delta, zcdp_epsilon, zcdp_rho, zcdp_rho_for_target, zcdp_rho_gaussian

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "ApproximateDPEvent",
    "BayesianAccountant",
    "BayesianGuarantee",
    "ComparisonRow",
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
    "SelectedAllocationEvent",
    "SelfComposedEvent",
    "WithoutReplacementEvent",
    "add_remove_to_replace_one",
    "amplify_epsilon_delta",
    "amplify_rdp_poisson",
    "attack_success",
    "basic_composition",
    "calibrate_noise_multiplier",
    "compare",
    "default_accountant",
    "delta",
    "delta_from_rdp",
    "describe",
    "epsilon",
    "epsilon_from_rdp",
    "epsilon_lower_bound",
    "event_from_dict",
    "event_from_json",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "generic_epsilon_v1",
    "generic_log_moment",
    "group_event",
    "inference_success",
    "kairouz_composition",
    "moments_accountant_epsilon",
    "optimal_composition_epsilon",
    "optimal_composition_heterogeneous",
    "parts_delta",
    "parts_epsilon",
    "privacy_profile",
    "pure_epsilon",
    "renyi_divergence",
    "round_up_probability",
    "rounded_down",
    "rounded_up",
    "strong_composition",
    "true_positive_rate",
    "wang_rdp",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
    "zcdp_rho_for_target",
    "zcdp_rho_gaussian",
]
