"""Public vocabularies and stop words, and counts over a vocabulary."""

import functools
import importlib
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..checks import check_number, missing_package
from ._files import broken_gzip, naming, open_text
from .arrays import INT32_MAX, csr_of
from .tokens import Analyzer, TokenIndex, as_analyzer, token_columns

PathLike = str | os.PathLike[str]
#: The words of the columns, a file that holds them, or "public:LANGUAGE".
Vocabulary = Sequence[str] | Mapping[str, int] | PathLike
_PUBLIC = "public:"
#: Bytes of the largest list of words, which a gzip file may expand to: some million words.
_MOST_BYTES = 1 << 25
#: The coarse words of English; a medical or common other sense keeps a word off it.
_COARSE = Path(__file__).with_name("coarse-en.txt")
#: First names: the 300 commonest of women and of men in the census of the United States of 1990 (public domain, by the
#: package `names` 0.3.0), without those that are common words, too.
_NAMES = Path(__file__).with_name("names-en.txt")
#: Function words of English that are not among its commonest words: pronouns, prepositions, conjunctions, and adverbs
#: of degree and of sentences.
_FUNCTION = Path(__file__).with_name("function-en.txt")
#: Ranks of a language's words up to which a stop word is a function word. Of 100 to 1,333 (all), this agrees best with
#: the labels of four corpora (docs/panel.md).
_COMMONEST = 200
#: What stands for an address of the web, and for "&" and a quote in HTML: not words, in any language.
_MARKUP = ("http", "https", "www", "com", "amp", "quot", "nbsp")


def load_vocabulary(path: PathLike) -> tuple[str, ...]:
    """Read the words of a file; line k names column k.

    The file is plain or gzip. Raises OSError if it does not open, and ValueError if it is empty, not UTF-8, or has a
    blank or repeated line.
    """
    with naming(path), open_text(path) as file:
        with broken_gzip():
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"has more than {_MOST_BYTES} bytes of words; expected fewer words")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 text") from None
        return parse_vocabulary(text if "\n" in text else text.replace("\r", "\n"))  # of old Macs


def parse_vocabulary(text: str) -> tuple[str, ...]:
    """Read a text's words, one a line, without blank or repeated lines."""
    seen: dict[str, int] = {}
    lines = text.rstrip().split("\n")
    for number, line in enumerate(lines, 1):
        word = line.strip()
        if not word:
            raise ValueError("is empty" if len(lines) == 1 else f"line {number}: blank; expected a word")
        if word in seen:
            raise ValueError(f"line {number}: repeats line {seen[word]}")
        seen[word] = number
    return tuple(seen)


def public_vocabulary(vocabulary: Vocabulary, analyzer: Any = None, *, size: int = 8000) -> tuple[str, ...]:
    """Read the words of the columns from a public source.

    ``vocabulary`` has the words themselves, a mapping of words to columns, a file with one word on each line, or a
    language's ``size`` commonest words by the package `wordfreq` (the extra "text"), such as "public:en". Of these an
    ``analyzer`` (`vips_fast.data.tokens.as_analyzer`) takes only words that it finds in a text, and so no stop words.

    Raises TypeError for words that are no strings, and ValueError for a language that has no list and as
    `load_vocabulary`. Raises OSError if a file does not open, and ImportError if the package is missing.
    """
    if isinstance(vocabulary, str) and vocabulary.startswith(_PUBLIC):
        check_number("vocabulary size", size, 1, 10**6, integer=True)
        language = vocabulary.removeprefix(_PUBLIC)
        listed = _wordfreq(language, vocabulary).top_n_list(language, 10**7)
        tokens, found = as_analyzer(analyzer), dict[str, None]()
        for word in listed:
            # n-grams of a list of words are not the language's.
            words = tokens.unigrams(word) if isinstance(tokens, Analyzer) else tokens(word)
            if len(words) == 1:
                found.setdefault(words[0])
                if len(found) == size:
                    break
        return tuple(found)
    if isinstance(vocabulary, (str, os.PathLike)):
        return load_vocabulary(vocabulary)
    # scikit-learn's `vocabulary_` has the words in another order than their columns.
    words = tuple(sorted(vocabulary, key=vocabulary.__getitem__) if isinstance(vocabulary, Mapping) else vocabulary)
    if not all(isinstance(word, str) for word in words):
        raise TypeError("vocabulary must hold strings only")
    if len(set(words)) < len(words):
        twice = next(word for word, before in zip(sorted(words)[1:], sorted(words), strict=False) if word == before)
        raise ValueError(f"vocabulary: {twice!r} stands twice; expected each word once")
    return words


def word_frequencies(words: Sequence[str], language: str) -> np.ndarray:
    """Look up the frequencies of words in a language.

    The package `wordfreq` (the extra "text") has them. Returns float64 of shape (V,), above 0: a word that the package
    does not know has half of the least frequency. Raises ValueError if it does not know the language or any of the
    words, and ImportError if it is missing.
    """
    wordfreq = _wordfreq(language, f"language {language!r}")
    found = np.array([wordfreq.word_frequency(word, language) for word in words], dtype=np.float64)
    if not found.any():
        raise ValueError(f"language {language!r}: the package wordfreq knows none of the {len(words)} words")
    found[found == 0] = found[found > 0].min() / 2
    return found


def _wordfreq(language: str, given: str) -> Any:
    """Import the package of word lists; ValueError for a missing language."""
    wordfreq = _package("wordfreq")
    # For other languages the package would take the nearest that it has.
    if language not in wordfreq.available_languages():
        raise ValueError(f"{given}: the package wordfreq has no words of this language")
    return wordfreq


def stop_words(listed: Vocabulary, whole: bool = False) -> tuple[str, ...]:
    """Load a public list of words to leave out.

    It is the words themselves, a file, as `load_vocabulary` reads it, or "public:LANGUAGE", such as "public:en", of the
    package `stop-words` (the extra "text"). Of that list it takes function words only, unless it is to be ``whole``:
    the language's 200 commonest words, words of one or two letters, contractions and, for English, the file
    function-en.txt. Others say what a text is about, such as "bill" and "room"; but they make no topics of their own,
    for which the whole list is. Parts of web addresses and of HTML are function words, too. Errors are the same as of
    `public_vocabulary`.
    """
    if not (isinstance(listed, str) and listed.startswith(_PUBLIC)):
        return public_vocabulary(listed)
    package, language = _package("stop_words"), listed.removeprefix(_PUBLIC)
    try:
        words = tuple(package.get_stop_words(language))
    except package.StopWordError:
        raise ValueError(f"{listed}: the package stop-words has no list of this language") from None
    wordfreq = _package("wordfreq")
    if whole or language not in wordfreq.available_languages():
        return words if whole else (*words, *_MARKUP)
    common = set(wordfreq.top_n_list(language, _COMMONEST))
    if language == "en":
        common.update(_FUNCTION.read_text("utf-8").split())
    return (*(word for word in words if word in common or len(word) < 3 or not word.isalpha()), *_MARKUP)


def coarse_words(listed: Vocabulary) -> tuple[str, ...]:
    """Load a public list of coarse words to leave out.

    It is the words themselves, a file, as `load_vocabulary` reads it, or "public:LANGUAGE": the package's own list of
    English, and no word for another language. That list has no word that a clinical note needs. Errors are those of
    `load_vocabulary`.
    """
    if not (isinstance(listed, str) and listed.startswith(_PUBLIC)):
        return public_vocabulary(listed)
    return load_vocabulary(_COARSE) if listed == f"{_PUBLIC}en" else ()


@functools.cache
def first_names() -> frozenset[str]:
    """Load the public list of first names; a topic of names is no finding."""
    return frozenset(load_vocabulary(_NAMES))


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing_package("a public word list", name.replace("_", "-"), "text") from None


def count_matrix(
    batches: Iterable[Sequence[str | None]], vocabulary: Sequence[str], analyzer: Any = None
) -> sparse.csr_array:
    """Count a vocabulary's tokens in each text.

    ``batches`` gives some texts at a time, None for an empty one; beside the result, memory holds only one batch.
    ``vocabulary`` has the token of each column (`vips_fast.data.tokens.token_columns`), and others leave no trace;
    ``analyzer`` is as for `vips_fast.data.tokens.as_analyzer`.

    Returns canonical CSR of shape (n_texts, len(vocabulary)), data and indices int32; empty texts have empty rows. If
    an `Analyzer` of single words leaves out stop words, the matrix has an attribute ``outside``, too: each text's words
    without a column, int64 of shape (n_texts,). It is as private as the texts, and no part of the matrix passes it on.

    Raises ValueError if there are no texts, or no word of the vocabulary can occur, and TypeError if a text is not a
    string.
    """
    vocabulary = tuple(vocabulary)
    counts_others = isinstance(analyzer, Analyzer) and bool(analyzer.stop_words) and analyzer.ngrams == 1
    other, outside = len(vocabulary) if counts_others else -1, [np.zeros(0, np.int64)]
    index = TokenIndex(analyzer, token_columns(vocabulary, analyzer), other)

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for texts in batches:
            ids, starts = index(texts)
            if counts_others:
                others = ids == other
                before = np.concatenate(([0], np.cumsum(others)))[starts]
                outside.append(np.diff(before))
                ids, starts = ids[~others], starts - before
            yield ids, starts

    matrix = count_columns(parts(), len(vocabulary))
    if counts_others:
        matrix.outside = np.concatenate(outside)
    return matrix


def count_columns(parts: Iterable[tuple[np.ndarray, np.ndarray]], width: int) -> sparse.csr_array:
    """Count the columns of tokens in each text.

    ``parts`` gives some texts at a time, as `vips_fast.data.tokens.TokenIndex` does: the columns below ``width`` of all
    their tokens, int32, and the start of each text, int64. Returns the matrix of `count_matrix`, and raises ValueError
    if there are no texts.
    """
    columns, counts, lengths = array("i"), array("i"), [np.zeros(1, np.int64)]
    for ids, indptr in parts:
        n = len(indptr) - 1
        small = n * width <= INT32_MAX  # half the time to sort
        rows = np.repeat(np.arange(n, dtype=np.int32 if small else np.int64), np.diff(indptr))
        entries, times = np.unique(rows * width + ids, return_counts=True)
        columns.frombytes((entries % width).astype(np.int32).tobytes())
        counts.frombytes(times.astype(np.int32).tobytes())
        lengths.append(np.bincount(entries // width, minlength=n))
    indptr = np.concatenate(lengths).cumsum()
    if len(indptr) == 1:
        raise ValueError("texts is empty; expected at least one document")
    # The buffer of an empty array need not be aligned, which the kernels refuse.
    data, indices = (np.frombuffer(one, np.int32) if one else np.zeros(0, np.int32) for one in (counts, columns))
    indptr = indptr.astype(np.int32) if len(data) <= INT32_MAX else indptr
    return csr_of((data, indices, indptr), width)


class PurchasedCounts(sparse.csr_array):  # type: ignore[misc]  # scipy has no types
    """Counts over a purchased vocabulary, which carry the purchase.

    Rows, columns, copies, other types and other formats carry it too; stacks and the matrices of other packages do not.
    ``purchase`` describes it as `vips_fast.models.estimator.PrivateEstimator.purchase` does.
    """

    purchase: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, counts: sparse.csr_array, purchase: Mapping[str, Any]) -> "PurchasedCounts":
        """Attach a purchase to counts; the arrays are shared."""
        made: PurchasedCounts = csr_of((counts.data, counts.indices, counts.indptr), counts.shape[1], cls)
        made.purchase = purchase
        return made


def _carrying(name: str) -> Any:
    """Wrap a method of `scipy.sparse.csr_array`, so that the result carries the purchase."""
    plain = getattr(sparse.csr_array, name)

    @functools.wraps(plain)
    def method(self: PurchasedCounts, *args: Any, **more: Any) -> Any:
        made = plain(self, *args, **more)
        if sparse.issparse(made):
            made.purchase = self.purchase
        return made

    return method


for _name in ("__getitem__", "_with_data", "copy", "astype", "tocsr", "tocsc", "tocoo", "tolil", "multiply"):
    setattr(PurchasedCounts, _name, _carrying(_name))
