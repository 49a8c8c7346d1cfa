"""Compare three ways to topics by month, with planted drift.

Six topics of 600 words over six months; the fits have eight, as the tutorial advises, so that no two are mixed up. In
each topic a quarter of the words grow or shrink, by a factor of exp(s z) to either side of the middle, z normal and s
the strength. Documents have 40 words, and each is a person of its own.

- "each month": a fit to each month by itself. Months are parts, so that all fits cost what one costs.
- "all months": one fit to all months, whose topics stay.
- "drift": a fit to all months, then `vips_fast.DriftingTopics` for a part of the same epsilon.

The error is the total variation between found and planted words of a topic in a month, averaged. Topics are matched to
the planted ones for the least error: for each month by itself in the first way, once in the others. `python
bench/drift.py` prints the table of docs/drift.md from the stored rows, and makes those that are missing.
"""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from vips_fast import DriftingTopics, LatentDirichletAllocation
from vips_fast.accounting import GaussianEvent, gaussian_noise_multiplier
from vips_fast.accounting import epsilon as epsilon_of

K, FITTED, V, MONTHS, LENGTH, DELTA = 6, 8, 600, 6, 40, 1e-6
PATH, PART, SEEDS = Path(__file__).with_suffix(".json"), 0.5, 3
WAYS = ("each month", "all months", "drift")
CELLS = list(product((500, 2000, 6000), (1.0, 2.0)))


def rest(epsilon: float, part: float) -> float:
    """Leave ``part`` of a whole epsilon to a later release: squares of mu of Gaussian privacy add up."""
    whole, own = (gaussian_noise_multiplier(one, DELTA) ** -2 for one in (epsilon, part))
    return epsilon_of(GaussianEvent((whole - own) ** -0.5), DELTA)


def planted(rng: np.random.Generator, strength: float) -> np.ndarray:
    """Draw topics of each month, (months, K, V)."""
    logits = -np.log(np.arange(V) + 5.0) + rng.normal(0, 1.5, (K, V))
    moves = np.where(rng.random((K, V)) < 0.25, rng.normal(0, strength, (K, V)), 0.0)
    steps = np.linspace(-1, 1, MONTHS)[:, None, None]
    topics = np.exp(logits + steps * moves)
    return topics / topics.sum(axis=2, keepdims=True)


def documents(rng: np.random.Generator, topics: np.ndarray, n: int) -> np.ndarray:
    """Draw documents of a month, (n, V)."""
    return np.array([rng.multinomial(LENGTH, one) for one in rng.dirichlet(np.full(K, 0.05), n) @ topics])


def error(found: np.ndarray, truth: np.ndarray) -> float:
    """Match topics (T, K, V) once; average their distance."""
    apart = np.abs(found[:, :, None] - truth[:, None]).sum(axis=3) / 2
    rows, columns = linear_sum_assignment(apart.mean(axis=0))
    return float(apart[:, rows, columns].mean())


def run(n: int, strength: float, seed: int, epsilon: float = 1.0, **settings: object) -> dict:
    """Measure the three ways with one corpus."""
    rng = np.random.default_rng(seed)
    truth = planted(rng, strength)
    months = [documents(rng, topics, n) for topics in truth]
    how = {"doc_length": LENGTH, "delta": DELTA, "random_state": seed}

    def fit(X: np.ndarray, epsilon: float) -> LatentDirichletAllocation:
        return LatentDirichletAllocation(FITTED, epsilon=epsilon, **how).fit(X)

    def shares(model: LatentDirichletAllocation) -> np.ndarray:
        return model.components_ / model.components_.sum(axis=1, keepdims=True)

    X, names = np.vstack(months), [f"month {m}" for m in range(MONTHS)]
    errors = {"each month": np.mean([error(shares(fit(months[m], epsilon))[None], truth[[m]]) for m in range(MONTHS)])}
    fixed = shares(fit(X, epsilon))
    errors["all months"] = error(np.tile(fixed, (MONTHS, 1, 1)), truth)
    base = fit(X, rest(epsilon, PART * epsilon))
    drift = DriftingTopics(names, topics=base.components_, epsilon=PART * epsilon, **how, **settings)
    drift.fit(X, np.repeat(names, n), after=base)
    errors["drift"] = error(drift.drift().topics, truth)
    still = error(np.tile(shares(base), (MONTHS, 1, 1)), truth)
    row = {"n": n, "strength": strength, "seed": seed, "still": still}
    return {**row, "epsilon": drift.privacy_.epsilon, **{way: float(errors[way]) for way in WAYS}}


def table(rows: list[dict]) -> str:
    """Write the table of the page."""
    lines = ["| documents a month | strength | " + " | ".join(WAYS) + " | best in |", "| --- " * 6 + "|"]
    for n, strength in CELLS:
        some = [row for row in rows if (row["n"], row["strength"]) == (n, strength)]
        if some:
            means = [f"{np.mean([row[way] for row in some]):.3f}" for way in WAYS]
            best = sum(row["drift"] == min(row[way] for way in WAYS) for row in some)
            lines.append(f"| {n:,} | {strength:g} | {' | '.join(means)} | {best} of {len(some)} |")
    return "\n".join(lines)


def main() -> None:
    """Make the missing rows, and print the table."""
    rows = json.loads(PATH.read_text()) if PATH.exists() else []
    known = {(row["n"], row["strength"], row["seed"]) for row in rows}
    for seed, (n, strength) in product(range(SEEDS), CELLS):
        if (n, strength, seed) not in known and "--stored" not in sys.argv:
            rows.append(run(n, strength, seed))
            PATH.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    print(table(rows))


if __name__ == "__main__":
    main()
