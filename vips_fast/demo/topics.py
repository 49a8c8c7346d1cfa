"""Texts of persons, and public knowledge, on every machine.

A source file of an installed package stands for a person, and its docstrings for what this person wrote. The docstrings
of Python's own library and its language reference are public: everybody has them. Topics of these, fitted without
privacy, are the public topics of the demo. So no package with word vectors is needed, and no other text.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..data import Analyzer
from ..data.vocabulary import count_matrix
from ..models.lda import PublicPrior, prior_from_documents
from .docstrings import PACKAGES, STOP_WORDS, docstrings_by_file

#: Packages whose topics a reader knows come first; each is read if it is installed.
_FIRST = "numpy scipy pandas sklearn matplotlib".split()
#: Most files: as many are read in a few seconds.
_FILES = 1_500
#: Words of the layout of docstrings, of addresses, and of types.
_LAYOUT = frozenset(
    """
    arg args bool boolean com doc docs docstring docstrings example examples false float gt http https html import int
    kwargs lt none note notes null optional org param parameter parameters raises ref refs return returns see str true
    type types www
    """.split()
)
#: Words of a public vocabulary; a word that more than this share of the public texts use says nothing of a topic.
_WORDS, _SHARE = 2_000, 0.02
#: The fewest counted words of a public text.
_LEAST = 3
_NAME = "docstrings of Python's library and its reference"


def source_files() -> tuple[list[str], np.ndarray, list[str]]:
    """Read docstrings of installed packages.

    Gives the texts, the number of the source file of each, and the packages that were found.
    """
    order = [*_FIRST, *(name for name in PACKAGES if name not in _FIRST)]
    texts: list[str] = []
    files: list[int] = []
    found: list[str] = []
    for name in order:
        if files and files[-1] + 1 >= _FILES:
            break
        first = files[-1] + 1 if files else 0
        for number, docstrings in enumerate(docstrings_by_file((name,), _FILES - first).values(), first):
            texts += docstrings
            files += [number] * len(docstrings)
        if files and files[-1] + 1 > first:
            found.append(name)
    return texts, np.array(files, np.int64), found


def public_texts() -> list[str]:
    """Read the docstrings of Python's library and the paragraphs of its reference."""
    texts = [text for found in docstrings_by_file().values() for text in found]
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems leave it out
        return texts
    return texts + [paragraph for text in topics.values() for paragraph in text.split("\n\n")]


def public_topics(texts: Sequence[str], n_topics: int = 100, random_state: int = 0) -> PublicPrior:
    """Fit public topics to public texts, without privacy.

    The words are the commonest of the texts, in letters only, without those of `STOP_WORDS` and of docstrings' layout.
    """
    analyzer = Analyzer(min_length=3, stop_words=tuple(sorted(STOP_WORDS | _LAYOUT)))
    occurs: Counter[str] = Counter()
    for text in texts:
        occurs.update(set(analyzer(text)))
    most = _SHARE * len(texts)
    kept = [word for word, number in occurs.items() if number <= most and word.isascii() and word.isalpha()]
    words = sorted(sorted(kept, key=lambda word: (-occurs[word], word))[:_WORDS])
    counts = count_matrix([texts], words, analyzer)
    counts = counts[np.flatnonzero(counts.sum(axis=1) >= _LEAST)]
    return prior_from_documents(counts, words, n_topics, language="", name=_NAME, random_state=random_state)
