"""Models in plain text: topics and tables."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..data.arrays import largest
from ..store.text import printable

#: First words of a topic that may be in its name, and the weight of relevance beside being unlike the others.
_CANDIDATES, _RELEVANCE = 20, 0.7


def top_words(components: Any, vocabulary: Sequence[str] | None = None, n_words: int = 10) -> list[list[str]]:
    """List the most probable words of each topic, the most probable first.

    Returns K lists of `n_words`, or of all V if there are fewer.

    `components` are topic-word weights of any scale, shape (K, V); without a vocabulary word k is named by its column,
    "#k". Words of equal weight are in the order of their columns. Raises ValueError if `components` is not a matrix,
    the vocabulary has another length than V, or `n_words` is below 1.
    """
    components = _matrix(components)
    if n_words < 1:
        raise ValueError(f"n_words is {n_words}; expected at least 1")
    if vocabulary is not None and len(vocabulary) != components.shape[1]:
        raise ValueError(f"vocabulary has {len(vocabulary)} words; expected {components.shape[1]}")
    best = largest(components, n_words)
    return [[f"#{k}" if vocabulary is None else vocabulary[k] for k in row] for row in best.tolist()]


def topic_names(components: Any, vocabulary: Sequence[str], n_words: int = 3, clear: Any = None) -> tuple[str, ...]:
    """Name each topic by likely words that differ.

    ``components``, (K, V), are released weights, so names cost nothing. Words have to be likelier than elsewhere, by
    the relevance of Sievert & Shirley (2014). They are chosen by maximal marginal relevance (Carbonell & Goldstein
    1998). Two words are alike if the same topics have them, or if they begin alike. Of a topic with words that stand
    ``clear`` of the noise, (K, V), only these name it.
    """
    components = _matrix(components)
    weights = np.maximum(components, 0.0)
    total = weights.sum(axis=1, keepdims=True)
    logs = np.log(np.maximum(weights / np.where(total > 0, total, 1.0), 1e-12))  # topics without weight stay zero
    lift = logs - np.log(np.maximum(components.sum(axis=0) / components.sum(), 1e-12))
    profiles = lift - lift.mean(axis=0)
    profiles /= np.maximum(np.sqrt((profiles * profiles).sum(axis=0)), 1e-12)
    lists = []
    for k, row in enumerate(0.4 * logs + 0.6 * lift):
        # Words that other topics have as often name none.
        first = np.argsort(-np.where(lift[k] > 0, logs[k], logs[k] - 1e3), kind="stable")[:_CANDIDATES]
        if clear is not None and clear[k, first].any():
            first = first[clear[k, first]]
        scores, taken = row[first] - row[first].min(), list[int]()
        scores = scores / max(float(scores.max()), 1e-12) - (lift[k, first] <= 0)
        while len(taken) < min(n_words, len(first)):
            near = np.einsum("tu,tv->uv", profiles[:, first], profiles[:, first[taken]]).max(axis=1, initial=0.0)
            forms = [any(_same_form(vocabulary[v], vocabulary[first[t]]) for t in taken) for v in first]
            worth = _RELEVANCE * scores - (1 - _RELEVANCE) * near - 2.0 * np.array(forms)
            worth[taken] = -np.inf
            taken.append(int(worth.argmax()))
        lists.append([vocabulary[v] for v in first[taken]])
    return distinct_names(lists)


def distinct_names(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Join each list's words to a name; equal names are numbered."""
    names, seen = list[str](), dict[str, int]()
    for name in (", ".join(words).strip() or "unnamed" for words in lists):
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def _same_form(word: str, other: str) -> bool:
    return word[:4] == other[:4] and (word.startswith(other[:-2]) or other.startswith(word[:-2]))


def topics_table(components: Any, vocabulary: Sequence[str] | None = None, n_words: int = 10, width: int = 100) -> str:
    """Write topics as text, each on a line.

    `components`, `vocabulary` and errors are as in `top_words`. A topic has at most `n_words` words, and fewer if a
    line has no space for them in `width` characters.
    """
    words = top_words(components, vocabulary, n_words)
    digits = len(str(len(words)))
    space = max(20, width - digits - 2)
    return "\n".join(f"{k:>{digits}}  {_fit(w, space)}" for k, w in enumerate(words, 1))


def table(rows: Iterable[Iterable[object]], header: Iterable[object] | None = None) -> str:
    """Align rows of text: the first column left, the others right."""
    texts = [list(map(str, row)) for row in ([] if header is None else [header])]
    texts += [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row in texts:
        cells = [f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([f"{row[0]:<{widths[0]}}", *cells]).rstrip())
    if header is not None:
        lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def paragraph(text: str, width: int = 100) -> str:
    """Break a paragraph into lines."""
    # No line begins with a percent sign.
    whole = text.replace(" %", "\xa0%")
    return textwrap.fill(whole, max(20, width), break_long_words=False, break_on_hyphens=False).replace("\xa0%", " %")


def _fit(words: Sequence[str], space: int) -> str:
    """Join the first words that fit the width, at least one."""
    words = [printable(word, lines=False) for word in words]
    line = words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > space:
            break
        line += " " + word
    return line


def _matrix(components: Any) -> np.ndarray:
    matrix: np.ndarray = np.asarray(components, np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"components have shape {matrix.shape}; expected (K, V)")
    return matrix
