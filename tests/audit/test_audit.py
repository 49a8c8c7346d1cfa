"""The audit's bounds hold, its attacks mean something, and its report names every finding."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ball_mean import Mean
from own_models import POINTS, adapter_of
from scipy import stats

from vips_fast import BayesianLogisticRegression, GaussianMixture, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.accounting import GaussianEvent
from vips_fast.audit import Bench, Check, LayerResult, Sizes, adapter_for, attack, audit, conjugate_adapter, layers
from vips_fast.audit.bench import FULL
from vips_fast.audit.statistics import clopper_pearson, delta_lower_bound, mu_interval

SIZES = Sizes(pairs=200, records=40, draws=200_000, releases=1_500, runs=300, rows=2**13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, passes",
    [
        (LatentDirichletAllocation(2), True),
        (LatentDirichletAllocation(2, sampling="without_replacement"), True),
        (LatentDirichletAllocation.paper(2, sampling="without_replacement"), False),
    ],
    ids=["add_remove", "replace_one", "paper"],
)
def test_full_sizes(model, passes):
    report = audit(model, sizes=FULL)
    print(report.text())
    assert report.passed == passes
    if passes:
        # The attack must be good enough to mean something: over half of the claim at epsilon = 0.
        assert report.claimed["measured"][0] > 0.5 * report.claimed["delta"][0]
    else:
        # E may see it too; at these sizes it is not sure to.
        failed = {layer.layer: layer for layer in report.layers if not layer.passed}
        assert {"A", "D", "H"} <= failed.keys() <= {"A", "D", "E", "H"}
        assert failed["D"].figures["mu"]["low"] > 1


#: A run of the belief network takes ten times as long as one of the topic model. Steps driven
#: by only noise give little away, so layer E takes less of it.
LONG = replace(FULL, releases=10_000, runs=2_000)
PROVEN = dict(sensitivity="proven", options={"relation": "replace_one"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, runs, least",
    [
        # Replacing an image moves little in sums driven by noise: the attack is seen only with more runs.
        (SigmoidBeliefNetwork(3), LONG.runs, lambda claim: 0.02),
        (SigmoidBeliefNetwork(3, sampling="without_replacement"), 8_000, lambda claim: 0.02),
        (BayesianLogisticRegression(), LONG.runs, lambda claim: 0.1 * claim),
        (BayesianLogisticRegression.paper(form="orthonormal", **PROVEN), LONG.runs, lambda claim: 0.1 * claim),
    ],
    ids=["network", "network, fixed size", "logistic", "logistic, uncentered"],
)
def test_long_sizes(model, runs, least):
    """Run all layers, with an attack that must mean something. The bounds give away 200/n of delta by themselves."""
    report = audit(model, dict(noise_multiplier=0.25), sizes=replace(LONG, runs=runs))
    print(report.text())
    assert report.passed and report.claimed["measured"][0] > least(report.claimed["delta"][0])


@pytest.mark.parametrize("k, n", [(0, 50), (3, 50), (50, 50), (400, 1000)])
def test_clopper_pearson_is_the_exact_test(k, n):
    low, high = clopper_pearson(k, n, 0.01)
    assert low == 0 if k == 0 else stats.binom.sf(k - 1, n, low) == pytest.approx(0.01, rel=1e-9)
    assert high == 1 if k == n else stats.binom.cdf(k, n, high) == pytest.approx(0.01, rel=1e-9)


def test_mu_bounds_cover_the_truth():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        _, low, high = mu_interval(rng.standard_normal(2000), 0.7 + rng.standard_normal(2000), 0.05)
        inside += low <= 0.7 <= high
    # 300 trials at 0.9: below this with probability under 10^-6.
    assert inside > 240
    assert mu_interval(np.zeros(5), np.ones(5), 0.1)[1] == math.inf
    assert mu_interval(np.zeros(5), np.zeros(5), 0.1)[0] == 0


def test_delta_bound_covers_the_truth():
    rng = np.random.default_rng(1)
    truth = stats.norm.sf(1 - 1) - math.exp(0.2) * stats.norm.sf(1)
    pairs = (rng.standard_normal((2, 500)) for _ in range(300))
    bounds = [delta_lower_bound(1 + one, other, 0.2, 1.0, 0.1) for one, other in pairs]
    assert np.mean(np.array(bounds) <= truth) > 0.85 and np.mean(bounds) > 0.5 * truth


def test_a_threshold_is_not_tried_on_the_runs_that_chose_it(monkeypatch):
    """Runs of which only the first half tells the sides apart show nothing."""
    apart = np.repeat([1.0, 0.0], 200)
    scores = {True: apart, False: 0 * apart}
    monkeypatch.setattr(attack, "_scores", lambda bench, holds, *_: (scores[holds], GaussianEvent(2.0)))
    bench = SimpleNamespace(adapter=SimpleNamespace(settings={}))
    (check,) = attack.layer_e(bench, replace(SIZES, runs=400), None).checks
    assert check.passed and check.measured == 0.0


def test_a_check_that_chance_failed_is_drawn_again(monkeypatch):
    """One false alarm is overruled and reported, two are not. Exact checks get one draw."""
    exact, chance = Check("exact", True), Check("of chance", True, 1.0, 1.0, "", 1e-6)
    wrong = replace(exact, passed=False)
    alarm = replace(chance, passed=False, measured=7.5)

    def verdict(*draws):
        left = [LayerResult("C", "made up", checks) for checks in draws]
        monkeypatch.setitem(layers.FUNCTIONS, "C", lambda *_: left.pop(0))
        report = audit("lda", dict(n_components=2), layers="C", sizes=SIZES)
        assert not left and report.passed != ("DOES NOT HOLD" in report.text())
        return report

    assert verdict((exact, chance)).passed
    report = verdict((exact, alarm), (exact, chance))
    assert report.passed and "drawn again, as the first draw failed: measured 7.5" in report.text()
    twice = verdict((exact, alarm), (exact, alarm))
    assert [check.name for check in twice.layers[0].checks if not check.passed] == ["of chance"]
    for draws in ([(wrong, chance)], [(exact, alarm), (wrong, chance)], [(wrong, alarm), (exact, chance)]):
        assert not verdict(*draws).passed


def test_report_and_arguments():
    few, estimator = replace(SIZES, pairs=5), LatentDirichletAllocation(2, clip=0.2)
    report = audit(estimator, dict(doc_length=60), layers="A", sizes=few, random_state=3)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["passed"] is True and data["layers"][0]["layer"] == "A" and data["settings"]["clip"] == 0.2
    assert "Verdict: no violation found" in str(report) and "adding or removing" in str(report)
    assert audit(SigmoidBeliefNetwork, dict(n_components=2), layers="A", sizes=few).passed
    assert audit(adapter_for("blr"), layers="A", sizes=few).model == "BayesianLogisticRegression"
    assert audit(BayesianLogisticRegression.paper(), layers="A", sizes=few).model == "PaperLogisticRegression"
    for call, name in [
        (lambda: audit("other"), "model"),
        (lambda: audit("lda", dict(topics=3)), "settings"),
        (lambda: audit("lda", layers="AX"), "layers"),
        (lambda: audit("lda", layers=""), "layers"),
        (lambda: audit("lda", dict(clip=2.0), layers="A"), "clip"),
    ]:
        with pytest.raises(ValueError, match=name):
            call()


@pytest.mark.parametrize("sampling", ["poisson", "without_replacement"])
def test_the_pair_that_is_furthest_apart_is_found(sampling):
    """Opposite vectors for replacing one. For adding or removing one, a vector that reaches the ball's surface."""
    adapter = adapter_of(Mean, sampling=sampling)
    (first,), (second,) = adapter.worst_pair()
    distance = np.linalg.norm(first) if sampling == "poisson" else np.linalg.norm(first - second) / 2
    assert distance >= 1
    # No other pair is tried, so the released sums move by the declared distance.
    report = audit(adapter, layers="A", sizes=replace(SIZES, pairs=0))
    assert report.layers[0].checks[0].measured == pytest.approx(1.0, abs=1e-4)


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
