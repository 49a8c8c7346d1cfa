"""Layer H is strong on honest fits, and sees too little noise."""

from dataclasses import replace

import faults
import numpy as np
import pytest
from seams import seams

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.audit import Bench, Sizes, adapter_for, audit
from vips_fast.audit.one_run import Canaries
from vips_fast.engine.sampling import KeyedRandomness
from vips_fast.models.lda import LdaOptions

SIZES = Sizes(pairs=1, records=1, draws=1, releases=1, runs=1, canaries=10_000)
LDA = LatentDirichletAllocation(2)


def one_run(model, *, canaries=SIZES.canaries, mechanism=None, sampler=None, **more):
    """Run the layer with known coins and a known key. So it gives the same result each time."""
    sizes, known = replace(SIZES, canaries=canaries), KeyedRandomness(bytes(range(32)))
    with seams(mechanism=mechanism, sampler=sampler, randomness=lambda honest: known):
        report = audit(model, layers="H", sizes=sizes, random_state=0, **more)
    print(report.text())
    return report, report.layers[0].figures["one_run"]


WHOLE_CLIP = LatentDirichletAllocation(2, clip=1.0, options=LdaOptions(word_clip=1))


@pytest.mark.parametrize(
    "model",
    [LDA, LatentDirichletAllocation(3, sampling="without_replacement"), WHOLE_CLIP],
    ids=["add_remove", "replace_one", "clip_1"],
)
def test_one_fit_shows_four_fifths_of_the_claim(model):
    """The lower end is .91 with a standard deviation of .021. That is for free key and coins."""
    report, figures = one_run(model)
    assert report.passed and figures["claimed"] == pytest.approx(1.0)
    assert 0.8 <= figures["low"] <= figures["low_95"] <= figures["mu"] + 1e-9


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
