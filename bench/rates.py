"""Sweep the coverage of regressions' 90 % intervals over rates of outcomes and kinds of columns.

    python bench/rates.py --out bench/rates.json     # 15 minutes of one core; cells that are stored are not run again
    python bench/rates.py --table bench/rates.json   # the tables of docs/logistic.md

Counts are negative binomial of dispersion 1, and their rate is the mean; none is above ``largest``.
Columns are in their own units, ``row_norm`` is the longest row, delta = 10^-6. Known effects count, of all columns.
``spread`` is the root mean square of their errors in the stated standard deviations. The rule of known effects was
chosen on data sets of other seeds.
"""

import argparse
import json
import math
import subprocess
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.models.logistic.effects import reading

#: Kinds of columns, with their number and the size of the largest coefficient.
KINDS = {
    "normal": (6, 1.5),
    "skewed": (6, 0.7),
    "binary": (10, 1.0),
    "binary, correlated": (10, 1.0),
    "interactions": (12, 1.0),
    "mixed": (6, 1.0),
    "60 columns": (60, 0.4),
    "separated": (6, 1.0),
    "separated, numbers": (5, 1.0),
    "one of 3": (1, 1.0),
    "nearly one thing": (11, 1.0),
}
#: Weights of the kinds of strong effects. The records of the first value of a separated kind have one class.
STRONG = {
    "separated": (50.0, 3.0, 2.5, -2.0, 0.5, 0.0),
    "separated, numbers": (50.0, 1.5, -1.0, 0.5, 0.0),
    "one of 3": (3.0,),
    "nearly one thing": (10.0, -6.0, -4.0, 0.5, -0.4, 0.3, -0.2, 0.2, 0.1, 0.0, 0.0),
}
#: The first seed.
FIRST = 100
RATES, MEANS = (0.01, 0.05, 0.16, 0.5), (0.1, 1.0, 5.0, 20.0)
KINDS_AND_RATES = [(kind, rate) for kind, rate in product(KINDS, RATES) if kind not in STRONG or rate > 0.1]
#: Records and epsilon, with the number of runs of a cell.
SIZES = {(30_000, 1.0): 20, (30_000, 4.0): 20, (3_000, 4.0): 20}
OF_COUNTS = {(30_000, 1.0): 20, (30_000, 4.0): 20, (3_000, 4.0): 20}


def rows_of(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows of one kind; some columns are skewed, rare, or go with others."""
    if kind == "correlated":
        return math.sqrt(0.2) * rng.normal(size=(n, d)) + math.sqrt(0.8) * rng.normal(size=(n, 1))
    if kind == "skewed":
        return np.minimum(rng.exponential(size=(n, d)), 8.0)
    if kind == "binary":
        return (rng.random((n, d)) < np.geomspace(0.01, 0.5, d)).astype(float)
    if kind == "binary, correlated":
        score = math.sqrt(0.5) * (rng.normal(size=(n, d)) + rng.normal(size=(n, 1)))
        return (score < np.linspace(-1.3, 0.0, d)).astype(float)
    X = rng.normal(size=(n, d))
    if kind == "separated":
        X[:, :-1], X[:, -1] = rng.random((n, d - 1)) < [0.1, 0.05, 0.1, 0.2, 0.3], rng.uniform(-1, 1, n)
    if kind == "separated, numbers":
        X = np.clip(X, -3, 3)
        X[:, 0] = rng.random(n) < 0.1
    if kind == "nearly one thing":
        X[:, :3] = math.sqrt(0.97) * rng.normal(size=(n, 1)) + math.sqrt(0.03) * X[:, :3]
    if kind == "mixed":
        half = d // 2
        X[:, :half] = X[:, :half] < np.linspace(-1.6, 0.0, half)
        X[:, half : half + half // 2] = np.exp(0.7 * X[:, half : half + half // 2])
    if kind == "interactions":
        third = d // 3
        X[:, :third] = X[:, :third] < -0.5
        X[:, 2 * third : 3 * third] = X[:, :third] * X[:, third : 2 * third]
    return X


def draw(
    kind: str, n: int, d: int, rate: float, size: float = 1.0, seed: int = 0
) -> tuple[np.random.Generator, np.ndarray, float, np.ndarray, np.ndarray]:
    """Draw rows, their bound, logits with outcomes of this rate, and weights."""
    rng = np.random.default_rng([n, d, round(1000 * rate), seed])
    X = rows_of(kind, n, d, rng)
    weights = size * np.linspace(-1, 1, d) * np.where(np.arange(d) % 2, 1, -0.7)
    weights = np.array(STRONG.get(kind, weights))
    logits = X @ weights
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logits + middle).mean() < rate else (low, middle)
    return rng, X, 1.0001 * float(np.linalg.norm(X, axis=1).max()), logits + low, weights


def regression(kind: str, rate: float, n: int, epsilon: float, seed: int) -> tuple[Any, np.ndarray]:
    """Fit one data set; give the model and the true weights."""
    common: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "n_jobs": 1}
    key = seed.to_bytes(32, "big")
    if kind == "counts":
        rng = np.random.default_rng([n, round(1000 * rate), seed])
        X, weights = rng.uniform(-1, 1, (n, 4)), np.array([0.5, -0.4, 0.3, 0.0])
        means = np.exp(X @ weights)
        means *= rate / means.mean()
        y = rng.negative_binomial(1.0, 1 / (1 + means)).astype(float)
        counts = CountRegression(row_norm=2.0, largest=float(y.max()), **common)
        return counts.set_unsafe(test_key=key).fit(X, y), weights
    (d, size) = KINDS[kind]
    rng, X, bound, logits, weights = draw(kind, n, d, rate, size, seed)
    y = (rng.random(n) < expit(logits)).astype(int)
    model = BayesianLogisticRegression(row_norm=bound, classes=[0, 1], **common)
    return model.set_unsafe(test_key=key).fit(X, y), weights


def run_cell(kind: str, rate: float, n: int, epsilon: float, runs: int) -> dict[str, Any]:
    """Fit the data sets of a cell."""
    fits = [regression(kind, rate, n, epsilon, seed) for seed in range(FIRST, FIRST + runs)]
    z = np.array([(m.coef_[0] - w) / np.sqrt(m.covariance_.diagonal()[: len(w)]) for m, w in fits])
    known = np.array([reading(m).known[0] for m, _ in fits])
    found = {"kind": kind, "rate": rate, "n": n, "epsilon": epsilon, "runs": runs, "known": float(known.mean())}
    count, hits = int(known.sum()), np.abs(z) <= ndtri(0.95)
    found["count"] = count
    found["coverage"] = float((hits * known).sum() / count) if count else math.nan
    found["spread"] = float(math.sqrt((known * z**2).sum() / count)) if count else math.nan
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}


def cells() -> list[tuple[str, float, int, float, int]]:
    """List kinds, rates, records, epsilons and runs, the most wanted first."""
    first = [
        (kind, rate, *size, runs)
        for size, runs in SIZES.items()
        for kind, rate in KINDS_AND_RATES
        if kind != "60 columns" or size == (30_000, 4.0)
    ]
    return first + [("counts", mean, *size, runs) for size, runs in OF_COUNTS.items() for mean in MEANS]


def table(rows: list[dict[str, Any]]) -> str:
    """Write the tables of stored cells: known effects, and their coverage."""
    found = {(row["kind"], row["rate"], row["n"], row["epsilon"]): row for row in rows}

    def lines(head: str, kinds: list[tuple[str, float]], sizes: list[tuple[int, float]]) -> list[str]:
        made = [f"| {head} | {' | '.join(f'{n:,}, ε = {epsilon:g}' for n, epsilon in sizes)} |"]
        made.append("| --- " * (len(sizes) + 1) + "|")
        for kind, rate in kinds:
            shown = []
            for size in sizes:
                one = found.get((kind, rate, *size))
                sure = one is not None and one["count"] >= 10
                shown.append(f"{one['coverage']:.2f} ({one['known']:.2f})" if one is not None and sure else "–")
            made.append(f"| {kind}, {rate:g} | {' | '.join(shown)} |")
        return made

    count = sum(row["count"] for row in rows)
    hits = sum(row["count"] * row["coverage"] for row in rows if row["count"])
    outcomes = lines("columns, rate", KINDS_AND_RATES, sorted(SIZES))
    counts = lines("counts, mean", [("counts", mean) for mean in MEANS], sorted(OF_COUNTS))
    return "\n".join([*outcomes, "", *counts, "", f"Of all known effects {hits / count:.3f} are covered."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a stored sweep, and run nothing")
    args = parser.parse_args()
    if args.table is not None:
        print(table(json.loads(args.table.read_text())), end="")
        return
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        rows = json.loads(args.out.read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    done = {(row["kind"], row["rate"], row["n"], row["epsilon"], row["runs"]) for row in rows}
    for cell in cells():
        if cell in done:
            continue
        rows.append({**run_cell(*cell), "commit": commit.stdout.strip()})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if args.out is not None:
            args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
