"""The spread that is stated beside a word's share, against the spread of equal fits, and what is shown first."""

import math
import re

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior
from vips_fast.data.vocabulary import first_names
from vips_fast.models.family import VOCABULARY
from vips_fast.models.lda import public_topics
from vips_fast.models.lda.score import proportions_prior
from vips_fast.report import part_of

V, K = 120, 4


@pytest.fixture
def public_only(monkeypatch):
    monkeypatch.setattr(public_topics, "_OWN_SIGNAL", math.inf)


def prior_of(frequencies, words=None, ratios=None):
    rng = np.random.default_rng(0)
    ratios = np.exp(rng.normal(0.0, 1.0, (K, V))) if ratios is None else ratios
    return PublicPrior(words or [f"word{v}" for v in range(V)], ratios, np.ones(len(ratios)), frequencies, "a test")


def notes(prior, n, shares, length=12, seed=1):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(shares, n) @ prior.topics()
    return np.stack([rng.multinomial(length, row / row.sum()) for row in rows])


def fitted(prior, counts, seed, epsilon=4.0):
    model = LatentDirichletAllocation(prior.n_topics, epsilon=epsilon, delta=1e-6, public_prior=prior)
    return model.set_unsafe(test_key=bytes([seed]) * 32).fit(counts, inputs={VOCABULARY: "\n".join(prior.words) + "\n"})


@pytest.mark.parametrize("common", (1.0, 60.0), ids=("even", "one word rules"))
def test_the_stated_spread_is_that_of_equal_fits(common, public_only):
    """It was 0 of frequent words whose noise is below the grid of ratios, and of a word that rules a topic."""
    frequencies = 1.0 / np.arange(3, V + 3)
    frequencies[0] *= common
    prior = prior_of(frequencies)
    counts = notes(prior, 800, np.full(K, 0.3))
    models = [fitted(prior, counts, seed, epsilon=1.0) for seed in range(8)]
    shares = np.array([m.components_ / m.components_.sum(axis=1, keepdims=True) for m in models])
    stated = np.array([m.components_sd_ / m.components_.sum(axis=1, keepdims=True) for m in models])
    top = np.argsort(-shares[0], axis=1)[:, :10]
    ratio = np.take_along_axis(stated[0], top, 1) / np.take_along_axis(shares.std(axis=0, ddof=1), top, 1)
    assert np.mean(ratio < 1 / 3) < 0.05 and 0.6 < np.median(ratio) < 3.0
    low, high = np.moveaxis(models[0].components_interval(0.9), 2, 0)
    assert (low < models[0].components_).all() and (models[0].components_ < high * 1.01).all()


def test_the_total_of_proportions_is_between_those_compared(public_only):
    prior, drawn, taken = prior_of(1.0 / np.arange(3, V + 3)), (1.5, 20.0), []
    for total in drawn:
        counts = notes(prior, 6000, proportions_prior(total, prior.weights), length=60)
        taken.append(fitted(prior, counts, 1, epsilon=20.0)._restored().alpha.sum())
    # Documents are not read whole: the total that predicts best is another than the one they were drawn with.
    assert (np.abs(np.log(np.array(taken) / drawn)) < np.log(1.75)).all(), taken


@pytest.mark.parametrize(
    "values, noise, place",
    [
        ((-(0.5**2), -(0.5**2), -(1.5**2)), 0.0, -0.5),  # −(x + ½)²
        ((-(1.3**2), -(0.3**2), -(0.7**2)), 0.0, 0.3),
        ((0.0, 1.0, 2.0), 0.0, 1.0),  # no bend: the better end
        ((2.0, 0.0, 1.0), 0.0, -1.0),  # a bend upwards
        ((0.0, 0.0, 0.01), 1.0, 0.005 / (2.0 - 0.01)),  # noise alone does not reach an end
    ],
)
def test_peak(values, noise, place):
    assert public_topics.peak(*values, noise) == pytest.approx(place)


def test_a_topic_of_the_records_own_has_no_spread(monkeypatch):
    prior = prior_of(1.0 / np.arange(3, V + 3))
    counts = notes(prior, 2000, np.full(K, 0.3))
    monkeypatch.setattr(public_topics.PublicTopicsModel, "_affordable_topics", lambda self: 3)
    monkeypatch.setattr(public_topics.PublicTopicsModel, "_chosen", public_topics.Chosen(True, 3.0, 0.0, 0.0))
    own = fitted(prior, counts, 1, epsilon=40.0)
    mine = np.isnan(own.lift_)
    assert mine.any() and np.isnan(own.components_sd_[mine]).all()
    assert np.isfinite(own.components_sd_[~mine]).all()
    topics = part_of(own).learned(own, prior.words, 5).topics
    for topic in topics:
        assert ("±" in topic.bars.rows[0].value) != np.isnan(topic.lift)
    without = LatentDirichletAllocation(K, epsilon=8.0, delta=1e-6).fit(counts)
    assert np.isnan(without.components_sd_).all() and np.isnan(without.components_interval()).all()
    free = LatentDirichletAllocation(K, private=False, n_steps=2).fit(counts)
    assert not free.components_sd_.any() and not free.components_sd_.flags.writeable
    np.testing.assert_array_equal(np.moveaxis(free.components_interval(0.8), 2, 0), [free.components_] * 2)
    with pytest.raises(ValueError, match="level=1"):
        free.components_interval(1)


def test_a_topic_of_words_that_everybody_writes_comes_after_special_ones(public_only):
    """Both have the same share and lift; the general one's words are as in public text."""
    ratios = np.ones((K, V))
    ratios[1, 10:20] = ratios[2, 20:30] = ratios[3, 30:40] = 30.0
    prior = prior_of(np.ones(V), ratios=ratios)
    model = fitted(prior, notes(prior, 4000, [3.0, 3.0, 0.3, 0.3], length=30), 1, epsilon=8.0)
    order, _ = model._topic_order()
    lift = model.lift_
    assert lift[0] > 1.3 and lift[1] > 1.3
    assert order.tolist().index(1) < order.tolist().index(0)


def test_a_topic_of_names_is_not_shown(public_only):
    names = sorted(first_names() - {"ann"})[:40]
    words = [f"word{v}" for v in range(V - 40)] + names
    ratios = np.ones((K, V))
    ratios[0, V - 40 :] = ratios[1, :20] = ratios[2, 20:40] = ratios[3, 40:60] = 40.0
    prior = prior_of(np.ones(V), words, ratios)
    model = fitted(prior, notes(prior, 4000, [3.0, 3.0, 0.3, 0.3], length=30), 1, epsilon=8.0)
    order, shown = model._topic_order()
    assert model.lift_[0] > 1.3 and order[-1] == 0 and 0 not in order[:shown] and 1 in order[:shown]
    said = part_of(model).shown(model, words)
    assert not set(said.split()) & set(names) and "word" in said
    assert set(part_of(model).text(model, words).split()) & set(names)  # all topics are in the file


def test_forecast_and_topics_call_the_same_words_clear(public_only):
    """One threshold: of words that the forecast counts as clear on average, some half are clear in a fit."""
    prior = prior_of(1.0 / np.arange(1, V + 1))
    model = fitted(prior, notes(prior, 600, np.full(K, 0.3)), 1, epsilon=1.0)
    restored = model._restored()
    noise = restored._histogram.mean()[1]
    assert len(set(map(tuple, model._clear().tolist()))) == 1  # public topics share their words' marks
    counted = int(model._clear()[0].sum())
    plan = model.ledger_.plan
    relative = float(plan["noise_multiplier"]) / np.sqrt(restored._histogram.count)
    text = public_topics.forecast_words(prior, 600, relative, 12.0).text
    told = int(re.search(r"; (\d+) of 120 words can stand clear", text)[1])
    assert noise.min() > 0 and 0.4 * told <= counted <= 1.6 * told
