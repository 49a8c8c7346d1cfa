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
    "event or none": [1.0, "gaussian", {"type": "gaussian"}, G, [G(1.0)]],
    "event": [None, 1.0, "gaussian", {"type": "gaussian"}, G, [G(1.0)]],
    "positive": [*NEVER, 0.0, 1e-200, 1e200],
    "noise": [*NEVER, 0.0, 1e-200, 1e200],
    "not negative": [*NEVER, 1e200],
    "probability": [*NEVER, 1.0000001, 2],
    "open": [*NEVER, 0.0, 1.0, 0, 1, 1.5],
    "share": [*NEVER, 0.0, 1.5],
    "accuracy": [*NEVER, 0.0, 0.9],
    "count": NO_COUNT,
    "count from 1": [*NO_COUNT, 0],
    "count from 2": [*NO_COUNT, 0, 1],
    "orders": [*NO_ARRAY, [1.0], [0.5, 2.0], [-2.0], [1e200]],
    "given orders": [one for one in [*NO_ARRAY, [1.0], [0.5, 2.0], [-2.0], [1e200]] if one is not None],
    "beyond 3": [4],
    "choice": [1, None, "best", NAN, ["tight"]],
    "choice or none": [1, "best", NAN, ["tight"]],
    "printed": [NAN, "x"],
    "relation": ["replace", 1, NAN, True],
    "flag": [1, "yes", None],
    "events": [[1.0], [None], ["gaussian"]],
    "dictionary": [[], None, {"type": "gauss"}, {"type": "gaussian", "noise_multiplier": NAN, "relation": None}],
    "anything": [],
}

ALL = "event", "not negative"
GOOD = {
    "ApproximateDPEvent": dict(epsilon=(1.0, "not negative"), delta=(0.1, "probability"), relation=(None, "relation")),
    "ComposedEvent": dict(events=([G(1.0)], "events")),
    "GaussianEvent": dict(noise_multiplier=(1.0, "noise"), relation=(None, "relation")),
    "GroupEvent": dict(event=(EVENT.event, "event"), size=(2, "count from 1")),
    "LaplaceEvent": dict(noise_multiplier=(1.0, "noise"), relation=(None, "relation")),
    "NonPrivateEvent": dict(relation=(None, "relation")),
    "PoissonSampledEvent": dict(sampling_probability=(0.1, "probability"), event=(G(1.0), "event")),
    "PrivacyEvent": {},
    "PrivacyLoss": dict(
        event=(EVENT, "event"), rtol=(1e-3, "accuracy"), smallest=(1e-9, "open")
    ),
    "RandomAllocationEvent": dict(
        n_batches=(3, "count from 1"), n_epochs=(2, "count from 1"), event=(G(1.0), "event"), reused=(False, "flag")
    ),
    "RandomizedResponseEvent": dict(truth_probability=(0.7, "open"), n_categories=(3, "count from 2")),
    "SelfComposedEvent": dict(event=(G(1.0), "event"), count=(3, "count")),
    "WithoutReplacementEvent": dict(sample_size=(2, "count"), n_records=(9, "count from 1"), event=(G(1.0), "event")),
    "attack_success": dict(event=(EVENT, "event"), prior=(0.5, "open")),
    "calibrate_noise_multiplier": dict(
        make_event=(G, "anything"),
        epsilon=(1.0, "positive"),
        delta=(1e-5, "open"),
        accountant=(None, "choice or none"),
        rtol=(1e-3, "accuracy"),
        count=(2, "count from 1"),
        before=(None, "event or none"),
    ),
    "default_accountant": dict(event=(EVENT, "event")),
    "delta": dict(event=(EVENT, "event"), epsilon=(1.0, "not negative"), accountant=(None, "choice or none")),
    "epsilon": dict(event=(EVENT, "event"), delta=(1e-5, "open"), accountant=(None, "choice or none")),
    "event_from_dict": dict(data=(G(1.0).to_dict(), "dictionary")),
    "gaussian_delta": dict(mu=(1.0, "not negative"), epsilon=(1.0, "not negative")),
    "gaussian_epsilon": dict(mu=(1.0, "not negative"), delta=(0.1, "open")),
    "gaussian_mu": dict(event=(G(1.0), "event")),
    "gaussian_noise_multiplier": dict(epsilon=(1.0, "not negative"), delta=(0.1, "open")),
    "group_event": dict(event=(EVENT, "event"), size=(2, "count from 1")),
    "inference_success": dict(event=(EVENT, "event"), baseline=(0.1, "share")),
    "renyi_divergence": dict(event=(EVENT, "event"), order=([2.0], "orders")),
    "round_up_probability": dict(numerator=(1, "anything"), denominator=(3, "anything")),
    "rounded_down": dict(value=(1.0, "printed"), digits=(4, "count from 1")),
    "rounded_up": dict(value=(1.0, "printed"), digits=(4, "count from 1")),
    "true_positive_rate": dict(event=(EVENT, "event"), false_positive_rate=(0.1, "probability")),
}  # fmt: skip

#: What they return, and names of what is fixed.
NO_DOORS = {"Accountant", "Relation"}
CELLS = [(name, argument) for name, arguments in GOOD.items() for argument in arguments]


def public():
    return {name: getattr(acc, name) for name in acc.__all__ if callable(getattr(acc, name))}


def test_every_public_function_is_tried():
    assert set(GOOD) | NO_DOORS == set(public())
    for name, arguments in GOOD.items():
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        known = [one.name for one in inspect.signature(public()[name]).parameters.values() if one.kind in kinds]
        assert list(arguments) == known, name


def ask(name, **other):
    return getattr(acc, name)(**{argument: good for argument, (good, _) in GOOD[name].items()} | other)


@pytest.mark.parametrize("name", GOOD)
def test_good_values_pass(name):
    ask(name)


def refused(call, *names):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said and len(said) < 400 and any(name in said for name in names), said


@pytest.mark.parametrize(("name", "argument"), CELLS)
def test_bad_values_are_refused(name, argument):
    good, kind = GOOD[name][argument]
    for bad in KINDS[kind]:
        # Messages of dictionaries name what is in them.
        names = (argument, "event") if kind != "dictionary" else ("",)
        refused(lambda bad=bad: ask(name, **{argument: bad}), *names)


LOSS = acc.PrivacyLoss(EVENT)
#: Other doors of an argument of some kind, which the message names.
DOORS = [
    *(("delta", "open", lambda bad, name=name: acc.epsilon(G(1.0), bad, name)) for name in ACCOUNTANTS),
    *(("epsilon", "not negative", lambda bad, name=name: acc.delta(G(1.0), bad, name)) for name in ACCOUNTANTS),
    *(("event", "event", lambda bad, name=name: acc.epsilon(bad, 0.1, name)) for name in ACCOUNTANTS),
    ("rtol", "accuracy", lambda bad: acc.epsilon(G(1.0), 0.1, "pld", rtol=bad)),
    ("orders", "given orders", lambda bad: acc.epsilon(G(1.0), 0.1, "rdp", orders=bad)),
    ("conversion", "choice", lambda bad: acc.epsilon(G(1.0), 0.1, "rdp", conversion=bad)),
    ("delta", "open", LOSS.epsilon),
    ("epsilon", "not negative", LOSS.delta),
    ("numerator", "count", lambda bad: acc.round_up_probability(bad, 3)),
    ("denominator", "count", lambda bad: acc.round_up_probability(1, bad)),
    ("numerator", "beyond 3", lambda bad: acc.round_up_probability(bad, 3)),
]


@pytest.mark.parametrize("name, kind, call", DOORS)
def test_every_door_is_the_same(name, kind, call):
    for bad in KINDS[kind]:
        refused(lambda bad=bad: call(bad), name)


MAKE = {
    "gaussian": G,
    "laplace": acc.LaplaceEvent,
    "poisson": lambda z: acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, G(z)), 1000),
    "sampled laplace": lambda z: acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, acc.LaplaceEvent(z)), 1000),
    "without replacement": lambda z: acc.SelfComposedEvent(acc.WithoutReplacementEvent(2, 10, G(z)), 1000),
    "dealt": lambda z: acc.RandomAllocationEvent(5, 20, G(z)),
    "beside": lambda z: acc.ComposedEvent((acc.PoissonSampledEvent(0.2, G(z)), G(1.0, "add_remove"))),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("accountant", [None, "pld", "rdp"])
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
def test_statements_of_any_size_compose(epsilon, count):
    """Two statements of epsilon 750 were said to be epsilon 0 together."""
    event = acc.SelfComposedEvent(acc.ApproximateDPEvent(epsilon), count)
    found = acc.epsilon(event, 1e-5)
    # Of n answers that each show the truth with odds e^epsilon, all do with probability (1 + e^-epsilon)^-n.
    assert found >= (count * epsilon * (1 - 1e-5) - 1e-3 if epsilon >= 10 else 0.0)
    assert found <= count * max(1e-9, epsilon) * (1 + 1e-9)
    assert acc.delta(event, 0.5 * count * epsilon) >= (0.1 * epsilon if epsilon < 1 else 0.5)


def test_a_statement_holds_at_its_own_delta():
    """Epsilon was infinite there, as a rounding up of delta passed it."""
    event = acc.ApproximateDPEvent(1.0, 1e-6)
    assert (acc.epsilon(event, 1e-6), acc.delta(event, 1.0)) == (1.0, 1e-6)
    assert acc.epsilon(event, 0.999e-6) == math.inf


@pytest.mark.parametrize("epsilon", [1e-90, 1e-16, 1e-12, 1e-9, 1e-3])
def test_small_statements_are_not_lost(epsilon):
    """Two answers are both right with probability 1/4 e^epsilon: delta(epsilon) of 2.5e-16 was 2.6e-56."""
    two = acc.SelfComposedEvent(acc.ApproximateDPEvent(epsilon), 2)
    assert acc.delta(two, epsilon) >= 0.249 * epsilon
