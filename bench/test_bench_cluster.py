"""Time a step's sum on Dask workers: two beside one.

The workers are processes; the bytes of a step are measured too.

W1 with S = 100,000 documents of 500 words, simulated, K = 50. Sums over the whole set, in the second step of a run.
The workers compute with one thread each. The bench times all of `DaskBackend.sum`: sending the table, drawing, the
E-step, the tree, and taking the total in.
"""

import os
import pickle
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.backend import Threads

# The extra of the benches leaves Dask out, which this one file needs.
pytest.importorskip("distributed", reason="needs the extra vips_fast[dask]")
from vips_fast.engine.cluster import connected

K, N_DOCS, LENGTH = 50, 100_000, 500


@pytest.fixture(scope="module")
def run():
    """Make a fit in its second step, to time its sums. Documents are multinomial counts of simulated topics."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(10, 7712)
    topics = rng.dirichlet(0.02 * 7702 * weight / weight.sum(), K)
    words = [rng.choice(7702, 20_000, p=topic) for topic in topics]
    rows, columns = [], []
    for document in range(N_DOCS):
        own = rng.choice(K, 3)
        drawn = np.concatenate([words[k][rng.integers(0, 20_000, size)] for k, size in zip(own, (300, 150, 50))])
        rows.append(np.full(LENGTH, document, dtype=np.int32))
        columns.append(drawn.astype(np.int32))
    ones = np.ones(N_DOCS * LENGTH, dtype=np.int32)
    X = sp.csr_array((ones, (np.concatenate(rows), np.concatenate(columns))), shape=(N_DOCS, 7702))
    X.sum_duplicates()
    model = LatentDirichletAllocation(
        K, noise_multiplier=1.0, sampling="full", n_steps=2, random_state=0, n_records=N_DOCS, delta=1e-6
    )
    made = model.prepare(X)
    from vips_fast.engine.loop import run

    run(made.model, made.records, made.plan, made.ledger, made.randomness, Threads(2), steps=None)
    return made


def test_two_workers_beside_one(run, paired):
    sampler, randomness = run.plan.sampler, run.randomness

    def summing(backend, records):
        rows, words = backend.minibatch(sampler, records, randomness.of_step(0), 0)
        return backend.sum(run.model, records, rows, words)

    def seconds(backend):
        """Processor seconds of each worker and of this process in one sum."""
        held = two_placed if backend is two else one_placed
        before, own = backend.client.run(time.process_time), time.process_time()
        summing(backend, held)
        after = backend.client.run(time.process_time)
        return [after[worker] - before[worker] for worker in before], time.process_time() - own

    with connected(n_workers=1) as one, connected(n_workers=2) as two:
        with one.placed(run.records) as one_placed, two.placed(run.records) as two_placed:
            whole = summing(Threads(1), run.records)
            assert (summing(two, two_placed) == whole).all()
            peers = {
                "one worker": lambda: summing(one, one_placed),
                "one thread of this process": lambda: summing(Threads(1), run.records),
                "two threads of this process": lambda: summing(Threads(2), run.records),
            }
            what = f"sum of {N_DOCS} documents, K = {K}, V = 7702, on two workers"
            paired(lambda: summing(two, two_placed), peers, what, rounds=3)
            (alone,), _ = seconds(one)
            both, root = seconds(two)
            sent = len(pickle.dumps(run.model.contributor()))
            print(
                f"    processor seconds: one worker {alone:.2f}; two {both[0]:.2f} and {both[1]:.2f}, this process "
                f"{root:.2f}; a step sends {sent:,} bytes to each worker; "
                f"load {os.getloadavg()[0]:.1f}",
                file=sys.__stdout__,
                flush=True,
            )
