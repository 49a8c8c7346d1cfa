"""Sweep the coverage of the logistic regression's 90 % intervals.

It also has the slope of the truth on its estimates.

    python bench/intervals.py --out bench/intervals.json   # a sixth of the grid, 40 runs a cell: 15 minutes of one core
    python bench/intervals.py --design mixed --out bench/intervals_mixed.json   # half the columns 0/1
    python bench/intervals.py --whole --runs 100           # every cell: hours
    python bench/intervals.py --whole --n 10000 --epsilon 1 3 --rho 0.3

Columns have a common correlation rho. They are divided by the root of their number, and rows are scaled down to the
ball of ``row_norm``. delta = 10^-6, adding or removing a record. In the "normal" design columns are normal, weights
N(0, 1.5^2), and the intercept is 0.5. In the "mixed" design half the columns are 0/1, with shares from .08 to .5.
Weights have a standard deviation of 0.5 or 2 there, and the intercept is -0.8. Each run is another data set with a
noise key of its own, so that the figures repeat. Of steps, 20 is the default. A slope of 1 is a posterior mean's:
smaller ones say that estimates are inflated. Effects that are not known
(`vips_fast.models.logistic.effects.Reading.known`) count in ``all`` only.

The fraction pairs every two levels of size, columns and correlation at each epsilon, in a Latin square. A cell of the
output file that has fewer runs gets the seeds that it lacks, and both parts are pooled. So you can stop a sweep and
resume it, or add runs to cells.
"""

import argparse
import itertools
import json
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic.effects import reading

#: Share of effects that are known in a known cell, and the coverage that it should have.
KNOWN, LEAST, MOST = 0.9, 0.86, 0.94

GRID = {
    "n": (2_000, 10_000, 50_000),
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0),
    "columns": (5, 15, 30),
    "rho": (0.0, 0.3, 0.8),
    "row_norm": (1.0, 2.0),
    "steps": (10, 20),
}


def simulate(
    seed: int, n: int, columns: int, rho: float, row_norm: float, design: str = "normal"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows, labels and weights."""
    rng = np.random.default_rng([seed, n, columns, round(100 * rho)])
    X = math.sqrt(1 - rho) * rng.normal(size=(n, columns)) + math.sqrt(rho) * rng.normal(size=(n, 1))
    if design == "mixed":
        half = columns // 2
        X[:, :half] = X[:, :half] < ndtri(np.geomspace(0.08, 0.5, half))
    X /= math.sqrt(columns)
    X *= np.minimum(1, row_norm / np.linalg.norm(X, axis=1))[:, None]
    weights, intercept = 1.5 * rng.normal(size=columns), 0.5
    if design == "mixed":
        weights, intercept = weights * rng.choice([1 / 3, 4 / 3], size=columns), -0.8
    return X, (rng.random(n) < expit(X @ weights + intercept)).astype(int), weights


def run_cell(
    seeds: range, n: int, epsilon: float, columns: int, rho: float, row_norm: float, steps: int, design: str = "normal"
) -> dict[str, float]:
    """Fit a data set for each seed."""
    hits, known, means, truth, variances = (np.empty((len(seeds), columns)) for _ in range(5))
    for i, seed in enumerate(seeds):
        X, y, truth[i] = simulate(seed, n, columns, rho, row_norm, design)
        model = BayesianLogisticRegression(row_norm=row_norm, epsilon=epsilon, delta=1e-6, n_steps=steps, n_jobs=1)
        model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y)
        means[i], variances[i] = model.coef_[0], np.diag(model.covariance_)[:columns]
        known[i] = reading(model).known(reading(model).changes)[0]
        hits[i] = np.abs(means[i] - truth[i]) <= ndtri(0.95) * np.sqrt(variances[i])
    some = known.any(axis=1)
    shares = (hits * known)[some].sum(axis=1) / known[some].sum(axis=1)
    square = float((known * means**2).sum())
    return {
        "runs": len(seeds),
        "known": float(known.mean()),
        "coverage": float((hits * known).sum() / known.sum()) if some.any() else math.nan,
        "se": float(np.std(shares)) / math.sqrt(some.sum()) if some.any() else math.nan,
        "all": float(hits.mean()),
        "slope": float((known * means * truth).sum()) / square if some.any() else math.nan,
        "rmse": float(np.sqrt(((means - truth) ** 2).mean())),
        "sd": float(np.sqrt(variances.mean())),
    }


def pool(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Pool the figures of two sets of runs of one cell."""
    runs = np.array([part["runs"] for part in (old, new)])
    known = runs * [part["known"] for part in (old, new)]

    def mean(name: str, weights: np.ndarray, power: int) -> float:
        values = np.nan_to_num([part[name] for part in (old, new)])
        return float((weights @ values**power / weights.sum()) ** (1 / power)) if weights.any() else math.nan

    errors = np.nan_to_num([part["se"] for part in (old, new)])
    found = {name: mean(name, known, 1) for name in ("coverage", "slope")}
    found |= {name: mean(name, runs, 2) for name in ("rmse", "sd")}
    found |= {name: mean(name, runs, 1) for name in ("known", "all")}
    found["se"] = float(np.linalg.norm(known * errors) / known.sum()) if known.any() else math.nan
    return old | {name: found.get(name, value) for name, value in new.items()} | {"runs": int(runs.sum())}


def cells(grid: dict[str, tuple[Any, ...]], whole: bool = False) -> Iterator[dict[str, Any]]:
    """List the cells of a grid, or of its fraction."""
    for places in itertools.product(*(range(len(values)) for values in grid.values())):
        i, e, j, k, norm, steps = places
        if whole or ((i + j + k + e) % 3 == 0 and (norm + steps + i + 2 * j + e) % 2 == 0):
            yield {name: values[place] for (name, values), place in zip(grid.items(), places, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--whole", action="store_true", help="every cell of the grid, not a sixth of them")
    parser.add_argument("--design", choices=("normal", "mixed"), default="normal")
    parser.add_argument("--out", type=Path)
    for name, values in GRID.items():
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="+", type=type(values[0]), default=values)
    args = vars(parser.parse_args())
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if args["out"] is not None and args["out"].exists():
        rows = json.loads(args["out"].read_text())["cells"]
    asked = {name: tuple(args[name]) for name in GRID}
    chosen = cells(asked, True) if args["whole"] else cells(GRID)
    for cell in chosen:
        if any(cell[name] not in asked[name] for name in GRID):
            continue
        place = next((i for i, row in enumerate(rows) if cell.items() <= row.items()), len(rows))
        seeds = range(sum(row["runs"] for row in rows[place:][:1]), args["runs"])
        if not seeds:
            continue
        found = cell | run_cell(seeds, **cell, design=args["design"])
        found = pool(rows[place], found) if rows[place:] else found
        rows[place : place + 1] = [{name: round(value, 3) for name, value in found.items()}]
        print(json.dumps(rows[place]), file=sys.stderr, flush=True)
        if args["out"] is not None:
            text = json.dumps({"design": args["design"], "cells": rows}).replace("{", "\n{")
            args["out"].write_text(text + "\n")


if __name__ == "__main__":
    main()
