"""Compare the AUC of private logistic regressions on five data sets.

    python bench/auc.py --out auc.json                     # needs Adult and Abalone in VIPS_FAST_DATA
    python bench/auc.py --methods ours --out earlier.json  # of another commit; then --before earlier.json

Public bounds scale a column to [-1, 1], over the root of the number of columns. Random splits test by a fifth of the
rows. delta = 10^-3, adding or removing a record. DP-SGD takes all records in a step, with the tightest accountant. Its
learning rate is the best of three by test AUC, which favors it. diffprivlib has delta = 0. Its version 0.6.6 needs
scikit-learn below 1.7, and is left out without it.
"""

import argparse
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parent / "paper"))

from blr_table import load
from newton import DoubleNoiseNewton
from peers import ObjectivePerturbationLogisticRegression
from peers.dpsgd import DPSGDLogisticRegression

from vips_fast import BayesianLogisticRegression

DELTA = 1e-3
EPSILONS = (0.1, 0.3, 1.0)


def bounded(X: np.ndarray) -> np.ndarray:
    """Scale columns to [-1, 1] over the root of their number."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (2 * (X - low) / np.maximum(high - low, 1e-12) - 1) / np.sqrt(X.shape[1])


def hospital() -> tuple[Any, np.ndarray]:
    """Draw 30,000 stays, and whether a return follows within a month."""
    rng = np.random.default_rng(0)
    n = 30_000
    age, frail = rng.beta(4, 2, n), rng.normal(size=n)
    conditions = rng.random((n, 10)) < expit(frail[:, None] + 2 * age[:, None] - np.linspace(2.5, 5, 10))
    wards, values = np.eye(8)[rng.integers(0, 8, n)], np.tanh(rng.normal(size=(n, 2)) + 0.3 * frail[:, None])
    X = np.column_stack([2 * age - 1, conditions, wards, values]) / np.sqrt(14)
    logit = 1.5 * age + conditions @ np.linspace(0.1, 0.9, 10) + wards @ np.linspace(-0.4, 0.4, 8) + values[:, 0] - 3
    return X, (rng.random(n) < expit(logit)).astype(int)


def of_uci(name: str) -> Callable[[], tuple[Any, np.ndarray]]:
    """Make a reader of Adult or Abalone."""

    def read() -> tuple[Any, np.ndarray]:
        X, y = load(name)
        return X, np.asarray(y)

    return read


def digits() -> tuple[Any, np.ndarray]:
    """Read digits, the label being whether one is above 4."""
    X, y = load_digits(return_X_y=True)
    return (X / 8 - 1) / 8, (y > 4).astype(int)


def cancer() -> tuple[Any, np.ndarray]:
    """Read 569 tumors."""
    X, y = load_breast_cancer(return_X_y=True)
    return bounded(X), y


SETS = {
    "Adult": of_uci("adult"),
    "Abalone": of_uci("abalone"),
    "digits": digits,
    "cancer": cancer,
    "hospital": hospital,
}


def methods(epsilon: float) -> dict[str, list[Callable[[], Any]]]:
    """Make the estimators of each method; the best of several counts."""
    common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    made: dict[str, list[Callable[[], Any]]] = {
        "ours": [lambda: BayesianLogisticRegression(n_jobs=1, **common)],
        "DP-SGD": [
            lambda rate=rate: DPSGDLogisticRegression(
                accountant=None, clip_norm=0.7, learning_rate=rate, n_steps=50, n_jobs=1, **common
            )
            for rate in (1.0, 4.0, 16.0)
        ],
        "double-noise Newton": [lambda: DoubleNoiseNewton(row_norm=1.0, n_steps=20, bound=True, **common)],
        "objective perturbation": [lambda: ObjectivePerturbationLogisticRegression(row_norm=1.0, **common)],
        "scikit-learn, no privacy": [lambda: LogisticRegression(max_iter=3000)],
    }
    try:
        from diffprivlib.models import LogisticRegression as DiffprivlibRegression
    except ImportError:
        return made
    made["diffprivlib, δ = 0"] = [lambda: DiffprivlibRegression(epsilon=epsilon, data_norm=1.5)]
    return made


def auc(make: Callable[[], Any], X: Any, y: np.ndarray, run: int) -> float:
    """Compute the AUC of one split."""
    order = np.random.default_rng(run).permutation(len(y))
    train, test = np.split(order, [round(0.8 * len(y))])
    if type(model := make()).__module__.startswith("diffprivlib") and hasattr(X, "toarray"):
        X = X.toarray()
    return float(roc_auc_score(y[test], model.fit(X[train], y[train]).decision_function(X[test])))


def main() -> None:
    """Run the methods, store their figures, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--before", type=Path, help="figures of ours at another commit")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    earlier = [] if args.before is None else json.loads(args.before.read_text())
    rows = [{**row, "method": "ours, earlier"} for row in earlier if row["method"] == "ours"]
    for name in args.sets:
        X, y = SETS[name]()
        for epsilon in EPSILONS:
            for method, choices in methods(epsilon).items():
                if args.methods is None or method in args.methods:
                    found = [[auc(make, X, y, run) for run in range(args.runs)] for make in choices]
                    rows.append({"set": name, "epsilon": epsilon, "method": method, "aucs": max(found, key=sum)})
            args.out.write_text(json.dumps(rows, indent=1))
    table: dict[str, dict[tuple[str, float], str]] = {}
    for row in rows:
        said = f"{statistics.mean(row['aucs']):.4f} ± {statistics.stdev(row['aucs']):.4f}"
        table.setdefault(row["method"], {})[row["set"], row["epsilon"]] = said
    for name in args.sets:
        print(f"\n| {name} |", " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS), "|")
        print("| --- " * (len(EPSILONS) + 1) + "|")
        for method, cells in table.items():
            print(f"| {method} |", " | ".join(cells.get((name, epsilon), "–") for epsilon in EPSILONS), "|")


if __name__ == "__main__":
    main()
