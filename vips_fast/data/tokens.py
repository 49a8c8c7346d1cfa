"""Turn texts into words by a public description, and number them.

Languages without spaces have segmenters, by packages of the extra "segment". A segmenter is a function of one run of
characters, so a record's words depend on that record only. An error of its package, or an endless search, must not
depend on a private text either. So runs are cut, and a run that a segmenter fails on gives no words here.
"""

import logging
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from itertools import chain
from typing import Any, ClassVar, Self, cast

import numpy as np

from ..checks import check_choice, check_number, missing_package
from ..kernels import native
from .own_words import own_words

#: The package and the language of each segmenter.
SEGMENTERS = {"jieba": ("jieba", "zh"), "sudachi": ("sudachipy", "ja"), "pythainlp": ("pythainlp", "th")}
#: Characters that a segmenter gets at once; sudachi takes 49,149 bytes.
_LONGEST = 5000


def segmenter_of(language: str | None) -> str | None:
    """Find the segmenter of a language; None for languages with spaces."""
    return next((name for name, (_, one) in SEGMENTERS.items() if one == language), None)


@cache
def load_segmenter(name: str) -> Callable[[str], list[str]]:
    """Load a segmenter; ImportError, with the remedy, if its package is missing."""
    package = SEGMENTERS[name][0]
    try:
        cut = {"jieba": _jieba, "sudachi": _sudachi, "pythainlp": _pythainlp}[name]()
    except ImportError:
        raise missing_package(f"analyzer={name!r}", package, "segment") from None

    def words(run: str) -> list[str]:
        try:
            parts = [run[first : first + _LONGEST] for first in range(0, len(run), _LONGEST)]
            return [str(word) for part in parts for word in cut(part)]
        except Exception:
            return []

    return words


def _jieba() -> Any:
    import jieba

    jieba.setLogLevel(logging.WARNING)
    made = jieba.Tokenizer()
    # Its cache is a file of a name that anybody on the machine could write.
    with tempfile.TemporaryDirectory() as folder:
        made.tmp_dir = folder
        made.initialize()
    return made.lcut


def _sudachi() -> Any:
    import sudachipy

    made = sudachipy.Dictionary(dict="core").tokenizer(mode=sudachipy.SplitMode.A)
    return lambda text: [word.surface() for word in made.tokenize(text)]


def _pythainlp() -> Any:
    from pythainlp.tokenize import word_tokenize

    return lambda text: word_tokenize(text, engine="newmm-safe", keep_whitespace=False)


#: Bytes that are not in UTF-8, as the kernel has them: between pieces, and after each text.
_APART, _END = b"\xff", b"\xfe"
#: ASCII letters in lower case, digits, apostrophes, and whatever is not ASCII; all else separates.
_KEPT = bytes(
    byte if byte >= 128 or chr(byte) in "'0123456789" or 97 <= byte <= 122 else byte + 32 if 65 <= byte <= 90 else 255
    for byte in range(256)
)
#: Scripts written without spaces (Thai, Lao, Myanmar, Khmer, Hiragana, Han): a letter and its marks are a token.
_ALONE = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
)
#: What `_pattern` finds in ASCII.
_ASCII = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")
#: Articles, pronouns and prepositions that French, Italian and Catalan elide: "l'eau" is a form of "eau".
_ELIDED = re.compile(
    r"(?<![\w'])(?:[cdjlmnstv]|(?:jus|lors|puis|quoi)?qu|(?:a|co|da|de|ne|que|su)ll|(?:a|da|de|ne|su)?gl|quest|un)'(?=\w)"
)
_DIGIT = re.compile(r"\d")
#: Pieces of texts whose tokens are remembered: some 20 MB.
_REMEMBERED = 1 << 18
#: Characters whose pieces are in memory at one time: few enough for the processor's second cache.
_AT_ONCE = 1 << 16
_SPACE = re.compile(r"[ \t\n\r]")


@cache
def _pattern() -> re.Pattern[str]:
    some = map(chr, (*range(0x300, 0x1E950), *range(0xE0100, 0xE01F0)))
    marks = "".join(c for c in some if unicodedata.category(c).startswith("M"))
    run = rf"[^\W_{_ALONE}](?:[^\W_{_ALONE}]|[{marks}\u200c\u200d])*"
    return re.compile(rf"{run}(?:['\u00b7]{run})*|(?=\w)[{_ALONE}][{marks}]*")


@cache
def _marks_in_a_row() -> re.Pattern[str]:
    """Compile a pattern of over 30 marks; its group has 30."""
    nfkd = partial(unicodedata.normalize, "NFKD")
    marks = "".join(c for c in map(chr, range(0x300, 0x1E950)) if unicodedata.combining(nfkd(c)[0]))
    return re.compile(f"([{marks}]{{30}})[{marks}]+")


def _cut(text: str) -> str:
    return _marks_in_a_row().sub(r"\1", text) if len(text) > 30 else text


def _normal(text: str) -> str:
    """Normalize stream-safe text by NFKC.

    NFKC takes the square of the time for a run of marks. One mark may become several.
    """
    return _cut(unicodedata.normalize("NFKC", _cut(text)))


@dataclass(frozen=True)
class Analyzer:
    """Public settings of how a text becomes tokens.

    A model keeps them. Called with a text, an analyzer gives its tokens in order, without tags of HTML, and headers,
    quotes and signatures of e-mails (`vips_fast.data.own_words`).

    Parameters
    ----------
    words : {"unicode", "jieba", "sudachi", "pythainlp"}
        "unicode": words after UAX 29, of the text in NFKC and case-folded. These are runs of letters, digits and their
        combining marks, with apostrophes (and the Catalan middle dot) between them. Unlike UAX 29, an underscore, a
        full stop or a comma always separates, and an elided word is left out: "l'eau" is "eau". In scripts that are
        written without spaces each letter is a token: ``ngrams`` makes words of them. Of more than 30 marks in a row,
        the most of UAX 15's stream-safe text, only the first 30 count. The last three are "unicode" with segmenters of
        Chinese, Japanese and Thai (the extra "segment").
    min_length : int
        Shorter tokens are left out, in characters.
    numbers : {"keep", "mixed", "drop"}
        Tokens with digits: keep all, keep those that have letters too ("B12"), or none.
    ngrams : int
        1 to 3: also pairs, and triples, of tokens that follow each other, joined with a space; made after the tokens
        above are left out.
    stop_words : sequence of str
        Tokens to leave out, a public list (`vips_fast.data.vocabulary.stop_words`); brought to the tokens' form.

    Raises ValueError for other settings.
    """

    words: str = "unicode"
    min_length: int = 1
    numbers: str = "keep"
    ngrams: int = 1
    stop_words: tuple[str, ...] = ()
    _stopped: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_choice("words", self.words, ("unicode", *SEGMENTERS))
        if self.words in SEGMENTERS:
            load_segmenter(self.words)  # refused now if its package is missing
        check_number("min_length", self.min_length, 1, 1000, integer=True)
        check_choice("numbers", self.numbers, ("keep", "mixed", "drop"))
        check_number("ngrams", self.ngrams, 1, 3, integer=True)
        if isinstance(self.stop_words, str) or not all(isinstance(word, str) for word in self.stop_words):
            raise ValueError("stop_words: expected a sequence of strings")
        read = map(self.unigrams, frozenset(map(str, self.stop_words)))
        stopped = frozenset(words[0] for words in read if len(words) == 1)
        object.__setattr__(self, "stop_words", tuple(sorted(stopped)))
        object.__setattr__(self, "_stopped", stopped)

    def __call__(self, text: str) -> list[str]:
        """Return a text's tokens, n-grams after the words in them."""
        words = self.unigrams(text)
        if self.ngrams == 1:
            return words
        several = (zip(*(words[k:] for k in range(n)), strict=False) for n in range(2, self.ngrams + 1))
        return [*words, *map(" ".join, chain.from_iterable(several))]

    def unigrams(self, text: str) -> list[str]:
        """Find the words of a text, without excluded ones."""
        if text.isascii() and text.isalnum():  # one word, as in `tokens_of`
            word = text.lower()
            return [word] if self._kept(word) else []
        pieces = self.pieces([own_words(text)]).removesuffix(_END).split(_APART)
        return [token for piece in pieces for token in self.tokens_of(piece)]

    def pieces(self, texts: Iterable[str]) -> bytes:
        """Encode texts as UTF-8 pieces, for `tokens_of`: 0xFF stands at sure ends of words, 0xFE after each text."""
        return _END.join([*(text.encode("utf-8", "replace") for text in texts), b""]).translate(_KEPT)

    def tokens_of(self, piece: bytes) -> list[str]:
        """Find the words of a piece that the settings leave."""
        text = piece.decode()
        if piece.isalnum():  # only ASCII letters and digits: one word
            return [text] if self._kept(text) else []
        if piece.isascii():
            found = _ASCII.findall(_ELIDED.sub("", text))
        else:
            folded = _normal(text.replace("\u00ad", "")).casefold()
            text = _ELIDED.sub("", _normal(folded).replace("\u2019", "'"))
            found = self._segmented(text) if self.words in SEGMENTERS else _pattern().findall(text)
        return [token for token in found if self._kept(token)]

    def _segmented(self, text: str) -> list[str]:
        """Find the words of a normal text, by the segmenter where it has no spaces."""
        segment, words = load_segmenter(self.words), []
        for run in text.split():
            parts = segment(run) if re.search(f"[{_ALONE}]", run) else _pattern().findall(run)
            words += [part for part in parts if re.search(r"[^\W_]", part)]
        return words

    def _kept(self, token: str) -> bool:
        if len(token) < self.min_length or token in self._stopped:
            return False
        if self.numbers == "keep" or token.isalpha() or not _DIGIT.search(token):
            return True
        return self.numbers == "mixed" and any(map(str.isalpha, token))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Make the analyzer of some settings; ValueError for other objects."""
        known = {field.name for field in fields(cls)}
        if not isinstance(settings, Mapping) or set(settings) != known:
            raise ValueError(f"analyzer: expected settings named {', '.join(sorted(known))}")
        return cls(**{**settings, "stop_words": tuple(settings["stop_words"])})


def as_analyzer(analyzer: Any = None) -> Callable[[str], Sequence[str]]:
    """Return the analyzer that an argument stands for.

    The argument is None or "unicode", a segmenter, an `Analyzer`, or any function from a text to its tokens, such as
    scikit-learn's ``CountVectorizer(...).build_analyzer()``. Raises ValueError for others.
    """
    if analyzer is None or isinstance(analyzer, str):
        check_choice("analyzer", analyzer, (None, "unicode", *SEGMENTERS))
        return Analyzer(words=analyzer or "unicode")
    if not callable(analyzer):
        raise ValueError(f"analyzer of type {type(analyzer).__name__}: expected 'unicode', a segmenter or a function")
    return cast(Callable[[str], Sequence[str]], analyzer)


class _Pieces:
    """The number of each of a text's pieces, by first appearance.

    An open hash table in the arrays that `token_numbers` of csrc/kernels.toml describes.
    """

    def __init__(self) -> None:
        # Whoever writes texts must not be able to choose pieces that fall together in the table.
        self.n, self._seed = 0, int.from_bytes(os.urandom(8))
        self._reserve_space(1)

    def _reserve_space(self, words: int) -> None:
        self._slots = np.zeros(1 << (2 * words - 1).bit_length(), np.uint64)
        self._ends, self._known = np.empty(len(self._slots) // 2, np.int64), np.empty(8 * len(self._slots), np.uint8)

    @property
    def size(self) -> int:
        """Bytes of all pieces."""
        return int(self._ends[self.n - 1]) if self.n else 0

    def __call__(self, text: bytes, n_texts: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Number the pieces of texts, int32, and count those before the end of each text, int64."""
        most = len(text) // 2 + 1  # a byte between two of them
        numbers, ends = np.empty(most, np.int32), np.zeros(n_texts, np.int64)
        if self.n + most > len(self._ends):
            known, n = self._known[: self.size].tobytes(), self.n
            self.n = 0
            self._reserve_space(2 * n + most)
            self(known)
        if self.size + len(text) + 1 > len(self._known):
            self._known = np.concatenate((self._known, np.empty(len(self._known) + len(text), np.uint8)))
        table = self._seed, self._slots, self._known, self._ends, self.n
        found = native.token_numbers(text, *table, numbers, ends) if text else 0
        self.n = max(self.n, int(numbers[:found].max(initial=-1)) + 1)
        return numbers[:found], ends

    def since(self, first: int) -> list[bytes]:
        """Return the pieces from one number on."""
        begin = int(self._ends[first - 1]) if first else 0
        return self._known[begin : self.size].tobytes().split(_APART)[:-1]


class TokenIndex:
    """Numbers of texts' tokens, by a fixed or growing index.

    Called with some texts, it gives (ids, indptr). ``ids`` is int32: the numbers of all their tokens, n-grams of a text
    after its words. ``indptr`` is int64 of shape (n + 1,), with the start of each text. A None is an empty text.
    ``analyzer`` is as for `as_analyzer`. ``columns`` maps tokens to numbers >= 0. Others have the number ``other``, or
    are passed over if it is negative. None numbers tokens as they first appear, which is private if the texts are, and
    the attribute then grows.
    """

    def __init__(self, analyzer: Any = None, columns: Mapping[str, int] | None = None, other: int = -1):
        self.analyzer, self._other = as_analyzer(analyzer), other
        self.columns: dict[str, int] = {} if columns is None else dict(columns)
        self._fixed, one = columns is not None, self.analyzer
        #: What texts' pieces are read by; None if they are read whole.
        self._by_pieces = one if isinstance(one, Analyzer) and one.ngrams == 1 else None
        self._forget()

    def _forget(self) -> None:
        #: The number of each piece's only token; -1 where none counts, -2 - k for those of ``_several[k]``.
        self._pieces, self._codes, self._several = _Pieces(), np.zeros(0, np.int32), list[np.ndarray]()
        if self._by_pieces is not None and self._fixed:
            # A piece of ASCII letters and digits is one word: of all these, those with a column are known from here on.
            words, kept = [word for word in self.columns if word.isascii() and word.isalnum()], self._by_pieces._kept
            self._pieces(_APART.join(map(str.encode, words)))
            self._codes = np.array([self.columns[word] if kept(word) else -1 for word in words], np.int32)
        self._first = self._pieces.n, self._pieces.size

    def _number(self, word: str) -> int:
        return self.columns.get(word, self._other) if self._fixed else self.columns.setdefault(word, len(self.columns))

    def _beside(self, analyzer: Analyzer, piece: bytes) -> int:
        """Return the code of one word of ASCII letters and digits, which has no column."""
        return self._other if self._other >= 0 and analyzer._kept(piece.decode()) else -1

    def _learned(self, analyzer: Analyzer, piece: bytes) -> int:
        """Return the code of a piece that is new."""
        words = analyzer.tokens_of(piece)
        numbers = [n for n in map(self._number, words) if n >= 0]
        if len(numbers) < 2:
            return numbers[0] if numbers else -1
        self._several.append(np.array(numbers, np.int32))
        return -1 - len(self._several)

    def __call__(self, texts: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray]:
        """See the class."""
        if isinstance(texts, str) or not all(text is None or isinstance(text, str) for text in texts):
            raise TypeError("texts must hold strings only")
        found, counted, text_of = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], list[int]()
        group: list[str] = []
        size, n_texts = 0, 0
        for text in texts:
            for part in self._parts(text or ""):
                if size > _AT_ONCE:
                    ids, numbers = self._ids(group)
                    found.append(ids)
                    counted.append(numbers)
                    group, size = [], 0
                group.append(part)
                text_of.append(n_texts)
                size += len(part)
            n_texts += 1
        ids, numbers = self._ids(group)
        lengths = np.bincount(text_of, np.concatenate([*counted, numbers]), n_texts).astype(np.int64)
        return np.concatenate([*found, ids]), np.concatenate(([0], np.cumsum(lengths)))

    def _parts(self, text: str) -> Iterator[str]:
        """Cut a very long text at white space, unless it has n-grams."""
        if self._by_pieces is None:
            yield text
            return
        at, text = 0, own_words(text)
        while len(text) - at > _AT_ONCE and (space := _SPACE.search(text, at + _AT_ONCE)):
            yield text[at : space.end()]
            at = space.end()
        yield text[at:]

    def _ids(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the numbers of all texts' tokens, and count by text."""
        if (analyzer := self._by_pieces) is None:
            tokens = [self.analyzer(text) if text else () for text in texts]
            ids = np.fromiter(map(self._number, chain.from_iterable(tokens)), np.int32)
            ends = np.cumsum(list(map(len, tokens)), dtype=np.int64)
        else:
            # Those of the vocabulary do not count, or a large one would be learned anew each time.
            pieces, size = self._first
            if self._pieces.n - pieces > _REMEMBERED or self._pieces.size - size > 64 * _REMEMBERED:
                self._forget()
            found, ends = self._pieces(analyzer.pieces(texts), len(texts))
            new, beside = self._pieces.since(len(self._codes)), self._beside if self._fixed else self._learned
            codes = [(beside if piece.isalnum() else self._learned)(analyzer, piece) for piece in new]
            self._codes = np.concatenate((self._codes, np.array(codes, np.int32)))
            ids = self._codes[found]
            many = np.flatnonzero(ids < -1)
            if len(many):
                parts = [self._several[-2 - code] for code in ids[many].tolist()]
                times = np.ones(len(ids), np.int64)
                times[many] = list(map(len, parts))
                ends = np.concatenate(([0], np.cumsum(times)))[ends]
                several = np.repeat(ids < -1, times)
                ids = np.repeat(ids, times)
                ids[several] = np.concatenate(parts)
        good = np.flatnonzero(ids >= 0)
        return ids[good], np.diff(np.searchsorted(good, ends), prepend=0)


def token_columns(vocabulary: Iterable[str], analyzer: Any = None) -> dict[str, int]:
    """Number the columns of tokens that an analyzer can produce.

    A vocabulary's words go through the analyzer's own normalization. Where two of them become one, the first has the
    counts; a word that becomes none, or more than ``ngrams`` words, never occurs. Raises ValueError if no word can
    occur.
    """
    analyzer, columns = as_analyzer(analyzer), dict[str, int]()
    for column, word in enumerate(vocabulary):
        if isinstance(analyzer, Analyzer):
            words = analyzer.unigrams(word)
            if not 1 <= len(words) <= analyzer.ngrams:
                continue
            word = " ".join(words)
        columns.setdefault(word, column)
    if not columns:
        raise ValueError("vocabulary has no word that the analyzer can find in a text")
    return columns
