"""Sweep the coverage of the logistic regression's 90 % intervals.

It also has the slope of the truth on its estimates.

    python bench/intervals.py --out bench/intervals.json   # a sixth of the grid, 40 runs a cell: 15 minutes of one core
    python bench/intervals.py --whole --runs 100           # every cell: hours
    python bench/intervals.py --whole --n 10000 --epsilon 1 3 --rho 0.3

Rows are normal columns with a common correlation rho over the root of their number, scaled down to the ball of
``row_norm``, weights N(0, 1.5^2), the intercept 0.5; delta = 10^-6, adding or removing a record. Each run is another
data set with a noise key of its own, so that the figures are the same wherever they are computed. A slope of 1 is a
posterior mean's: smaller ones say that estimates are inflated. An effect about which the data say nothing
(`vips_fast.models.logistic.findings.unknown`) counts in ``all`` only.

The fraction pairs every two levels of size, columns and correlation at each epsilon, in a Latin square.
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
from vips_fast.models.logistic.findings import unknown

GRID = {
    "n": (2_000, 10_000, 50_000),
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0),
    "columns": (5, 12, 30),
    "rho": (0.0, 0.3, 0.8),
    "row_norm": (1.0, 2.0),
    "steps": (5, 20),
}


def simulate(seed: int, n: int, columns: int, rho: float, row_norm: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows, labels and weights."""
    rng = np.random.default_rng([seed, n, columns, round(100 * rho)])
    X = math.sqrt(1 - rho) * rng.normal(size=(n, columns)) + math.sqrt(rho) * rng.normal(size=(n, 1))
    X /= math.sqrt(columns)
    X *= np.minimum(1, row_norm / np.linalg.norm(X, axis=1))[:, None]
    weights = 1.5 * rng.normal(size=columns)
    return X, (rng.random(n) < expit(X @ weights + 0.5)).astype(int), weights


def run_cell(
    runs: int, n: int, epsilon: float, columns: int, rho: float, row_norm: float, steps: int
) -> dict[str, float]:
    """Fit ``runs`` data sets."""
    hits, known, means, truth, variances = (np.empty((runs, columns)) for _ in range(5))
    for seed in range(runs):
        X, y, truth[seed] = simulate(seed, n, columns, rho, row_norm)
        model = BayesianLogisticRegression(row_norm=row_norm, epsilon=epsilon, delta=1e-6, n_steps=steps, n_jobs=1)
        model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y)
        means[seed], variances[seed] = model.coef_[0], np.diag(model.covariance_)[:columns]
        known[seed] = ~unknown(model)
        hits[seed] = np.abs(means[seed] - truth[seed]) <= ndtri(0.95) * np.sqrt(variances[seed])
    some = known.any(axis=1)
    shares = (hits * known)[some].sum(axis=1) / known[some].sum(axis=1)
    square = float((known * means**2).sum())
    return {
        "known": float(known.mean()),
        "coverage": float((hits * known).sum() / known.sum()) if some.any() else math.nan,
        "se": float(np.std(shares)) / math.sqrt(some.sum()) if some.any() else math.nan,
        "all": float(hits.mean()),
        "slope": float((known * means * truth).sum()) / square if some.any() else math.nan,
        "rmse": float(np.sqrt(((means - truth) ** 2).mean())),
        "sd": float(np.sqrt(variances.mean())),
    }


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
    parser.add_argument("--out", type=Path)
    for name, values in GRID.items():
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="+", type=type(values[0]), default=values)
    args = vars(parser.parse_args())
    warnings.simplefilter("ignore")
    rows = []
    for cell in cells({name: tuple(args[name]) for name in GRID}, args["whole"]):
        found = {name: round(value, 3) for name, value in run_cell(args["runs"], **cell).items()}
        rows.append(cell | found)
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    text = json.dumps({"runs": args["runs"], "cells": rows}).replace("{", "\n{")
    (args["out"] or Path("/dev/stdout")).write_text(text + "\n")


if __name__ == "__main__":
    main()
