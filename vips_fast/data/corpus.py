"""A corpus: word counts with their vocabulary, and its split in two."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse

from .counts import check_counts, given_outside
from .groups import group_codes


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Documents as counts of words.

    ``counts``, a matrix of shape (D, V), has the number of times that each word occurs in each document, brought to
    canonical CSR by `check_counts`. ``vocabulary``, V strings or None, has the word of each column. It is public: it
    must not depend on the documents. ``source`` says in words where the counts come from, ``details`` has numbers about
    the making of the corpus, such as documents per package. ``groups``, int64 of shape (D,) or None, numbers the person
    of each document; it is as private as the documents. The attribute ``outside`` of
    `vips_fast.data.vocabulary.count_matrix` stays with ``counts``.

    Raises ValueError if `counts` is not a matrix of counts. So it does if `vocabulary` has another length than its
    columns, or `groups` than its rows. Raises TypeError if an entry of `vocabulary` is not a string.
    """

    counts: sparse.csr_array
    vocabulary: tuple[str, ...] | None = None
    source: str = ""
    details: Mapping[str, int] | None = None
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        counts, outside = check_counts(self.counts, name="counts"), given_outside(self.counts, "counts")
        if outside is not None:
            counts.outside = outside
        object.__setattr__(self, "counts", counts)
        if self.groups is not None:
            object.__setattr__(self, "groups", group_codes(self.groups, counts.shape[0]))
        if self.vocabulary is not None:
            words = tuple(self.vocabulary)
            if not all(isinstance(word, str) for word in words):
                raise TypeError("vocabulary must hold strings only")
            if len(words) != counts.shape[1]:
                raise ValueError(
                    f"vocabulary has {len(words)} words; expected {counts.shape[1]}, one for each column of counts"
                )
            object.__setattr__(self, "vocabulary", words)

    @property
    def n_documents(self) -> int:
        """Number of documents D, the empty ones included."""
        return int(self.counts.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns V."""
        return int(self.counts.shape[1])

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.counts.data.sum(dtype=np.int64))

    def __len__(self) -> int:
        return self.n_documents

    def __repr__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"Corpus({self.n_documents} documents, {self.n_features} words{source})"


def split(
    corpus: Corpus, test_size: float = 0.1, random_state: int | np.random.Generator | None = 0
) -> tuple[Corpus, Corpus]:
    """Split a corpus at random into training and test part, in order.

    `test_size` is the share, a float in (0, 1), or the number of documents in the test part. The same seed
    `random_state` gives the same split. Raises TypeError if `corpus` is not a Corpus or `test_size` is not a number,
    and ValueError if either part would be empty.
    """
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, not {type(corpus).__name__}")
    if isinstance(test_size, bool) or not isinstance(test_size, Real):
        raise TypeError(f"test_size must be a number, not {type(test_size).__name__}")
    n = corpus.n_documents
    if isinstance(test_size, Integral):
        n_test = int(test_size)
    elif 0.0 < test_size < 1.0:
        n_test = round(n * float(test_size))
    else:
        raise ValueError(f"test_size is {test_size}; expected a share in (0, 1) or a number of documents")
    if not 1 <= n_test <= n - 1:
        raise ValueError(
            f"test_size {test_size} of {n} documents leaves one part empty; expected 1 to {n - 1} test documents"
        )
    order = np.random.default_rng(random_state).permutation(n)

    def part(label: str, rows: np.ndarray) -> Corpus:
        source = f"{corpus.source} ({label} part)" if corpus.source else f"{label} part"
        rows = np.sort(rows)
        groups = None if corpus.groups is None else corpus.groups[rows]
        return Corpus(corpus.counts[rows], corpus.vocabulary, source, groups=groups)

    return part("training", order[n_test:]), part("test", order[:n_test])
