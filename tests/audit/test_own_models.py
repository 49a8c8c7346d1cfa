"""The audit on models of one's own: the examples pass, and faults are caught that a user or the engine may make."""

from dataclasses import replace

import numpy as np
import pytest
from ball_mean import Mean, variant

from vips_fast.audit import audit, conjugate_adapter
from vips_fast.audit.layers import Sizes
from vips_fast.models import conjugate
from vips_fast.models.examples import BernoulliMixture, BinomialRegression, GaussianMixture, ProbabilisticPCA

SIZES = Sizes(pairs=100, records=20, draws=200_000, releases=2_500, runs=40)
EXAMPLES = [GaussianMixture, BernoulliMixture, ProbabilisticPCA, BinomialRegression]
# On both sides of the unit ball, and beyond it.
POINTS = np.vstack([np.eye(3), -np.eye(3), 30 * np.ones((1, 3)), np.random.default_rng(0).normal(size=(30, 3))])


def randomised(record, parameters, scratch, out):
    out[0] = 0.5 + 0.4 * np.random.random()


def too_long(record, parameters, scratch, out):
    for j in range(len(out)):
        out[j] = 1e3 * record[j]


def adapter_of(kind, **settings):
    if kind is BernoulliMixture:
        return conjugate_adapter(kind(**settings), (POINTS > 0).astype(float))
    if kind is BinomialRegression:
        trials = np.full(len(POINTS), 3)
        return conjugate_adapter(kind(n_trials=3, **settings), POINTS, np.column_stack([np.arange(len(POINTS)) % 4, trials]))
    return conjugate_adapter(kind(**settings), POINTS)


def failed(adapter, layers, **sizes):
    report = audit(adapter, layers=layers, sizes=replace(SIZES, **sizes), random_state=0)
    print(report.text())
    return {check.name for layer in report.layers for check in layer.checks if not check.passed}


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
@pytest.mark.parametrize("kind", [Mean, *EXAMPLES])
def test_examples_pass(kind, sampling):
    assert failed(adapter_of(kind, sampling=sampling), "ABCDE") == set()


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
def test_the_pair_that_is_furthest_apart_is_found(sampling):
    """Opposite vectors for replacing one; for adding or removing one, a vector that reaches the ball's surface."""
    adapter = adapter_of(Mean, sampling=sampling)
    first, second = adapter.worst_pair()
    distance = np.linalg.norm(first) if sampling == "poisson" else np.linalg.norm(first - second) / 2
    assert distance >= 1
    # With no other pair tried, the released sums are moved by what is declared.
    report = audit(adapter, layers="A", sizes=replace(SIZES, pairs=0))
    assert report.layer("A").checks[0].measured == pytest.approx(1.0, abs=1e-4)


def test_given_parameters_bring_records_to_the_bound():
    def longest(adapter):
        model = adapter.model(adapter.estimator(), adapter.examples)
        adapter.sharp(model)
        return np.linalg.norm(model.evaluate(adapter.examples)[0], axis=1).max() / model.clip_norm

    estimator = GaussianMixture(n_components=2, random_state=0)
    start = conjugate_adapter(estimator, POINTS)
    estimator.n_columns_, estimator.n_records_ = 3, 37
    # Components so far apart that a record is surely of one of them.
    far = estimator._parameters(np.array([20.0, 17.0]), np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.full((2, 3), 1e-3))
    sharp = conjugate_adapter(estimator, POINTS, parameters=far)
    assert longest(start) < 0.95 and 0.999 < longest(sharp) <= 1
    assert failed(sharp, "A") == set()


@pytest.mark.parametrize("layer, check", [("A", "distance of neighbours"), ("D", "noise multiplier 1")])
def test_the_bound_itself_for_replacing(mutate, layer, check):
    settings = dict(sampling="full", neighbors="replace_one")
    assert failed(adapter_of(Mean, **settings), layer) == set()
    mutate(conjugate._ConjugateModel, "sensitivity", "else 2.0)", "else 1.0)")
    assert check in failed(adapter_of(Mean, **settings), layer)


def test_random_statistics():
    found = failed(conjugate_adapter(variant(randomised)(), POINTS), "B")
    assert {"any order", "after other minibatches"} <= found


def test_a_wrong_proof_costs_no_privacy():
    adapter = conjugate_adapter(variant(too_long)(), POINTS)
    assert failed(adapter, "AB") == set()


def test_wrong_arguments():
    with pytest.raises(TypeError, match="estimator: expected an instance .* got type"):
        conjugate_adapter(Mean, POINTS)
    with pytest.raises(ValueError, match="at least 2 records"):
        conjugate_adapter(Mean(), POINTS[:1])
    with pytest.raises(ValueError, match="not finite"):
        conjugate_adapter(Mean(), POINTS, parameters=(np.array([np.nan]),))
    with pytest.raises(ValueError, match="conjugate_adapter"):
        audit(Mean())
    with pytest.raises(ValueError, match="clip_norm"):
        audit(adapter_of(Mean, clip_norm=-1.0), layers="A")
