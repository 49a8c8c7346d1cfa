"""Compare private logistic regressions on five data sets.

    python bench/auc.py --out bench/auc.json            # needs Adult and Abalone in VIPS_FAST_DATA
    python bench/auc.py --methods ours --out new.json   # of another commit
    python bench/auc.py --table bench/auc.json          # the tables; docs/logistic.md has the first

Public bounds scale a column to [-1, 1], over the root of the number of columns. Random splits test by a fifth of the
rows. delta = 10^-3, adding or removing a record. A run skips the figures in its output file, so you can stop and resume
it, and delete rows to repeat them.

"DP-SGD" takes all records in a step, with the tightest accountant. Its learning rate is the best of three by test AUC,
which favors it. Opacus has the settings of a grid that were best on the simulated hospital, which is public. "ours, by
the posterior" takes the posterior's own mean of probabilities, without calibration. Opacus (extra files: torch),
statsmodels and diffprivlib are left out if they are missing. diffprivlib 0.6.6 has delta = 0, and
needs scikit-learn below 1.7.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parent / "paper"))

from common import DATA
from newton import DoubleNoiseNewton
from peers import ObjectivePerturbationLogisticRegression
from peers.dpsgd import DPSGDLogisticRegression
from peers.opacus import OpacusLogisticRegression
from peers.uci import read_abalone, read_adult

from vips_fast import BayesianLogisticRegression

DELTA = 1e-3
EPSILONS = (0.1, 0.3, 1.0, 3.0)
#: Figures of a run, by their names in a file and in a table's head.
FIGURES = {"aucs": "AUC", "losses": "log loss", "errors": "calibration error"}


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
        table = (
            read_adult(DATA / "adult" / "adult.data.gz", DATA / "adult" / "adult.test.gz")
            if name == "adult"
            else read_abalone(next((DATA / "abalone").glob("abalone.data*")))
        )
        return table.X.tocsr(), np.asarray(table.y)

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


class Posterior:
    """Ours, with the posterior's own mean of probabilities."""

    def __init__(self, **settings: Any):
        self._model = BayesianLogisticRegression(**settings)

    def set_unsafe(self, **known: Any) -> None:
        self._model.set_unsafe(**known)

    def fit(self, X: Any, y: np.ndarray) -> "Posterior":
        self._model.fit(X, y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return self._model.decision_function(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        sd = np.sqrt(self._model.decision_variance(X))
        p = expit(self.decision_function(X)[:, None] + sd[:, None] * nodes) @ (weights / weights.sum())
        return np.column_stack([1 - p, p])


class Statsmodels:
    """Maximum likelihood without privacy, by statsmodels."""

    def fit(self, X: Any, y: np.ndarray) -> "Statsmodels":
        import statsmodels.api as sm

        # GLM's Newton steps diverge on Adult, whose columns are collinear (99 of 109 are independent).
        self._fit = sm.Logit(y, self._design(X)).fit(method="lbfgs", maxiter=3000, disp=0)
        return self

    @staticmethod
    def _design(X: Any) -> np.ndarray:
        X = X.toarray() if sparse.issparse(X) else X
        return np.column_stack([X, np.ones(len(X))])

    def decision_function(self, X: Any) -> np.ndarray:
        return np.asarray(self._design(X) @ self._fit.params)

    def predict_proba(self, X: Any) -> np.ndarray:
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])


def methods(epsilon: float) -> dict[str, list[Callable[[], Any]]]:
    """Make the estimators of each method."""
    common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    made: dict[str, list[Callable[[], Any]]] = {
        "ours": [lambda: BayesianLogisticRegression(n_jobs=1, **common)],
        "ours, by the posterior": [lambda: Posterior(n_jobs=1, **common)],
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
    if importlib.util.find_spec("opacus") and epsilon in OpacusLogisticRegression.TUNED:
        made["Opacus"] = [lambda: OpacusLogisticRegression(tuned=OpacusLogisticRegression.TUNED[epsilon], **common)]
    if importlib.util.find_spec("statsmodels"):
        made["statsmodels, no privacy"] = [Statsmodels]
    if importlib.util.find_spec("diffprivlib"):
        from diffprivlib.models import LogisticRegression as DiffprivlibRegression

        made["diffprivlib, δ = 0"] = [lambda: DiffprivlibRegression(epsilon=epsilon, data_norm=1.5)]
    return made


def measured(make: Callable[[], Any], X: Any, y: np.ndarray, run: int) -> dict[str, float]:
    """Compute the figures of one split."""
    order = np.random.default_rng(run).permutation(len(y))
    train, test = np.split(order, [round(0.8 * len(y))])
    if type(model := make()).__module__.startswith("diffprivlib") and hasattr(X, "toarray"):
        X = X.toarray()
    if hasattr(model, "set_unsafe"):
        model.set_unsafe(test_key=(run + 1).to_bytes(32, "big"))  # the same noise in both read-outs of ours
    found = {"aucs": roc_auc_score(y[test], model.fit(X[train], y[train]).decision_function(X[test]))}
    if hasattr(model, "predict_proba"):
        p, hit = np.clip(model.predict_proba(X[test])[:, 1], 1e-12, 1 - 1e-12), y[test] == 1
        parts = np.minimum((10 * p).astype(int), 9)
        found["losses"] = -np.mean(np.log(np.where(hit, p, 1 - p)))
        found["errors"] = sum(abs((p[parts == k] - hit[parts == k]).sum()) for k in range(10)) / len(p)
    return {name: round(float(value), 4) for name, value in found.items()}


def table(rows: list[dict[str, Any]], figure: str, chosen: list[str] | None = None) -> str:
    """Write a figure's means: a line a method, a column a set."""
    cells: dict[str, dict[str, list[str]]] = {}
    sets, names = list(dict.fromkeys(row["set"] for row in rows)), sorted({r["method"] for r in rows if figure in r})
    for method in names if chosen is None else [name for name in chosen if name in names]:
        for name in sets:
            mine = {row["epsilon"]: row for row in rows if (row["set"], row["method"]) == (name, method)}
            means = [statistics.mean(mine[e][figure]) if figure in mine.get(e, {}) else None for e in EPSILONS]
            texts = ["–" if mean is None else f"{mean:.3f}".removeprefix("0") for mean in means]
            cells.setdefault(method, {})[name] = texts[:1] if "no privacy" in method else texts
    head = f"| {FIGURES[figure]} at ε = {', '.join(f'{epsilon:g}' for epsilon in EPSILONS)} |"
    lines = [f"{head} {' | '.join(sets)} |", "| --- " * (len(sets) + 1) + "|"]
    for method, found in cells.items():
        shown = [" ".join(found[name]) if set(found[name]) != {"–"} else "–" for name in sets]
        lines.append(f"| {f'**{method}**' if method == 'ours' else method} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


#: The methods of the table of AUCs, and of the tables of probabilities.
RANKED = [
    *("ours", "Opacus", "DP-SGD", "double-noise Newton", "objective perturbation", "diffprivlib, δ = 0"),
    *("scikit-learn, no privacy", "statsmodels, no privacy"),
]
PREDICTED = ["ours", "ours, by the posterior", "Opacus", "scikit-learn, no privacy"]


def main() -> None:
    """Run the methods and store their figures, or print tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the tables of stored figures, and run nothing")
    args = parser.parse_args()
    if args.table is not None:
        rows = json.loads(args.table.read_text())
        print(table(rows, "aucs", RANKED), *(table(rows, name, PREDICTED) for name in ("losses", "errors")), sep="\n")
        return
    if args.out is None:
        parser.error("give --out FILE, or --table FILE")
    warnings.simplefilter("ignore")
    rows = json.loads(args.out.read_text()) if args.out.exists() else []
    done = {(row["set"], row["epsilon"], row["method"]) for row in rows}
    for name in args.sets:
        X, y = SETS[name]()
        for epsilon in args.epsilons:
            for method, choices in methods(epsilon).items():
                if (name, epsilon, method) in done or (args.methods is not None and method not in args.methods):
                    continue
                tried = [[measured(make, X, y, run) for run in range(args.runs)] for make in choices]
                best = max(tried, key=lambda runs: sum(run["aucs"] for run in runs))
                figures = {figure: [run[figure] for run in best] for figure in best[0]}
                rows.append({"set": name, "epsilon": epsilon, "method": method, **figures})
                print(json.dumps(rows[-1], ensure_ascii=False), file=sys.stderr, flush=True)
                args.out.write_text("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")


if __name__ == "__main__":
    main()
