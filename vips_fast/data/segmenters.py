"""Segment languages without spaces, by packages of the extra "segment".

A segmenter is a function of one run of characters, so a record's words depend on that record only. An error of its
package, or an endless search, must not depend on a private text either. So runs are cut, and a run that a segmenter
fails on gives no words here.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

from ..checks import missing_package

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
