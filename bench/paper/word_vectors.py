"""Vectors of words from a public sentence model, each word taken as a sentence: what `lda_vectors` reads.

    python bench/paper/word_vectors.py MODEL FOLDER   # writes FOLDER/wiki.vec and FOLDER/reuters.vec

MODEL is a name or a folder for the package sentence-transformers; the tables are of all-MiniLM-L6-v2 (384 numbers a
word). The words are the public vocabularies in VIPS_FAST_DATA.
"""

import sys
from pathlib import Path

import common

from vips_fast.data import load_vocabulary, save_word_vectors

VOCABULARIES = {"wiki": "wiki/vocab.txt", "reuters": "text/reuters/vocab.reuters.txt"}


def main(model: str, folder: str) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu")
    for name, file in VOCABULARIES.items():
        words = load_vocabulary(common.DATA / file)
        save_word_vectors(Path(folder) / f"{name}.vec", words, encoder.encode(list(words), batch_size=256))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
