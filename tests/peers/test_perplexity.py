"""The yardsticks of topic models."""

import numpy as np
import pytest
from peers import perplexity
from scipy import sparse

from vips_fast.data import Corpus


def test_unigram_perplexity():
    rng = np.random.default_rng(1)
    train, test = rng.integers(0, 5, (2, 8, 4))
    p = (train.sum(0) + 1.0) / (train.sum() + 4)
    for wrap in (np.asarray, sparse.csr_array, Corpus):
        # Sums of a few dozen doubles in another order.
        got = perplexity.unigram_perplexity(wrap(train), wrap(test))
        assert got == pytest.approx(np.exp(-(test * np.log(p)).sum() / test.sum()), rel=1e-12)
    # Uniform words over V of them have perplexity V.
    assert perplexity.unigram_perplexity(np.ones((3, 4), int), test) == pytest.approx(4, rel=1e-12)


def test_split_words():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 40, (50, 20))
    given, asked = perplexity.split_words(X, 0)
    assert np.array_equal(given.toarray() + asked.toarray(), X)
    assert given.data.min() > 0 and asked.data.min() > 0
    # A fair coin for each of n words: five standard deviations, sqrt(n)/2 each.
    assert abs(given.sum() - X.sum() / 2) < 5 * np.sqrt(X.sum()) / 2
    assert np.array_equal(perplexity.split_words(X, 0)[0].toarray(), given.toarray())


def test_predictive_perplexity():
    rng = np.random.default_rng(3)
    proportions = rng.dirichlet(np.ones(3), 50)
    components = rng.gamma(1.0, 1.0, (3, 20)) + 0.01
    asked = rng.integers(0, 3, (50, 20))
    beta = components / components.sum(1, keepdims=True)
    expected = np.exp(-(asked * np.log(proportions @ beta)).sum() / asked.sum())
    got = perplexity.predictive_perplexity(proportions, components, asked)
    # Sums of a thousand doubles in another order.
    assert got == pytest.approx(expected, rel=1e-12)
    one_topic = perplexity.predictive_perplexity(np.ones((50, 1)), asked.sum(0)[None] + 1.0, asked)
    assert one_topic == pytest.approx(perplexity.unigram_perplexity(asked, asked), rel=1e-12)
