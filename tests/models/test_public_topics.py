"""Public topics: bounds of each kind of step, read-outs, resume, and a verdict that is true."""

import math
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from priors import documents, prior_of

from vips_fast import LatentDirichletAllocation
from vips_fast.data import Corpus
from vips_fast.engine.assumptions import assess
from vips_fast.engine.model import Release
from vips_fast.models.lda import public_topics
from vips_fast.models.lda.public_topics import (
    _MOST,
    _NAT,
    LENGTHS,
    SCORE,
    TOPICS,
    WORDS,
    frequency_gain,
    kept_words,
    read_words,
)
from vips_fast.models.lda.records import UnitWords
from vips_fast.models.lda.score import _halves

V, K, N = 64, 4, 2000


def topics(prior=None, **parameters):
    common = dict(noise_multiplier=30.0, sampling="full", n_records=N, random_state=0, n_jobs=1, n_steps=20)
    return LatentDirichletAllocation(K, public_prior=prior or prior_of(V), **{**common, **parameters})


def fitted(X=None, prior=None, **parameters):
    return topics(prior, **parameters).set_unsafe(test_key=bytes(32)).fit(documents(N, V) if X is None else X)


@pytest.fixture
def own_topics(monkeypatch):
    """Topics of the records' own, however few records there are."""
    monkeypatch.setattr(public_topics.PublicTopicsModel, "_affordable_topics", lambda self: 3)


@pytest.fixture
def no_own_topics(monkeypatch):
    monkeypatch.setattr(public_topics, "_OWN_SIGNAL", math.inf)


def released(model, rng):
    """A release of the next step: counts for the lengths and words, and anything else for the rest."""
    units = rng.integers(0, 10**6, model.shape)
    return Release(model._done, units, 1e-3 / N, 1e-3)


def at(kind, X=None, **parameters):
    stage, rng = topics(**parameters).prepare(documents(N, V) if X is None else X), np.random.default_rng(0)
    while stage.model.kind != kind:
        stage.model.update(released(stage.model, rng))
    return stage


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


def first_half(n, bits):
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


@pytest.mark.parametrize("compares", [False, True])
def test_predictions_at_both_ends_keep_to_the_bound_of_replacing_a_unit(compares, monkeypatch):
    if compares:
        monkeypatch.setattr(public_topics.PublicTopicsModel, "_score_plan", lambda self: (1, True))
    stage = at(SCORE, options={"relation": "replace_one"})
    half, bound = stage.model._half, stage.model._predictions_bound
    nats = half.nats * np.repeat([[1.0], [-1.0]], half.n_candidates, axis=1)
    nats[:, 1:] *= 1.0 - half.reach
    moved = np.linalg.norm(np.subtract(*half.clip_rows(nats, np.ones(2), bound)))
    part = 1.0 if compares else public_topics._PARTS[0] ** 0.5
    assert 0.9 < moved / (part * stage.plan.mechanism.sensitivity) <= 1.0


OUTSIDE = np.array([0, 3, 5, 2**31, 2**62, 2**63 - 1, -1, -(2**40)])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_number_of_words_outside_moves_the_lengths_beyond_the_bound(relation, dtype):
    """Whoever made the numbers: persons with any two of them, each of whom adds the same beside others as alone."""
    pairs = np.array([(a, b) for a in OUTSIDE for b in OUTSIDE])
    n = len(pairs)
    X = sp.csr_array(documents(2 * n, V))
    X.outside = pairs.ravel().astype(dtype)
    stage = topics(options={"relation": relation}, n_records=n).prepare(X, groups=np.repeat(np.arange(n), 2))
    words = np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)

    def total(units):
        found = np.zeros(stage.model.shape, np.int64)
        stage.model.contribute(stage.records.block(units), words[units], found, {})
        return found

    assert stage.model.kind == LENGTHS
    alone = np.array([total(np.array([unit])) for unit in range(n)])
    assert (total(np.arange(n)) == alone.sum(axis=0)).all() and alone.min() >= 0
    moved = np.linalg.norm(alone if relation == "add_remove" else alone[:, None] - alone, axis=-1).max()
    assert moved <= stage.plan.mechanism.sensitivity / stage.plan.mechanism.spacing


@pytest.mark.parametrize(
    "outside", [[1] * N, "none", np.ones(9, int), np.ones((N, 1), int), np.ones(N), np.full(N, "a"), np.array(3)]
)
def test_words_outside_in_another_form_are_refused_before_anything_is_spent(outside):
    X, model = documents(N, V).copy(), topics()
    X.outside = outside
    for read in (model.fit, Corpus):
        with pytest.raises(ValueError, match=rf"^(X|counts)\.outside: expected {N} integers"):
            read(X)
    assert not hasattr(model, "ledger_")


def test_words_outside_stay_with_their_rows_or_nowhere():
    X = documents(N, V).copy()
    X.outside = np.arange(N)
    assert (Corpus(X).counts.outside == X.outside).all()
    others = (X[:9], X[::-1], X.copy(), X * 2, sp.vstack([X, X]))
    assert not any(hasattr(other, "outside") for other in others)
    X.resize((N // 2, V))
    with pytest.raises(ValueError, match=r"^X\.outside: expected"):
        topics().fit(X)


def test_a_word_of_a_table_may_be_outside():
    table = pd.DataFrame(documents(N, V).toarray(), columns=["outside", *map(str, range(1, V))])
    found = [topics().set_unsafe(test_key=bytes(32)).fit(X) for X in (table, table.to_numpy())]
    assert found[0]._restored()._lengths.outside == found[1]._restored()._lengths.outside


def twin(counts, expected):
    """`frequency_gain`, one occurrence after another."""
    total, before, most = 0, public_topics._BEFORE, int(_MOST * _NAT)
    for count, mean in zip(counts, expected, strict=True):
        center, last = round((math.log(mean) + 1.0) * _NAT), -math.inf
        for t in range(int(count)):
            slope = (t + 1) * math.log(t + before) - t * math.log(max(t - 1 + before, before))
            last = max(last, round(slope * _NAT))
            total += min(max(last - center, -most), most)
    return total


many = st.lists(st.integers(0, 300), min_size=1, max_size=12)
some_means = st.floats(-12.0, 12.0).map(lambda power: 10.0**power)


@given(many, st.data())
def test_the_gain_of_frequencies_is_its_slow_twins(counts, data):
    expected = np.array(data.draw(st.lists(some_means, min_size=len(counts), max_size=len(counts))))
    assert frequency_gain(np.array(counts), expected) == twin(counts, expected)


@pytest.mark.parametrize("number", [1, 7, 300, 15_000])
def test_no_clip_is_felt_where_a_word_is_about_as_frequent_as_expected(number):
    """Or ten times so, or a tenth: all occurrences count, the first ones, too."""
    before = public_topics._BEFORE
    for count in (max(number // 10, 1), number, min(10 * number, 20_000)):
        nats = count * (math.log(count - 1 + before) - math.log(number) - 1.0)
        expected = np.array([float(number)])
        found = frequency_gain(np.array([count]), expected) / _NAT + public_topics.clipped_off(expected)
        assert found == pytest.approx(nats, abs=1e-6 * max(count, number))


@given(many, st.sampled_from([0, 3, 4095, 20_000]), st.data())
@settings(max_examples=200)
def test_a_unit_moves_the_gain_of_frequencies_by_its_words_at_most(counts, more, data):
    """Units of up to M words, added and replaced, whatever the others have."""
    counts = np.array(counts)
    counts[0] += more
    size = len(counts)
    expected = np.array(data.draw(st.lists(some_means, min_size=size, max_size=size)))
    one, other = (np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))) for _ in range(2))
    most = max(one.sum(), other.sum())
    without, first, second = (frequency_gain(counts + part, expected) for part in (0 * one, one, other))
    assert abs(first - without) <= one.sum() * _MOST * _NAT
    assert abs(first - second) <= most * 2 * _MOST * _NAT


@pytest.mark.parametrize("relation, share", [("add_remove", 1.0), ("replace_one", 2**0.5)])
def test_the_gains_entry_moves_as_its_proof_says(relation, share):
    stage = at(SCORE, options={"relation": relation})
    model, spacing, rng = stage.model, stage.plan.mechanism.spacing, np.random.default_rng(0)
    cells, most, (units, _) = model._half.cells, model._lengths.kept, model._gain_parts

    def entry(counts):
        return int(model.round(np.concatenate([np.zeros(cells + 2, np.int64), counts]), spacing)[cells + 1])

    def unit():
        return np.bincount(rng.choice(V, min(most, V), replace=False), minlength=V)

    assert (units + 1) * spacing <= model.clip * public_topics._PARTS[1] ** 0.5
    for _ in range(30):
        counts = rng.integers(0, 4, V) * rng.integers(0, 2000, V)
        one, other = unit(), unit()
        assert abs(entry(counts + one) - entry(counts)) <= units + 1
        assert abs(entry(counts + one) - entry(counts + other)) <= share * (units + 1)
    # One unit has words that all have, the other words that nobody has: all they can say for exact counts, and against.
    counts, few = np.where(np.arange(V) % 2, 10**7, 0), min(most, V // 2)
    one, other = (np.bincount(np.arange(first, 2 * few, 2), minlength=V) for first in (1, 0))
    moved = abs(entry(counts + one) - entry(counts + other)) / (units + 1)
    assert 0.95 * 2 / share < moved * most / few <= 2 / share
    fine = np.arange(cells + 2 + V)
    model.round(fine, spacing)
    assert (fine == np.arange(len(fine))).all()  # the sums stay


@given(units, st.integers(0, 2**32), st.sampled_from([1, 2, 7, V]))
def test_kept_words_are_at_most_so_many_and_a_function_of_the_unit(rows, seed, most):
    words = np.random.default_rng(seed).integers(0, 2**64, len(rows), dtype=np.uint64)
    kept, ends = kept_words(entries(rows), words, most), entries(rows).ends
    for unit, row in enumerate(rows):
        mine = kept[ends[unit] : ends[unit + 1]]
        assert mine.sum() == min(most, len(row))
        np.testing.assert_array_equal(mine, kept_words(entries([row]), words[unit : unit + 1], most))


def test_each_word_is_as_likely_to_be_kept():
    n = 40_000
    rows = UnitWords(np.arange(n + 1) * 10, np.tile(np.arange(10, dtype=np.int32), n), np.ones(10 * n))
    words = np.random.default_rng(0).integers(0, 2**64, n, dtype=np.uint64)
    asked = public_topics.scramble(words + public_topics.GOLDEN) >> np.uint64(63) == 0
    shares = kept_words(rows, words, 3).reshape(n, 10)[asked].mean(axis=0)
    np.testing.assert_allclose(shares, 0.3, atol=6 * np.sqrt(0.21 / asked.sum()))


def test_a_score_asks_some_of_many_units(monkeypatch):
    """A quarter, by their own random words: the mean of these is that of all."""
    whole = fitted(noise_multiplier=1.0)._restored().gained_nats
    monkeypatch.setattr(public_topics, "JUDGES", N // 4)
    stage, words = at(SCORE), np.random.default_rng(1).integers(0, 2**64, N, dtype=np.uint64)
    asked = 0
    for unit in range(300):
        found = np.zeros(stage.model.fine_shape, np.int64)
        stage.model.contribute(stage.records.block(np.array([unit])), words[[unit]], found, {})
        asked += found.any()
    assert 45 < asked < 105  # four standard deviations
    some = fitted(noise_multiplier=1.0)._restored().gained_nats
    assert abs(some[0] - whole[0]) < 4 * some[1] and whole[1] < some[1] < 4 * whole[1]


@pytest.mark.parametrize(
    "n_steps, noise, kinds",
    [
        (1, 0.02, [WORDS]),
        (2, 0.02, [WORDS] * 2),
        (3, 0.02, [WORDS] * 2 + [SCORE]),
        (4, 0.02, [WORDS] * 3 + [SCORE]),
        (5, 0.02, [LENGTHS] + [WORDS] * 3 + [SCORE]),
        (8, 0.02, [LENGTHS] + [WORDS] * 5 + [SCORE] * 2),
        (20, 0.02, [LENGTHS] + [WORDS] * 15 + [SCORE] * 4),
        (100, 0.05, [LENGTHS] + [WORDS] * 79 + [SCORE] * 20),
        (20, 0.001, [LENGTHS] + [WORDS] * 18 + [SCORE]),  # one step tells the gain
        (100, 0.01, [LENGTHS] + [WORDS] * 95 + [SCORE] * 4),
        (20, 0.07, [LENGTHS] + [WORDS] * 18 + [SCORE]),  # noise would hide the gain, and not the best prior
        (20, 1.0, [LENGTHS] + [WORDS] * 19),  # noise would hide both
    ],
)
def test_the_order_of_steps(n_steps, noise, kinds, no_own_topics):
    model, rng, found = topics(n_steps=n_steps).prepare(documents(50, V)).model, np.random.default_rng(0), []
    for _ in range(n_steps):
        found.append(model.kind)
        model.update(replace(released(model, rng), noise_sd=noise))
    assert found == kinds
    assert model._compares == (noise == 0.07)
    if noise >= 0.02 and SCORE in kinds or n_steps < 3:
        fit = fitted(n_steps=n_steps)
        assert (fit.found_gain_ is None) == (SCORE not in kinds) and fit.components_.shape == (K, V)


def test_topics_of_the_records_own_begin_where_they_stand_clear():
    """Many records, or little noise, and words enough that go together; columns that nobody uses do not count."""
    for noise, n, length in product((0.3, 300.0), (N, 100 * N), (8, 40)):
        model = topics(noise_multiplier=noise, n_records=n, doc_length=length).prepare(documents(50, V)).model
        assert (model._affordable_topics() > 0) == (length == 40 and (noise < 1 or n > N))
    forms = sp.hstack([documents(N, V), sp.csr_array((N, 2000 - V), dtype=np.int32)], format="csr")
    texts = documents(N, 2000)
    for noise, X, own in ((1000.0, None, False), (0.3, None, True), (16.0, forms, True), (16.0, texts, False)):
        model = fitted(X, X is not None and prior_of(2000), noise_multiplier=noise)
        assert (model._restored()._own is not None) == own


@pytest.mark.parametrize("own", [False, True])
def test_the_noise_of_a_score_is_planned_for_its_candidates(own, request):
    """Topics of the records' own bring one more candidate, whose differences to the others have the whole bound."""
    request.getfixturevalue("own_topics" if own else "no_own_topics")
    model = at(SCORE).model
    lengths, (gain, kept, _) = model._lengths, public_topics._PARTS
    assert model._half.n_candidates == (4 if own else 3)
    noise = lengths.noise / N / model._share
    parts = (
        noise * lengths.halves[1] / lengths.mean_predicted[0] * model._half.norm / gain**0.5,
        noise * _MOST * lengths.kept / lengths.mean_kept[0] / kept**0.5,
    )
    assert model._noise_of_score(model._half) == pytest.approx(math.hypot(*parts))


@pytest.mark.parametrize("n_steps", [3, 20])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 1e3, 1e5, 2e6])
def test_any_noise_gives_topics_and_a_verdict_that_is_sure_only_if_it_may_be(noise, n_steps):
    model = fitted(noise_multiplier=noise, n_steps=n_steps)
    assert np.isfinite(model.components_).all() and np.isfinite(model._fitted_alpha()).all()
    found, hidden = model.found_gain_, noise > 10 and n_steps == 20
    assert (found is None) == hidden
    assert hidden or -1 <= found.low <= found.gain <= found.high <= 1
    assert model.verdict_.worth == ("useful" if noise < 10 else "unclear")
    assert ("oise hides whether" in model.verdict_.text or "noise would hide whether" in model.verdict_.text) == (
        noise > 10
    )
    # Words have the steps of a score that would say nothing.
    assert model._restored()._histogram.count == (n_steps - 1 if n_steps == 20 and hidden else {3: 2, 20: 4}[n_steps])


def test_without_privacy_the_prior_is_ignored():
    with_it, without = (
        LatentDirichletAllocation(K, public_prior=prior, private=False, random_state=0, n_steps=5).fit(documents(50, V))
        for prior in (prior_of(V), None)
    )
    np.testing.assert_array_equal(with_it.components_, without.components_)
    assert with_it.lift_ is None


@pytest.mark.parametrize("own", [False, True])
def test_a_run_resumes_from_any_step_with_the_same_bits(own, request):
    request.getfixturevalue("own_topics" if own else "no_own_topics")
    X, rng, kinds = documents(50, V), np.random.default_rng(0), set()
    estimator = topics(n_records=50)
    model = estimator.prepare(X).model
    for step in range(20):
        stage = estimator.prepare(X)
        again = stage.model
        again.restore(model.state())
        for name, array in again.state().items():
            np.testing.assert_array_equal(array, model.state()[name])
        assert again.kind == model.kind and again.shape == model.shape
        # A copy in another process contributes the same, in this step.
        words, sums = rng.integers(0, 2**64, 50, dtype=np.uint64), []
        for one in (model, again, pickle.loads(pickle.dumps(model.contributor()))):
            sums.append(np.zeros(model.fine_shape, np.int64))
            one.contribute(stage.records.block(np.arange(50)), words, sums[-1], {})
            np.testing.assert_array_equal(sums[-1], sums[0])
        kinds.add(model.kind)
        release = released(model, rng)
        for one in (model, again):
            one.update(Release(step, release.units, release.scale, release.noise_sd))
        for name, array in again.result().items():
            np.testing.assert_array_equal(array, model.result()[name])
        assert again.found_gain == model.found_gain and (again.alpha == model.alpha).all()
    assert kinds == ({LENGTHS, WORDS, SCORE} | ({TOPICS} if own else set()))


def test_a_state_that_is_none_is_refused():
    X = documents(50, V)
    model, fresh = at(SCORE, X, n_records=50).model, topics(n_records=50).prepare(X).model
    model.update(released(model, np.random.default_rng(0)))
    state = model.state()
    fresh.restore(state)
    bad = (-1.0, 0.5, math.inf, math.nan, 1e300)
    changes = [("public_steps", place, value) for place in (0, 1, 2) for value in bad]
    changes += [("public_steps", place, value) for place in (3, 4) for value in (-1.0, math.nan)]
    changes += [("public_steps", place, value) for place in (5, 6) for value in (-1.0, 0.0, math.nan)]
    changes += [("public_steps", 1, K + 1.0), ("public_steps", 7, 0.5)]
    changes += [("public_steps", 0, 0.0), ("lengths", 3, math.nan), ("scored", 1, math.inf), ("histogram", 1, -1.0)]
    for name, place, value in changes:
        array = np.array(state[name])
        array[place] = value
        with pytest.raises(ValueError, match="state: "):
            fresh.restore({**state, name: array})
    for name, array in state.items():
        for other in (array[:-1], np.concatenate([array, array]), array[None]):
            with pytest.raises(ValueError, match="state: "):
                fresh.restore({**state, name: other})
        with pytest.raises(ValueError, match=f"state: has no array '{name}'"):
            fresh.restore({key: value for key, value in state.items() if key != name})


def test_a_run_keeps_the_numbers_of_its_plan():
    """A checkpoint cannot change them."""
    X = documents(50, V)
    model = topics(n_records=50).prepare(X).model
    other = at(SCORE, X, n_records=50).model.state()
    other["public_steps"][5:7] *= 0.5
    own = model._spacing, model._batch
    model.restore(other)
    assert (model._spacing, model._batch) == own


def test_lengths_that_are_no_numbers_are_refused_and_huge_ones_are_read():
    model = topics().prepare(documents(50, V)).model
    with pytest.raises(ValueError, match="release: expected finite numbers"):
        model.update(Release(0, np.ones(model.shape, np.int64), math.nan, math.nan))
    model.restore({**model.state(), "lengths": np.full(12, 1.7e308)})
    assert 1 <= model._lengths.median <= 630 and 0 < model._lengths.mean_kept[0] <= 630


@pytest.mark.parametrize("length", [1, 4, 12, 60])
def test_lengths_tell_how_many_words_are_kept_and_predicted(length):
    """A word is kept once, however often it stands there, and is predicted only beside another."""
    rng, shares = np.random.default_rng(0), 1.0 / np.arange(3, 2003)
    totals = 1 + rng.poisson(length - 1, 1500)
    counts = np.array([rng.multinomial(total, shares / shares.sum()) for total in totals])
    cells = np.searchsorted(public_topics.LENGTH_CELLS, totals, side="right") - 1
    told = public_topics.Lengths(1500, 40.0, np.bincount(cells, minlength=len(public_topics.LENGTH_CELLS)), 1e-9)
    kept = np.minimum((counts > 0).sum(axis=1), told.kept).mean()
    first = rng.binomial(counts, 0.5).sum(axis=1)
    predicted = np.where(first > 0, np.minimum(totals - first, told.halves[0]), 0).mean()
    assert told.mean_kept[0] == pytest.approx(kept, rel=0.15)
    assert told.mean_predicted[0] == pytest.approx(predicted, rel=0.15, abs=0.1)


def test_a_half_has_room_for_nine_units_of_ten():
    cells = np.zeros(len(public_topics.LENGTH_CELLS))
    cells[[2, 6]] = 80.0, 20.0  # of 4 to 6 words, and of 35 to 59
    told = public_topics.Lengths(100, 40.0, cells, 1e-9)
    assert 4 <= told.median < 7 and 35 <= 2 * told.halves[0] < 60
    assert told.halves[1] == min(told.halves[0], 6 * told.halves[0] ** 0.5)


def test_lengths_that_noise_hides_are_as_stated():
    rng, hidden = np.random.default_rng(0), 0
    model = topics(doc_length=17).prepare(documents(50, V)).model
    state = model.state()
    state["public_steps"][3] = 50.0
    for _ in range(400):
        model.restore({**state, "lengths": 50.0 * rng.standard_normal(12)})
        hidden += model._lengths.median == 17.0
    assert hidden > 380  # all but 1 in 60


def test_records_without_counted_words_are_said():
    X = documents(N, V).toarray()
    X[: N // 4] = 0
    model = fitted(X, noise_multiplier=10.0)
    share, sd = model._restored()._lengths.shares()[0]
    assert abs(share - 0.25) < 6 * sd
    assert "About 2" in model.verdict_.text and "have none of the counted words" in model.verdict_.text
    model = fitted(sp.csr_matrix((N, V), dtype=np.int64), noise_multiplier=10.0)
    assert model.found_gain_ is None and model.verdict_.worth == "unclear"
    assert "of the records have none of the counted words" in model.verdict_.text
    assert "have two counted words" in model.verdict_.text


def test_more_records_are_no_remedy_where_none_has_two_words():
    X = sp.csr_matrix(np.eye(V, dtype=np.int64)[np.arange(N) % V])
    verdict = fitted(X, noise_multiplier=10.0).verdict_
    assert verdict.worth == "unclear" and "Less than 10% of the records have two counted words" in verdict.text
    assert "More" not in verdict.text


def test_words_follow_a_clear_histogram_and_the_topics_where_noise_hides_it():
    prior, rng = prior_of(400), np.random.default_rng(0)
    truth = 1e5 * prior.weights @ prior.topics() * np.exp(rng.normal(0, 0.5, 400))
    clear, hidden = (
        read_words(truth + rng.normal(0, sd, 400), np.full(400, sd), prior.topics(), prior.weights)
        for sd in (1e-3, 1e7)
    )
    np.testing.assert_allclose(clear.masses, truth / truth.sum(), rtol=0.15)
    assert clear.spread.max() < 0.2 < hidden.spread.min()
    np.testing.assert_allclose(hidden.masses, hidden.mixture, rtol=0.3)
    for read in (clear, hidden):
        np.testing.assert_allclose(read.weights @ read.topics, read.masses, rtol=1e-9)
        np.testing.assert_allclose(read.topics.sum(axis=1), 1.0)


def test_the_lift_of_topics_is_over_public_text(no_own_topics):
    rng, p = np.random.default_rng(0), prior_of(V).topics()[0]
    model = fitted(rng.multinomial(40, p, N).astype(np.int32), noise_multiplier=3.0)
    assert model.lift_[0] > 3 > 0.5 > model.lift_[1:].max()
    shares = model.components_.sum(axis=1)
    np.testing.assert_allclose(model.lift_, shares / shares.sum() / prior_of(V).weights, rtol=1e-9)


def test_a_saved_model_says_and_tells_the_same(tmp_path):
    model = fitted(n_steps=None)  # planned, so no setting tells what the last step was
    model.save(tmp_path / "m")
    again = LatentDirichletAllocation.load(tmp_path / "m")
    test = documents(20, V, seed=5)
    np.testing.assert_array_equal(again.transform(test), model.transform(test))
    np.testing.assert_array_equal(again.components_interval(), model.components_interval())
    assert again.found_gain_ == model.found_gain_ and again.perplexity(test) == model.perplexity(test)
    np.testing.assert_array_equal(again.lift_, model.lift_)
    assert again.public_prior.digest == model.public_prior.digest
    told = [one.why for one in assess(again._fitted())]
    assert any(f"Public knowledge used: {again.public_prior.source}." in one for one in told)
    assert again.public_prior.source.startswith("a test (en, sha256 ")
    forged = {**model._settings(), "public_prior_source": "a census (sha256 0123456789abcdef)"}
    for said in (forged, {**forged, "public_prior": None}):
        with pytest.raises(ValueError, match="not the source"):
            LatentDirichletAllocation._from_settings(said)


def test_documents_are_read_out_with_the_prior_that_was_taken():
    model = fitted()
    empty = model.transform(np.zeros((1, V), dtype=np.int32))[0]
    # A document without words has the prior's proportions, which follow the topics' weights.
    alpha = model._restored().alpha
    np.testing.assert_allclose(empty, alpha / alpha.sum(), rtol=1e-6)
    low, high = np.moveaxis(model.components_interval(0.5), 2, 0)
    assert (low < high).all() and (model.components_ > low).mean() > 0.9


@pytest.mark.parametrize(
    "how",
    [
        dict(sampling="poisson", batch_size=500),
        dict(sampling="without_replacement", batch_size=500),
        dict(sampling="random_allocation", batch_size=500, n_steps=16),
        dict(groups=True),
        dict(partial=True),
    ],
)
def test_each_way_of_drawing_finds_the_same(how):
    how = dict(how)
    X, groups, partial = documents(N, V), how.pop("groups", False), how.pop("partial", False)
    call = dict(groups=np.arange(N) // 2, unit="person") if groups else {}
    model = topics(**{"noise_multiplier": 3.0, "sampling": "full", **how})
    if groups:
        model.set_params(n_records=N // 2, options__rows_per_group=None)
    model.set_unsafe(test_key=bytes(32))
    if partial:
        model.set_params(n_records=None)
    for _ in range(20 if partial else 1):
        (model.partial_fit if partial else model.fit)(X, **call)
    restored = model._restored()
    assert restored._lengths.median == pytest.approx(80 if groups else 40, rel=0.45)
    assert model.verdict_.worth == "useful", model.found_gain_
    if partial:  # what comes after the last step makes the score more exact
        model.partial_fit(X)
        assert model._restored()._scores == restored._scores + 1


def made(n, length, mixed, shuffled, seed):
    """Documents of the prior's topics; if ``mixed``, in equal parts; if ``shuffled``, of topics of other words."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(K, 100.0 if mixed else 0.2), n)
    law = shares @ prior_of(V, shuffled=shuffled, seed=5).topics()
    return sp.csr_array(rng.multinomial(np.maximum(rng.poisson(length, n), 1), law).astype(np.int32))


def true_gain(model, X, fresh):
    """The gain in predicting the other half of other units, over the exact frequencies of the model's records."""
    first = np.random.default_rng(1).binomial(fresh, 0.5)
    told = fresh - first
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    exact = np.asarray(X.sum(axis=0)).ravel() + 0.2
    asked = told[first.sum(axis=1) > 0]
    predicted = model.transform(first[first.sum(axis=1) > 0]) @ topics
    return 1 - math.exp(-(asked * np.log(predicted / (exact / exact.sum()))).sum() / asked.sum())


def test_the_verdict_is_true():
    """32 fits with known noise, half of them of topics that help: no draw is left to chance."""
    held, wrong, worths = 0, 0, []
    for number in range(32):
        mixed, shuffled = number % 4 >= 2, number % 4 == 3
        n, noise, length = ((400, 6.0), (2000, 12.0))[number // 4 % 2] + ((6, 40)[number // 8 % 2],)
        X = made(n, length, mixed, shuffled, number)
        model = topics(noise_multiplier=noise, n_records=n).set_unsafe(test_key=number.to_bytes(32)).fit(X)
        true = true_gain(model, X, made(1500, length, mixed, shuffled, 1000 + number).toarray())
        found = model.found_gain_
        held += found.low <= true <= found.high
        worths.append(model.verdict_.worth)
        wrong += worths[-1] == "useful" and true <= 0
    assert held >= 25 and wrong <= 1, (held, wrong, worths)
    assert 10 <= worths.count("useful") <= 20


def test_a_given_prior_of_proportions_holds_beside_topics_of_the_records_own(own_topics):
    assert fitted(options={"doc_topic_prior": 0.5})._fitted_alpha().sum() == pytest.approx(0.5 * K)
    assert fitted()._fitted_alpha().sum() != pytest.approx(0.5 * K)


@pytest.mark.parametrize("mixed, least, most", [(False, 1.5, 2.0), (True, 6.0, 24.0)])
def test_where_noise_hides_the_gain_a_score_finds_the_prior_and_says_so(mixed, least, most):
    for seed in range(3):
        model = LatentDirichletAllocation(K, epsilon=1.0, delta=1e-6, public_prior=prior_of(V), n_jobs=1)
        model.set_unsafe(test_key=seed.to_bytes(32)).fit(made(250, 12, mixed, False, seed))
        assert least <= round(model._fitted_alpha().sum(), 6) <= most
        assert model.found_gain_ is None
        assert model.verdict_.worth == "unclear" and "oise hides" in model.verdict_.text


@pytest.mark.parametrize("short, long", [(4, 4), (2, 300)])
def test_rare_words_and_those_of_long_texts_do_not_flatter_the_topics(short, long):
    """Released frequencies know the texts that they were read from, and exact ones know all words of long texts.

    These are drawn one by one, and the verdict counts half of what those tell that a score does not keep.
    """
    prior, n, missed = prior_of(3000), 1500, []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        law = prior.ratios * (np.exp(rng.normal(0.0, 1.0, 3000)) * prior.frequencies)
        shares = rng.dirichlet(np.full(K, 5.0), 2 * n) @ (law / law.sum(axis=1, keepdims=True))
        lengths = np.where(np.arange(2 * n) % 10, short, long)
        X, fresh = np.split(rng.multinomial(lengths, shares / shares.sum(axis=1, keepdims=True)).astype(np.int32), 2)
        model = topics(prior, noise_multiplier=3.0, n_records=n).set_unsafe(test_key=seed.to_bytes(32)).fit(X)
        read, seen = model._restored(), X.sum(axis=0) + fresh.sum(axis=0) + 0.5
        kept = read._judges * read._lengths.mean_kept[0]
        known, less = (public_topics.expected_log(seen / seen.sum(), words) for words in (X.sum(), kept))
        missed.append(math.log1p(-true_gain(model, X, fresh)) + read.gained_nats[0] - (known - less) / 2.0)
    assert abs(np.mean(missed)) < 0.04, missed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expected", [np.nan, np.inf, 0.0, -1.0])
def test_a_gain_over_what_is_no_number_has_the_same_bound(expected):
    """Nothing is refused after the charge, and one more unit moves the sum by no more."""
    others = np.array([1.0, expected, 2.0])
    sums = [public_topics.frequency_gain(np.array([3, n, 5]), others) for n in range(4)]
    assert np.abs(np.diff(sums)).max() <= public_topics._MOST * public_topics._NAT
