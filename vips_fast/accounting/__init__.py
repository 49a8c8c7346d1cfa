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
    pure_epsilon,
    zcdp_rho,
)
from .calibration import (
    calibrate_noise_multiplier,
    calibrate_sampling_probability,
    calibrate_steps,
)
from .comparison import (
    ComparisonRow,
    compare,
    epsilon_curve,
    epsilon_lower_bound,
    plot_epsilon,
)
from .composition import (
    add_remove_to_replace_one,
    amplify_epsilon_delta,
    amplify_rdp_poisson,
    basic_composition,
    kairouz_composition,
    optimal_composition_epsilon,
    optimal_composition_heterogeneous,
    strong_composition,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho_for_target,
    zcdp_rho_gaussian,
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
    round_up_probability,
)
from .fdp import gdp_clt_mu, gdp_mu, trade_off
from .gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu_from_epsilon_delta,
    gaussian_noise_multiplier,
)
from .generic import (
    BayesianAccountant,
    BayesianGuarantee,
    generic_epsilon_v1,
    generic_log_moment,
    moments_accountant_epsilon,
)
from .pld import PrivacyLoss
from .rdp import (
    delta_from_rdp,
    epsilon_from_rdp,
    renyi_divergence,
    wang_rdp,
)
from .textbook import (
    gaussian_mechanism,
    laplace_mechanism,
    randomized_response,
    randomized_response_frequencies,
    randomized_response_truth_probability,
)

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "ApproximateDPEvent",
    "BayesianAccountant",
    "BayesianGuarantee",
    "ComparisonRow",
    "ComposedEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "NonPrivateEvent",
    "PoissonSampledEvent",
    "PrivacyEvent",
    "PrivacyLoss",
    "RandomizedResponseEvent",
    "SelfComposedEvent",
    "WithoutReplacementEvent",
    "add_remove_to_replace_one",
    "amplify_epsilon_delta",
    "amplify_rdp_poisson",
    "basic_composition",
    "calibrate_noise_multiplier",
    "calibrate_sampling_probability",
    "calibrate_steps",
    "compare",
    "default_accountant",
    "delta",
    "delta_from_rdp",
    "describe",
    "epsilon",
    "epsilon_curve",
    "epsilon_from_rdp",
    "epsilon_lower_bound",
    "event_from_dict",
    "event_from_json",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mechanism",
    "gaussian_mu_from_epsilon_delta",
    "gaussian_noise_multiplier",
    "gdp_clt_mu",
    "gdp_mu",
    "generic_epsilon_v1",
    "generic_log_moment",
    "kairouz_composition",
    "laplace_mechanism",
    "moments_accountant_epsilon",
    "optimal_composition_epsilon",
    "optimal_composition_heterogeneous",
    "plot_epsilon",
    "privacy_profile",
    "pure_epsilon",
    "randomized_response",
    "randomized_response_frequencies",
    "randomized_response_truth_probability",
    "renyi_divergence",
    "round_up_probability",
    "strong_composition",
    "trade_off",
    "wang_rdp",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
    "zcdp_rho_for_target",
    "zcdp_rho_gaussian",
]
