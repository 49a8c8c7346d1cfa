"""The forecast is a function of public numbers.

It predicts the result of a fit.
"""

import logging
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.engine.budget import Budget
from vips_fast.engine.gain import FoundGain
from vips_fast.engine.measured import measured_gain
from vips_fast.models.lda import HopelessWarning, LdaOptions, forecast
from vips_fast.report import predictive_perplexity, split_words, unigram_perplexity

ROOT = Path(__file__).resolve().parents[2]
V, K, N = 300, 5, 40
PUBLIC = dict(epsilon=1.0, delta=1e-6)


def corpus(n, seed=0, n_words=V):
    """Documents of five topics."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(7).dirichlet(np.full(n_words, 0.05), size=K)
    return sp.csr_array(rng.poisson(N * rng.dirichlet(np.full(K, 0.2), size=n) @ topics).astype(np.int32))


def gain(model, train, test):
    given, asked = split_words(test, 0)
    reached = predictive_perplexity(model.transform(given), model.components_, asked)
    return 1 - reached / unigram_perplexity(train, asked)


def expected(n=20_000, words=5000, topics=10, **change):
    return plan(n, words, topics, **{**PUBLIC, "doc_length": 100, **change})


def test_distinct_words_decide_and_not_the_length():
    for m in (10, 40, 150):
        found = {expected(doc_length=length, distinct_words=m).signal_to_noise for length in (500, 2000, 10_000)}
        assert max(found) - min(found) < 1e-9
    at = [expected(distinct_words=m).expected_gain for m in (5, 20, 80)]
    assert at[0] < at[1] < at[2]
    # The default suits a text of that length, and no document has more words than there are.
    assert expected().expected_gain == expected(distinct_words=100**0.9).expected_gain
    assert expected(words=20, distinct_words=20) == expected(words=20, distinct_words=20)
    assert expected(words=20, distinct_words=80).expected_gain == expected(words=20, distinct_words=20).expected_gain
    # Brought to fewer words than it has, a document is not clipped, and its further words add nothing.
    few = [expected(doc_length=20, distinct_words=m).signal_to_noise for m in (55, 56, 80)]
    assert few[0] < few[1] == few[2]


def test_more_of_what_helps_is_expected_to_help():
    start = expected()
    for better in (dict(n=60_000), dict(epsilon=3.0), dict(words=1500), dict(delta=1e-4)):
        assert expected(**better).expected_gain > start.expected_gain, better
    assert expected(n=10**7, topics=50).expected_gain > expected(n=10**7, topics=5).expected_gain > 0.2
    # Of topic numbers that start alike (`vips_fast.models.lda.start`), so that the noise is the same.
    few, many = expected(topics=8), expected(topics=16)
    assert few.readable_words == pytest.approx(2 * many.readable_words, rel=1e-9)
    most = 1 - 2**-forecast.CEILING
    assert plan(100, 10, 2, noise_multiplier=0.0).expected_gain == pytest.approx(most)
    assert expected(n=10**7, topics=1).gain_high < 0.1 and expected(n=200, topics=1).hopeless
    assert expected(n=10**8).readable_words <= 5000


@pytest.mark.parametrize("n", [300, 5000, 30_000])
def test_the_advice_would_be_enough(n):
    """The advised number of records has the advised gain."""
    said = expected(n, noise_multiplier=20.0, batch_size=n, n_steps=20, learning_decay=0.7)
    goal = 0.1 if said.expected_gain < 0.08 else said.expected_gain + 0.05
    signal = said.signal_to_noise * 10
    times = forecast.needed(signal, goal, 5000, 10)
    assert forecast.nats(signal * times, 5000, 10) == pytest.approx(-math.log1p(-goal))
    assert f"a gain of {goal:.0%} takes about {times:.2g} times the records" in said.advice()
    assert (
        math.isinf(forecast.needed(signal, 0.9, 5000, 10))
        and "more topics than 2;" in expected(10**8, topics=2).advice()
    )


def test_a_purchase_that_finds_few_words_is_hopeless():
    """Before anything is spent, with the remedies in order."""
    few, enough = (plan(n, None, None, epsilon=2.0, delta=1e-6) for n in (821, 6652))
    assert few.hopeless and "too few for topics" in few.warning() and few.run_forecast().warning is HopelessWarning
    remedies = ("--public-prior", "--vocab public:en", "more persons", "rows", "epsilon")
    assert sorted(remedies, key=few.warning().index) == [*remedies]
    assert not enough.hopeless and 200 < enough.vocabulary.words < 800 and 0.05 < enough.expected_gain < 0.25
    assert enough.run_forecast().warning is None


def test_words_to_be_purchased_are_expected_to_tell_more():
    case = dict(distinct_words=8.0, clip=0.05, noise=30.0)
    listed, bought = (forecast.forecast(5000, 200, 9, purchased=known, **case) for known in (False, True))
    assert bought.signal == listed.signal
    nats = (-math.log1p(-one.expected_gain) for one in (bought, listed))
    assert math.isclose(next(nats) - next(nats), forecast.PURCHASED)


def test_the_interval_holds_the_forecast_and_decides():
    for n in (100, 1000, 10_000, 100_000, 10**6):
        said = expected(n)
        assert said.gain_low < said.expected_gain < said.gain_high < 1
        assert said.hopeless == (said.gain_high < 0)
        assert (" better predicted than" in said.forecast()) == (said.gain_low > 0)
    assert expected(10**6).gain_low > 0.1 and expected(100).hopeless and not expected(10_000).hopeless


def test_the_constants_are_those_of_the_stored_runs(monkeypatch):
    """The page's figures of each source are those of stored runs.

    Constants were fitted on the others.
    """
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import forecast as bench

    runs = bench.Runs()
    fitted, used = (runs.expected(c) for c in (runs.constants(runs.gain > -np.inf), forecast.CONSTANTS))
    assert np.abs(fitted - used)[used > -0.3].max() < 0.03
    low, _, high = bench.left_out(runs)
    kept, better, refused = high >= forecast.HOPELESS, low > 0, high < forecast.HOPELESS
    assert np.mean((low <= runs.gain)[kept] & (runs.gain <= high)[kept]) >= 0.9
    assert better.sum() >= 15 and not (better & (runs.gain < -0.02)).any()
    assert refused.sum() >= 10 and np.mean(runs.gain[refused] <= 0) >= 0.95


def test_lines():
    assert "the topics will be noise" in expected(199).forecast() and expected(199).hopeless
    uncertain, worse = forecast.describe(0.05, -0.09, 0.21, 3), forecast.describe(-0.9, -3.0, 0.04, 0.2)
    assert "uncertain, a gain over word frequencies between -9% and 21% (about 5%);" in uncertain
    assert "over word frequencies between -100% and 4%; no word of a topic" in worse
    better = "held-out words about 20% (8% to 31%) better predicted than by word frequencies"
    assert better in forecast.describe(0.2, 0.08, 0.31, 9)
    assert forecast.describe(0.2, 0.1, 0.3, 234.0).endswith("about 230 words of a topic readable")


def test_the_verdict_takes_off_what_noisy_word_frequencies_cost():
    """For few documents the run's own word frequencies are bad.

    The topics are better than these.
    """
    found, losses = FoundGain(0.1, 0.08, 0.12), (8.0, 1.0, 0.1, 0.0)
    gains = [forecast.over_frequencies(found, loss) for loss in losses]
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


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "7"])
def test_bad_numbers_are_named(value):
    with pytest.raises(ValueError, match="distinct_words"):
        expected(distinct_words=value)
    with pytest.raises(ValueError, match="distinct_words"):
        LatentDirichletAllocation(2, options=LdaOptions(distinct_words=value)).fit(corpus(20))


def fitted(X, record, **change):
    """Return a fit with a known key, and its message.

    So it is always the same; the message is a warning or a line.
    """
    model = LatentDirichletAllocation(K, **{"doc_length": N, "random_state": 0, **PUBLIC, **change})
    record.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_unsafe(test_key=b"f" * 32).fit(X)
    said = [str(one.message) for one in caught if one.category is HopelessWarning]
    return model, said, [one.getMessage() for one in record.records if one.getMessage().startswith("forecast: ")]


def test_what_is_said_comes_out(caplog):
    """The issue's 199 documents, and enough of them."""
    caplog.set_level(logging.INFO, "vips_fast")
    test = corpus(300, seed=5)
    few, many = corpus(199), corpus(4000)
    model, warned, line = fitted(few, caplog)
    assert gain(model, few, test) < 0 and not line and len(warned) == 1 and "will be noise" in warned[0]
    more = dict(epsilon=2.0)
    model, warned, line = fitted(many, caplog, **more)
    planned = LatentDirichletAllocation(K, doc_length=N, **PUBLIC | more).plan(4000, V)
    assert line == [planned.forecast()] and not warned
    assert planned.expected_gain > 0.05 and gain(model, many, test) > 0.1
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
