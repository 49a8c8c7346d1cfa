"""Tables and topics."""

import numpy as np
import pytest

from vips_fast import report

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


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: report.top_words(TOPICS, WORDS[:3]), "vocabulary has 3 words; expected 4"),
        (lambda: report.top_words(TOPICS, WORDS, 0), "n_words is 0"),
        (lambda: report.top_words(TOPICS[0]), "expected \\(K, V\\)"),
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
