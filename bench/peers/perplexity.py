"""Yardsticks of topic models on held-out, public documents: perplexities, and the halves of documents."""

from typing import Any

import numpy as np
from scipy import sparse

from vips_fast.data.counts import check_counts


def unigram_perplexity(train: Any, test: Any) -> float:
    """Compute held-out perplexity of a single topic: words drawn by frequency.

    The yardstick for a topic model: one that does no better has learned nothing of how words go together. Equivalent to
    ``exp(-(test.sum(0) * log(p)).sum() / test.sum())`` with
    ``p = (train.sum(0) + 1) / (train.sum() + V)``. The frequencies come from `train`, shape (D, V), without noise: the
    figure flatters the yardstick, and is not private.

    Raises ValueError if `train` or `test`, shape (E, V), a Corpus, sparse matrix or array_like, is not a matrix of
    counts, if their columns differ, or if `test` has no words.
    """
    train = _counts(train, "train")
    test = _counts(test, "test", train.shape[1])
    seen, asked = (np.bincount(X.indices, weights=X.data, minlength=X.shape[1]) for X in (train, test))
    if not asked.any():
        raise ValueError("test has no words")
    probability = seen + 1.0
    probability /= probability.sum()
    return float(np.exp(-(asked @ np.log(probability)) / asked.sum()))


def split_words(
    X: Any, random_state: int | np.random.Generator | None = 0
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Split the words of each test document at random into two halves.

    Returns ``given`` and ``asked``. The D documents are public. `X` is a Corpus, sparse matrix or array_like of shape
    (D, V), and so are the halves, CSR arrays. Every word is in one of the two, by a fair coin. Raises ValueError if `X`
    is not a matrix of counts.
    """
    X = check_counts(getattr(X, "counts", X))
    given = np.random.default_rng(random_state).binomial(X.data, 0.5).astype(X.data.dtype)

    def half(data: np.ndarray) -> sparse.csr_array:
        return check_counts(sparse.csr_array((data, X.indices, X.indptr), shape=X.shape))

    return half(given), half(X.data - given)


def predictive_perplexity(proportions: Any, components: Any, asked: Any) -> float:
    """Compute perplexity of words under each document's mixture of topics.

    With `proportions` from one half of each document and `asked` the other half (`split_words`), this is document
    completion. Unlike the bound of Eq. 32, it is comparable with a model that has no topics. Equivalent to
    ``exp(-(asked * log(proportions @ beta)).sum() / asked.sum())`` with beta the rows of `components` divided by
    their sums.

    `proportions`, shape (D, K), have rows that sum to 1, as from ``transform``. `components`, shape (K, V), are
    Dirichlet parameters of the topics, above 0. `asked`, shape (D, V), is a Corpus, sparse matrix or array_like. Raises
    ValueError if the shapes do not fit or `asked` has no words.
    """
    components = np.asarray(components, np.float64)
    beta = components / components.sum(axis=1, keepdims=True)
    asked = _counts(asked, "asked", components.shape[1])
    proportions = np.asarray(proportions, np.float64)
    if proportions.shape != (asked.shape[0], components.shape[0]):
        expected = (asked.shape[0], components.shape[0])
        raise ValueError(f"proportions have shape {proportions.shape}; expected {expected}")
    if asked.nnz == 0:
        raise ValueError("asked has no words")
    total = 0.0
    documents = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    # In pieces, since each word's mixture takes K numbers.
    for first in range(0, asked.nnz, 1 << 18):
        piece = slice(first, first + (1 << 18))
        mixture = np.einsum("ij,ij->i", proportions[documents[piece]], beta.T[asked.indices[piece]])
        total += float(asked.data[piece] @ np.log(mixture))
    return float(np.exp(-total / asked.data.sum(dtype=np.float64)))


def _counts(X: Any, name: str, n_features: int | None = None) -> sparse.csr_array:
    return check_counts(getattr(X, "counts", X), n_features, name=name)
