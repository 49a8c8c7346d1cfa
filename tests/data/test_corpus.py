"""Corpus and split."""

import numpy as np
import pytest

from vips_fast.data import Corpus, split

COUNTS = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 7]])


def test_corpus():
    corpus = Corpus(COUNTS, ["a", "b", "c", "d"], "made up")
    assert corpus.vocabulary == ("a", "b", "c", "d")
    assert (corpus.n_documents, corpus.n_features, corpus.n_tokens) == (3, 4, 13)
    assert len(corpus) == 3
    assert repr(corpus) == "Corpus(3 documents, 4 words, made up)"
    with pytest.raises(AttributeError):
        corpus.source = "other"


def test_corpus_and_its_vocabulary():
    with pytest.raises(ValueError, match="vocabulary has 3 words; expected 4"):
        Corpus(COUNTS, ["a", "b", "c"])
    with pytest.raises(TypeError, match="vocabulary must hold strings"):
        Corpus(COUNTS, ["a", "b", "c", 4])
    with pytest.raises(ValueError, match="counts contains a negative"):
        Corpus(-COUNTS)


def numbered(n):
    return Corpus(np.arange(1, n + 1)[:, None], ("word",), "numbers")


@pytest.mark.parametrize("test_size, expected", [(0.25, 25), (7, 7), (np.int64(7), 7), (0.001, 0)])
def test_split_sizes(test_size, expected):
    if not expected:
        with pytest.raises(ValueError, match="leaves one part empty"):
            split(numbered(100), test_size)
        return
    train, test = split(numbered(100), test_size)
    assert (len(train), len(test)) == (100 - expected, expected)
    both = np.concatenate([train.counts.toarray(), test.counts.toarray()]).ravel()
    assert sorted(both) == list(range(1, 101))
    assert np.all(np.diff(test.counts.toarray().ravel()) > 0)
    assert train.vocabulary == test.vocabulary == ("word",)
    assert test.source == "numbers (test part)"


def test_split_is_random_and_repeatable():
    def chosen(seed):
        return split(numbered(100), 10, seed)[1].counts.toarray().ravel().tolist()

    assert chosen(3) == chosen(3)
    assert chosen(3) != chosen(4)


@pytest.mark.parametrize("test_size", (0, 100, 1.0, 0.0, -0.5, float("nan"), True, "half"))
def test_split_refuses(test_size):
    with pytest.raises((ValueError, TypeError), match="test_size"):
        split(numbered(100), test_size)
    with pytest.raises(TypeError, match="corpus must be a Corpus"):
        split(COUNTS, 1)
