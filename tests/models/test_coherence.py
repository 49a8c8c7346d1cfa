"""Coherence on public documents, compared with gensim.

Diversity, intruders and the input of pyLDAvis.
"""

import itertools
import warnings

import numpy as np
import pytest
from cases import CASES

from vips_fast import LatentDirichletAllocation
from vips_fast.data import Corpus
from vips_fast.models.lda import coherence as measures
from vips_fast.models.lda.coherence import PublicDataWarning, coherence, topic_diversity, word_intrusion

WORDS = ("red", "green", "blue", "pink", "grey", "teal", "gold", "lime")
TEXTS = [
    text.split()
    for text in (
        "red green blue",
        "green blue red gold",
        "pink grey teal",
        "teal grey lime",
        "red pink",
        "blue gold green teal",
        "lime",
        "grey pink teal gold red",
        "blue green",
        "",
    )
]
FIRST = [["red", "green", "blue"], ["teal", "grey", "pink"], ["gold", "lime", "red"]]


def topics():
    """Weights whose first three words are FIRST's, in that order."""
    weights = np.full((3, 8), 0.01)
    for row, words in zip(weights, FIRST):
        row[[WORDS.index(word) for word in words]] = 3, 2, 1
    return weights


def counts(texts=TEXTS):
    return np.array([[text.count(word) for word in WORDS] for text in texts])


#: CoherenceModel(...).get_coherence_per_topic() of gensim 4.4.0 for these texts and topics, by measure and window.
GENSIM = {
    ("c_v", 110): [0.8228647767699556, 0.9330210825629573, 0.2950715733066905],
    ("npmi", 10): [0.42576458923965294, 0.524863512369585, -0.49645876586550824],
    ("c_v", 2): [0.6123368782685122, 0.7416289135914879, 0.2753908560997464],
    ("npmi", 3): [0.3462596437335919, 0.44958043998407593, -0.5754615215270783],
}


@pytest.mark.parametrize("measure, window", GENSIM)
def test_figures_are_gensims(measure, window):
    found = coherence(topics(), TEXTS, measure, 3, window, WORDS)
    np.testing.assert_allclose(found, GENSIM[measure, window], rtol=1e-12)
    if window > 5:  # a document is one window, whether its order is known or not
        np.testing.assert_allclose(coherence(topics(), counts(), measure, 3), found, rtol=1e-12)
        np.testing.assert_array_equal(coherence(topics(), TEXTS, measure, 3, None, WORDS), found)


def test_windows_are_those_of_the_definition():
    """Words that come again and again, counted window by window."""
    rng = np.random.default_rng(0)
    texts = [rng.choice(WORDS, n, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]).tolist() for n in (0, 1, 3, 7, 20, 41)]
    words = np.array([0, 2, 5, 6])
    for window in (2, 5, 30):
        windows = [text[i : i + window] for text in texts for i in range(max(1, len(text) - window + 1))]
        together, total = measures.window_occurrences(texts, WORDS, words, window)
        assert total == len(windows)
        for i, j in itertools.product(range(4), repeat=2):
            expected = sum(WORDS[words[i]] in one and WORDS[words[j]] in one for one in windows)
            assert together[i, j] == expected


def test_words_that_never_occur_tell_nothing():
    weights = np.array([[5.0, 4, 3, 0, 0, 0, 0, 0], [0, 0, 0, 5, 4, 3, 0, 0]])
    nothing = counts([["red"], ["green"], ["lime"]])
    for measure in ("npmi", "c_v"):
        found = coherence(weights, nothing, measure, 3)
        assert np.isfinite(found).all() and found[1] == 0
    # Of three words two, each in a third, never occur together, and one not at all: pairs of that, 0 and 0.
    apart = np.log(1 / 9) / np.log(1e-12) - 1
    assert coherence(weights, nothing, "npmi", 3)[0] == pytest.approx(apart / 3, rel=1e-9)


def test_of_a_model():
    make, data = CASES["lda"]
    model, X = make().fit(*data()), data(seed=5)[0]
    for form in (X, X.toarray(), Corpus(X, [f"w{k}" for k in range(12)])):
        with pytest.warns(PublicDataWarning, match="taken to be public.*no statement covers"):
            found = model.coherence(form, "c_v", 4)
        np.testing.assert_array_equal(found, coherence(model.components_, X, "c_v", 4))
    assert found.shape == (3,) and model.topic_diversity(4) == topic_diversity(model.components_, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A model that is not private has nothing to be warned of.
        make(noise_multiplier=None, private=False).fit(*data()).coherence(X)


def test_clear_topics_are_more_coherent_than_mixed_ones():
    rng = np.random.default_rng(0)
    beta = np.kron(np.eye(4), np.full(10, 0.1))
    X = np.stack([rng.multinomial(8, beta[d % 4]) for d in range(400)])
    mixed = beta[:, rng.permutation(40)]
    for measure in ("npmi", "c_v"):
        assert coherence(beta, X, measure).min() > coherence(mixed, X, measure).max() + 0.1


def test_diversity():
    assert topic_diversity(topics(), 3) == 8 / 9 and topic_diversity(np.ones((4, 8)), 2) == 1 / 4
    assert topic_diversity(np.eye(3, 9) + 0.1, 9) == 1 / 3


def test_intruders_stand_out():
    weights = np.kron(np.eye(4), np.full(10, 1.0)) + np.linspace(0.01, 0.02, 40)
    lists = word_intrusion(weights, 5, random_state=3)
    places = set()
    for k, (words, place) in enumerate(lists):
        own = [word for i, word in enumerate(words) if i != place]
        assert len(words) == 6 == len(set(words)) and sorted(own) == sorted(np.argsort(-weights[k], kind="stable")[:5])
        assert words[place] // 10 != k and words[place] in np.argsort(-weights, axis=1, kind="stable")[:, :5]
        assert weights[k, words[place]] <= np.median(weights[k])
        places.add(place)
    assert len(places) > 1 and lists == word_intrusion(weights, 5, random_state=3)
    same = word_intrusion(np.ones((2, 5)), 3)
    assert all(words[place] >= 3 for words, place in same)


def test_what_pyldavis_takes():
    make, data = CASES["lda"]
    model, X = make().fit(*data()), data(n=50, seed=5)[0].tolil()
    X[7] = 0
    with pytest.warns(PublicDataWarning):
        given = model.to_pyldavis(X.tocsr(), [f"w{k}" for k in range(12)])
    K, V, D = 3, 12, int((X.sum(axis=1) > 0).sum())
    assert given["topic_term_dists"].shape == (K, V) and given["doc_topic_dists"].shape == (D, K) and D < 50
    assert given["doc_lengths"].shape == (D,) and given["term_frequency"].shape == (V,) and len(given["vocab"]) == V
    for name in ("topic_term_dists", "doc_topic_dists"):
        np.testing.assert_allclose(given[name].sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(given["term_frequency"], model.components_.sum(axis=0))
    # Measures of only the released topics do not depend on the documents.
    with pytest.warns(PublicDataWarning):
        other = model.to_pyldavis(data(n=9, seed=6)[0])
    for name in ("topic_term_dists", "term_frequency"):
        np.testing.assert_array_equal(other[name], given[name])
    assert other["vocab"][:2] == ["#0", "#1"]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: coherence(topics(), counts(), "umass"), "measure='umass': expected one of 'npmi', 'c_v'"),
        (lambda: coherence(topics(), counts(), n_words=1), "n_words=1: expected"),
        (lambda: coherence(topics(), counts(), n_words=9), "n_words=9: expected"),
        (lambda: coherence(topics(), counts()[:, 1:], n_words=3), "X_public has 7 columns; expected 8"),
        (lambda: coherence(topics(), counts()[:0], n_words=3), "X_public"),
        (lambda: coherence(topics(), counts() - 9, n_words=3), "X_public"),
        (lambda: coherence(topics(), counts(), n_words=3, window=5), "window=5: expected None for counts"),
        (lambda: coherence(topics(), TEXTS, n_words=3, vocabulary=WORDS[1:]), "vocabulary has 7 words; expected 8"),
        (lambda: coherence(topics(), [], n_words=3, vocabulary=WORDS), "no documents"),
        (lambda: coherence(topics(), ["red green"], n_words=3, vocabulary=WORDS), "its tokens are expected"),
        (lambda: coherence(topics(), TEXTS, n_words=3, window=1, vocabulary=WORDS), "window=1: expected"),
        (lambda: word_intrusion(np.ones((1, 5))), "1 topic; expected at least 2"),
        (lambda: word_intrusion(np.ones((2, 3)), 3), "expected fewer than the 3 words"),
        (lambda: LatentDirichletAllocation().coherence(counts()), "not fitted"),
        (lambda: LatentDirichletAllocation().to_pyldavis(counts()), "not fitted"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
