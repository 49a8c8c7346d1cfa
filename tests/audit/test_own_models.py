"""The audit on models of one's own. The examples pass, and faults are caught that a user or the engine may make."""

from dataclasses import replace

import numpy as np
import pytest
from ball_mean import Mean, variant
from faults import declaring
from own_models import EXAMPLES, POINTS, adapter_of
from seams import failing_checks

from vips_fast import GaussianMixture
from vips_fast.audit import Bench, Sizes, audit, conjugate_adapter

SIZES = Sizes(pairs=100, records=20, draws=100_000, releases=1_000, runs=20, rows=2**17)


def randomized(records, parameters, out):
    for i in range(len(records)):
        out[i, 0] = 0.5 + 0.4 * np.random.random()


def too_long(records, parameters, out):
    out[:] = 1e3 * records


def failed(adapter, layers):
    return failing_checks(adapter, layers, SIZES)


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
@pytest.mark.parametrize("kind", [Mean, *EXAMPLES])
def test_examples_pass(kind, sampling):
    # A release has the same noise for both, and mu follows from the distances of layer A.
    layers = "AE" if sampling == "without_replacement" else "ABCDE" if kind in (Mean, GaussianMixture) else "ABE"
    assert failed(adapter_of(kind, sampling=sampling), layers) == set()


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
def test_the_pair_that_is_furthest_apart_is_found(sampling):
    """Opposite vectors for replacing one. For adding or removing one, a vector that reaches the ball's surface."""
    adapter = adapter_of(Mean, sampling=sampling)
    (first,), (second,) = adapter.worst_pair()
    distance = np.linalg.norm(first) if sampling == "poisson" else np.linalg.norm(first - second) / 2
    assert distance >= 1
    # No other pair is tried, so the released sums move by the declared distance.
    report = audit(adapter, layers="A", sizes=replace(SIZES, pairs=0))
    assert report.layer("A").checks[0].measured == pytest.approx(1.0, abs=1e-4)


def test_given_parameters_bring_records_to_the_bound():
    def reached(adapter):
        bench = Bench(adapter, "add_remove")
        stage = bench.prepare(bench.whole(), [adapter.worst_pair()[0], *adapter.base(2)])
        adapter.sharp(stage)
        longest = np.linalg.norm(bench.sums(stage, [0], np.zeros(1, np.uint64)))
        return longest * stage.plan.mechanism.spacing / stage.model.clip

    estimator = GaussianMixture(n_components=2, random_state=0)
    start = reached(conjugate_adapter(estimator, POINTS))
    # Components so far apart that a record is surely of one of them.
    fitted = GaussianMixture(n_components=2, random_state=0, private=False, n_steps=1).fit(POINTS)
    linear = 1e3 * np.array([[1.0, 0, 0], [-1.0, 0, 0]])
    far = (np.zeros(2), linear, *fitted.parameters_[2:])
    assert start < 0.98 and 0.999 < reached(conjugate_adapter(estimator, POINTS, parameters=far)) <= 1


@pytest.mark.parametrize("layer, check", [("A", "distance of neighbors"), ("D", "noise multiplier 1")])
@pytest.mark.parametrize("kind, own", [(Mean, {}), (GaussianMixture, {"n_components": 1})])
def test_the_bound_itself_for_replacing(layer, check, kind, own):
    # mu = 2 against 1 (of the mixture 1.86), with 1,000 releases a side known to +- 0.25.
    settings = dict(sampling="full", options={"relation": "replace_one"}, **own)
    assert failed(conjugate_adapter(kind(**settings), POINTS), layer) == set()
    assert check in failed(conjugate_adapter(declaring(kind, 1.0)(**settings), POINTS), layer)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_statistics():
    found = failed(conjugate_adapter(variant(randomized)(), POINTS), "B")
    assert {"any order", "after other minibatches"} <= found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_proof_costs_no_privacy():
    adapter = conjugate_adapter(variant(too_long)(), POINTS)
    assert failed(adapter, "AB") == set()
