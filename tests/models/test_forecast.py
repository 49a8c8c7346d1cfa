"""The forecast is a function of public numbers. It predicts the result of a fit."""

import logging
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from peers.perplexity import predictive_perplexity, split_words, unigram_perplexity

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.engine.budget import Budget
from vips_fast.engine.gain import FoundGain, measured_gain
from vips_fast.models.lda import HopelessWarning, LdaOptions
from vips_fast.models.lda.estimator import over_frequencies

V, K, N = 300, 5, 40
PUBLIC = dict(epsilon=1.0, delta=1e-6)


def corpus(n, seed=0, n_words=V):
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(7).dirichlet(np.full(n_words, 0.05), size=K)
    return sp.csr_array(rng.poisson(N * rng.dirichlet(np.full(K, 0.2), size=n) @ topics).astype(np.int32))


def gain(model, train, test):
    given, asked = split_words(test, 0)
    reached = predictive_perplexity(model.transform(given), model.components_, asked)
    return 1 - reached / unigram_perplexity(train, asked)


def expected(n=20_000, words=5000, topics=10, **change):
    numerics = {name: change.pop(name) for name in ("distinct_words", "learning_decay") if name in change}
    return plan(n, words, topics, **{**PUBLIC, "doc_length": 100, "options": LdaOptions(**numerics), **change})


def test_distinct_words_decide_and_not_the_length():
    for m in (10, 40, 150):
        found = {expected(doc_length=length, distinct_words=m).signal_to_noise for length in (500, 2000, 10_000)}
        assert max(found) - min(found) < 1e-9
    at = [expected(distinct_words=m).readable_words for m in (5, 20, 80)]
    assert at[0] < at[1] < at[2]
    # The default suits a text of that length, and no document has more words than there are.
    assert expected().readable_words == expected(distinct_words=100**0.9).readable_words
    assert expected(words=20, distinct_words=80).readable_words == expected(words=20, distinct_words=20).readable_words
    # Brought to fewer words than it has, a document is not clipped, and its further words add nothing.
    few = [expected(doc_length=20, distinct_words=m).signal_to_noise for m in (55, 56, 80)]
    assert few[0] < few[1] == few[2]


def test_more_of_what_helps_is_expected_to_help():
    start = expected()
    for better in (dict(n=60_000), dict(epsilon=3.0), dict(delta=1e-4)):
        assert expected(**better).readable_words > start.readable_words, better
    # Of topic numbers that start alike (`vips_fast.models.lda.planning`), so that the noise is the same.
    few, many = expected(topics=8), expected(topics=16)
    assert few.readable_words == pytest.approx(2 * many.readable_words, rel=1e-9) and few.told == many.told
    assert expected(n=10**8).readable_words == 5000 and expected(n=10**8).told == 1
    assert plan(100, 10, 2, noise_multiplier=0.0).readable_words == 10


@pytest.mark.parametrize("words", [50, 5000, 100_000])
def test_as_many_words_are_clear_as_in_a_corpus_of_zipfs_law(words):
    said = expected(words=words, noise_multiplier=20.0, n_steps=20, learning_decay=0.7)
    shares = 1.0 / np.arange(1, words + 1)
    shares /= shares.sum()
    clear = said.signal_to_noise * words * shares > 2.0
    assert said.readable_words == pytest.approx(clear.sum(), rel=0.02)
    clear = said.signal_to_noise * said.n_components * words * shares > 2.0
    assert said.told == pytest.approx(shares[clear].sum(), rel=0.02)


@pytest.mark.parametrize("n, hopeless", [(100, True), (199, True), (500, True), (1000, False), (30_000, False)])
def test_the_line_says_what_helps_while_words_are_few(n, hopeless):
    said = expected(n, noise_multiplier=20.0, batch_size=n, n_steps=20, learning_decay=0.7)
    assert said.hopeless == hopeless == ("mostly noise" in said.forecast())
    assert said.run_forecast().warning is (HopelessWarning if hopeless else None)
    if "What helps" not in said.forecast():
        assert said.readable_words >= 10
        return
    times = float(re.search(r"What helps: ([\d,.]+) times the records", said.forecast())[1].replace(",", ""))
    helped = expected(
        round(n * times), noise_multiplier=20.0, batch_size=round(n * times), n_steps=20, learning_decay=0.7
    )
    assert helped.readable_words == pytest.approx(10, rel=0.05)


def test_a_purchase_that_finds_few_words_is_hopeless():
    few, enough = (plan(n, None, None, epsilon=2.0, delta=1e-6) for n in (821, 6652))
    assert few.hopeless and "too few for topics" in few.forecast() and few.run_forecast().warning is HopelessWarning
    remedies = ("public_prior=", "vocab=", "more persons", "rows", "epsilon")
    assert sorted(remedies, key=few.forecast().index) == [*remedies]
    assert not enough.hopeless and 200 < enough.vocabulary.words < 800 and "purchased ones" in enough.forecast()
    assert enough.run_forecast().warning is None


def test_the_verdict_takes_off_what_noisy_word_frequencies_cost():
    """For few documents the run's own word frequencies are bad. The topics are better than these."""
    found, losses = FoundGain(0.1, 0.08, 0.12), (8.0, 1.0, 0.1, 0.0)
    gains = [over_frequencies(found, loss) for loss in losses]
    assert all(one.low <= one.gain <= one.high for one in gains)
    assert [one.gain for one in gains] == sorted(one.gain for one in gains) and gains[0].gain < -0.5
    assert gains[-1].gain == pytest.approx(0.1) and gains[-1].low < 0.08 and gains[-1].high > 0.12
    model = LatentDirichletAllocation(K, doc_length=N, random_state=0, **PUBLIC).set_unsafe(test_key=b"f" * 32)
    X, test = corpus(300), corpus(300, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    exact = np.asarray(X.sum(axis=0), float).ravel() + 1e-9
    own = model.components_.sum(axis=0)
    true_loss = float(exact @ np.log((exact / exact.sum()) / (own / own.sum()))) / exact.sum()
    assert model._restored().frequency_loss() == pytest.approx(true_loss, rel=0.4)
    over_own, true = measured_gain(model._fitted().state), gain(model, X, test)
    assert model.verdict_.found == model.found_gain_
    assert model.found_gain_.gain < over_own.gain and abs(model.found_gain_.gain - true) < abs(over_own.gain - true)


def fitted(X, record, **change):
    """Return a fit with a known key, and its message. So it is always the same; the message is a warning or a line."""
    model = LatentDirichletAllocation(K, **{"doc_length": N, "random_state": 0, **PUBLIC, **change})
    record.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_unsafe(test_key=b"f" * 32).fit(X)
    said = [str(one.message) for one in caught if one.category is HopelessWarning]
    return model, said, [one.getMessage() for one in record.records if one.getMessage().startswith("forecast: ")]


def test_what_is_said_comes_out(caplog):
    caplog.set_level(logging.INFO, "vips_fast")
    test = corpus(300, seed=5)
    few, many = corpus(199), corpus(4000)
    model, warned, line = fitted(few, caplog)
    assert gain(model, few, test) < 0 and not line and len(warned) == 1 and "mostly noise" in warned[0]
    more = dict(epsilon=2.0)
    model, warned, line = fitted(many, caplog, **more)
    planned = plan(4000, V, K, doc_length=N, **PUBLIC | more)
    assert line == [planned.forecast()] and not warned
    assert planned.readable_words > 10 and gain(model, many, test) > 0.1
    # The line is the same whatever the documents say.
    assert fitted(corpus(4000, seed=3)[::-1], caplog, **more)[2] == line


def test_no_forecast_where_there_is_none(caplog):
    caplog.set_level(logging.INFO, "vips_fast")
    X = corpus(150)
    free = dict(epsilon=None, delta=None)
    for change in (dict(private=False, **free), dict(noise_multiplier=0.0, **free)):
        assert fitted(X, caplog, **change)[1:] == ([], []), change
    with warnings.catch_warnings():
        warnings.simplefilter("error", HopelessWarning)
        LatentDirichletAllocation.paper(K, doc_length=N, **PUBLIC).fit(X)
        nightly = LatentDirichletAllocation(K, doc_length=N, noise_multiplier=9.0, delta=1e-6)
        nightly.partial_fit(X).partial_fit(X)


def test_a_warning_that_is_an_error_spends_nothing(tmp_path):
    budget = Budget.create(tmp_path / "b", 3, 1e-6, dataset="ward7")
    model = LatentDirichletAllocation(K, doc_length=N, n_steps=2, sampling="full", **PUBLIC)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HopelessWarning)
        with pytest.raises(HopelessWarning, match="What helps"):
            model.fit(corpus(150), budget=budget, checkpoint=tmp_path / "run")
    assert (budget.spent, budget.left) == (0, 3) and not hasattr(model, "components_")
    with pytest.warns(HopelessWarning):
        model.fit(corpus(150), budget=budget, checkpoint=tmp_path / "run")
    assert 0.9 < budget.spent <= 1.0
