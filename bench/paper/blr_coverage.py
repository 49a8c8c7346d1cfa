"""Coverage of the posterior's 90 % intervals, with and without regard to the noise.

    python bench/paper/blr_coverage.py

Simulated rows of correlated normal columns inside the unit ball, true weights N(0, 3^2),
constant 0.5, delta = 10^-5, adding or removing a record, 20 data sets a line. For each
line: the share of weights inside their interval, half the interval's mean width, and the root
mean square error, noise-aware and not. Exact intervals cover 90 % (the spread of the mean of 20
data sets of 10 weights is about 2 %).
"""

import argparse
import csv
import math

import numpy as np
from lda_common import RESULTS
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic import LogisticOptions


def simulate(seed, n, d, scale=3.0):
    """(X, y, weights)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) * 0.5 / math.sqrt(d) + np.eye(d))
    radius = 1.2 * math.sqrt(d)
    X *= np.minimum(1, radius / np.linalg.norm(X, axis=1))[:, None] / radius
    weights = rng.normal(size=d) * scale
    return X, (rng.random(n) < expit(X @ weights + 0.5)).astype(int), weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / "blr_coverage.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["n", "d", "epsilon", "noise_aware", "coverage", "half_width", "rmse"])
        head = f"{'n':>6} {'d':>4} {'epsilon':>8}   {'noise-aware: coverage':>22} {'width':>7} {'rmse':>7}"
        print(f"{head}   {'not: coverage':>14} {'width':>7} {'rmse':>7}")
        for n, d in ((5_000, 10), (20_000, 10), (20_000, 30)):
            for epsilon in (0.1, 0.5, 2.0, math.inf):
                line = f"{n:6} {d:4} {epsilon:8g}"
                for aware in (True, False):
                    figures = []
                    for run in range(arguments.runs):
                        X, y, weights = simulate(run, n, d)
                        budget = dict(target_epsilon=epsilon, target_delta=1e-5)
                        if math.isinf(epsilon):
                            budget = dict(private=False)
                        options = LogisticOptions(noise_aware=aware)
                        model = BayesianLogisticRegression(options=options, n_jobs=arguments.jobs, **budget).fit(X, y)
                        interval = model.credible_interval(0.9)
                        inside = (interval[:, 0] <= weights) & (weights <= interval[:, 1])
                        error = model.coef_[0] - weights
                        figures.append((inside.mean(), np.diff(interval).mean() / 2, math.sqrt((error**2).mean())))
                    mean = np.mean(figures, axis=0)
                    table.writerow([n, d, epsilon, aware, *(f"{v:.4f}" for v in mean)])
                    line += f"   {mean[0]:{22 if aware else 14}.3f} {mean[1]:7.2f} {mean[2]:7.2f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
