"""The verdict on a model. Which numbers lead to which word, and every output shows it first."""

from html import unescape

import numpy as np
import pytest
from priors import documents

from vips_fast import GaussianMixture, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.engine.gain import FoundGain
from vips_fast.jobs import beside
from vips_fast.models.verdict import Verdict
from vips_fast.report import html_report
from vips_fast.report.dossier import make_dossier
from vips_fast.report.short import short_report

MUCH, UNSURE, NONE = FoundGain(0.2, 0.1, 0.3), FoundGain(0.05, -0.1, 0.2), FoundGain(-0.1, -0.2, 0.01)


HALF = "half of a person's words predict the other half"


@pytest.mark.parametrize(
    "found, worth, says",
    [
        (MUCH, "useful", f"useful. In a release, {HALF} 20% better (90 % "),
        (FoundGain(0.03, 0.019, 0.04), "unclear", "do. It may be less than 2%, which hardly matters. More persons or"),
        (UNSURE, "unclear", "(90 % interval -10% to +20%) than the word counts of all persons do. More persons or"),
        (FoundGain(0.5, -1.0, 0.9), "unclear", f"cannot tell. Noise hides whether {HALF}"),
        (NONE, "no better", f"not better than counting words. In a release, {HALF}"),
        (FoundGain(0.01, 0.005, 0.015), "no better", "1% better"),
        (FoundGain(-0.004, -0.02, 0.01), "no better", "less than 1% worse (90 %"),
        (None, "", ""),
    ],
)
def test_a_gain_is_judged_by_its_interval(found, worth, says):
    """By the records' own word counts; columns have the same worth, and sentences in `report/golden.txt`."""
    verdict = Verdict.of_topics(found, "person")
    assert Verdict.of_columns(found, "person").worth == worth
    assert verdict.worth == worth and says in verdict.text and (not says) == (not verdict.text)


@pytest.mark.parametrize("empty", [None, (0.3, 0.01), (0.3, 0.11)])
@pytest.mark.parametrize("outside", [None, (0.4, 0.01), (0.4, 0.16)])
@pytest.mark.parametrize("unlike", [None, "", "en"])
def test_what_the_counted_words_miss_is_told_with_one_advice(empty, outside, unlike):
    """Shares that are surely above a tenth, and words that are used otherwise than in public text."""
    for found, hidden in ((MUCH, False), (None, True), (None, False)):
        text = Verdict.of_topics(found, "person", empty, outside, hidden, unlike).text
        said = ["30% of the persons have none" in text, "40% of a person's" in text, "otherwise than public" in text]
        assert said == [empty == (0.3, 0.01), outside == (0.4, 0.01), unlike is not None]
        assert text.count("Look at the language and the vocabulary") == any(said)
        assert ("text of 'en' uses" in text) == (unlike == "en") and text == text.strip()
    assert ("may help" in Verdict.of_topics(NONE, "person", empty, outside, False, unlike).text) == (unlike is None)


@pytest.mark.parametrize("two, few", [((0.0, 0.02), True), ((0.05, 0.03), False), ((0.3, 0.01), False)])
def test_no_gain_is_told_where_hardly_a_person_has_two_words(two, few):
    for found, hidden in ((MUCH, False), (None, True)):
        verdict = Verdict.of_topics(found, "person", hidden=hidden, two=two)
        assert ("two counted words" in verdict.text) == few
        assert (verdict.worth == "useful") == (found is MUCH and not few)


@pytest.mark.parametrize("noise, worth", [(6.0, "useful"), (3000.0, "unclear")])
def test_every_door_says_it_first(noise, worth):
    model = LatentDirichletAllocation(
        4, doc_length=40, noise_multiplier=noise, sampling="full", n_records=2000, random_state=0, n_steps=10
    )
    model.fit(documents(2000, 64))
    verdict = model.verdict_
    assert verdict.worth == worth and str(verdict) == verdict.text
    text = beside.texts(model)["topics.txt"]
    assert text.split("\n")[0] == verdict.text
    assert model._repr_html_().startswith("<p><strong>Verdict")
    assert short_report(make_dossier(model), 10**6).split("\n")[0] == verdict.text
    page = unescape(html_report(model))
    assert page.index(verdict.text) < page.index("What is guaranteed")


@pytest.mark.parametrize("kind", [GaussianMixture, SigmoidBeliefNetwork])
def test_noise_seldom_passes_for_a_gain(kind):
    """Fit 40 sets of pure noise, of little and of more data: one in 200 passes. The noise is known."""
    found = []
    for n, epsilon, fits in ((200, 0.2, 30), (1000, 1.0, 10)):
        for seed in range(fits):
            X = (np.random.default_rng(seed).random((n, 64)) < 0.5).astype(np.uint8)
            model = kind(3, epsilon=epsilon, delta=1e-5, random_state=0, n_jobs=1)
            found.append(model.set_unsafe(test_key=seed.to_bytes(32)).fit(X).verdict_.worth)
    assert found.count("useful") <= 2


def test_a_gain_that_does_not_matter_is_no_better():
    """With enough records a gain of 1 % is surely below 2 %."""
    rng = np.random.default_rng(0)
    z, shares = rng.integers(0, 3, 20_000), 0.5 + 0.6 * (np.random.default_rng(5).uniform(0.05, 0.95, (3, 20)) - 0.5)
    X = (rng.random((20_000, 20)) < shares[z]).astype(np.uint8)
    model = GaussianMixture(3, epsilon=2.0, delta=1e-5, random_state=0).set_unsafe(test_key=bytes(32)).fit(X)
    assert 0.0 < model.found_gain_.gain < 0.02 and model.verdict_.worth == "no better"
