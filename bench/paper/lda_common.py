"""Corpora, measures and runs shared by the paper's LDA figures.

The paper's corpus, 400,000 random Wikipedia articles, is simulated by resampling the
articles of VIPS_FAST_DATA/wiki to 500 words each, as many times as needed.
"""

import csv
import sys
import time
from functools import lru_cache

import common
import numpy as np
import scipy.sparse as sp

from vips_fast.kernels import native

DATA = common.DATA / "wiki"
RESULTS = common.ROOT / "bench" / "results"
LENGTH, K = 500, 50


def without_noise(learning_decay=None):
    """Give parameters of a fit without only the clip and the noise. It differs from a private one in nothing else."""
    options = dict(learning_decay=learning_decay or 0.7, topic_mean="geometric", mean_change_tol=1e-3)
    return dict(private=False, sampling="poisson", doc_length=LENGTH, options=options)


def resampled(X, rows, generator, length=LENGTH):
    """Rows of X, each resampled to ``length`` words, as int32 CSR."""
    indptr, indices, data = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.int32)
    scratch = np.empty(native.LDA_RESAMPLE_TOKENS + int(np.diff(indptr).max()), dtype=np.uint32)
    parts, lengths = [], [np.zeros(1, dtype=np.int64)]
    for first in range(0, len(rows), 4096):
        part = np.asarray(rows[first : first + 4096], dtype=np.int64)
        capacity = int((indptr[part + 1] - indptr[part]).sum()) + 1
        out = np.empty(len(part) + 1, dtype=np.int64), np.empty(capacity, dtype=np.int32), np.empty(capacity)
        seeds = generator.integers(0, 2**64, len(part), dtype=np.uint64)
        native.lda_gather(part, native.LDA_RESAMPLE, length, indptr, indices, data, seeds, scratch, *out)
        used = out[0][-1]
        parts.append((out[1][:used].copy(), out[2][:used].astype(np.int32)))
        lengths.append(out[0][1:] + lengths[-1][-1])
    pointers = np.concatenate(lengths)
    if pointers[-1] < 2**31:
        pointers = pointers.astype(np.int32)
    return sp.csr_array(
        (np.concatenate([c for _, c in parts]), np.concatenate([i for i, _ in parts]), pointers),
        shape=(len(rows), X.shape[1]),
    )


@lru_cache(1)
def load(n_records=400_000, n_test=800, seed=0):
    """(training counts, test counts, vocabulary) of the simulated corpus."""
    if not DATA.is_dir():
        sys.exit("real data not found: set VIPS_FAST_DATA to the folder that holds wiki/")
    generator = np.random.default_rng(seed)
    train, test = (sp.csr_array(sp.load_npz(DATA / f"{name}.npz")) for name in ("train", "test"))
    rows = np.tile(np.arange(train.shape[0]), n_records // train.shape[0] + 1)[:n_records]
    X = resampled(train, generator.permutation(rows), generator)
    return X, resampled(test, np.arange(n_test), generator), (DATA / "vocab.txt").read_text().split()


def unigram_perplexity(train, test):
    """Perplexity of the words' own frequencies, no privacy."""
    p = np.asarray(train.sum(axis=0), dtype=float).ravel() + 1e-3
    counts = np.asarray(test.sum(axis=0), dtype=float).ravel()
    return float(np.exp(-counts @ np.log(p / p.sum()) / counts.sum()))


def top_words(components, n=10):
    """(K, n) most probable words of each topic."""
    return np.argsort(-components, axis=1)[:, :n]


def npmi(top, documents):
    """Mean normalized pointwise mutual information of the topics' top words over documents."""
    used, place = np.unique(top, return_inverse=True)
    present = (documents[:, used] > 0).astype(np.float64)
    together = (present.T @ present).toarray() / documents.shape[0]
    alone = together.diagonal()
    place = place.reshape(top.shape)
    scores = []
    for row in place:
        i, j = np.triu_indices(len(row), 1)
        p, a, b = together[row[i], row[j]], alone[row[i]], alone[row[j]]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(p / (a * b)) / -np.log(p)
        scores.append(np.where(p > 0, value, -1.0).mean())
    return float(np.mean(scores))


def matched(components, reference):
    """Find the closest topic of each reference topic, one to one. By cosine."""
    from scipy.optimize import linear_sum_assignment

    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (reference, components))
    return linear_sum_assignment(-(a @ b.T))[1]


def overlap(components, reference, n=10):
    """Compute the mean share of top n words common to matched topics."""
    ours, theirs = top_words(components[matched(components, reference)], n), top_words(reference, n)
    return float(np.mean([len(set(a) & set(b)) / n for a, b in zip(ours, theirs, strict=False)]))


class Table:
    """Rows that go to the screen, and to a CSV file at the end. The screen gets each at once."""

    def __init__(self, name, columns):
        RESULTS.mkdir(parents=True, exist_ok=True)
        self.path, self.columns, self.rows = RESULTS / f"{name}.csv", columns, []
        self.start = time.perf_counter()
        print("  ".join(f"{c:>14}" for c in columns), flush=True)

    def add(self, *values):
        self.rows.append(values)
        shown = [f"{v:14.4g}" if isinstance(v, float) else f"{v!s:>14}" for v in values]
        print("  ".join(shown) + f"   [{time.perf_counter() - self.start:.0f} s]", flush=True)
        with open(self.path, "w", newline="") as file:
            csv.writer(file).writerows([self.columns, *self.rows])
