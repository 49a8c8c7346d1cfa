"""Measure the parts of a step of LDA, and many cores' efficiency.

The parts are measured on one thread, and the efficiency on many cores follows from them.

    python bench/efficiency.py

Threads share the E-step, the noise, the M-step, and the merge of their accumulators, each read by one pass per thread.
The rest (sampling, bookkeeping) is serial. With T threads a step then takes

    E/T + N/T + U · ceil(b/T)/b + merge + rest

with U the M-step in b blocks and merge the time to add one accumulator. Efficiency is the time of one thread over T
times that. Where T accumulators are beyond what the backend allows, fewer threads do the E-step. Memory bandwidth,
which cores share, is not in the formula.
"""

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parent / "paper"))

from lda_common import load

from vips_fast import LatentDirichletAllocation
from vips_fast.engine import backend
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.lda.model import _CHUNK, LdaModel

CASES = ((50, 7_702, 100_000), (50, 7_702, 20_000), (200, 50_000, 100_000))
CORES = (2, 4, 16, 64)


def timed(target, name, spent, times):
    """Replace a method by a timed one; return the way back.

    The new one adds its seconds to ``spent``; the returned function puts the old one back.
    """
    inner = getattr(target, name)

    def call(*args, **keywords):
        start = time.thread_time()
        try:
            return inner(*args, **keywords)
        finally:
            spent[times].append(time.thread_time() - start)

    setattr(target, name, call)
    return lambda: setattr(target, name, inner)


def widened(X, n_words, generator):
    """Draw the documents over a wider vocabulary.

    Each of their words becomes one of several, with shares of its own.
    """
    copies = -(-n_words // X.shape[1])
    share = generator.dirichlet(np.full(copies, 0.5), X.shape[1])
    drawn = (generator.random(len(X.indices))[:, None] > np.cumsum(share, axis=1)[X.indices]).sum(axis=1)
    columns = np.minimum(X.indices.astype(np.int64) * copies + np.minimum(drawn, copies - 1), n_words - 1)
    out = sp.csr_array((X.data, columns.astype(np.int32), X.indptr), shape=(X.shape[0], n_words))
    out.sum_duplicates()
    return out


def parts(X, n_topics, batch_size, n_steps):
    """Median seconds of each part of a later step, on one thread."""
    spent = defaultdict(list)
    undo = [
        timed(backend.Threads, "sum", spent, "E-step"),
        timed(LdaModel, "update", spent, "M-step"),
        timed(GaussianMechanism, "add_noise", spent, "noise"),
    ]
    marks = []
    try:
        LatentDirichletAllocation(
            n_topics,
            batch_size=batch_size,
            n_steps=n_steps,
            epsilon=1.0,
            delta=1e-4,
            doc_length=500,
            n_records=X.shape[0],
            n_jobs=1,
            callback=lambda progress: marks.append(time.thread_time()),
        ).fit(X)
    finally:
        for back in undo:
            back()
    found = {name: float(np.median(seconds[1:])) for name, seconds in spent.items()}
    found["rest"] = max(float(np.median(np.diff(marks))) - sum(found.values()), 0.0)
    found["first M-step"] = spent["M-step"][0]
    return found


def merge_seconds(n_entries):
    a, b = np.ones(n_entries, np.int64), np.ones(n_entries, np.int64)
    best = np.inf
    for _ in range(5):
        start = time.thread_time()
        a += b
        best = min(best, time.thread_time() - start)
    return best


def step_seconds(found, n_threads, n_words, n_topics):
    """Compute a step's seconds on some threads, by the formula above."""
    workers = max(1, min(n_threads, backend.ACCUMULATOR_BYTES // (8 * n_words * n_topics)))
    blocks = -(-n_words // _CHUNK)
    merge = merge_seconds(n_words * n_topics) if workers > 1 else 0.0
    shared = found["E-step"] / workers + found["noise"] / n_threads
    return shared + found["M-step"] * -(-blocks // n_threads) / blocks + merge + found["rest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    corpus, _, _ = load(options.records, n_test=1)
    for n_topics, n_words, batch_size in CASES:
        X = corpus if n_words == corpus.shape[1] else widened(corpus, n_words, np.random.default_rng(0))
        found = parts(X, n_topics, min(batch_size, options.records), options.steps)
        one = step_seconds(found, 1, n_words, n_topics)
        print(f"\nK = {n_topics}, V = {n_words:,}, S = {batch_size:,}, {X.nnz / X.shape[0]:.0f} words a document")
        print("  ms: " + ", ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in found.items()))
        print(f"  not the E-step, one thread: {1 - found['E-step'] / one:.1%}")
        for cores in CORES:
            print(f"  {cores:3d} cores: {one / cores / step_seconds(found, cores, n_words, n_topics):.1%}")


if __name__ == "__main__":
    main()
