"""Word neighbors, from public sources, as a prior of the read-out.

Most entries of a released (V, K) matrix are below their noise. Topics use words of similar meaning in similar ways. So
the released weights of a word's neighbors predict the word's own weight. The neighbors are public: they come from
vectors that were learned from public text, from a thesaurus, or from the tree of a classification.
"""

import warnings
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ...checks import check_number
from ...data.counts import documents
from ...data.types import Cells, Data, Matrix, Neighbors

#: How much neighbors differ: the variance of the difference between a word's ratio and its neighbor's.
_DIFFERENCE = 1.0
#: Weights that the ratio 1 may have beside each neighbor. A topic with the ratio 1 uses a word as the corpus does. The
#: weight is chosen by how well the predictions fit; the last one ignores the neighbors.
ORDINARY = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e9], dtype=np.float32)
#: The least ratio that is predicted: a topic may use a word although it uses none of its neighbors.
_LEAST = 0.1
#: Units of vectors of length 1; the products are whole numbers below 2^24, exact in float32.
_UNITS = 2048.0
#: A given vector's largest entry, and its length before it is centered, as whole numbers.
_ENTRY, _LENGTH = 2.0**16, 2.0**20
_BLOCK = 256


def nearest_words(vectors: Cells, n_words: int = 20) -> Neighbors:
    """Find the nearest words of each word, ``word_neighbors`` of `LatentDirichletAllocation`.

    Parameters
    ----------
    vectors : float array of shape (V, d)
        Row v is the vector of the word of column v, from **public** text only, of any length; d is at most 65,536. A
        row that is not finite or is 0 is a word without a vector.
    n_words : int
        Number of neighbors k of a word, at least 1.

    Returns
    -------
    int32 array of shape (V, k)
        Columns of the words with the largest cosines of the centered vectors, in ascending order; -1 if there are
        fewer. Of two words with the same cosine, the smaller column comes first. A word without a vector has no
        neighbors and is nobody's neighbor.

    Warns, with their number, if there are words without a vector; raises ValueError for another shape or type. Every
    machine finds the same words, because the arithmetic is exact or rounds identically everywhere. The cost is V²d
    multiplications.

    >>> import numpy as np
    >>> from vips_fast import nearest_words
    >>> nearest_words(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]]), n_words=1).ravel()
    array([1, 0, 3, 2], dtype=int32)
    """
    check_number("n_words", n_words, 1, 1000, integer=True)
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or not 1 <= vectors.shape[1] <= 2**16 or vectors.dtype.kind != "f":
        raise ValueError(f"vectors: {vectors.dtype} of shape {vectors.shape}; expected floats of shape (V, d)")
    known = np.flatnonzero(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1))
    if len(known) < len(vectors):
        missing = len(vectors) - len(known)
        warnings.warn(f"{missing} of {len(vectors)} words have no vector, so they have no neighbors", stacklevel=2)
    n, k = len(known), min(n_words, len(known) - 1)
    out = np.full((len(vectors), n_words), -1, dtype=np.int32)
    if k < 1:
        return out
    unit = _unit_vectors(vectors[known].astype(np.float64))
    order = np.arange(n, 0, -1)
    for first in range(0, n, _BLOCK):
        rows = np.arange(first, min(first + _BLOCK, n))
        # Whole numbers, different for each word: the product decides, then the smaller column.
        near = (unit[rows] @ unit.T).astype(np.float64) * (n + 1) + order
        near[np.arange(len(rows)), rows] = -np.inf
        found = np.sort(np.argpartition(-near, k - 1, axis=1)[:, :k], axis=1)
        out[known[rows], :k] = known[found]
    return out


def word_vectors(X_public: Data, n_features: int = 50) -> Matrix:
    """Make word vectors from **public** documents.

    The method is latent semantic analysis (Deerwester et al. 1990). X_public is a sparse matrix or array of counts,
    (D, V): a thousand or more documents that resemble the private ones. The logarithms log(1 + count), each document
    scaled to length 1, are reduced to their ``n_features`` largest singular values, in [1, min(D, V)). Returns float64
    of shape (V, n_features) for `nearest_words`; a word that no document has gets a row of 0. Raises ValueError if
    X_public holds no counts, or n_features is out of its range.

    >>> import numpy as np
    >>> from vips_fast import nearest_words, word_vectors
    >>> documents = np.repeat([[3, 2, 0, 0], [0, 0, 1, 4]], 5, axis=0)
    >>> nearest_words(word_vectors(documents, n_features=2), n_words=1).ravel()
    array([1, 0, 3, 2], dtype=int32)
    """
    from scipy.sparse.linalg import svds  # takes a while to import

    counts = documents(X_public, name="X_public", expected_by="word_vectors")
    check_number("n_features", n_features, 1, min(counts.shape) - 1, integer=True)
    values = np.log1p(counts.data.astype(np.float64))
    logs = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    lengths = np.sqrt(logs.multiply(logs).sum(axis=1))
    logs.data /= np.repeat(np.maximum(lengths, 1e-300), np.diff(logs.indptr))
    _, values, vectors = svds(logs, k=n_features, random_state=0)
    found = np.asarray(vectors.T * values)
    found[np.bincount(counts.indices, minlength=counts.shape[1]) == 0] = 0.0
    return found


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Center vectors, scale to length 1, as whole numbers of `_UNITS`.

    They are float32. The bits do not depend on the library or the order of its sums.
    """

    def stretched(whole: np.ndarray, length: float) -> np.ndarray:
        squares = (whole**2).sum(axis=1)
        return np.asarray(
            np.rint(whole * (length / np.sqrt(np.maximum(squares, 1).astype(np.float64)))[:, None]).astype(np.int64)
        )

    entries = np.rint(vectors / np.abs(vectors).max(axis=1, keepdims=True) * _ENTRY).astype(np.int64)
    entries = stretched(entries, _LENGTH)
    entries -= np.rint(entries.sum(axis=0) / len(entries)).astype(np.int64)
    return stretched(entries, _UNITS).astype(np.float32)


def knows_most(neighbors: Neighbors | None) -> bool:
    """Tell whether most words have word neighbors."""
    return neighbors is not None and bool((np.asarray(neighbors) >= 0).any(axis=1).mean() > 0.5)


def check_neighbors(given: ArrayLike) -> None:
    """Refuse an array that holds no word neighbors.

    Raises ValueError unless it holds integers, is of shape (V, k), and each row names other columns once, or -1.
    """
    what, neighbors = "word_neighbors", np.asarray(given)
    if neighbors.dtype.kind not in "iu" or neighbors.ndim != 2 or 0 in neighbors.shape:
        raise ValueError(f"{what}: {neighbors.dtype} of shape {neighbors.shape}; expected integers of shape (V, k)")
    n_words = len(neighbors)
    if neighbors.min() < -1 or neighbors.max() >= n_words:
        raise ValueError(
            f"{what}: integers from {neighbors.min()} to {neighbors.max()}; expected columns from 0 to {n_words - 1}, "
            "or -1 for none"
        )
    ordered = np.sort(neighbors, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    own = neighbors == np.arange(n_words)[:, None]
    if twice.any() or own.any():
        word = int(np.flatnonzero(twice.any(axis=1) | own.any(axis=1))[0])
        raise ValueError(f"{what}: the neighbors of column {word} name it or another one twice; expected others, once")


class WordNeighbors:
    """A word's expected ratio, predicted from its neighbors.

    The ratio says how much more a topic uses it than the corpus does.

    A statistic is x = b r + N(0, 1), and b is its value at the ratio r = 1. Each neighbor's x/b estimates the word's
    ratio, with the noise variance 1/b² and the variance between neighbors. The prediction is the mean of these
    estimates and of 1, weighted by their precisions.
    """

    def __init__(self, neighbors: np.ndarray):
        there = neighbors >= 0
        n_words = len(neighbors)
        ones = np.ones(np.count_nonzero(there), dtype=np.float32)
        ends = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
        self._matrix = sparse.csr_array((ones, neighbors[there].astype(np.int32), ends), shape=(n_words, n_words))

    @staticmethod
    def evidence(x: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute entries' precisions as neighbors, and ratios times precisions."""
        spread = 1.0 / (1.0 + _DIFFERENCE * base * base)
        return base * base * spread, base * x * spread

    def sums(self, evidence: np.ndarray, first: int, last: int) -> np.ndarray:
        """Sum (V, K) float32 numbers over the neighbors of words first..last."""
        matrix, ends = self._matrix, self._matrix.indptr[first : last + 1]
        part = slice(int(ends[0]), int(ends[-1]))
        rows = (matrix.data[part], matrix.indices[part], ends - ends[0])
        return cast(np.ndarray, sparse.csr_array(rows, shape=(last - first, matrix.shape[0])) @ evidence)


def predict_ratios(sums: np.ndarray, ordinary: np.float32) -> np.ndarray:
    """Predict ratios from `WordNeighbors.sums` of both kinds of evidence.

    ``ordinary``, one of `ORDINARY`, is the weight of the ratio 1.
    """
    precision, weighted = sums
    return np.asarray(np.maximum((ordinary + weighted) / (ordinary + precision), _LEAST))
