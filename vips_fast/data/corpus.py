"""A corpus: word counts with their vocabulary."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .counts import check_counts, given_outside
from .groups import group_codes


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Documents as counts of words.

    ``counts``, a matrix of shape (D, V), has the number of times that each word occurs in each document, brought to
    canonical CSR by `check_counts`. ``vocabulary``, V strings or None, has the word of each column. It is public: it
    must not depend on the documents. ``source`` says in words where the counts come from. ``groups``, int64 of shape
    (D,) or None, numbers the person of each document; it is as private as the documents. The attribute ``outside`` of
    `vips_fast.data.vocabulary.count_matrix` stays with ``counts``.

    Raises ValueError if `counts` is not a matrix of counts. So it does if `vocabulary` has another length than its
    columns, or `groups` than its rows. Raises TypeError if an entry of `vocabulary` is not a string.
    """

    counts: sparse.csr_array
    vocabulary: tuple[str, ...] | None = None
    source: str = ""
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
    def n_features(self) -> int:
        """Number of columns V."""
        return int(self.counts.shape[1])

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __repr__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"Corpus({len(self)} documents, {self.n_features} words{source})"
