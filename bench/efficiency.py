"""Measure the parts of a step of LDA, and many cores' efficiency.

The parts are measured on one thread, and the efficiency on many cores follows from them.

    python bench/efficiency.py --out bench/cores.json      # some minutes of one core
    python bench/efficiency.py --table bench/cores.json    # the table of a stored run

Threads share the E-step, the noise, the M-step, and the merge of their accumulators, each read by one pass per thread.
The rest (sampling, bookkeeping) is serial. With T threads a step then takes

    E/T + N/T + U · ceil(b/T)/b + merge + rest

with U the M-step in b blocks and merge the time to add one accumulator. Efficiency is the time of one thread over T
times that. Where T accumulators are beyond what the backend allows, fewer threads do the E-step. Memory bandwidth,
which cores share, is not in the formula. Steps that release histograms of words, or the score, do not count.
"""

import argparse
import json
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
#: The parts of a step, with digits of their milliseconds.
PARTS = {"E-step": 0, "noise": 1, "M-step": 0, "rest": 1}


def timed(target, name, spent, part, counts=lambda *args: True):
    """Time a method's calls; return the way back.

    Their seconds are added to ``spent``, if ``counts`` accepts the arguments.
    """
    inner = getattr(target, name)

    def call(*args, **keywords):
        if not counts(*args):
            return inner(*args, **keywords)
        start = time.thread_time()
        try:
            return inner(*args, **keywords)
        finally:
            spent[part] += time.thread_time() - start

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
    """Measure the parts of a later step that releases topics.

    Seconds on one thread, medians over steps.
    """
    spent, steps, marks = defaultdict(float), [], []

    def end_step(progress):
        marks.append(time.thread_time())
        if "M-step" in spent and len(marks) > 1:
            steps.append({**spent, "whole": marks[-1] - marks[-2]})
        spent.clear()

    undo = [
        timed(backend.Threads, "sum", spent, "E-step"),
        timed(LdaModel, "update", spent, "M-step", lambda model, release: not model._counting),
        timed(GaussianMechanism, "add_noise", spent, "noise"),
    ]
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
        ).fit(X, callback=end_step)
    finally:
        for back in undo:
            back()
    names = ("E-step", "noise", "M-step")
    found = {name: float(np.median([step[name] for step in steps[1:]])) for name in names}
    rest = [step["whole"] - sum(step[name] for name in names) for step in steps[1:]]
    return {**found, "rest": max(float(np.median(rest)), 0.0)}


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


def table(rows):
    """Write the stored rows as a table, in milliseconds."""
    head = ["K, V, S", "E-step", "noise", "M-step", "rest", "not the E-step", *(f"{n} cores" for n in CORES)]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for row in rows:
        times = [f"{1e3 * row['seconds'][name]:,.{digits}f}" for name, digits in PARTS.items()]
        shares = [f"{row['outside']:.1%}", *(f"{one:.1%}" for one in row["efficiency"])]
        sizes = f"{row['K']}, {row['V']:,}, {row['S']:,}"
        lines.append("| " + " | ".join([sizes, *times, *(share.replace("%", " %") for share in shares)]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a stored run, and run nothing")
    options = parser.parse_args()
    if options.table is not None:
        print(table(json.loads(options.table.read_text())), end="")
        return
    corpus, _, _ = load(options.records, n_test=1)
    rows = []
    for n_topics, n_words, batch_size in CASES:
        X = corpus if n_words == corpus.shape[1] else widened(corpus, n_words, np.random.default_rng(0))
        batch_size = min(batch_size, options.records)
        found = parts(X, n_topics, batch_size, options.steps)
        one = step_seconds(found, 1, n_words, n_topics)
        efficiency = [one / cores / step_seconds(found, cores, n_words, n_topics) for cores in CORES]
        sizes = {"K": n_topics, "V": n_words, "S": batch_size, "distinct_words": X.nnz / X.shape[0]}
        rows.append({**sizes, "seconds": found, "outside": 1 - found["E-step"] / one, "efficiency": efficiency})
        if options.out is not None:
            options.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
