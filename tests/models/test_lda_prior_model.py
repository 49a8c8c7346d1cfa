"""Fits with a public prior.

Histograms, scores, the choice that they make, and the read-outs.
"""

from html import unescape

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from priors import documents, prior_of

from vips_fast import LatentDirichletAllocation, PublicPrior
from vips_fast.accounting.calibration import Target
from vips_fast.engine.assumptions import assess
from vips_fast.engine.gain import Score
from vips_fast.engine.model import Release
from vips_fast.jobs import beside
from vips_fast.models.lda.masses import HistogramReadOut, add_histogram, histogram_scales, topic_weights, word_masses
from vips_fast.models.lda.planning import TopicCase
from vips_fast.models.lda.prior_planning import PriorSteps, own_are_better
from vips_fast.models.lda.records import UnitWords
from vips_fast.models.lda.score import HalfPrediction, _halves, proportions_prior
from vips_fast.models.lda.shrinkage import KnownMasses, frequency_bands
from vips_fast.report import html_report, make_dossier, short_report

V, K = 64, 4


def fitted(X=None, prior=None, **parameters):
    common = dict(noise_multiplier=30.0, sampling="full", n_records=2000, random_state=0, n_jobs=1)
    model = LatentDirichletAllocation(K, public_prior=prior or prior_of(V), **{**common, **parameters})
    return model.fit(documents(2000, V) if X is None else X)


# -- contributions


units = st.lists(
    st.dictionaries(st.integers(0, V - 1), st.sampled_from([1, 2, 63, 64, 65, 1000, 2**20]), max_size=V),
    min_size=1,
    max_size=5,
)


def entries(rows):
    ends = np.cumsum([0, *(len(row) for row in rows)])
    columns = np.array([v for row in rows for v in sorted(row)], dtype=np.int32)
    counts = np.array([row[v] for row in rows for v in sorted(row)], dtype=np.float64)
    return UnitWords(ends, columns, counts)


@given(units, st.sampled_from([0.5, 0.75, 1.0]), st.sampled_from([0.5, 8.0, 100.0]))
def test_a_unit_of_a_histogram_is_no_longer_than_the_clip(rows, power, long):
    scales, added = histogram_scales(prior_of(V).frequencies), []
    for part in [[row] for row in rows] + [rows]:
        added.append(np.zeros(V, np.int64))
        add_histogram(entries(part), scales, 3.0, power, long, 2.0**-30, added[-1])
    *single, together = added
    for out in single:
        assert (out >= 0).all() and np.linalg.norm(out * 2.0**-30) <= 3.0
    np.testing.assert_array_equal(together, np.sum(single, axis=0))


def halves():
    prior = prior_of(V)
    masses = prior.frequencies
    sharp = np.full((K, V), 1e-9)
    sharp[np.arange(V) % K, np.arange(V)] = 1.0
    sharp /= sharp.sum(axis=1, keepdims=True)
    alphas = proportions_prior(0.1, prior.weights)
    return HalfPrediction([(prior.topics(), alphas), (sharp, alphas), (sharp, 10 * alphas)], masses)


@given(units, st.integers(0, 2**32))
def test_a_unit_of_a_score_is_no_longer_than_the_clip_and_knows_itself_alone(rows, seed):
    half = halves()
    words = np.random.default_rng(seed).integers(0, 2**64, len(rows), dtype=np.uint64)
    out = half.contributions(entries(rows), words, 3.0)
    assert out.shape == (len(rows), half.cells) and (out >= 0).all()
    assert (np.sqrt((out * out).sum(axis=1)) <= 3.0).all()
    for unit, row in enumerate(rows):
        alone = half.contributions(entries([row]), words[unit : unit + 1], 3.0)
        np.testing.assert_array_equal(alone[0], out[unit])


def test_a_unit_can_reach_the_clip_of_a_score():
    """Words of one sharp topic.

    All candidates win the most that they can.
    """
    row = {v: 1000 for v in range(0, V, K)}
    out = halves().contributions(entries([row]), np.array([7], dtype=np.uint64), 3.0)
    assert 0.8 * 3.0 < np.sqrt((out * out).sum()) <= 3.0


def first_half(n, bits):
    """Draw the first half of a count n by each of the words."""
    units = UnitWords(np.arange(len(bits) + 1), np.zeros(len(bits), np.int32), np.full(len(bits), float(n)))
    first, second = (np.zeros(len(bits)) for _ in range(2))
    known, told = _halves(units, bits, None)
    first[np.diff(known.ends) > 0], second[np.diff(told.ends) > 0] = known.counts, told.counts
    assert (first + second == n).all()
    return first


def test_halves_are_binomial():
    bits = np.random.default_rng(0).integers(0, 2**64, 40_000, dtype=np.uint64)
    for n in (0, 1, 5, 64):
        heads = first_half(n, bits)
        assert heads.min() >= 0 and heads.max() <= n
        assert abs(heads.mean() - n / 2) < 5 * np.sqrt(n / 4 / len(bits)) + 1e-9
        assert heads.var() == pytest.approx(n / 4, rel=0.05)
    # What is above 64 is divided evenly.
    assert (first_half(1064, bits) == 500 + first_half(64, bits)).all()


# -- read-outs


def test_masses_follow_a_clear_histogram_and_the_base_where_noise_hides_it():
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(400, 0.5)) * 1e4 + 1.0
    truth = base * np.exp(rng.normal(0, 0.5, 400))
    clear, spread = word_masses(truth, np.full(400, 1e-3 * base.min()), base)
    np.testing.assert_allclose(clear, truth / truth.sum(), rtol=0.15)
    assert spread.max() < 0.2
    hidden, spread = word_masses(truth + rng.normal(0, 1e7, 400), np.full(400, 1e7), base)
    np.testing.assert_allclose(hidden, base / base.sum(), rtol=0.3)
    assert spread.min() > 0.2


def test_a_base_that_is_wrong_by_far_is_left():
    """Words that the public text hardly has, among frequent ones."""
    base = np.full(500, 10.0)
    base[:20] = 0.1
    truth = np.full(500, 10.0)
    truth[:20] = 100.0
    masses, _ = word_masses(truth, np.full(500, 1.0), base)
    assert masses[:20].min() > 5 * masses[20:].max()


def test_weights_of_topics_are_found_in_a_histogram():
    prior = prior_of(V)
    truth = np.array([0.6, 0.2, 0.15, 0.05])
    x = 1e4 * truth @ prior.topics()
    found, total = topic_weights(x, np.full(V, 1.0), prior.topics(), prior.weights)
    np.testing.assert_allclose(found, truth, atol=0.01)
    assert total == pytest.approx(1e4, rel=0.01)
    found, _ = topic_weights(x, np.full(V, 1e8), prior.topics(), prior.weights)
    np.testing.assert_allclose(found, prior.weights, atol=0.03)


def test_topics_of_a_read_out_mix_to_its_masses():
    prior = prior_of(V)
    x = 1e3 * prior.frequencies + np.random.default_rng(0).normal(0, 2.0, V)
    read = HistogramReadOut(x, np.full(V, 2.0), prior.topics(), prior.weights)
    np.testing.assert_allclose(read.weights @ read.topics, read.masses, rtol=1e-9)
    np.testing.assert_allclose(read.topics.sum(axis=1), 1.0)
    assert 0 < read.loss(10) < read.loss() < 1


def test_known_masses_and_word_sums_are_averaged_by_their_noise():
    rng = np.random.default_rng(0)
    truth = np.exp(rng.normal(0.0, 1.0, 800))
    x = truth + rng.normal(0.0, 0.3, 800)
    known = KnownMasses(x, np.full(800, 0.3), frequency_bands(truth))
    for sums, errors, expected in (
        (50.0 * truth, 1e-6, 50.0 * truth),
        (50.0 * truth, 1e7, None),  # hidden by noise: the histogram, at the size of the noise
    ):
        found, sd = known.with_sums(sums, np.full(800, errors))
        aim = x * found.sum() / x.sum() if expected is None else expected
        np.testing.assert_allclose(found, aim, rtol=0.02, atol=1e-3 * found.mean())
        assert (sd > 0).all()
    sums = 50.0 * (truth + rng.normal(0.0, 0.3, 800))
    found, sd = known.with_sums(sums, np.full(800, 15.0))
    assert sd.mean() < 0.8 * 15.0
    assert np.abs(found / 50.0 - truth).mean() < 0.8 * np.abs(sums / 50.0 - truth).mean()


def test_sums_that_differ_from_a_histogram_count_less():
    rng = np.random.default_rng(0)
    truth = np.exp(rng.normal(0.0, 1.0, 800))
    known = KnownMasses(truth, np.full(800, 1e-2), frequency_bands(truth))
    biased = truth * np.exp(rng.normal(0.0, 0.5, 800))
    found, _ = known.with_sums(biased, np.full(800, 1e-2))
    assert np.abs(np.log(found / found.sum() * truth.sum() / truth)).mean() < 0.05


def counted(noise, **more):
    common = dict(noise_multiplier=noise, sampling="full", n_records=2000, random_state=0, n_jobs=1, n_steps=20)
    return LatentDirichletAllocation(**{"n_components": K, **common, **more})


def test_masses_are_counted_first_where_topics_would_hide_them():
    many = counted(300.0).fit(documents(2000, V))
    assert many._result.state["histograms"][0] == 5 and many.n_steps_ == 20
    # Other runs count in fewer steps, because documents of one length do not have the masses of words.
    some, clear = (counted(noise).fit(documents(2000, V)) for noise in (40.0, 0.01))
    # Topics that stand far above the noise leave one step, with counts as they are.
    assert (some._result.state["histograms"][0], clear._result.state["histograms"][0]) == (3, 1)
    masses = np.asarray(documents(2000, V).sum(axis=0)).ravel()
    own = clear.components_.sum(axis=0)
    exact, known, own = (part / part.sum() for part in (masses, clear._restored()._known.masses, own))
    assert exact @ np.log(exact / known) < 0.5 * exact @ np.log(exact / own)
    # Topics that noise hides have the masses of the histograms.
    stage = counted(300.0).prepare(documents(50, V))
    truth, rng = prior_of(V).frequencies, np.random.default_rng(0)
    for step in range(12):
        units = rng.integers(-1000, 1000, stage.model.shape)
        if step < 5:
            scales = stage.model.model._histogram.scales
            units.reshape(-1)[:V] = np.rint(1e6 * truth / scales)
            assert (np.ptp(scales) > 0) == (step > 0)  # the next scales follow the masses
        stage.model.update(Release(step, units, 1e-3, 1e-2 if step < 5 else 10.0))
    masses = stage.model.model._shrinkage.mass
    np.testing.assert_allclose(masses / masses.sum(), truth / truth.sum(), rtol=0.1)


def test_a_run_that_counts_first_resumes_with_the_same_bits():
    models = [counted(300.0, n_components=9).prepare(documents(50, V)).model for _ in range(2)]
    rng, (model, again) = np.random.default_rng(0), models
    assert model.model._start_steps not in (0, model.model._histograms)
    for step in range(19):
        shape = model.shape
        model.update(Release(step, rng.integers(-1000, 3000, shape), 1e-3, 1.0))
        again.restore(model.state())
        for name, value in model.result().items():
            np.testing.assert_array_equal(value, again.result()[name])


def test_a_state_of_histograms_that_is_none_is_refused():
    model = counted(300.0).prepare(documents(50, V)).model
    for number in (-1.0, 0.5, 1.0):  # one histogram has some precision
        with pytest.raises(ValueError, match="'histograms' is out of its range"):
            model.restore({**model.state(), "histograms": np.array([number])})
    with pytest.raises(ValueError, match="'histogram_steps' is out of its range"):
        model.restore({**model.state(), "histogram_steps": np.array([-1.0])})


# -- decisions


def test_own_and_public_topics_are_taken_together_if_the_last_score_says_so():
    wrong = fitted(prior=prior_of(V, shuffled=True), noise_multiplier=3.0)
    model = wrong._restored()
    own, own_topics = model.result()["components"], model._own_topics
    for place, number in ((0, own_topics), (2, own_topics + K), (3, K)):
        nats = np.zeros(4)
        nats[place] = 5.0
        model._last = Score(nats, 0.01, 20.0, 0.1)
        components, alpha = model.result()["components"], model.alpha
        assert components.shape == model.standard_errors().shape == (number, V) and alpha.shape == (number,)
        assert model.intervals(0.5).shape == (number, V, 2) and model.from_records.shape == (number,)
        assert model.found_gain.gain == pytest.approx(1 - np.exp(-5 / 20))
        if place == 2:
            np.testing.assert_allclose(components[:own_topics], 0.9 * own)
            shares = components[own_topics:].sum() / components.sum(), alpha[own_topics:].sum() / alpha.sum()
            assert shares == pytest.approx((0.1, 0.1), rel=0.2)


def test_a_trial_is_judged_by_what_is_found_then_and_expected_later():
    assert own_are_better(7, 0.3, 0.2, 0.0, 0.0) and own_are_better(7, 0.15, 0.2, 0.0, 0.0)
    assert not own_are_better(7, 0.0, 0.2, 0.0, 0.0) and not own_are_better(7, 0.15, 0.2, 0.1, 0.0)
    # More topics grow more.
    assert own_are_better(24, 0.1, 0.22, 0.0, 0.0) and not own_are_better(7, 0.1, 0.22, 0.0, 0.0)


def test_without_noise_no_topics_of_ones_own_are_planned():
    assert PriorSteps(20, (0.1,)).own_topics(50.0, 0.0) == (0, True)


def test_many_records_have_more_topics_of_ones_own():
    def number(n, topics):
        case = TopicCase(n, 5000, topics, distinct_words=60.0, clip=0.07, target=Target(2.0, 1e-6), n_steps=20)
        return PriorSteps(20, (0.1,), case, case.minibatches(n), 7e-5 * n).own_topics(60.0, 0.0)[0]

    assert [number(n, 100) for n in (10_000, 50_000, 60_000, 100_000, 400_000)] == [50, 50, 60, 100, 100]
    assert number(100_000, 80) == 80  # of the prior


def test_a_good_prior_is_used_and_a_wrong_one_is_left():
    X, test = documents(2000, V), documents(300, V, seed=9)
    none = LatentDirichletAllocation(
        K, noise_multiplier=3.0, sampling="full", n_records=2000, random_state=0, n_jobs=1
    ).fit(X)
    good, wrong = (fitted(X, prior_of(V, shuffled=s), noise_multiplier=3.0) for s in (False, True))
    noisy = fitted(X)
    assert noisy.found_gain_.low > 0.1 and noisy.components_.shape == (K, V)
    assert noisy.perplexity(test) < none.perplexity(test) < 1.25 * good.perplexity(test)
    assert (wrong.from_records_ == 1.0).all()
    assert wrong.perplexity(test) < 1.05 * none.perplexity(test)
    assert (noisy.from_records_ < 0.5).all()
    # The verdict takes off the loss of frequencies that noise hides; with hardly any noise they are near.
    assert noisy.verdict_.found.low < noisy.found_gain_.low - 0.02
    assert good.verdict_.found.gain == pytest.approx(good.found_gain_.gain, abs=0.02)


# -- state


@pytest.mark.parametrize("noise, nats", [(30.0, 5.0), (3.0, -5.0), (3.0, 1.0)])
def test_a_run_resumes_from_any_step_with_the_same_bits(noise, nats):
    """Public topics, topics of one's own, a trial."""
    estimator = LatentDirichletAllocation(
        K, public_prior=prior_of(V), noise_multiplier=noise, sampling="full", n_records=2000, random_state=0, n_steps=20
    )
    stage = estimator.prepare(documents(2000, V))
    model = stage.model
    rng = np.random.default_rng(0)
    kinds = set()
    for step in range(20):
        again = estimator.prepare(documents(2000, V)).model
        again.restore(model.state())
        for name, array in again.state().items():
            np.testing.assert_array_equal(array, model.state()[name])
        units = rng.integers(0, 1000, model.shape)
        if model._half is not None:
            units.reshape(-1)[: model._half.score.cells] = int((20 + nats) * 50)
            units.reshape(-1)[model._half.score.cells // 2 - 1 : model._half.score.cells - 2] = 20 * 50
        kinds.add((model._choice, model._trial))
        for one in (model, again):
            one.update(Release(step, units, 1e-3, noise / 2000))
        for name, array in again.result().items():
            np.testing.assert_array_equal(array, model.result()[name])
    assert len(kinds) >= 2


def test_a_state_that_is_none_is_refused():
    estimator = LatentDirichletAllocation(K, public_prior=prior_of(V), noise_multiplier=3.0, n_records=50)
    model = estimator.prepare(documents(50, V)).model
    state = model.state()
    for place, value in ((0, -1.0), (1, 3.0), (2, K + 1.0), (1, 0.5), (3, 2.0)):
        numbers = state["prior_steps"].copy()
        numbers[place] = value
        with pytest.raises(ValueError, match="prior_steps"):
            model.restore({**state, "prior_steps": numbers})
    with pytest.raises(ValueError, match="for its choice"):
        model.restore({**state, "prior_steps": np.array([2, 2, 0, 0, 0.0])})


# -- the estimator


def test_a_saved_model_says_and_tells_the_same(tmp_path):
    model = fitted()
    model.save(tmp_path / "m")
    again = LatentDirichletAllocation.load(tmp_path / "m")
    test = documents(20, V, seed=5)
    np.testing.assert_array_equal(again.transform(test), model.transform(test))
    np.testing.assert_array_equal(again.components_interval(), model.components_interval())
    assert again.found_gain_ == model.found_gain_ and again.perplexity(test) == model.perplexity(test)
    assert again.public_prior.digest == model.public_prior.digest
    told = [one.why for one in assess(again._fitted())]
    assert any(f"Public knowledge used: {again.public_prior.source}." in one for one in told)
    assert again.public_prior.source.startswith("a test (en, sha256 ")


def test_documents_are_read_out_with_the_topics_that_were_taken():
    model = fitted()
    empty = model.transform(np.zeros((1, V), dtype=np.int32))[0]
    # A document without words has the prior's proportions, which follow the topics' weights.
    weights = model.components_.sum(axis=1) / model.components_.sum()
    np.testing.assert_allclose(empty, 0.2 / K + 0.8 * weights, rtol=1e-6)
    test = documents(50, V, seed=3)
    assert np.isfinite(model.perplexity(test)) and model.components_sd_.shape == (K, V)
    low, high = np.moveaxis(model.components_interval(0.5), 2, 0)
    assert (low < high).all() and (model.components_ > low).mean() > 0.9


@pytest.mark.parametrize(
    "parameters, message",
    [
        (dict(n_components=5), "n_components=5: expected 4, the topics of public_prior"),
        (dict(public_prior=prior_of(V + 1)), "public_prior has 65 words: expected 64, those of X"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused(parameters, message):
    model = LatentDirichletAllocation(K, public_prior=prior_of(V), n_records=30).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(documents(30, V))


def test_a_terminal_has_the_topics_that_hold_most_words():
    for n_topics, weights, number in ((40, np.ones(40), 20), (40, np.exp(-np.arange(40.0)), 3)):
        known = prior_of(V, n_topics)
        prior = PublicPrior(known.words, np.ones((n_topics, V)), weights, known.frequencies, "a test")
        model = LatentDirichletAllocation(n_topics, public_prior=prior, noise_multiplier=1e5, n_records=50, n_steps=2)
        head, *rows = beside.shown(model.fit(documents(50, V))).splitlines()
        (text,) = beside.write_text(model).values()
        assert [head, *rows[:-1]] == text.splitlines()[: number + 1]
        shares = np.sort(model.components_.sum(axis=1))[::-1]
        rest = f"{shares[number:].sum() / shares.sum():.1%}"
        assert rows[-1] == f"{n_topics - number} more topics hold {rest} of the words; `topics` shows all."


def test_a_terminal_has_at_most_a_page_of_own_topics():
    """The largest 20 of 100, with their numbers; the file keeps all."""
    model = LatentDirichletAllocation(100, private=False, n_steps=1).fit(documents(50, V))
    *rows, more = beside.shown(model).splitlines()[-21:]
    (text,) = beside.write_text(model).values()
    order = np.argsort(-model.components_.sum(axis=1), kind="stable")
    assert [int(row.split()[0]) - 1 for row in rows] == order[:20].tolist()
    assert set(rows) < set(text.splitlines()) and len(text.splitlines()) >= 100
    assert more.startswith("80 more topics hold ") and more.endswith("; `topics` shows all.")
    few = LatentDirichletAllocation(20, private=False, n_steps=1).fit(documents(50, V))
    assert beside.shown(few) == next(iter(beside.write_text(few).values()))


def test_the_articles_form_takes_no_public_prior():
    with pytest.raises(ValueError, match="public_prior: expected None; the article's algorithm has no public topics"):
        LatentDirichletAllocation.paper(K, public_prior=prior_of(V), n_records=30).fit(documents(30, V))


def test_few_steps_give_histograms_or_one_score():
    for n_steps, gain in ((1, None), (2, None), (3, True), (8, True)):
        model = fitted(n_steps=n_steps)
        assert (model.found_gain_ is None) == (gain is None) and model.components_.shape == (K, V)


def test_shell_and_report_say_what_was_found():
    used, left = fitted(), fitted(prior=prior_of(V, shuffled=True), noise_multiplier=3.0)
    for model, end in ((used, "of their probability comes from the records."), (left, "public topics were not used.")):
        said = model.verdict_.text
        assert "half of a record's words predict the other half" in said and said.endswith(end)
        assert said in unescape(html_report(model))
    (text,) = beside.write_text(used).values()
    first, empty, head, *rows = text.splitlines()
    assert first == used.verdict_.text and not empty
    assert head == "share  from the records  topic and its words" and len(rows) == K
    shares = [float(row.split("%")[0]) for row in rows]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=0.3)
    assert beside.shown(used) == text
    (text,) = beside.write_text(left).values()
    assert "share  from" not in text and beside.shown(left) == text
    assert "% from the records, the rest public" in html_report(used)
    assert "from the records" in short_report(make_dossier(used)) and "from the records]" not in short_report(
        make_dossier(left)
    )
    plain = LatentDirichletAllocation(3, noise_multiplier=30.0, n_records=50, n_steps=3).fit(documents(50, V))
    assert plain.verdict_.worth in ("", "noise") and plain.found_gain_ is None and (plain.from_records_ == 1.0).all()
