"""Layer H has a sound and nearly tight bound. It is strong on honest fits, and sees too little noise."""

from dataclasses import replace

import faults
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.audit import Bench, Seams, Sizes, adapter_for, audit, one_run_lower_bound
from vips_fast.audit.one_run import Canaries, number_of_guesses
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.models.lda import LdaOptions

SIZES = Sizes(pairs=1, records=1, draws=1, releases=1, runs=1, canaries=10_000)
LDA = LatentDirichletAllocation(2)


def one_run(model, *, canaries=SIZES.canaries, mechanism=None, sampler=None, **more):
    """Run the layer with known coins and a known key. So it gives the same result each time."""
    seams = Seams(mechanism=mechanism, sampler=sampler, randomness=lambda honest: KeyedRandomness(bytes(range(32))))
    sizes = replace(SIZES, canaries=canaries)
    report = audit(model, layers="H", sizes=sizes, random_state=0, seams=seams, **more)
    print(report.text())
    return report, report.layer("H").figures["one_run"]


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("m", [1, 7, 400])
def test_no_bound_above_the_truth_for_independent_guesses(mu, m):
    """Each coin is guessed from a normal score of its own.

    The number of right guesses is binomial, in closed form.

    A bound at probability p may lie above mu only for numbers that come up with a probability below p.
    """
    law = binom(m, norm.cdf(mu / 2))
    for v in range(m // 2, m + 1, max(1, m // 40)):
        tail = float(law.sf(v - 1))
        if 0 < tail < 1:
            assert one_run_lower_bound(m, m, v, tail) <= mu


@pytest.mark.parametrize("m, mu, p", [(2000, 1.0, 0.05), (2000, 0.5, 0.01), (300, 2.0, 0.2)])
def test_the_bound_is_nearly_attained_by_a_mechanism_that_is_rarely_bad(m, mu, p):
    """It answers rightly with probability p t.

    With probability p it answers each coin rightly with probability t. Otherwise it answers nothing at all.

    It is mu-GDP for F(p (1 - t)) = p t, as its curve is the hull of that point, of its mirror image and of the
    diagonal. In a share p of all runs nearly t m guesses are right.
    """
    t = brentq(lambda t: norm.cdf(norm.ppf(p * (1 - t)) + mu) - p * t, 0.5, 1 - 1e-12)
    v = int(binom.ppf(0.5, m, t))
    tail = p * float(binom.sf(v - 1, m, t)) + (1 - p) * float(binom.sf(v - 1, m, 0.5))
    bound = one_run_lower_bound(m, m, v, tail)
    assert 0.85 * mu < bound <= mu


def test_the_bound_follows_its_numbers():
    most = one_run_lower_bound(1000, 100, 100, 0.05)
    assert one_run_lower_bound(1000, 100, 50, 0.05) == 0 == one_run_lower_bound(10, 1, 0, 0.5)
    assert 0 < one_run_lower_bound(1000, 100, 80, 0.05) < one_run_lower_bound(1000, 100, 95, 0.05) < most
    assert one_run_lower_bound(1000, 100, 95, 1e-5) < one_run_lower_bound(1000, 100, 95, 0.05)
    r = number_of_guesses(10_000, 1.0, 0.05)
    assert 2 <= r <= 10_000 and r % 2 == 0
    good = dict(n_canaries=1000, n_guesses=100, n_right=90, error=0.1)
    for bad in [dict(n_right=101), dict(n_right=-1), dict(n_guesses=0, n_right=0), dict(n_canaries=9), dict(error=0.0)]:
        with pytest.raises(ValueError, match=next(iter(bad))):
            one_run_lower_bound(**{**good, **bad})


@pytest.mark.parametrize(
    "model",
    [
        LDA,
        LatentDirichletAllocation(3, sampling="without_replacement"),
        LatentDirichletAllocation(2, clip=1.0, options=LdaOptions(word_clip=1)),
    ],
    ids=["add_remove", "replace_one", "clip_1"],
)
def test_one_fit_shows_four_fifths_of_the_claim(model):
    """The lower end is .91 with a standard deviation of .021. That is for free key and coins."""
    report, figures = one_run(model)
    assert report.passed and figures["claimed"] == pytest.approx(1.0)
    assert 0.8 <= figures["low"] <= figures["low_95"] <= figures["mu"] + 1e-9
    # Whatever the scores: 10,000 coins tell less.
    assert 0.3 < figures["any_scores"] < figures["any_scores_95"] <= 1 and figures["any_scores_95"] > 0.6


@pytest.mark.slow
def test_a_million_canaries_whatever_the_scores():
    report = audit(LDA, layers="H", sizes=replace(SIZES, canaries=10**6))
    print(report.text())
    assert report.passed and report.layer("H").figures["one_run"]["any_scores_95"] >= 0.8


@pytest.mark.parametrize("fault", ["noise", "sensitivity"])
def test_a_factor_of_the_root_of_two_is_caught_in_one_run(fault):
    """The true mu is 1.41 for a claim of 1. The lower end is 1.31 with a standard deviation of .025."""
    if fault == "noise":
        report, figures = one_run(LDA, mechanism=faults.RootHalfOfNoise)
    else:
        # The paper's own sensitivity for replacing a document.
        small = faults.declaring(LatentDirichletAllocation, 1.0)
        report, figures = one_run(small(2, sampling="full", options={"relation": "replace_one"}))
    assert not report.passed and figures["low"] > 1


def test_steps_that_are_charged_too_little_are_caught():
    """The claim is the composition's, as the sampler's own event says. Half of four releases."""
    report, figures = one_run(LDA, sampler=faults.Undercharged)
    assert not report.passed and figures["claimed"] == pytest.approx(0.5)


def test_logistic_regression_and_persons():
    """The regression is weaker by the intercept's entries, which all canaries share."""
    for model, least, more in [
        (BayesianLogisticRegression(), 0.45, {}),
        (BayesianLogisticRegression(sampling="without_replacement"), 0.45, {}),
        (BayesianLogisticRegression(fit_intercept=False), 0.7, {}),
        (LDA, 0.7, dict(rows_per_unit=2)),
        (LatentDirichletAllocation(2, options=LdaOptions(word_clip=1)), 0.7, dict(rows_per_unit=3)),
    ]:
        report, figures = one_run(model, canaries=400, **more)
        # Standard deviation .1 with 400 canaries.
        assert report.passed and figures["mu"] > least
    # The root of two, in a fit to persons.
    assert not one_run(LDA, rows_per_unit=2, mechanism=faults.RootHalfOfNoise)[0].passed


def test_a_canary_has_its_entries_to_itself():
    adapter = adapter_for(LatentDirichletAllocation(3))
    bench = Bench(adapter, "add_remove")
    m = 11
    canaries = Canaries(bench, adapter.canaries(m, "add_remove"), m, bench.whole(n_records=m, n_steps=1))
    canary_of = canaries.canary_of.reshape(m, -1)
    assert (np.sort(np.unique(canary_of[canary_of >= 0])) == np.arange(m)).all()
    assert all(set(row) <= {word, -1} for word, row in enumerate(canary_of))
    mechanism = canaries.stage.plan.mechanism
    assert np.allclose(canaries.lengths, mechanism.sensitivity / mechanism.spacing, rtol=1e-4)
    # What is known of a data set that holds all of them: half a length above the middle.
    whole = bench.sums(canaries.stage, np.arange(m), np.zeros(m, dtype=np.uint64)).astype(float)
    assert np.allclose(canaries.scores(whole), canaries.lengths / 2)


def test_models_without_canaries():
    """They have all other layers. H is refused before any of them begins."""
    done = []
    with pytest.raises(ValueError, match="layers: 'H' knows no records of SigmoidBeliefNetwork"):
        audit(SigmoidBeliefNetwork(2), layers="AH", sizes=SIZES, callback=done.append)
    assert not done


def test_bounds_agree_with_a_simulation():
    """Normal interval and bound cover scores of a known law. The bound is for any scores; the seed is fixed."""
    rng = np.random.default_rng(1)
    m, mu = 20_000, 1.0
    coins = rng.random(m) < 0.5
    scores = rng.standard_normal(m) + mu * coins
    r = number_of_guesses(m, mu, 0.05)
    order = np.argsort(scores)
    right = int(coins[order[m - r // 2 :]].sum() + (~coins[order[: r // 2]]).sum())
    assert 0.6 < one_run_lower_bound(m, r, right, 0.05) < mu
