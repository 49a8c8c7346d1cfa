"""Small fitted models of each kind whose reports are hard to print, with long names, many rows or foreign letters.

Their noise comes from a known key, which they are not told of: each run gives the same pages.
"""

import functools

import numpy as np
import scipy.sparse as sp

from vips_fast import (
    BayesianLogisticRegression,
    LatentDirichletAllocation,
    PrivateVocabulary,
    SigmoidBeliefNetwork,
    TopicTables,
)
from vips_fast.engine.sampling import KeyedRandomness
from vips_fast.report import html_report

LONG = "Donaudampfschifffahrtsgesellschaftskapitän"


def words(n):
    names = [f"word{k}" for k in range(n)]
    names[:6] = [LONG, "健康保険組合連合会理事長", "W" * 24, "<script>alert(1)</script>", "naïve", "a\u202eb"]
    return names


def known(model):
    """Return the estimator, with noise from a known key."""
    model._randomness = lambda public: KeyedRandomness(b"k" * 32)
    return model


@functools.cache
def topics():
    rng = np.random.default_rng(0)
    beta = rng.dirichlet(np.full(60, 0.1), 14)
    X = sp.csr_array(np.stack([rng.multinomial(40, beta[d % 14]) for d in range(2000)]))
    return known(LatentDirichletAllocation(14, epsilon=8.0, delta=1e-4, n_steps=6, doc_length=40, random_state=0)).fit(
        X
    )


@functools.cache
def tainted():
    rng = np.random.default_rng(0)
    model = LatentDirichletAllocation(3, noise_multiplier=2.0, n_steps=3, doc_length=30, random_state=0)
    return model.set_unsafe(test_key=b"k" * 32).fit(sp.csr_array(rng.poisson(0.6, (200, 12))))


@functools.cache
def coefficients(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 30)) * 0.2
    y = (X[:, :n_classes] + rng.normal(size=(4000, n_classes)) * 0.1).argmax(axis=1)
    return known(BayesianLogisticRegression(epsilon=1.5, row_norm=2.0, classes=range(n_classes))).fit(X, y)


@functools.cache
def images(width=49):
    rng = np.random.default_rng(0)
    Y = (rng.random((600, width)) < rng.random((1, width))).astype(np.uint8)
    return known(SigmoidBeliefNetwork(6, epsilon=4.0, n_steps=4, random_state=0)).fit(Y)


@functools.cache
def vocabulary():
    texts = [" ".join(f"token{k}" for k in range(30)) for _ in range(2000)]
    return known(PrivateVocabulary(epsilon=4.0, delta=1e-6, max_tokens=40)).fit(texts)


@functools.cache
def purchased():
    """Topics over words that were purchased."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"token{k}" for k in rng.choice(40, 25) // (1 + i % 2)) for i in range(4000)]
    found = known(PrivateVocabulary(epsilon=4.0, delta=5e-6, max_tokens=25, max_share=1.0)).fit(texts)
    counts, listed = found.transform(texts), "".join(f"{word}\n" for word in found.get_feature_names_out())
    model = known(LatentDirichletAllocation(14, epsilon=8.0, delta=1e-5, n_steps=4, doc_length=25, random_state=0))
    return model.fit(counts, inputs={"vocab.txt": listed}, after=found), counts


@functools.cache
def tables(of_month=True):
    """Tables of these topics by ward and by month."""
    model, counts = purchased()
    shares, rng = model.transform(counts), np.random.default_rng(1)
    month = rng.integers(0, 6, len(shares))
    shares = np.where((rng.random(len(shares)) < 0.1 * month)[:, None], np.eye(14)[3], shares)
    by = {"month": [f"2026-{m + 1:02}" for m in range(6)]} if of_month else {"ward": ["north", LONG, "<b>west</b>"]}
    values = {name: np.array(known_)[month % len(known_)] for name, known_ in by.items()}
    made = known(TopicTables(by, epsilon=9.0 if of_month else 8.5, delta=1e-5))
    return made.fit(shares, values, after=tables(False) if of_month else model)


def whole():
    return purchased()[0]


#: Name: (function that gives a model, arguments of its report).
REPORTED = {
    "topics": (topics, {"names": words(60)}),
    "tainted": (tainted, {}),
    "coefficients": (coefficients, {"names": words(30)}),
    "classes": (functools.partial(coefficients, 4), {"names": words(30)}),
    "images": (images, {}),
    "bars": (functools.partial(images, 40), {"names": words(40)}),
    "vocabulary": (vocabulary, {}),
    "whole": (whole, {"titles": words(14)}),
}


@functools.cache
def page(name):
    """Return the report of one of these, as text."""
    return again(name)


def again(name):
    make, more = REPORTED[name]
    every = {"tables": [tables(False), tables()]} if name == "whole" else {}
    return html_report(make(), **every, **more)
