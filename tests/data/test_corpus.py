"""Corpus."""

import numpy as np
import pytest

from vips_fast.data import Corpus

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
