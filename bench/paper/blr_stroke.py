"""Batch logistic regression with many binary columns: the shape of Fig. 5.

    python bench/paper/blr_stroke.py

The Stroke data (12,586 patients, 4,146 medical codes, 14 % cases) are not public. They
are simulated: code j is present with a probability in proportion to 1/(j + 5), 28 codes
a patient on average; 300 codes have an effect on the logit, N(0, 1); the constant is set
so that 14 % are cases. 10,000 patients train, 2,586 test. All patients are in each step,
delta = 10^-4, epsilon is that of adding or removing a patient. Rows of the table:
non-private variational Bayes and penalised likelihood, ours, Algorithm 5 accounted
exactly and by strong composition, objective perturbation (pure and Gaussian).
"""

import argparse
import csv
import math
import time

import numpy as np
import scipy.sparse as sp
from lda_common import RESULTS
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.baselines import ObjectivePerturbationLogisticRegression

DELTA = 1e-4
#: Public bound of a patient's norm: 36 codes.
ROW_NORM = 6.0


def simulate(seed, n=12_586, d=4_146, codes=28, effects=300, cases=0.14):
    """(n x d binary rows, labels, probabilities)."""
    rng = np.random.default_rng(seed)
    prevalence = 1 / (np.arange(d) + 5.0)
    prevalence *= codes / prevalence.sum()
    X = sp.csr_array((rng.random((n, d)) < np.minimum(prevalence, 0.9)).astype(np.float64))
    weights = np.zeros(d)
    # Codes that matter are more often frequent ones: a rare one is hardly ever learned.
    chosen = rng.choice(d, effects, replace=False, p=np.sqrt(prevalence) / np.sqrt(prevalence).sum())
    weights[chosen] = rng.normal(size=effects)
    logit = X @ weights
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logit + middle).mean() < cases else (low, middle)
    p = expit(logit + low)
    return X, (rng.random(n) < p).astype(int), p


def strong_composition_noise(target, steps, delta=DELTA):
    """Noise multiplier that (epsilon, delta) composition needs for whole-batch steps (Dwork, Rothblum & Vadhan 2010).

    Half of delta goes to the composition; the Gaussian mechanism is taken with the
    classical sqrt(2 ln(1.25/delta))/epsilon, as the paper does.
    """
    step_delta = delta / (2 * steps)

    def total(e):
        return math.sqrt(2 * steps * math.log(2 / delta)) * e + steps * e * math.expm1(e)

    low, high = 1e-9, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) < target else (low, middle)
    return math.sqrt(2 * math.log(1.25 / step_delta)) / low


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=None, help="of ours; default that of the class")
    parser.add_argument("--paper-steps", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    from sklearn.metrics import roc_auc_score

    jobs, steps = arguments.jobs, {} if arguments.steps is None else {"n_steps": arguments.steps}
    algorithm = dict(row_norm=ROW_NORM, n_jobs=jobs, sensitivity="proven", n_steps=arguments.paper_steps)

    def methods(epsilon):
        budget = dict(target_epsilon=epsilon, target_delta=DELTA)
        if math.isinf(epsilon):
            yield "variational Bayes, no privacy", BayesianLogisticRegression(private=False, n_jobs=jobs)
            yield "penalised likelihood, no privacy", ObjectivePerturbationLogisticRegression(private=False, alpha=1.0)
            return
        yield "ours", BayesianLogisticRegression(row_norm=ROW_NORM, n_jobs=jobs, **steps, **budget)
        yield "Algorithm 5, exact accounting", BayesianLogisticRegression.paper(**algorithm, **budget)
        z = strong_composition_noise(epsilon, arguments.paper_steps)
        yield "Algorithm 5, strong composition", BayesianLogisticRegression.paper(
            noise_multiplier=z, target_delta=DELTA, **algorithm
        )
        yield "objective perturbation", ObjectivePerturbationLogisticRegression(row_norm=ROW_NORM, **budget)
        yield "objective perturbation, delta = 0", ObjectivePerturbationLogisticRegression(
            row_norm=ROW_NORM, target_epsilon=epsilon, target_delta=0.0
        )

    RESULTS.mkdir(parents=True, exist_ok=True)
    figures = {}
    with open(RESULTS / "blr_stroke.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["method", "epsilon", "run", "auc", "seconds"])
        for run in range(arguments.runs):
            X, y, p = simulate(run)
            rows = slice(10_000), slice(10_000, None)
            best = roc_auc_score(y[rows[1]], p[rows[1]])
            codes = X.nnz / X.shape[0]
            cases = f"{codes:.1f} codes a patient, {y.mean():.1%} cases"
            print(f"run {run}: {cases}, the true model's AUC {best:.4f}", flush=True)
            for epsilon in [math.inf, *arguments.epsilon]:
                for name, model in methods(epsilon):
                    start = time.perf_counter()
                    model.fit(X[rows[0]], y[rows[0]])
                    seconds = time.perf_counter() - start
                    auc = roc_auc_score(y[rows[1]], model.decision_function(X[rows[1]]))
                    table.writerow([name, epsilon, run, f"{auc:.5f}", f"{seconds:.1f}"])
                    file.flush()
                    figures.setdefault((epsilon, name), []).append((auc, seconds))
                    print(f"  {epsilon:5g}  {name:34} {auc:.4f}  {seconds:7.1f} s", flush=True)
    print(f"\n{'epsilon':>7}  {'method':34} {'AUC, mean ± sd':>16} {'s':>7}")
    for (epsilon, name), cell in figures.items():
        auc, seconds = np.array(cell).T
        print(f"{epsilon:7g}  {name:34} {auc.mean():7.4f} ± {auc.std(ddof=len(auc) > 1):.4f} {seconds.mean():7.1f}")


if __name__ == "__main__":
    main()
