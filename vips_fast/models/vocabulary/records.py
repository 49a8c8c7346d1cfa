"""Token lists of texts as the private records of a vocabulary's release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ...data.groups import group_codes
from ...data.tokens import TokenIndex
from ...engine.units import GOLDEN, mixed

#: Pairs of a text and a token in a block.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class TokenBlock:
    """The distinct tokens of some rows: their numbers, and where each row's begin."""

    ids: np.ndarray
    ends: np.ndarray

    @property
    def owners(self) -> np.ndarray:
        """The row of each token, int64."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))

    def take(self, rows: np.ndarray) -> TokenBlock:
        """Some of the rows."""
        lengths = self.ends[rows + 1] - self.ends[rows]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        return TokenBlock(self.ids[np.arange(ends[-1]) + np.repeat(self.ends[rows] - ends[:-1], lengths)], ends)


class TokenSets:
    """The tokens that each person keeps, as the engine's `Records`.

    Attributes
    ----------
    n_rows : int
        Persons.
    names : list of str
        The kept tokens by their numbers; number 0 is none of them.
    """

    usable: np.ndarray | None = None

    def __init__(self, table: TokenBlock, names: list[str]) -> None:
        self._table, self.names, self.n_rows = table, names, len(table.ends) - 1

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of about equal work among drawn rows: 0, …, len(rows)."""
        work = np.cumsum(self._table.ends[rows + 1] - self._table.ends[rows] + 1)
        cuts = np.arange(_BLOCK, int(work[-1]) if len(rows) else 0, _BLOCK)
        return np.unique(np.concatenate(([0], np.searchsorted(work, cuts), [len(rows)])))

    def block(self, rows: np.ndarray) -> TokenBlock:
        """The block of these persons."""
        return self._table.take(rows)

    def subset(self, rows: np.ndarray) -> TokenSets:
        """See `vips_fast.engine.model.Records`; the names stay behind."""
        return TokenSets(self._table.take(rows), [])


class TokenRows:
    """The distinct tokens of each text, in the order of its own first sight of them.

    The numbers of tokens, and how many there are, are private, and so is everything here; nothing is written.

    Parameters
    ----------
    analyzer : as for `vips_fast.data.tokens.as_analyzer`

    Attributes
    ----------
    n_rows : int
        Texts so far.
    """

    usable: np.ndarray | None = None

    def __init__(self, analyzer: Any = None) -> None:
        self._index = TokenIndex(analyzer)
        self._pieces: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []

    def extend(self, texts: Sequence[str | None]) -> TokenRows:
        """Add further texts; None is an empty one. Returns this object.

        Raises
        ------
        TypeError
            If a text is no string, or a token that the analyzer makes is none.
        """
        if isinstance(texts, str) or not all(text is None or isinstance(text, str) for text in texts):
            raise TypeError("texts must hold strings only")
        columns = self._index.columns
        known = len(columns)
        ids, indptr = self._index(texts)
        if not all(isinstance(token, str) for token in islice(columns, known, None)):
            raise TypeError("analyzer: expected one that makes tokens that are strings")
        rows = np.repeat(np.arange(len(texts)), np.diff(indptr))
        first = np.sort(np.unique(rows * max(len(columns), 1) + ids, return_index=True)[1])
        self._pieces.append(ids[first])
        self._lengths.append(np.bincount(rows[first], minlength=len(texts)))
        return self

    @classmethod
    def of_counts(cls, X: Any, names: Sequence[str]) -> TokenRows:
        """Texts that are counted already.

        Parameters
        ----------
        X : CSR matrix or array of shape (n_texts, n_tokens)
            Without stored zeros.
        names : sequence of str
            The different tokens of the columns, in an order that owes nothing to the texts, such as the alphabet's.

        Raises
        ------
        ValueError
            If there is not one name for each column.
        """
        rows = cls(str.split)
        rows._index.columns.update((name, column) for column, name in enumerate(names))
        if not len(rows._index.columns) == len(names) == X.shape[1]:
            raise ValueError(f"names: expected {X.shape[1]} different ones, one for each column of X, got {len(names)}")
        rows._pieces, rows._lengths = [X.indices.astype(np.int32, copy=False)], [np.diff(X.indptr)]
        return rows

    @property
    def n_rows(self) -> int:
        """Texts so far."""
        return sum(map(len, self._lengths))

    def sets(self, groups: Any, max_tokens: int, words: Callable[[int], np.ndarray]) -> TokenSets:
        """The distinct tokens of each person, at most ``max_tokens`` of them, in the order of own first sight.

        Parameters
        ----------
        groups : array-like of shape (n_rows,), or None
            Whose each text is (`vips_fast.data.groups.group_codes`); None: each is a person's.
        max_tokens : int
            Who holds more keeps as many, chosen by the person's own random word and the places in the person's own
            order: a function of this person alone, made once for all rounds.
        words : callable
            Gives so many independent uniform uint64.

        Raises
        ------
        ValueError, TypeError
            As `group_codes`.
        """
        ends = np.concatenate([np.zeros(1, np.int64), *self._lengths]).cumsum()
        table, names = TokenBlock(self._whole(), ends), list(self._index.columns)
        if groups is not None:
            codes = group_codes(groups, self.n_rows)
            order = np.argsort(codes, kind="stable")
            rows = table.take(order)
            owner = np.repeat(codes[order], np.diff(rows.ends))
            first = np.sort(np.unique(owner * max(len(names), 1) + rows.ids, return_index=True)[1])
            lengths = np.bincount(owner[first], minlength=int(codes.max(initial=-1)) + 1)
            table = TokenBlock(rows.ids[first], np.concatenate(([0], np.cumsum(lengths))))
        lengths = np.diff(table.ends)
        drawn, many = words(len(lengths)), np.flatnonzero(lengths > max_tokens)
        if len(many):
            owners = np.repeat(many, lengths[many])
            begin = np.concatenate(([0], np.cumsum(lengths[many])[:-1]))
            place = np.arange(len(owners)) - np.repeat(begin, lengths[many])
            key = mixed(drawn[owners] + (place.astype(np.uint64) + np.uint64(1)) * GOLDEN)
            order = np.lexsort((key, owners))[place >= max_tokens]
            stays = np.ones(len(table.ids), dtype=bool)
            stays[table.ends[owners[order]] + place[order]] = False
            ends = np.concatenate(([0], np.cumsum(np.minimum(lengths, max_tokens))))
            table = TokenBlock(table.ids[stays], ends)
        # A token that nobody keeps is as if nobody held it.
        held = np.zeros(len(names), dtype=np.int32)
        held[table.ids] = 1
        number, kept = np.cumsum(held, dtype=np.int32), np.flatnonzero(held)
        return TokenSets(TokenBlock(number[table.ids], table.ends), ["", *(names[i] for i in kept)])

    def _whole(self) -> np.ndarray:
        """The pieces in one array; each is let go when it has been copied, so that they never stand twice."""
        if len(self._pieces) != 1:
            whole = np.empty(sum(map(len, self._pieces)), dtype=np.int32)
            end = len(whole)
            while self._pieces:
                piece = self._pieces.pop()
                whole[end - len(piece) : end] = piece
                end -= len(piece)
            self._pieces = [whole]
        return self._pieces[0]
