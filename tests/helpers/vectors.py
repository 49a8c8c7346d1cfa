"""Encoders of a few words, in place of a sentence model."""

import numpy as np

WORDS = "cough fever rent debt".split()


def encode(texts):
    """Make vectors that say which words a text has."""
    return np.array([[float(word in text) for word in WORDS] for text in texts])


class Encoder:
    """Takes the place of `vips_fast.data.SentenceEncoder`."""

    def __init__(self, model=None, n_jobs=None):
        self.name = "an invention"

    def __call__(self, texts):
        return encode(texts)
