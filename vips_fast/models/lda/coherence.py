"""Measure topics' words: coherence, diversity, and words that intrude.

Coherence is on public documents.

Coherence asks how often a topic's first words occur together in documents. **The documents have to be public**, such as
an encyclopaedia. A figure of the private records is a release that no ledger counts. However it is rounded, it is not
covered by any statement. Whether documents are public cannot be seen; `PublicDataWarning` says it each time where the
model is private. Diversity and intruders need no documents.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ...checks import check_choice, check_number
from ...data.counts import check_counts

#: What is added to probabilities of pairs before a logarithm is taken; Röder et al. (2015) and gensim have the same.
_EPSILON = 1e-12
#: Tokens of a sliding window, by measure, in Röder et al. (2015) and gensim.
WINDOWS = {"npmi": 10, "c_v": 110}


class PublicDataWarning(UserWarning):
    """Documents are taken to be public; nothing checks that."""


def warn_of_documents(method: str) -> None:
    """Warn that a figure about documents needs public ones."""
    warnings.warn(
        f"{method}: the documents are taken to be public. A figure about private ones is a release of its own, which "
        "no ledger counts and no statement covers",
        PublicDataWarning,
        stacklevel=3,
    )


def first_words(components: np.ndarray, n_words: int) -> np.ndarray:
    """Find the columns of each topic's most probable words, (K, n_words) int64.

    Words of equal weight are in the order of their columns. Raises ValueError unless 2 <= n_words <= V.
    """
    check_number("n_words", n_words, 2, components.shape[1], integer=True)
    return np.argsort(-components, axis=1, kind="stable")[:, :n_words]


def occurrences(X: Any, words: np.ndarray) -> tuple[np.ndarray, int]:
    """Count the documents that have two words together.

    Documents are rows of counts (D, V); the second result is D.

    The first is (n, n) int64 for n columns ``words``, with the words' own documents in its diagonal.
    """
    X = check_counts(getattr(X, "counts", X), name="X_public")
    there = sparse.csr_array(X[:, words] > 0).astype(np.int64)
    return (there.T @ there).toarray(), X.shape[0]


def window_occurrences(
    texts: Iterable[Sequence[str]], vocabulary: Sequence[str], words: np.ndarray, window: int
) -> tuple[np.ndarray, int]:
    """Count as `occurrences`, in windows of ``window`` tokens.

    The windows slide over texts one by one; a shorter text is one window.
    """
    places = {vocabulary[column]: k for k, column in enumerate(words.tolist())}
    together, total = np.zeros((len(words), len(words)), np.int64), 0
    for text in texts:
        if isinstance(text, str):
            raise ValueError("X_public: found a text where its tokens are expected; split it first")
        n = max(1, len(text) - window + 1)
        total += n
        at: dict[int, list[int]] = {}
        for place, token in enumerate(text):
            if token in places:
                at.setdefault(places[token], []).append(place)
        if not at:
            continue
        there = np.zeros((len(at), n), np.int64)
        for row, where in zip(there, at.values(), strict=True):
            for place in where:
                row[max(0, place - window + 1) : place + 1] = 1
        found = np.fromiter(at, np.int64)
        together[np.ix_(found, found)] += there @ there.T
    return together, total


def npmi(together: np.ndarray, total: int) -> np.ndarray:
    """Compute normalized pointwise mutual information of words, from `occurrences`.

    It is (n, n) float64 in about [-1, 1].

    log((p_ij + e) / (p_i p_j)) / -log(p_ij + e) with e = 1e-12 (Bouma 2009; Röder et al. 2015). So words which never
    occur together have log(p_i p_j) / log(e) - 1 and not -1. It is 0 for a pair with a word that never occurs, since
    nothing is known of it.
    """
    p = together / total
    single = p.diagonal()
    seen = np.outer(single > 0, single > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log((p + _EPSILON) / np.outer(single, single)) / -np.log(p + _EPSILON)
    return np.where(seen, value, 0.0)


def topic_coherence(similarity: np.ndarray, topics: np.ndarray, measure: str) -> np.ndarray:
    """Compute each topic's coherence, (K,) float64, from words' `npmi`.

    ``topics``, (K, n), are places in it.

    "npmi" is the mean over pairs of different words (Lau et al. 2014). "c_v" is the mean cosine between each word's
    vector of similarities to the topic's words, and the sum of these vectors (Röder et al. 2015: one-set segmentation,
    indirect cosine). It is 0 for a word that never occurs.

    The values are gensim's if each word comes only once in a window, as in documents that are windows themselves. Else
    gensim 4 forgets a word as soon as one of its places leaves the window, though another is still in it.
    """
    out = np.empty(len(topics))
    for k, words in enumerate(topics):
        own = similarity[np.ix_(words, words)]
        if measure == "npmi":
            out[k] = own[~np.eye(len(words), dtype=bool)].mean()
            continue
        whole = own.sum(axis=0)
        lengths = np.sqrt((own**2).sum(axis=1)) * np.sqrt((whole**2).sum())
        out[k] = np.divide((own * whole).sum(axis=1), lengths, out=np.zeros(len(words)), where=lengths > 0).mean()
    return out


def coherence(
    components: np.ndarray,
    X_public: Any,
    measure: str = "npmi",
    n_words: int = 10,
    window: int | None = None,
    vocabulary: Sequence[str] | None = None,
) -> np.ndarray:
    """Coherence of topics, weights of any scale (K, V): see `LatentDirichletAllocation.coherence`."""
    check_choice("measure", measure, tuple(WINDOWS))
    check_number("window", window, 2, 2**31, integer=True, optional=True)
    topics = first_words(components, n_words)
    words, places = np.unique(topics, return_inverse=True)
    if vocabulary is None:
        if window is not None:
            raise ValueError(f"window={window}: expected None for counts, which have no order; else give vocabulary")
        if (n := np.shape(getattr(X_public, "counts", X_public))[-1]) != components.shape[1]:
            raise ValueError(f"X_public has {n} columns; expected {components.shape[1]}, as in fit")
        together, total = occurrences(X_public, words)
    else:
        if len(vocabulary) != components.shape[1]:
            raise ValueError(f"vocabulary has {len(vocabulary)} words; expected {components.shape[1]}")
        together, total = window_occurrences(X_public, vocabulary, words, window or WINDOWS[measure])
    if total == 0:
        raise ValueError("X_public has no documents; expected at least one")
    return topic_coherence(npmi(together, total), places.reshape(topics.shape), measure)


def topic_diversity(components: np.ndarray, n_words: int = 25) -> float:
    """Compute the share of different words in topics, in (0, 1].

    It is among their first ``n_words``.
    """
    topics = first_words(components, min(n_words, components.shape[1]) if n_words > 1 else n_words)
    return len(np.unique(topics)) / topics.size


def word_intrusion(
    components: np.ndarray, n_words: int = 5, random_state: int | np.random.Generator | None = 0
) -> list[tuple[list[int], int]]:
    """Shuffle each topic's first words with an intruder, and give its place.

    Shown to people, they measure topics: the more find the intruder, the better (Chang et al. 2009). The intruder is
    one of the first words of other topics. It is in the less probable half of this topic, or else the least probable of
    them. Columns of words; raises ValueError for fewer than two topics.
    """
    if len(components) < 2:
        raise ValueError(f"components: {len(components)} topic; expected at least 2 for intruders")
    rng, first = np.random.default_rng(random_state), first_words(components, n_words)
    lists = []
    for k, own in enumerate(first):
        others = np.setdiff1d(np.delete(first, k, axis=0), own)
        if not len(others):
            # Topics of the same words: any other word, if there is one.
            others = np.setdiff1d(np.arange(components.shape[1]), own)
        if not len(others):
            raise ValueError(f"n_words={n_words}: expected fewer than the {components.shape[1]} words of the model")
        unlikely = others[components[k, others] <= np.median(components[k])]
        choices = unlikely if len(unlikely) else others[[components[k, others].argmin()]]
        words = [*own.tolist(), int(rng.choice(choices))]
        order = rng.permutation(len(words))
        lists.append(([words[i] for i in order], int(np.flatnonzero(order == len(words) - 1)[0])))
    return lists
