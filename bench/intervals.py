"""Sweep the coverage of the logistic regression's 90 % intervals, and the slope of the truth on its estimates.

    python bench/intervals.py                      # every cell, 100 runs: hours of one core
    python bench/intervals.py --runs 20 --n 10000 --epsilon 1 3 --rho 0.3 --out sweep.csv

Rows are normal columns with a common correlation rho over the root of their number, scaled down to the ball of
``row_norm``, weights N(0, 1.5^2), the intercept 0.5; delta = 10^-6, adding or removing a record. Each run is another
data set with a noise key of its own, so that the figures are the same wherever they are computed. A slope of 1 is a
posterior mean's: smaller ones say that estimates are inflated. A run whose coefficients are more noise than signal
(the posterior variance is above the square of the mean, both summed over them) knows nothing and is counted apart.
"""

import argparse
import csv
import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from vips_fast import BayesianLogisticRegression

GRID = {
    "n": (2_000, 10_000, 50_000),
    "epsilon": (0.1, 0.3, 1.0, 3.0, 10.0),
    "columns": (5, 15, 30),
    "rho": (0.0, 0.3, 0.8),
    "row_norm": (1.0, 2.0),
    "steps": (0, 8),
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
    """Fit ``runs`` data sets; ``steps`` of 0 are the default's."""
    shares, products = [], []
    for seed in range(runs):
        X, y, weights = simulate(seed, n, columns, rho, row_norm)
        model = BayesianLogisticRegression(
            row_norm=row_norm, epsilon=epsilon, delta=1e-6, n_steps=steps or 20, n_jobs=1
        )
        model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y)
        mean, variance = model.coef_[0], np.diag(model.covariance_)[:columns]
        if variance.sum() > mean @ mean:
            continue
        shares.append(np.mean(np.abs(mean - weights) <= ndtri(0.95) * np.sqrt(variance)))
        products.append((mean @ weights, mean @ mean, weights @ weights, ((mean - weights) ** 2).sum(), variance.sum()))
    known = len(shares)
    sums = np.sum(products, axis=0) if known else np.full(5, math.nan)
    return {
        "known": known / runs,
        "coverage": float(np.mean(shares)) if known else math.nan,
        "se": float(np.std(shares)) / math.sqrt(known) if known else math.nan,
        "slope": float(sums[0] / sums[1]),
        "length": float(sums[0] / sums[2]),
        "rmse": math.sqrt(sums[3] / max(known, 1) / columns),
        "sd": math.sqrt(sums[4] / max(known, 1) / columns),
    }


def sweep(runs: int, grid: dict[str, tuple[Any, ...]]) -> Iterator[dict[str, float]]:
    """Run the cells of a grid one by one."""
    for values in itertools.product(*grid.values()):
        cell = dict(zip(grid, values, strict=True))
        yield cell | run_cell(runs, **cell)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--out", type=Path)
    for name, values in GRID.items():
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="+", type=type(values[0]), default=values)
    args = vars(parser.parse_args())
    out = args["out"].open("w") if args["out"] else sys.stdout
    writer = None
    for row in sweep(args["runs"], {name: tuple(args[name]) for name in GRID}):
        if writer is None:
            writer = csv.DictWriter(out, list(row))
            writer.writeheader()
        writer.writerow({key: f"{value:.4g}" for key, value in row.items()})
        out.flush()


if __name__ == "__main__":
    main()
