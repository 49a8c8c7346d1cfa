"""Sweep the coverage of regressions' 90 % intervals over rates of outcomes and kinds of columns.

    python bench/rates.py --out bench/rates.json     # 6 minutes of one core
    python bench/rates.py --table bench/rates.json   # the table of docs/logistic.md

Columns are in their own units, ``row_norm`` is the longest row, delta = 10^-6. Known effects count, of all columns.
``spread`` is the root mean square of their errors in the stated standard deviations.
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic.effects import changes, known_changes

#: Kinds of columns, with their number and the size of the largest coefficient.
KINDS = {
    "normal": (6, 1.5),
    "skewed": (6, 0.7),
    "binary": (10, 1.0),
    "binary, correlated": (10, 1.0),
    "interactions": (12, 1.0),
    "mixed": (6, 1.0),
}
RATES, EPSILONS = (0.01, 0.05, 0.16, 0.5), (1.0, 4.0)
#: Records, with the number of runs of a cell.
SIZES = {30_000: 20, 120_000: 8}


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
    logits = X @ weights
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logits + middle).mean() < rate else (low, middle)
    return rng, X, 1.0001 * float(np.linalg.norm(X, axis=1).max()), logits + low, weights


def run_cell(kind: str, rate: float, n: int, epsilon: float) -> dict[str, Any]:
    """Fit the data sets of a cell."""
    (d, size), runs = KINDS[kind], SIZES[n]
    hits, known, z = (np.empty((runs, d)) for _ in range(3))
    for seed in range(runs):
        rng, X, bound, logits, truth = draw(kind, n, d, rate, size, seed)
        y = (rng.random(n) < expit(logits)).astype(int)
        model = BayesianLogisticRegression(row_norm=bound, epsilon=epsilon, delta=1e-6, n_jobs=1, classes=[0, 1])
        model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y)
        z[seed] = (model.coef_[0] - truth) / np.sqrt(model.covariance_.diagonal()[:d])
        known[seed] = known_changes(model, changes(model))[0]
        hits[seed] = np.abs(z[seed]) <= ndtri(0.95)
    found = {"kind": kind, "rate": rate, "n": n, "epsilon": epsilon, "runs": runs, "known": float(known.mean())}
    count = float(known.sum())
    found["coverage"] = float((hits * known).sum() / count) if count else math.nan
    found["spread"] = float(math.sqrt((known * z**2).sum() / count)) if count else math.nan
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """Write the table of stored cells: known effects, and their coverage."""
    heads = [f"{n:,}, ε = {epsilon:g}" for n in SIZES for epsilon in EPSILONS]
    lines = [f"| columns, rate | {' | '.join(heads)} |", "| --- " * (len(heads) + 1) + "|"]
    for kind in KINDS:
        for rate in RATES:
            cells = []
            for n in SIZES:
                for epsilon in EPSILONS:
                    asked = {"kind": kind, "rate": rate, "n": n, "epsilon": epsilon}
                    (one,) = [row for row in rows if asked.items() <= row.items()] or [None]
                    sure = one is not None and one["known"] * one["runs"] * KINDS[kind][0] >= 10
                    cells.append("–" if not sure else f"{one['coverage']:.2f} ({one['known']:.2f})")
            lines.append(f"| {kind}, {rate:g} | {' | '.join(cells)} |")
    count = sum(row["known"] * row["runs"] * KINDS[row["kind"]][0] for row in rows)
    hits = sum(row["known"] * row["runs"] * KINDS[row["kind"]][0] * row["coverage"] for row in rows if row["known"])
    return "\n".join([*lines, "", f"Of all known effects {hits / count:.3f} are covered."]) + "\n"


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
    for n in SIZES:
        for kind in KINDS:
            for rate in RATES:
                for epsilon in EPSILONS:
                    rows.append(run_cell(kind, rate, n, epsilon))
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                    if args.out is not None:
                        args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
