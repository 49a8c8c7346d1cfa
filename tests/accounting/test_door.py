"""What is no number, infinite or out of its range is refused at the door of every public function of accounting.

The functions are found by introspection: one without a line in `GOOD` fails.
"""

import inspect
import math
import time

import numpy as np
import pytest

from vips_fast import accounting as acc
from vips_fast.accounting.accountants import ACCOUNTANTS

G, NAN, INF = acc.GaussianEvent, math.nan, math.inf
EVENT = acc.SelfComposedEvent(acc.PoissonSampledEvent(0.1, G(2.0)), 3)
WITHOUT = acc.WithoutReplacementEvent(5, 50, G(2.0))

#: No number at all, and no finite one.
NEVER = [NAN, INF, -INF, True, "1", None, [1.0], np.array([0.5, NAN]), 1j, object(), np.float64(NAN), -1.0]
NO_COUNT = [*NEVER, 1.5, 2.0, -1, 10**400, np.bool_(True)]
NO_ARRAY = [[], [2.0, NAN], [2.0, INF], [-INF], ["a"], [True, True], [[2.0], [3.0, 4.0]], NAN, None, "2", [2.0, 1j]]

#: What each kind of argument refuses.
KINDS = {
    "event": [None, 1.0, "gaussian", {"type": "gaussian"}, G, [G(1.0)]],
    "positive": [*NEVER, 0.0, 1e-200, 1e200],
    "noise": [*NEVER, 0.0, 1e-200, 1e200],
    "not negative": [*NEVER, 1e200],
    "probability": [*NEVER, 1.0000001, 2],
    "open": [*NEVER, 0.0, 1.0, 0, 1, 1.5],
    "success": [*(x for x in NEVER if x is not None), 0.5, 1.0, 0.2],
    "share": [*NEVER, 0.0, 1.5],
    "accuracy": [*NEVER, 0.0, 0.9],
    "count": NO_COUNT,
    "count from 1": [*NO_COUNT, 0],
    "count from 2": [*NO_COUNT, 0, 1],
    "count or none": [*(x for x in NO_COUNT if x is not None), 0],
    "optional": [x for x in NEVER if x is not None],
    "orders": [*NO_ARRAY, [1.0], [0.5, 2.0], [-2.0], [1e200]],
    "whole orders": [*NO_ARRAY, [1], [2.5], [-2]],
    "curve": [*NO_ARRAY, [-1.0, 2.0], [1.0], [1.0, 2.0, 3.0], [1e200, 1.0]],
    "numbers": [*NO_ARRAY, [-1.0]],
    "noises": [*NO_ARRAY, [0.0], [-1.0], [1e200]],
    "choice": [1, None, "best", NAN, ["tight"]],
    "choice or none": [1, "best", NAN, ["tight"]],
    "parts": [[(0.5, NAN)], [(NAN, 0.1)], [(-1.0, 0.1)], [(0.5, 1.5)], [("1", 0.1)], [(INF, 0.1)]],
    "epsilons": [[NAN], [1.0, -1.0], [INF], ["1"], [True]],
    "spent": [{(None, G(1.0)): -1}, {(None, G(1.0)): 1.5}, {(None, G(1.0)): NAN}, {(None, 1.0): 1}, {G(1.0): 1}],
    "printed": [NAN, "x"],
    "relation": ["replace", 1, NAN, True],
    "flag": [1, "yes", None],
    "events": [[1.0], [None], ["gaussian"]],
    "dictionary": [[], None, {"type": "gauss"}, {"type": "gaussian", "noise_multiplier": NAN, "relation": None}],
    "text": ['{"type": "gaussian", "noise_multiplier": NaN, "relation": null}', "[]"],
    "anything": [],
}

ALL = "event", "not negative"
GOOD = {
    "ApproximateDPEvent": dict(epsilon=(1.0, "not negative"), delta=(0.1, "probability"), relation=(None, "relation")),
    "BayesianAccountant": dict(
        sampling_probability=(0.1, "probability"),
        noise_sd=(1.0, "positive"),
        steps=(3, "count from 1"),
        order=(4, "count from 1"),
        confidence=(0.9, "open"),
    ),
    "ComposedEvent": dict(events=([G(1.0)], "events")),
    "GaussianEvent": dict(noise_multiplier=(1.0, "noise"), relation=(None, "relation")),
    "GroupEvent": dict(event=(EVENT.event, "event"), size=(2, "count from 1")),
    "LaplaceEvent": dict(noise_multiplier=(1.0, "noise"), relation=(None, "relation")),
    "NonPrivateEvent": dict(relation=(None, "relation")),
    "PoissonSampledEvent": dict(sampling_probability=(0.1, "probability"), event=(G(1.0), "event")),
    "PrivacyEvent": {},
    "PrivacyLoss": dict(
        event=(EVENT, "event"), rtol=(1e-3, "accuracy"), attack=(None, "anything"), smallest=(1e-9, "open")
    ),
    "RandomAllocationEvent": dict(
        n_batches=(3, "count from 1"), n_epochs=(2, "count from 1"), event=(G(1.0), "event"), reused=(False, "flag")
    ),
    "RandomizedResponseEvent": dict(truth_probability=(0.7, "open"), n_categories=(3, "count from 2")),
    "SelectedAllocationEvent": dict(
        n_selected=(2, "count from 1"),
        n_batches=(3, "count from 1"),
        n_epochs=(2, "count from 1"),
        event=(G(1.0), "event"),
    ),
    "SelfComposedEvent": dict(event=(G(1.0), "event"), count=(3, "count")),
    "WithoutReplacementEvent": dict(sample_size=(2, "count"), n_records=(9, "count from 1"), event=(G(1.0), "event")),
    "add_remove_to_replace_one": dict(epsilon=(1.0, "not negative"), delta=(0.1, "probability")),
    "amplify_epsilon_delta": dict(
        epsilon=(1.0, "not negative"), delta=(0.1, "probability"), sampling_probability=(0.1, "probability")
    ),
    "amplify_rdp_poisson": dict(
        rdp=(lambda i: 0.1 * i, "anything"), sampling_probability=(0.1, "probability"), order=(3, "count from 2")
    ),
    "attack_success": dict(event=(EVENT, "event"), prior=(0.5, "open")),
    "basic_composition": dict(parts=([(0.5, 0.1)], "parts")),
    "calibrate_noise_multiplier": dict(
        make_event=(G, "anything"),
        epsilon=(1.0, "positive"),
        delta=(1e-5, "open"),
        accountant=(None, "choice or none"),
        rtol=(1e-3, "accuracy"),
        target_attack_success=(None, "optional"),
    ),
    "compare": dict(
        event=(EVENT, "event"), delta=(1e-5, "open"), accountants=(["rdp"], "anything"), rtol=(5e-3, "accuracy")
    ),
    "default_accountant": dict(event=(EVENT, "event")),
    "delta": dict(event=(EVENT, "event"), epsilon=(1.0, "not negative"), accountant=(None, "choice or none")),
    "delta_from_rdp": dict(
        orders=([2.0, 3.0], "orders"), rdp=([0.1, 0.2], "curve"), epsilon=(1.0, "not negative"),
        conversion=("tight", "choice"),
    ),
    "describe": dict(event=(EVENT, "event"), delta=(1e-5, "open"), accountant=(None, "choice or none")),
    "epsilon": dict(event=(EVENT, "event"), delta=(1e-5, "open"), accountant=(None, "choice or none")),
    "epsilon_from_rdp": dict(
        orders=([2.0, 3.0], "orders"), rdp=([0.1, 0.2], "curve"), delta=(1e-5, "open"), conversion=("tight", "choice")
    ),
    "epsilon_lower_bound": dict(event=(EVENT, "event"), delta=(1e-5, "open"), rtol=(5e-3, "accuracy")),
    "event_from_dict": dict(data=(G(1.0).to_dict(), "dictionary")),
    "event_from_json": dict(text=(G(1.0).to_json(), "text")),
    "gaussian_delta": dict(mu=(1.0, "not negative"), epsilon=(1.0, "not negative")),
    "gaussian_epsilon": dict(mu=(1.0, "not negative"), delta=(0.1, "open")),
    "gaussian_mu": dict(event=(G(1.0), "event")),
    "gaussian_noise_multiplier": dict(epsilon=(1.0, "not negative"), delta=(0.1, "open")),
    "generic_epsilon_v1": dict(
        sampling_probability=(0.1, "probability"), noise_multiplier=(1.0, "noise"), steps=(3, "count"),
        delta=(0.1, "open"), heuristic=("v1", "choice"),
    ),
    "generic_log_moment": dict(
        sampling_probability=(0.1, "probability"), noise_multiplier=([1.0], "noises"), order=(3, "count from 1")
    ),
    "group_event": dict(event=(EVENT, "event"), size=(2, "count from 1")),
    "inference_success": dict(event=(EVENT, "event"), baseline=(0.1, "share")),
    "kairouz_composition": dict(
        epsilon=(1.0, "not negative"), delta=(0.1, "probability"), k=(3, "count"), slack=(0.1, "open")
    ),
    "moments_accountant_epsilon": dict(
        sampling_probability=(0.1, "probability"), noise_multiplier=(1.0, "noise"), steps=(3, "count"),
        delta=(0.1, "open"), max_order=(None, "count or none"),
    ),
    "optimal_composition_epsilon": dict(
        epsilon=(1.0, "not negative"), delta=(0.1, "probability"), k=(3, "count"), delta_total=(0.5, "open")
    ),
    "optimal_composition_heterogeneous": dict(epsilons=([1.0], "epsilons"), delta_total=(0.1, "open")),
    "parts_delta": dict(
        spent=({(None, G(1.0)): 1}, "spent"), epsilon=(1.0, "not negative"), accountant=(None, "choice or none")
    ),
    "parts_epsilon": dict(
        spent=({(None, G(1.0)): 1}, "spent"), delta=(0.1, "open"), accountant=(None, "choice or none")
    ),
    "privacy_profile": dict(
        event=(EVENT, "event"), epsilons=([1.0], "numbers"), accountant=(None, "choice or none")
    ),
    "pure_epsilon": dict(event=(acc.LaplaceEvent(1.0), "event")),
    "renyi_divergence": dict(event=(EVENT, "event"), order=([2.0], "orders")),
    "round_up_probability": dict(numerator=(1, "anything"), denominator=(3, "anything")),
    "rounded_down": dict(value=(1.0, "printed"), digits=(4, "count from 1")),
    "rounded_up": dict(value=(1.0, "printed"), digits=(4, "count from 1")),
    "strong_composition": dict(
        epsilon=(1.0, "not negative"), delta=(0.1, "probability"), k=(3, "count"), slack=(0.1, "open")
    ),
    "true_positive_rate": dict(event=(EVENT, "event"), false_positive_rate=(0.1, "probability")),
    "wang_rdp": dict(event=(WITHOUT, "event"), orders=([2, 3], "whole orders"), bound=("thm9", "choice")),
    "zcdp_delta": dict(rho=(1.0, "not negative"), epsilon=(1.0, "not negative")),
    "zcdp_epsilon": dict(rho=(1.0, "not negative"), delta=(0.1, "open"), conversion=("tight", "choice")),
    "zcdp_rho": dict(event=(G(1.0), "event")),
    "zcdp_rho_for_target": dict(epsilon=(1.0, "not negative"), delta=(0.1, "open")),
    "zcdp_rho_gaussian": dict(sensitivity=(1.0, "not negative"), sd=(1.0, "positive")),
}  # fmt: skip

#: What they return, and names of what is fixed.
NO_DOORS = {"Accountant", "BayesianGuarantee", "ComparisonRow", "Relation"}
CELLS = [(name, argument) for name, arguments in GOOD.items() for argument in arguments]


def public():
    return {name: getattr(acc, name) for name in acc.__all__ if callable(getattr(acc, name))}


def test_every_public_function_is_tried():
    assert set(GOOD) | NO_DOORS == set(public())
    for name, arguments in GOOD.items():
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        known = [one.name for one in inspect.signature(public()[name]).parameters.values() if one.kind in kinds]
        assert list(arguments) == known, name


def ask(name, tmp_path, **other):
    values = {argument: good for argument, (good, _) in GOOD[name].items()} | other
    if "path" in values:
        values["path"] = tmp_path / values["path"]
    return getattr(acc, name)(**values)


@pytest.mark.parametrize("name", GOOD)
def test_good_values_pass(name, tmp_path):
    ask(name, tmp_path)


def refused(call, *names):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said and len(said) < 400 and any(name in said for name in names), said


@pytest.mark.parametrize(("name", "argument"), CELLS)
def test_bad_values_are_refused(name, argument, tmp_path):
    good, kind = GOOD[name][argument]
    for bad in KINDS[kind]:
        # Messages of JSON and of lists name what is in them.
        names = (argument, "event") if kind not in ("dictionary", "text", "parts", "epsilons") else ("",)
        refused(lambda bad=bad: ask(name, tmp_path, **{argument: bad}), *names)


def test_targets_of_calibration():
    for bad in KINDS["success"]:
        refused(lambda bad=bad: acc.calibrate_noise_multiplier(G, target_attack_success=bad), "target_attack_success")


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_accountants_have_the_same_door(accountant):
    one = ACCOUNTANTS[accountant]
    for bad in KINDS["open"]:
        refused(lambda bad=bad: one.epsilon(G(1.0), bad), "delta")
        refused(lambda bad=bad: acc.epsilon(G(1.0), bad, accountant), "delta")
    for bad in KINDS["not negative"]:
        refused(lambda bad=bad: one.delta(G(1.0), bad), "epsilon")
    for bad in KINDS["event"]:
        refused(lambda bad=bad: one.epsilon(bad, 0.1), "event")


@pytest.mark.parametrize(
    ("accountant", "option", "kind"),
    [
        ("pld", "rtol", "accuracy"),
        ("rdp", "orders", "orders"),
        ("rdp", "conversion", "choice"),
        ("wang", "orders", "whole orders"),
        ("wang", "bound", "choice"),
        ("wang", "conversion", "choice"),
        ("zcdp", "conversion", "choice"),
    ],
)
def test_options_have_the_same_door(accountant, option, kind):
    for bad in KINDS[kind]:
        if bad is not None:
            refused(lambda bad=bad: acc.epsilon(G(1.0), 0.1, accountant, **{option: bad}), option)


def test_distances_are_in_no_message():
    accountant = acc.BayesianAccountant(0.1, 1.0, 3)
    for bad in (*NO_ARRAY, [1.0, 2.0], [-0.123, 1, 2], [0.123, NAN, 2], [0.123, INF, 1], [[1.0, 2.0, 3.0]]):
        refused(lambda bad=bad: accountant.step(bad), "distances")
        try:
            accountant.step(bad)
        except (TypeError, ValueError) as error:
            assert "0.123" not in str(error)
    for bad in KINDS["open"]:
        refused(lambda bad=bad: accountant.guarantee(bad), "delta")


def test_privacy_loss_has_the_same_door():
    loss = acc.PrivacyLoss(EVENT)
    for bad in KINDS["open"]:
        refused(lambda bad=bad: loss.epsilon(bad), "delta")
        refused(lambda bad=bad: loss.epsilon_lower(bad), "delta")
    for bad in KINDS["not negative"]:
        refused(lambda bad=bad: loss.delta(bad), "epsilon")


def test_an_amplified_curve_that_is_no_number_is_refused():
    for bad in (NAN, INF, -1.0):
        for q in (0.1, 1.0):
            refused(lambda bad=bad, q=q: acc.amplify_rdp_poisson(lambda i: bad, q, 3), "rdp")


def test_fractions_of_integers():
    for bad in NO_COUNT:
        refused(lambda bad=bad: acc.round_up_probability(bad, 3), "numerator")
        refused(lambda bad=bad: acc.round_up_probability(1, bad), "denominator")
    refused(lambda: acc.round_up_probability(4, 3), "numerator")


# ------------------------------------------------------------------- extremes

MAKE = {
    "gaussian": G,
    "laplace": acc.LaplaceEvent,
    "poisson": lambda z: acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, G(z)), 1000),
    "sampled laplace": lambda z: acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, acc.LaplaceEvent(z)), 1000),
    "without replacement": lambda z: acc.SelfComposedEvent(acc.WithoutReplacementEvent(2, 10, G(z)), 1000),
    "dealt": lambda z: acc.RandomAllocationEvent(5, 20, G(z)),
    "selected": lambda z: acc.SelectedAllocationEvent(2, 5, 20, G(z)),
    "beside": lambda z: acc.ComposedEvent((acc.PoissonSampledEvent(0.2, G(z)), G(1.0, "add_remove"))),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("accountant", [None, "pld", "rdp", "wang", "zcdp", "generic", "optimal", "strong", "basic"])
def test_extreme_noise_has_an_answer_or_one_clear_line(make, accountant):
    for z in (1e-200, 1e-10, 1e13, 1e200):
        refused(lambda z=z: make(z), "noise_multiplier")
    for z in (1e-9, 1e-6, 1e-3, 0.02, 1e3, 1e6, 1e12):
        event = make(z)
        try:
            found = acc.epsilon(event, 1e-5, accountant)
        except ValueError as error:
            assert "use accountant=" in str(error) or "accountant='pld'" in str(error)
            continue
        # Without noise to speak of, a step's sample shows nearly the whole loss of 1 / (2 z^2) or 1 / z.
        pure = "Laplace" in repr(event)
        least = 0.0 if z >= 1 else 0.5 * (1 / z if pure else 0.5 / z**2)
        assert found >= least
        if accountant in (None, "pld") and z > 1:
            assert found < (0.1 if make is not MAKE["beside"] else 4.4)


def test_tiny_noise_is_quick():
    event = acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, G(0.001)), 1_000)
    for accountant in (None, "rdp"):
        begun = time.process_time()
        found = acc.epsilon(event, 1e-5, accountant)
        # 156 samples or more but with probability 1e-5, each with a loss of 5 10^5.
        assert found > 150 * 4.9e5
        assert time.process_time() - begun < (1 if accountant is None else 5)


@pytest.mark.parametrize("epsilon", [1e-90, 1e-9, 10.0, 299.0, 301.0, 740.0, 750.0, 1e4, 1e99])
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("accountant", [None, "optimal", "strong", "basic"])
def test_statements_of_any_size_compose(epsilon, count, accountant):
    """Two statements of epsilon 750 were said to be epsilon 0 together."""
    event = acc.SelfComposedEvent(acc.ApproximateDPEvent(epsilon), count)
    found = acc.epsilon(event, 1e-5, accountant)
    # Of n answers that each show the truth with odds e^epsilon, all do with probability (1 + e^-epsilon)^-n.
    assert found >= (count * epsilon * (1 - 1e-5) - 1e-3 if epsilon >= 10 else 0.0)
    if accountant in (None, "optimal", "basic"):
        assert found <= count * max(1e-9, epsilon) * (1 + 1e-9)
    assert acc.delta(event, 0.5 * count * epsilon) >= (0.1 * epsilon if epsilon < 1 else 0.5)


@pytest.mark.parametrize("epsilon", [1e-90, 1e-16, 1e-12, 1e-9, 1e-3])
def test_small_statements_are_not_lost(epsilon):
    """Two answers are both right with probability 1/4 e^epsilon: delta(epsilon) of 2.5e-16 was 2.6e-56."""
    two = acc.SelfComposedEvent(acc.ApproximateDPEvent(epsilon), 2)
    assert acc.delta(two, epsilon) >= 0.249 * epsilon


def test_a_gaussian_profile_loses_no_digits_at_large_epsilon():
    import mpmath

    with mpmath.workdps(80):
        for mu in (50.0, 1e4, 1e9):
            for a in (-3.0, 0.5, 3.0):
                eps = mu * (mu / 2 - a)
                m, e = mpmath.mpf(mu), mpmath.mpf(eps)
                exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
                found = acc.gaussian_delta(mu, eps)
                assert exact <= found <= exact * (1 + 1e-6), (mu, a)
