"""Fits from shards on disk beside fits in memory.

Resident memory, seconds a step, bits.

    python bench/paper/shards.py write FOLDER --records 2000000   # simulated documents of 500 words
    python bench/paper/shards.py memory FOLDER                    # memory of a fit from disk, in its own process
    python bench/paper/shards.py memory FOLDER --counts int64     # and one in memory, with counts of a type
    python bench/paper/shards.py time FOLDER                      # seconds a step of both, in turn, in one process

``write`` draws ``records / batch`` bins, so that a bin is a minibatch of about ``--batch`` documents. Steps are timed
for Poisson sampling, whose rows lie all over the disk, and for bins, each one stretch of it. "Bins" times only the
reading: its sampler here is a stand-in without accounting, and the models are thrown away.
"""

import argparse
import resource
import time

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, K, resampled

from vips_fast import LatentDirichletAllocation
from vips_fast.data import Batch, ShardedCorpus, write_shards
from vips_fast.engine.sampling import PoissonSampler

KEY = b"k" * 32
MIB = 2**20


class Stretches(PoissonSampler):
    """Bin after bin."""

    edges = np.zeros(2, np.int64)

    def draw(self, n_rows, randomness, step):
        k = step % (len(self.edges) - 1)
        return np.arange(self.edges[k], self.edges[k + 1])


class Binned(LatentDirichletAllocation):
    """A model that goes from bin to bin."""

    def _sampler(self, public):
        return Stretches(public.n_records, self.batch_size)


def simulated(n, seed=0, chunk=20_000):
    """Yield batches of documents of 500 words, resampled from the articles.

    Each as often.
    """
    generator, train = np.random.default_rng(seed), sp.csr_array(sp.load_npz(DATA / "train.npz"))
    for first in range(0, n, chunk):
        yield Batch(resampled(train, generator.integers(0, train.shape[0], min(chunk, n - first)), generator))


def resident():
    """Read resident, anonymous and file-mapped MiB, and the peak.

    Of this process.
    """
    rows = dict(line.split(":")[:2] for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    rss, anonymous = (int(rows[name].split()[0]) / 1024 for name in ("Rss", "Anonymous"))
    return rss, anonymous, rss - anonymous, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def model(corpus, bins, n_steps, batch, jobs, **options):
    """Make an unfitted model, through the bins if ``bins`` says so."""
    Stretches.edges = corpus.bins
    kind = Binned if bins else LatentDirichletAllocation
    settings = {
        "batch_size": batch,
        "n_steps": n_steps,
        "noise_multiplier": 1.0,
        "n_jobs": jobs,
        "random_state": 0,
        **options,
    }
    return kind(K, **settings).set_unsafe(test_key=KEY)


def write(arguments):
    start = time.perf_counter()
    bins = max(1, round(arguments.records / arguments.batch))
    corpus = write_shards(arguments.folder, simulated(arguments.records), shard_mb=arguments.shard_mb, bins=bins)
    size = sum(file.stat().st_size for file in corpus.path.rglob("*.npy"))
    n, shards, seconds = corpus.n_rows, len(corpus.partitions), time.perf_counter() - start
    print(f"{n} documents, {bins} bins, {shards} shards, {size / 2**30:.2f} GiB in {seconds:.0f} s")


def matrix(corpus, dtype=np.int32):
    """Return all rows in memory, filled in place."""
    rows = np.arange(corpus.n_rows)
    lengths = np.concatenate([corpus.lengths(rows[a : a + 10**6]) for a in range(0, len(rows), 10**6)])
    X = sp.csr_array(corpus.shape, dtype=dtype)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    data, indices = np.empty(indptr[-1], dtype), np.empty(indptr[-1], np.int32)
    for place, piece in corpus.pieces():
        part = slice(indptr[place.start], indptr[place.stop])
        data[part], indices[part] = piece.data, piece.indices
    X.data, X.indices, X.indptr = data, indices, indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)
    return X


def memory(arguments):
    corpus = ShardedCorpus(arguments.folder, verify=False)
    warm = model(corpus, False, 1, 100, 1)
    warm.fit(sp.csr_array(np.ones((200, corpus.n_features), np.int32)))
    V, base, held = corpus.n_features, resident(), 0.0
    X = corpus
    if arguments.counts:
        X = matrix(corpus, np.dtype(arguments.counts))
        held = sum(array.nbytes for array in (X.data, X.indices, X.indptr)) / MIB
        print(f"corpus in memory {held:.0f} MiB; peak after it was made {resident()[3] - base[3]:.0f} MiB")
    print(f"{corpus.n_rows} documents; before, with a model of the same size fitted: rss {base[0]:.0f} MiB")
    for bins in (False, True):
        most = [0.0, 0.0, 0.0]

        def seen(progress, most=most):
            most[:] = map(max, most, resident()[:3])

        model(corpus, bins, arguments.steps, arguments.batch, arguments.jobs).fit(X, callback=seen)
        peak = resident()[3]
        print(
            f"{'bins' if bins else 'Poisson'}: after a step at most rss {most[0]:.0f}, anonymous {most[1]:.0f}, "
            f"file pages {most[2]:.0f}; peak of the process {peak:.0f}; beyond before"
            f"{' and the corpus' if held else ''} {peak - base[0] - held:.0f} MiB "
            f"(3 K V 8 a thread is {3 * K * V * 8 * arguments.jobs / MIB:.0f})",
            flush=True,
        )


def timed(arguments):
    corpus = ShardedCorpus(arguments.folder, verify=False)
    X = matrix(corpus)
    for bins in (False, True):
        seconds = {"memory": [], "disk": []}
        arrays = {}
        for round_ in range(arguments.rounds + 1):
            for name, rows in (("memory", X), ("disk", corpus)):
                marks = []
                fitted = model(corpus, bins, arguments.steps, arguments.batch, arguments.jobs).fit(
                    rows,
                    callback=lambda progress, marks=marks: marks.append((time.perf_counter(), time.process_time())),
                )
                if round_:
                    # Not the first step, whose time includes reading and checking the matrix.
                    seconds[name].append(np.median(np.diff(marks, axis=0), axis=0))
                arrays[name] = fitted.components_
        inside, disk = (np.median(seconds[name], axis=0) for name in ("memory", "disk"))
        ratio = np.median(np.array(seconds["disk"]) / np.array(seconds["memory"]), axis=0)
        for k, clock in enumerate(("seconds", "seconds of processor")):
            print(
                f"{'bins' if bins else 'Poisson'}: {inside[k]:.2f} {clock} a step in memory, {disk[k]:.2f} from disk, "
                f"ratio {ratio[k]:.3f}",
                flush=True,
            )
        print(f"same bits: {np.array_equal(*arrays.values())}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "memory", "time"))
    parser.add_argument("folder")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--shard-mb", type=float, default=256)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    types = ("uint8", "uint16", "int32", "int64")
    parser.add_argument("--counts", choices=types, help="memory: of a fit in memory, with counts of this type")
    arguments = parser.parse_args()
    {"write": write, "memory": memory, "time": timed}[arguments.what](arguments)


if __name__ == "__main__":
    main()
