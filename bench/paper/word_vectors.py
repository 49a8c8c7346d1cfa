"""Vectors of words from a public sentence model, each word taken as a sentence, for `lda_vectors`, `persons` and
`bench.forecast` read.

    python bench/paper/word_vectors.py MODEL FILE   # writes FILE, the text that VIPS_FAST_VECTORS names

MODEL is a name or a folder for the package sentence-transformers; the tables are of all-MiniLM-L6-v2 (384 numbers a
word). The words are the public vocabularies of all corpora.
"""

import os
import sys
from functools import lru_cache
from pathlib import Path

import common
import numpy as np

from vips_fast import nearest_words
from vips_fast.data import (
    Analyzer,
    load_vocabulary,
    load_word_vectors,
    public_vocabulary,
    save_word_vectors,
    stop_words,
)
from vips_fast.demo import docstrings_corpus

VECTORS = Path(os.environ.get("VIPS_FAST_VECTORS", common.DATA / "words.vec"))
FILES = {"wiki": "wiki/vocab.txt", "reuters": "text/reuters/vocab.reuters.txt"}
NAMES = (*FILES, "people", "posts", "docstrings")


def posts_analyzer() -> Analyzer:
    """Make the splitter of posts into the words of `bench.forecast`."""
    return Analyzer(numbers="mixed", stop_words=stop_words("public:en"))


def vocabulary(name: str) -> list[str]:
    """Load the public words of one of NAMES.

    "people" for `persons`, "posts" for `bench.forecast`.
    """
    if name in FILES:
        return list(load_vocabulary(common.DATA / FILES[name]))
    if name == "people":
        from persons import people_words

        return people_words()
    if name == "posts":
        return list(public_vocabulary("public:en", posts_analyzer(), size=5000))
    return list(docstrings_corpus().vocabulary)


@lru_cache(2)
def neighbors(name: str, mixed: bool = False) -> np.ndarray:
    """Find the nearest words of a vocabulary.

    By another word's vectors if they are to be mixed.
    """
    vectors = load_word_vectors(VECTORS, vocabulary(name))
    return nearest_words(vectors[np.random.default_rng(9).permutation(len(vectors))] if mixed else vectors)


def main(model: str, file: str) -> None:
    from sentence_transformers import SentenceTransformer

    words = sorted({word for name in NAMES for word in vocabulary(name)})
    encoder = SentenceTransformer(model, device="cpu")
    save_word_vectors(Path(file), words, encoder.encode(words, batch_size=256))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
