"""Token lists of texts as the private records of a vocabulary's release."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from ...data.groups import group_codes
from ...data.tokens import TokenIndex, token_columns
from ...data.vocabulary import count_columns
from ...engine.units import GOLDEN, scramble
from ...store.log import canonical_json

#: Pairs of a text and a token in a block.
_BLOCK = 1 << 19


@dataclass(frozen=True)
class TokenBlock:
    """Distinct tokens of some rows: their numbers, and each row's start."""

    ids: np.ndarray
    ends: np.ndarray

    @property
    def row_of(self) -> np.ndarray:
        """The row of each token, int64."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


class TokenSets:
    """The tokens that each person keeps, as the engine's `Records`.

    ``names`` are the kept tokens by their numbers; number 0 names no token.
    """

    usable: np.ndarray | None = None

    def __init__(self, ids: np.ndarray, ends: np.ndarray, names: list[str]) -> None:
        self._ids, self._ends, self.names, self.n_rows = ids, ends, names, len(ends) - 1

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Find boundaries 0, …, len(rows) of blocks of about equal work."""
        return _edges(self._ends[rows + 1] - self._ends[rows])

    def block(self, rows: np.ndarray) -> TokenBlock:
        """Make the block of these persons."""
        return _block(self._ids, self._ends, rows)

    def digest(self) -> str:
        """Hash names and sets, by SHA-256."""
        hasher = hashlib.sha256(canonical_json([self.names]))
        rows = np.arange(self.n_rows)
        for part in np.split(rows, self.edges(rows)[1:-1]):
            block = self.block(part)
            hasher.update(np.diff(block.ends).astype(np.int64).tobytes() + block.ids.astype(np.int32).tobytes())
        return hasher.hexdigest()

    def subset(self, rows: np.ndarray) -> "TokenSets":
        """Copy these persons, in this order, without names and without others."""
        block = self.block(rows)
        return TokenSets(block.ids, block.ends, [])


def _edges(lengths: np.ndarray) -> np.ndarray:
    work = np.cumsum(lengths + 1)
    cuts = np.arange(_BLOCK, int(work[-1]) if len(work) else 0, _BLOCK)
    return np.unique(np.concatenate(([0], np.searchsorted(work, cuts), [len(work)])))


def _block(ids: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> TokenBlock:
    lengths = ends[rows + 1] - ends[rows]
    own = np.concatenate(([0], np.cumsum(lengths)))
    return TokenBlock(ids[np.repeat(ends[rows] - own[:-1], lengths) + np.arange(own[-1])], own)


class TokenRows:
    """Numbers of the tokens of each text, in order.

    The numbers of tokens, and how many there are, are private, and so is everything here; it is written nowhere. A text
    takes 4 bytes a word. ``analyzer`` is as for `vips_fast.data.tokens.as_analyzer`; ``n_rows`` are the texts so far.
    """

    usable: np.ndarray | None = None

    def __init__(self, analyzer: Any = None) -> None:
        self._index = TokenIndex(analyzer)
        self._parts, self._lengths = list[np.ndarray](), list[np.ndarray]()

    def extend(self, texts: Sequence[str | None]) -> "TokenRows":
        """Add further texts; None is an empty one. Returns this object.

        Raises TypeError if a text or a token of the analyzer is no string.
        """
        columns = self._index.columns
        known = len(columns)
        ids, indptr = self._index(texts)
        if not all(isinstance(token, str) for token in islice(columns, known, None)):
            raise TypeError("analyzer: expected one that makes tokens that are strings")
        self._parts.append(np.asarray(ids, np.int32))
        self._lengths.append(np.diff(indptr))
        return self

    @property
    def _ids(self) -> np.ndarray:
        """The numbers of all texts' tokens, int32."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate([np.zeros(0, np.int32), *self._parts])]
        return self._parts[0]

    @property
    def n_rows(self) -> int:
        """Texts so far."""
        return sum(map(len, self._lengths))

    def counts(self, vocabulary: Sequence[str]) -> sparse.csr_array:
        """Count a vocabulary's tokens in each text, without reading it again.

        The result, and errors, are those of `vips_fast.data.vocabulary.count_matrix` for the same texts and analyzer.
        """
        column = np.full(len(self._index.columns), -1, np.int32)
        for token, place in token_columns(vocabulary, self._index.analyzer).items():
            if token in self._index.columns:
                column[self._index.columns[token]] = place
        return count_columns(self._of_columns(column), len(vocabulary))

    def _of_columns(self, column: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the columns of some texts' tokens at a time. Also yields each text's start."""
        ends = np.concatenate([np.zeros(1, np.int64), *self._lengths]).cumsum()
        rows = np.arange(len(ends) - 1)
        for part in np.split(rows, _edges(np.diff(ends))[1:-1]):
            block = _block(self._ids, ends, part)
            found = column[block.ids]
            good = found >= 0
            yield found[good], np.concatenate(([0], np.cumsum(good)))[block.ends]

    def sets(
        self, groups: Any, max_tokens: int, words: Callable[[int], np.ndarray], invalid: str = "raise"
    ) -> TokenSets:
        """Collect each person's distinct tokens, at most ``max_tokens``, in order.

        The order is by the person's first use. ``groups``, (n_rows,), labels each text by its person; ``invalid`` and
        errors are as in `vips_fast.data.groups.group_codes`. None: each text is a person's. A person with more tokens
        keeps ``max_tokens``, chosen by the person's own random word and the places in the person's own order. The
        choice is a function of this person only, made once for all rounds. ``words(n)`` gives n independent uniform
        uint64.
        """
        names, kept, lengths = list(self._index.columns), [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
        held, codes = np.zeros(len(names), bool), np.arange(self.n_rows)
        if groups is not None:
            codes = group_codes(groups, self.n_rows, invalid)
        drawn = words(int(codes.max(initial=-1)) + 1)
        for first, table in self._of_persons(codes):
            table = _limit_tokens(table, max_tokens, drawn[first : first + len(table.ends) - 1])
            held[table.ids] = True
            kept.append(table.ids)
            lengths.append(np.diff(table.ends))
        # A token that nobody keeps is as if nobody held it.
        number, found = np.cumsum(held, dtype=np.int32), np.flatnonzero(held).tolist()
        ids = np.concatenate([number[part] for part in kept])
        return TokenSets(ids, np.concatenate(lengths).cumsum(), ["", *(names[i] for i in found)])

    def _of_persons(self, codes: np.ndarray) -> Iterator[tuple[int, TokenBlock]]:
        """Yield some persons at a time: first number and distinct tokens.

        The tokens are in the order of their first occurrence.
        """
        ends = np.concatenate([np.zeros(1, np.int64), *self._lengths]).cumsum()
        order, own = np.argsort(codes, kind="stable"), codes >= 0
        order = order[np.count_nonzero(~own) :]  # a text of nobody leaves nothing
        texts = np.concatenate(([0], np.cumsum(np.bincount(codes[own]))))
        edges = _edges(np.bincount(codes[own], np.diff(ends)[own]).astype(np.int64)).tolist()
        for first, last in zip(edges, edges[1:], strict=False):
            rows = order[texts[first] : texts[last]]
            table = _block(self._ids, ends, rows)
            person_of = np.repeat(codes[rows] - first, np.diff(table.ends))
            once = _first_seen(person_of, table.ids)
            lengths = np.bincount(person_of[once], minlength=last - first)
            yield first, TokenBlock(table.ids[once], np.concatenate(([0], np.cumsum(lengths))))


def _first_seen(person_of: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Find the first of each person's equal ids; persons stand together."""
    bits = len(ids).bit_length()
    keys = np.sort((ids.astype(np.int64) << bits) | np.arange(len(ids)))
    places = keys & ((1 << bits) - 1)
    whose, which = person_of[places], keys >> bits
    new = np.append(True, (whose[1:] != whose[:-1]) | (which[1:] != which[:-1]))
    return np.sort(places[new[: len(places)]])


def _limit_tokens(table: TokenBlock, max_tokens: int, words: np.ndarray) -> TokenBlock:
    """Limit each person's tokens, by the person's random word."""
    lengths = np.diff(table.ends)
    many = np.flatnonzero(lengths > max_tokens)
    if not len(many):
        return table
    row_of = np.repeat(many, lengths[many])
    begin = np.concatenate(([0], np.cumsum(lengths[many])[:-1]))
    place = np.arange(len(row_of)) - np.repeat(begin, lengths[many])
    key = scramble(words[row_of] + (place.astype(np.uint64) + np.uint64(1)) * GOLDEN)
    order = np.lexsort((key, row_of))[place >= max_tokens]
    stays = np.ones(len(table.ids), dtype=bool)
    stays[table.ends[row_of[order]] + place[order]] = False
    ends = np.concatenate(([0], np.cumsum(np.minimum(lengths, max_tokens))))
    return TokenBlock(table.ids[stays], ends)
