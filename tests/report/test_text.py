"""Tables, topics and the yardsticks."""

import numpy as np
import pytest
from scipy import sparse

from vips_fast import report
from vips_fast.data import Corpus

WORDS = ("red", "green", "blue", "pink")
TOPICS = np.array([[5.0, 1.0, 3.0, 0.1], [0.1, 0.2, 0.3, 9.0]])


def test_top_words():
    assert report.top_words(TOPICS, WORDS, 2) == [["red", "blue"], ["pink", "blue"]]
    assert report.top_words(TOPICS, n_words=9)[1] == ["#3", "#2", "#1", "#0"]
    assert report.top_words([[1, 1, 1, 1]], WORDS) == [list(WORDS)]
    scores = np.random.default_rng(0).integers(-2, 3, (20, 40)).astype(float)  # many equal ones
    for n in (1, 7, 40):
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        assert report.top_words(scores, list(range(40)), n) == expected.tolist()


def test_topics_table():
    assert report.topics_table(TOPICS, WORDS, 2) == "1  red blue\n2  pink blue"
    lines = report.topics_table(np.ones((2, 30)), ["longish"] * 30, 30, width=40).split("\n")
    assert all(len(line) <= 40 for line in lines)


def test_table():
    assert report.table([("a", 1), ("bb", 22)]) == "a    1\nbb  22"
    assert report.table([("a", 1)], ("name", "n")) == "name  n\n----  -\na     1"


def test_unigram_perplexity():
    rng = np.random.default_rng(1)
    train, test = rng.integers(0, 5, (2, 8, 4))
    p = (train.sum(0) + 1.0) / (train.sum() + 4)
    for wrap in (np.asarray, sparse.csr_array, Corpus):
        # Sums of a few dozen doubles in another order.
        got = report.unigram_perplexity(wrap(train), wrap(test))
        assert got == pytest.approx(np.exp(-(test * np.log(p)).sum() / test.sum()), rel=1e-12)
    # Uniform words over V of them have perplexity V.
    assert report.unigram_perplexity(np.ones((3, 4), int), test) == pytest.approx(4, rel=1e-12)


def test_split_words():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 40, (50, 20))
    given, asked = report.split_words(X, 0)
    assert np.array_equal(given.toarray() + asked.toarray(), X)
    assert given.data.min() > 0 and asked.data.min() > 0
    # A fair coin for each of n words: five standard deviations, sqrt(n)/2 each.
    assert abs(given.sum() - X.sum() / 2) < 5 * np.sqrt(X.sum()) / 2
    assert np.array_equal(report.split_words(X, 0)[0].toarray(), given.toarray())


def test_predictive_perplexity():
    rng = np.random.default_rng(3)
    proportions = rng.dirichlet(np.ones(3), 50)
    components = rng.gamma(1.0, 1.0, (3, 20)) + 0.01
    asked = rng.integers(0, 3, (50, 20))
    beta = components / components.sum(1, keepdims=True)
    expected = np.exp(-(asked * np.log(proportions @ beta)).sum() / asked.sum())
    got = report.predictive_perplexity(proportions, components, asked)
    # Sums of a thousand doubles in another order.
    assert got == pytest.approx(expected, rel=1e-12)
    one_topic = report.predictive_perplexity(np.ones((50, 1)), asked.sum(0)[None] + 1.0, asked)
    assert one_topic == pytest.approx(report.unigram_perplexity(asked, asked), rel=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: report.top_words(TOPICS, WORDS[:3]), "vocabulary has 3 words; expected 4"),
        (lambda: report.top_words(TOPICS, WORDS, 0), "n_words is 0"),
        (lambda: report.top_words(TOPICS[0]), "expected \\(K, V\\)"),
        (lambda: report.unigram_perplexity([[1, 2]], [[0, 0]]), "test has no words"),
        (lambda: report.unigram_perplexity([[1, 2]], [[1]]), "test has 1 columns; expected 2"),
        (lambda: report.predictive_perplexity([[1.0]], TOPICS, [[1] * 4]), "proportions have"),
        (lambda: report.predictive_perplexity([[1, 0]], TOPICS, [[0] * 4]), "no words"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_topics_are_named_by_their_own_words():
    words = ["the", "cough", "coughs", "fever", "wheel", "brake", "tyre"]
    topics = np.array([[5, 4, 3.9, 2, 0.1, 0.1, 0.1], [5, 0.1, 0.1, 0.1, 4, 3, 2]])
    names = report.topic_names(topics, words, 2)
    assert names == ("cough, fever", "wheel, brake")
    clear = np.array([[False, True, True, False, False, False, False], [False] * 7])
    assert report.topic_names(topics, words, 2, clear) == ("cough, coughs", names[1])  # never by noise, if it can be
    assert report.topic_names(np.ones((2, 3)), ["a", "b", "c"], 1) == ("a", "a (2)")
