"""Vocabularies that are purchased. The mechanism, its proof's steps, and the released words."""

import logging
import math
import pickle
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from ball_mean import sums_of
from runs import stopping_after
from scipy.stats import binom, norm

from vips_fast.accounting import GaussianEvent, SelfComposedEvent, epsilon
from vips_fast.data.tokens import Analyzer
from vips_fast.data.vocabulary import count_matrix
from vips_fast.engine.model import Release
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.vocabulary import PrivateVocabulary, TokenRows
from vips_fast.models.vocabulary.model import (
    ThresholdSampler,
    VocabularyModel,
    names_of,
    threshold_delta,
    threshold_for,
)

WORDS = [f"w{i}" for i in range(40)]


def texts(n=300, seed=0):
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 41)
    return [" ".join(np.array(WORDS)[rng.random(40) < shares]) for _ in range(n)]


def words_of(seed=0):
    rng = np.random.default_rng(seed)
    return lambda n: rng.integers(0, 2**64, n, dtype=np.uint64)


def sets_of(documents, max_tokens=1000, groups=None, seed=0):
    return TokenRows(str.split).extend(documents).sets(groups, max_tokens, words_of(seed))


def model_of(sets, sigma=3.0, n_rounds=4, max_tokens=1000, delta=1e-6, n_records=100):
    model = VocabularyModel(ThresholdSampler(n_records, n_rounds, max_tokens, delta))
    mechanism = GaussianMechanism(sigma, 1.0, 1.0)
    model.prepare(mechanism, model._plan)
    model.learn(sets)
    return model, mechanism


def release(model, units):
    model.update(Release(0, units, 1.0, 1.0))


def test_a_sum_passes_only_beyond_the_threshold_and_what_rounding_may_have_added():
    """Noise is rounded in every round, by half a lattice unit at most."""
    for n_rounds in (1, 2, 3):
        for more in range(-2, 5):
            model, mechanism = model_of(sets_of(["a"]), n_rounds=n_rounds)
            total = math.floor(model.threshold / mechanism.spacing) + more
            for units in (total, *[0] * (n_rounds - 1)):
                release(model, np.array([1, units]))
            least = (Fraction(total) - Fraction(n_rounds, 2)) * Fraction(mechanism.spacing)
            assert model.passed().tolist() == [least >= Fraction(model.threshold)]


@pytest.mark.parametrize(("sigma", "most", "rounds"), [(13.5, 300, 1), (1.2, 1000, 1), (4.0, 1, 1), (27.0, 1000, 4)])
def test_the_threshold_keeps_delta_for_every_number_of_own_tokens(sigma, most, rounds):
    delta = 2.5e-7
    rho = threshold_for(delta, sigma, most, rounds)
    t = np.arange(1, most + 1)
    each = norm.sf((rho - 1 / np.sqrt(t) - 0.25 * (rounds - 1)) / (sigma * math.sqrt(rounds)))
    worst = (-np.expm1(t * np.log1p(-each))).max()
    assert threshold_delta(rho, sigma, most, rounds) == pytest.approx(worst, rel=1e-6)
    assert threshold_delta(rho, sigma, most, rounds) <= delta and worst <= delta * (1 + 1e-9)
    assert threshold_delta(rho * (1 - 1e-6), sigma, most, rounds) > delta


def test_the_event_is_the_gaussians_and_what_the_threshold_lets_through():
    sampler = ThresholdSampler(1000, 4, 300, 2e-6)
    assert -math.expm1(4 * math.log1p(-sampler.round_delta)) >= 2e-6
    event, whole = sampler.event(8.0), 1e-5
    rest = (whole - 2e-6) / (1 - 2e-6)
    alone = epsilon(SelfComposedEvent(GaussianEvent(8.0, "add_remove"), 4), rest)
    assert epsilon(SelfComposedEvent(event, 4), whole) == pytest.approx(alone, rel=1e-3)
    assert epsilon(SelfComposedEvent(event, 4), 1.9e-6) == math.inf


@pytest.mark.parametrize("sigma", [1.0, 3.0, 700.0])
def test_nobody_weighs_more_than_one_and_alone_as_in_company(sigma):
    """In exact integers, in the first round and in later ones. Whatever was wanted of each token."""
    rng = np.random.default_rng(1)
    documents = [" ".join(map(str, rng.choice(400, rng.integers(0, 200), replace=False))) for _ in range(60)]
    sets = sets_of(documents, max_tokens=120)
    model, _ = model_of(sets, sigma, max_tokens=120)
    largest = 0
    for later in range(5):
        if later:
            model._round = later
            model._wanted = (rng.random(len(sets.names)) ** (3 * later) * model._largest * later).astype(np.int64)
            model._wanted[0] = 0
        alone = [sums_of(model, sets, [row]) for row in range(60)]
        norms = [int((a.astype(object) ** 2).sum()) for a in alone]
        assert max(norms) <= model._units**2
        assert all(a.min() >= 0 for a in alone) and (not later or max(a.max() for a in alone) <= model._units // 4)
        largest = max(largest, max(norms) / model._units**2)
        assert np.array_equal(sum(alone), sums_of(model, sets))
        assert np.array_equal(sum(alone), sums_of(model, sets, rng.permutation(60)))
    assert largest > 0.99  # the bound is used


def test_who_holds_more_keeps_as_many_by_an_own_word():
    documents = [" ".join(f"own{i}" for i in range(10_000)), "a b c"]
    one, two = (sets_of(documents, 50, seed=seed) for seed in (0, 1))
    first = [set(np.array(s.names)[s.block(np.array([0])).ids]) for s in (one, two)]
    assert [len(f) for f in first] == [50, 50] and first[0] != first[1]
    # Nor do others' tokens, or their places, change the choice.
    rows = TokenRows(str.split).extend([documents[1], "own7 own8", documents[0]])
    word = words_of(0)(1)[0]
    moved = rows.sets(None, 50, lambda n: np.array([5, 6, word], np.uint64))
    assert set(np.array(moved.names)[moved.block(np.array([2])).ids]) == first[0]
    # What nobody keeps is not there to get noise.
    assert len(one.names) == 1 + 50 + 3


@pytest.mark.parametrize("analyzer", ["unicode", Analyzer(ngrams=3), Analyzer(stop_words=("b",)), str.split])
def test_counts_of_tokens_are_the_texts_own(analyzer, monkeypatch):
    """Some words are changed by the analyzer, or in no text. Texts make many blocks or one."""
    documents = [["a b a", None, "B c's b", ""], ["x-ray x", "a c\u0327 \u00e7 d"], ["b a"] * 30]
    words = ["a", "A", "b", "a b", "c's", "\u00e7", "x", "ray", "nowhere", "-", "x-ray"]
    expected = count_matrix(documents, words, analyzer)
    for block in (1 << 19, 1):
        monkeypatch.setattr("vips_fast.models.vocabulary.records._BLOCK", block)
        rows = TokenRows(analyzer)
        for some in documents:
            rows.extend(some)
        found = rows.counts(words)
        for name in ("data", "indices", "indptr"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()
    with pytest.raises(ValueError, match="texts is empty"):
        TokenRows(analyzer).counts(words)


@pytest.mark.parametrize("grouped", [True, False])
def test_blocks_change_nothing(grouped, monkeypatch):
    """In any blocks. A block has many persons or one, on the way to another process too."""
    documents = [*texts(60), "", *texts(9, seed=1)]
    groups = np.random.default_rng(0).integers(0, 25, 70) if grouped else None
    held, expected = {}, {}
    for row, document in enumerate(documents):
        held.setdefault(int(groups[row]) if grouped else row, {}).update(dict.fromkeys(document.split()))
    for block in (1 << 19, 20, 1):
        monkeypatch.setattr("vips_fast.models.vocabulary.records._BLOCK", block)
        all_of_them, some = (sets_of(documents, most, groups) for most in (1000, 3))
        rows = np.arange(all_of_them.n_rows)
        found = pickle.loads(pickle.dumps(all_of_them.subset(rows[::-1]))).block(rows)
        names = [all_of_them.names[i] for i in found.ids]
        own = [names[a:b] for a, b in zip(found.ends, found.ends[1:])]
        assert own == [list(tokens) for tokens in held.values()][::-1]
        kept = some.block(rows)
        chosen = np.array(some.names)[kept.ids].tolist(), kept.ends.tolist()
        assert max(np.diff(kept.ends)) == 3 and chosen == expected.setdefault(0, chosen)
        assert (len(all_of_them.edges(rows)) > 5) == (block < 30)


def test_texts_are_added_after_others_were_read():
    rows = TokenRows(str.split).extend(["a b", "c"])
    rows.sets(None, 10, words_of())
    sets = rows.extend(["c d", "a"]).sets(["x", "y", "x", "y"], 10, words_of())
    block = sets.block(np.arange(2))
    assert [sets.names[i] for i in block.ids] == ["a", "b", "c", "d", "c", "a"] and block.ends.tolist() == [0, 4, 6]


def test_tokens_take_little_memory(monkeypatch):
    """Beside the different tokens, a few bytes a word."""
    monkeypatch.setattr("vips_fast.models.vocabulary.records._BLOCK", 1 << 12)
    document = " ".join(f"word{k}" for k in range(1000))
    peaks = []
    for n in (40, 120):
        tracemalloc.start()
        rows = TokenRows(str.split)
        for _ in range(n // 20):
            rows.extend([document] * 20)
        PrivateVocabulary(epsilon=9.0).fit(rows)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 80,000 words more, read and kept, with a copy while one is made.
    assert peaks[1] - peaks[0] < 16 * 80_000


@pytest.mark.parametrize("own", [0, 1, 10_000])
@pytest.mark.parametrize("n_rounds", [1, 4])
def test_a_neighbor_moves_the_others_sums_by_at_most_one_in_every_round(own, n_rounds):
    """The noise of the common tokens frozen. The noise of the own ones, and so their apparent demand, is anything."""
    documents = texts(200)
    document = " ".join(WORDS[::2] + [f"own{i}" for i in range(own)])
    rng, distance = np.random.default_rng(3), []
    here, there = sets_of(documents), sets_of([*documents, document])
    place = {name: i for i, name in enumerate(there.names)}
    common = np.array([place[name] for name in here.names])
    one, mechanism = model_of(here, 2.0, n_rounds, n_records=200)
    two, _ = model_of(there, 2.0, n_rounds, n_records=200)
    for _ in range(n_rounds):
        a, b = sums_of(one, here), sums_of(two, there)
        distance.append(int(((b[common] - a) ** 2).sum()))
        assert distance[-1] <= one._units**2
        noise = rng.normal(0, mechanism.noise_sd / mechanism.spacing, len(b)).astype(np.int64)
        noise[np.setdiff1d(np.arange(len(b)), common)] *= 10
        release(one, a + noise[common])
        # What is common has been seen by both; from here on both weigh the same.
        shown = b + noise
        shown[common] = a + noise[common]
        release(two, shown)
    if own == 0:
        assert distance[0] > 0.95 * one._units**2  # the bound is nearly reached


@pytest.mark.parametrize("own", [1, 150])
def test_a_lone_token_is_released_with_probability_at_most_delta_rho(own):
    """300,000 tokens, each of only one person, at a visible delta. 150 tokens of a person are limited to 100."""
    delta, most = 0.02, 100
    persons = 300_000 // own
    n = persons * own
    sets = sets_of([" ".join(f"t{i}" for i in range(k, k + own)) for k in range(0, n, own)], most)
    for n_rounds in (1, 4):
        model, mechanism = model_of(sets, 2.0, n_rounds, most, delta, persons)
        for number in range(n_rounds):
            sums = sums_of(model, sets)
            mechanism.add_noise(sums, bytes([number]) * 32)  # known keys: no chance of a millionth a case
            release(model, sums)
        found = {int(token) // own for token in (n[1:] for n in names_of(model.result()))}
        # Above it only once in a million runs.
        assert len(found) <= binom.isf(1e-6, persons, delta)
        if own >= 100 and n_rounds == 1:
            assert len(found) > 0.5 * delta * persons  # the bound is nearly reached, so a threshold below would fail


def test_a_release_is_in_alphabetical_order():
    sets = sets_of(["zebra apple"] * 90)
    model, mechanism = model_of(sets, 1.0, 1, 10, 0.1)
    release(model, sums_of(model, sets))
    assert names_of(model.result()) == ["apple", "zebra"]


def test_the_threshold_is_public():
    few, many = (model_of(sets_of(texts(n)), 5.0)[0] for n in (3, 500))
    assert few.threshold == many.threshold == threshold_for(1e-6, 5.0, 1000, 4)


@pytest.fixture(scope="module")
def fitted():
    return PrivateVocabulary(epsilon=8.0, delta=1e-4, max_tokens=50).fit(
        [*texts(), "onlyme " + WORDS[0], *(f"lone{i}" for i in range(50))]
    )


def test_common_tokens_are_found_and_counted(fitted):
    assert list(fitted.vocabulary_)[0] == "w0" and {"w1", "w2"} < set(fitted.vocabulary_)
    assert not any(name.startswith(("only", "lone")) for name in fitted.vocabulary_)
    assert len(fitted.weights_) == len(fitted.shares_) == len(fitted.vocabulary_)
    assert (np.diff(fitted.shares_) <= 0).all()
    counts = fitted.transform(["w1 w0 w1", "onlyme", None])
    assert counts.shape == (3, len(fitted.vocabulary_)) and counts.dtype == np.int32
    assert counts.toarray()[0, fitted.vocabulary_["w1"]] == 2 and counts[[1, 2]].nnz == 0
    assert list(fitted.get_feature_names_out()) == list(fitted.vocabulary_)
    privacy = fitted.privacy_
    assert privacy.private and 7.8 < privacy.epsilon <= 8.0 and privacy.steps == len(fitted.ledger_) == 4
    assert "vocabulary is included" in str(privacy) and privacy.vocabulary


def test_choices_after_the_release_cost_nothing(fitted, tmp_path):
    fitted.save(tmp_path / "v")
    again = PrivateVocabulary.load(tmp_path / "v")
    assert again.vocabulary_ == fitted.vocabulary_ and again.privacy_ == fitted.privacy_
    again.set_params(max_share=0.6, stop_words=["w2"], max_features=3)
    assert not {"w0", "w2"} & set(again.vocabulary_) and len(again.vocabulary_) == 3
    assert list(again.shares_) == sorted(again.shares_, reverse=True)
    assert len(again.ledger_) == 4 and (again.transform(["w0 w1 w2"]).sum(), len(again.weights_)) == (1, 3)


def test_no_private_token_leaves(tmp_path, caplog):
    """Nor does the order of the texts, or a number of tokens. Files, pickles, logs and messages are searched."""
    with caplog.at_level(logging.DEBUG):
        found = PrivateVocabulary(epsilon=8.0, delta=1e-4).fit([*texts(), "sesame", "zebra w0"])
        with pytest.warns(UserWarning, match="the vocabulary is empty: epsilon = 1") as warned:
            PrivateVocabulary(epsilon=1.0).fit(["sesame zebra"] * 3)
        with pytest.raises(TypeError) as refused:
            found.fit(["sesame", 3])
        with pytest.raises(TypeError) as made:
            PrivateVocabulary(analyzer=lambda text: [("zebra",)]).fit(["sesame"])
        # A transcript would tell how many tokens there are, and sums that no threshold passed.
        with pytest.raises(TypeError, match=r"PrivateVocabulary.fit\(\) got an unexpected keyword .* 'transcript'$"):
            PrivateVocabulary(epsilon=8.0).fit(texts(), transcript=tmp_path / "t")
        assert not (tmp_path / "t").exists()
    found.save(tmp_path / "v")
    data = b"".join(path.read_bytes() for path in (tmp_path / "v").iterdir()) + pickle.dumps(found)
    data += (caplog.text + str(warned[0].message) + str(refused.value) + str(made.value)).encode()
    assert b"w0" in data and b"sesame" not in data and b"zebra" not in data
    assert names_of(found._result.arrays) == sorted(found.vocabulary_)
    state = found._result.state
    assert set(state) == {"sums", "bytes", "lengths"} and state["sums"].shape == (4, 1 + len(found.vocabulary_))


def test_texts_that_are_none_and_texts_of_nobody_are_dropped():
    """The tokens equal those without such texts. Counting them does not fail after the purchase."""
    good = [*texts(), "w0 w1"]
    bad = [*good, 3, math.nan, b"w0", None, "sesame"]
    labels = [*range(len(bad) - 1), None]
    made = PrivateVocabulary(noise_multiplier=2.0, n_records=len(good), options={"invalid": "drop"}).set_unsafe(
        test_key=b"k" * 32
    )
    with pytest.raises(TypeError):
        made.set_params(options__invalid="raise").fit(bad)
    sets = made.set_params(options__invalid="drop").prepare(bad, groups=labels).records
    known = made.prepare(good).records
    assert (
        sets.names == known.names
        and sets.block(np.arange(known.n_rows)).ids.tolist() == known.block(np.arange(known.n_rows)).ids.tolist()
    )
    assert sets.block(np.arange(known.n_rows, sets.n_rows)).ids.size == 0
    counted = PrivateVocabulary(noise_multiplier=2.0, options={"invalid": "drop"})
    assert counted.fit_transform(bad, groups=labels)[len(good) : -1].nnz == 0


def test_persons_own_their_texts():
    documents, people = [], []
    for person in range(300):
        documents += ["hello world", "hello"]
        people += [person] * 2
    documents += ["mine"] * 5000
    people += [1000] * 5000
    kept = PrivateVocabulary(epsilon=5.0, n_records=301, delta=1e-5).fit(documents, groups=people)
    assert set(kept.vocabulary_) == {"hello", "world"}
    assert kept.privacy_.unit == "person" and "one person of 301" in str(kept.privacy_)


def test_nothing_but_public_numbers_is_enough_for_an_empty_vocabulary():
    words = PrivateVocabulary(n_records=100)
    with pytest.warns(UserWarning, match="the vocabulary is empty"):
        words.fit([])
    assert words.vocabulary_ == {} and words.privacy_.epsilon <= 1.0 and len(words.weights_) == 0
    with pytest.raises(ValueError, match="the vocabulary is empty: expected one"):
        words.transform(["a"])


def test_rounds_that_move_weight_find_more():
    rng = np.random.default_rng(5)
    shares = np.minimum(1.0, 8 / np.arange(1, 2001))
    rows = TokenRows(str.split)
    documents = [" ".join(map(str, np.flatnonzero(rng.random(2000) < shares))) for _ in range(3000)]
    rows.extend(documents)
    make = partial(PrivateVocabulary, epsilon=1.0, delta=1e-6)
    one, four = (len(make(n_rounds=n).fit(rows).vocabulary_) for n in (1, 4))
    assert four > 1.2 * one > 20


def test_a_run_with_a_function_as_analyzer_resumes_elsewhere(tmp_path):
    """Each process has its own function of the name; that the tokens are the same is seen by themselves."""

    def purchased(split):
        return PrivateVocabulary(noise_multiplier=2.0, n_rounds=3, random_state=0, analyzer=lambda text: split(text))

    with stopping_after(1):
        purchased(str.split).fit(texts(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="holds a run on other texts"):
        purchased(lambda text: text.split("1")).fit(texts(), checkpoint=tmp_path, resume=True)
    assert purchased(lambda text: text.split(" ")).fit(texts(), checkpoint=tmp_path, resume=True).n_steps_ == 3
