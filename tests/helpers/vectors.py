"""Encoders of a few words, in place of a sentence model."""

import numpy as np

from vips_fast import PublicPrior, PublicVectors

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


#: Words of two topics, enough for a public prior.
WORDS16 = "cough fever rash ache pain nausea clinic nurse rent salary debt loan wages bank landlord money".split()


def encode16(texts):
    """Make vectors of length 1 that say which words a text has."""
    rows = np.array([[float(word in text) for word in WORDS16] for text in texts])
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


class Encoder16(Encoder):
    """The same for sixteen words."""

    def __call__(self, texts):
        return encode16(texts)


def known16(**other):
    """Make public knowledge of `encode16`."""
    frame = np.eye(16)
    known = {"projection": frame, "prototypes": frame, "weights": np.ones(16), "words": WORDS16, "name": "a test"}
    return PublicVectors(**{**known, "word_vectors": frame, **other})


def prior16():
    """Make a public prior of the two topics."""
    ratios = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    return PublicPrior(WORDS16, ratios, [1, 1], np.ones(16), "another")


def notes16(n):
    """Make notes of six words of one topic, two a person."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS16[8 * (i % 2) :][:8], 6)) for i in range(n)]
    return {"note": texts, "patient": [f"p{i // 2}" for i in range(n)]}
