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


@pytest.mark.parametrize(
    "found, worth, says",
    [
        (
            MUCH,
            "useful",
            "useful. Found in a release: it predicts 20% better (90 % interval 10% to 30%) than chance does.",
        ),
        (FoundGain(0.05, 0.03, 0.07), "weak", "it predicts 5% better (90 % interval 3% to 7%)"),
        (FoundGain(0.05, 0.005, 0.1), "noise", "perhaps no better (0% to 10%)"),
        (UNSURE, "noise", "perhaps no better (-10% to 20%)"),
        # As wide as a fit of little data: the lower end says less than it seems to.
        (FoundGain(0.998, 0.6, 1.0), "noise", "perhaps no better (60% to 100%)"),
        (NONE, "noise", "Verdict: mostly noise. Found in a release: it predicts no better than chance"),
        (None, "", ""),
    ],
)
def test_a_sure_gain_decides(found, worth, says):
    verdict = Verdict.of(found, "it predicts", "chance does")
    assert verdict.worth == worth and says in verdict.text and (not says) == (not verdict.text)


HALF = "half of a person's words predict the other half"


@pytest.mark.parametrize(
    "found, worth, says",
    [
        (MUCH, "useful", f"useful. In a release, {HALF} 20% better (90 % "),
        (FoundGain(0.03, 0.019, 0.04), "unclear", "cannot tell. In a release,"),
        (UNSURE, "unclear", "(90 % interval -10% to +20%) than the word counts of all persons do. More persons or"),
        (FoundGain(0.5, -1.0, 0.9), "unclear", f"cannot tell. Noise hides whether {HALF}"),
        (NONE, "no better", f"not better than counting words. In a release, {HALF}"),
        (FoundGain(0.01, 0.005, 0.015), "no better", "1% better"),
        (None, "", ""),
    ],
)
def test_topics_are_judged_by_the_records_own_word_counts(found, worth, says):
    verdict = Verdict.of_topics(found, "person")
    assert verdict.worth == worth and says in verdict.text and (not says) == (not verdict.text)


@pytest.mark.parametrize("empty", [None, (0.3, 0.01), (0.3, 0.11)])
@pytest.mark.parametrize("outside", [None, (0.4, 0.01), (0.05, 0.01)])
@pytest.mark.parametrize("unlike", [None, "", "en"])
def test_what_the_counted_words_miss_is_told_with_one_advice(empty, outside, unlike):
    """Shares that are surely above a tenth, and words that are used otherwise than in public text."""
    for found, hidden in ((MUCH, False), (None, True), (None, False)):
        text = Verdict.of_topics(found, "person", empty, outside, hidden, unlike).text
        said = ["30% of the persons have none" in text, "40% of a person's" in text, "otherwise than public" in text]
        assert said == [empty == (0.3, 0.01), outside == (0.4, 0.01), unlike is not None]
        assert text.count("Look at the language and the vocabulary") == any(said)
        assert ("text of 'en' uses" in text) == (unlike == "en") and text == text.strip()


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
    """Fit 100 sets of pure noise, of little and of more data.

    One in 200 passes, so more than two are unlikely.

    The noise is known, so the count is always the same. With less than a sure gain one in ten passed.
    """
    found = []
    for n, epsilon in ((200, 0.2), (1000, 1.0)):
        for seed in range(50):
            X = (np.random.default_rng(seed).random((n, 64)) < 0.5).astype(np.uint8)
            model = kind(3, epsilon=epsilon, delta=1e-5, random_state=0, n_jobs=1)
            found.append(model.set_unsafe(test_key=seed.to_bytes(32)).fit(X).verdict_.worth)
    assert found.count("useful") + found.count("weak") <= 2


def test_a_weak_gain_is_found():
    """With enough records a gain of 1 % is surely above 0. It is not above 2 %."""
    rng = np.random.default_rng(0)
    z, shares = rng.integers(0, 3, 20_000), 0.5 + 0.6 * (np.random.default_rng(5).uniform(0.05, 0.95, (3, 20)) - 0.5)
    X = (rng.random((20_000, 20)) < shares[z]).astype(np.uint8)
    model = GaussianMixture(3, epsilon=2.0, delta=1e-5, random_state=0).set_unsafe(test_key=bytes(32)).fit(X)
    assert 0.0 < model.found_gain_.gain < 0.02 and model.verdict_.worth == "weak"
