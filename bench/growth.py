"""Measure how the cost of a private fit grows, one size at a time.

    python bench/growth.py                      # all sizes: some minutes, one thread
    python bench/growth.py --only topics words

An exponent is the slope of the logarithm of processor seconds between the two largest sizes, the median of the rounds;
1 is linear. For threads they are of all threads together, so that 0 is the best. Memory is what numpy and Python
allocate at most during the fit. docs/growth.md has the table.
"""

import argparse
import json
import math
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation

ROUNDS, PATH = 3, Path(__file__).with_suffix(".json")


def documents(n: int, n_words: int = 5000, length: int = 60, seed: int = 0) -> scipy.sparse.csr_array:
    """Draw counts by Zipf's law, (n, V)."""
    rng = np.random.default_rng(seed)
    words = np.minimum(np.exp(rng.random((n, length)) * math.log(n_words)).astype(np.int64), n_words) - 1
    counts = scipy.sparse.coo_array((np.ones(n * length), (np.repeat(np.arange(n), length), words.ravel())))
    counts.resize((n, n_words))
    return counts.tocsr()


def topics(n: int = 20_000, n_words: int = 5000, K: int = 20, n_steps: int = 12, persons: int = 0, n_jobs: int = 1):
    """Make a fit of topics."""
    X, groups = documents(n, n_words), np.arange(n) % persons if persons else None
    model = LatentDirichletAllocation(
        K, doc_length=60, noise_multiplier=2.0, n_steps=n_steps, batch_size=n / 4, random_state=0, n_jobs=n_jobs
    )
    return lambda: model.fit(X, groups=groups)


def regression(n: int = 50_000, d: int = 20):
    """Make a fit of a regression."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    y = X[:, 0] + 0.3 * rng.normal(size=n) > 0
    model = BayesianLogisticRegression(noise_multiplier=2.0, random_state=0, n_jobs=1)
    return lambda: model.fit(X, y)


#: What grows, its sizes, and the fit of a size.
SIZES: dict[str, tuple[tuple[int, ...], Callable[[int], Callable[[], object]]]] = {
    "documents": ((10_000, 20_000, 40_000), lambda n: topics(n)),
    "topics": ((100, 200, 400), lambda K: topics(4000, K=K)),
    "words": ((10_000, 30_000, 90_000), lambda V: topics(4000, V)),
    "persons": ((2500, 5000, 10_000), lambda n: topics(4 * n, persons=n)),
    "steps": ((12, 24, 48), lambda n: topics(n_steps=n)),
    "threads": ((1, 2), lambda n: topics(40_000, n_jobs=n)),
    "rows": ((50_000, 100_000, 200_000), lambda n: regression(n)),
    "columns": ((50, 100, 200), lambda d: regression(20_000, d)),
}


def growth(name: str, rounds: int = ROUNDS) -> tuple[list[float], list[float]]:
    """Measure seconds and MiB at each size."""
    sizes, make = SIZES[name]
    fits = [make(size) for size in sizes]
    seconds: list[list[float]] = [[] for _ in sizes]
    for _ in range(rounds):
        for number, fit in enumerate(fits):
            start = time.process_time()
            fit()
            seconds[number].append(time.process_time() - start)
    memory = []
    for fit in fits:
        tracemalloc.start()
        fit()
        memory.append(tracemalloc.get_traced_memory()[1] / 2**20)
        tracemalloc.stop()
    return [statistics.median(one) for one in seconds], memory


def exponent(costs: list[float], sizes: list[int]) -> float:
    """Compute the slope between the two largest sizes."""
    return math.log(costs[-1] / costs[-2]) / math.log(sizes[-1] / sizes[-2])


def table(rows: list[dict]) -> str:
    """Write rows as Markdown."""
    lines = ["| what grows | sizes | processor seconds | exponent | MiB | exponent |", "|" + " --- |" * 6]
    for row in rows:
        sizes, seconds, memory = row["sizes"], row["seconds"], row["memory"]
        cells = ", ".join(f"{one:,}" for one in sizes), ", ".join(f"{one:.2f}" for one in seconds)
        slopes = exponent(seconds, sizes), exponent(memory, sizes)
        space = ", ".join(f"{one:.0f}" for one in memory)
        lines.append(f"| {row['grows']} | {cells[0]} | {cells[1]} | {slopes[0]:.2f} | {space} | {slopes[1]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--stored", action="store_true", help="print the stored rows")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = {row["grows"]: row for row in (json.loads(PATH.read_text()) if PATH.exists() else [])}
    for name in () if args.stored else args.only:
        seconds, memory = (np.round(one, 3).tolist() for one in growth(name, args.rounds))
        rows[name] = {"grows": name, "sizes": list(SIZES[name][0]), "seconds": seconds, "memory": memory}
        PATH.write_text("[\n" + ",\n".join(json.dumps(rows[one]) for one in SIZES if one in rows) + "\n]\n")
    print(table([rows[one] for one in SIZES if one in rows]))


if __name__ == "__main__":
    main()
