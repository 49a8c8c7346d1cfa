"""Tokenisation."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vips_fast.data import count_texts, words_of


def by_the_rule(text):
    """onlineldavb's parse_doc_list, character by character."""
    text = re.sub(r"[\s-]+", " ", text).lower()
    return [word.encode() for word in re.sub(r"[^a-z ]", "", text).split()]


@given(st.text())
def test_words_of_any_text(text):
    assert words_of(text) == by_the_rule(text)


@given(st.text(alphabet="aZ -\n\t'\x1c\x0b.9_"))
def test_words_of_ascii(text):
    assert words_of(text) == by_the_rule(text)


def test_words_by_example():
    text = "Don't re-do the 3 \u212aELVIN\u00a0caf\u00e9s, n_samples!"
    assert b" ".join(words_of(text)) == b"dont re do the kelvin cafs nsamples"


@given(st.lists(st.lists(st.sampled_from(("red", "green", "blue", "pink")), max_size=9), min_size=1))
def test_counts_are_those_of_a_counter(documents):
    vocabulary = ("blue", "red", "green")
    corpus = count_texts((" ".join(words) for words in documents), vocabulary)
    for row, words in zip(corpus.counts.toarray(), documents, strict=True):
        assert dict(zip(vocabulary, row, strict=True)) == {
            word: Counter(words)[word] for word in vocabulary
        }


def test_vocabulary_words_are_normalised():
    corpus = count_texts(["dont dont none"], ("Don't", "dont", "None", "1987", "vice-president"))
    assert corpus.counts.toarray().tolist() == [[2, 0, 1, 0, 0]]


def test_count_texts_refuses():
    with pytest.raises(TypeError, match="texts must hold strings"):
        count_texts([b"alpha"], ("alpha",))
    with pytest.raises(ValueError, match="texts is empty"):
        count_texts([], ("alpha",))
