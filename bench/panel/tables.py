"""Tables: AUC and log loss of unseen records, beside rivals of a few lines.

    python -m bench.panel.tables           # measures what is missing: each row goes to bench/panel/tables.json at once
    python -m bench.panel.tables --constants   # measures ours with other constants for the intercept
    python -m bench.panel.tables --classes # measures ours with several classes
    python -m bench.panel.tables --page    # writes the tables of docs/logistic.md, from the stored rows

A cell is a table, an epsilon and a seed; delta is 1e-5, and a guarantee is for adding or removing a record. A fifth of
the records is unseen. Ours has its defaults. Gradient descent has the settings that are best on simulated rows of the
same number of records and columns.
"""

import argparse
import gzip
import json
import math
import subprocess
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from paper.common import DATA, markdown
from paper.newton import DoubleNoiseNewton
from peers import ObjectivePerturbationLogisticRegression
from peers.regressions import GradientDescent, OneRelease
from peers.uci import read_abalone, read_adult
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import log_loss, roc_auc_score

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.estimator import CONSTANT

STORED = Path(__file__).with_name("tables.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "logistic.md"
#: Other constants for the intercept, over row_norm.
CONSTANTS = (0.1, 0.2, 0.5, 1.0)
EPSILONS, SEEDS, DELTA = (0.1, 0.3, 1.0, 3.0, 8.0), (0, 1, 2, 3), 1e-5
_EPSILONS = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
RIVALS = ("gradient descent", "DP-Newton", "objective perturbation", "one release")


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


def churn() -> tuple[Any, np.ndarray]:
    """Read customers of a telephone company: numbers in [-1, 1], a column a category, 19 columns as they are."""
    import csv

    with gzip.open(DATA / "panel" / "churn.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bounds, columns = {"tenure": 72.0, "MonthlyCharges": 120.0, "TotalCharges": 9000.0}, []
    names = [name for name in rows[0] if name not in ("customerID", "Churn")]
    for name in names:
        values = [row[name] for row in rows]
        if name in bounds:
            numbers = np.array([float(value.strip() or 0) for value in values])
            columns.append(np.clip(2 * numbers / bounds[name] - 1, -1, 1))
        else:
            columns += [np.array([value == one for value in values], float) for one in sorted(set(values))]
    y = np.array([row["Churn"] == "Yes" for row in rows]).astype(int)
    return np.column_stack(columns) / math.sqrt(len(names)), y


def few() -> tuple[Any, np.ndarray]:
    """Read 625 of these customers."""
    X, y = churn()
    chosen = np.random.default_rng(625).permutation(len(y))[:625]
    return X[chosen], y[chosen]


def cancer() -> tuple[Any, np.ndarray]:
    """Read 569 tumors."""
    X, y = load_breast_cancer(return_X_y=True)
    return bounded(X), y


def outcome(logits: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Draw outcomes of this rate."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logits + middle).mean() < rate else (low, middle)
    return (rng.random(len(logits)) < expit(logits + low)).astype(int)


def wide() -> tuple[Any, np.ndarray]:
    """Draw 10,000 records of 200 sparse columns that say little."""
    rng = np.random.default_rng(200)
    X = (rng.random((10_000, 200)) < rng.uniform(0.02, 0.12, 200)).astype(float)
    logits = X @ (0.35 * rng.normal(size=200))
    return sparse.csr_array(X / math.sqrt(30)), outcome(logits, 0.3, rng)


def factors() -> tuple[Any, np.ndarray]:
    """Draw 4,000 records of 100 numbers that go with five factors."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(4_000, 5)) @ rng.normal(size=(5, 100)) / math.sqrt(5) + rng.normal(size=(4_000, 100))
    logits = X @ (0.12 * rng.normal(size=100))
    return np.clip(X / 4, -1, 1) / 10, outcome(logits, 0.4, rng)


def rare() -> tuple[Any, np.ndarray]:
    """Draw 15,000 records of 30 columns, half of them 0/1, and an outcome of 5 %."""
    rng = np.random.default_rng(30)
    X = np.clip(rng.normal(size=(15_000, 30)) / 3, -1, 1)
    X[:, :15] = rng.random((len(X), 15)) < np.geomspace(0.02, 0.5, 15)
    return X / math.sqrt(20), outcome(X @ rng.normal(size=30), 0.05, rng)


TABLES: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "Adult": of_uci("adult"),
    "hospital": hospital,
    "churn": churn,
    "Abalone": of_uci("abalone"),
    "digits": digits,
    "churn, 500": few,
    "cancer": cancer,
    "wide": wide,
    "factors": factors,
    "rare": rare,
}


def ten(n: int = 1797) -> tuple[Any, np.ndarray]:
    """Read ``n`` digits of ten classes."""
    X, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(7).permutation(len(y))[:n]
    return (X[chosen] / 8 - 1) / 8, y[chosen]


def wine() -> tuple[Any, np.ndarray]:
    """Read 178 wines of three growers."""
    X, y = load_wine(return_X_y=True)
    return bounded(X), y


def eight(n: int, d: int, scale: float) -> tuple[Any, np.ndarray]:
    """Draw ``n`` records of eight classes, which ``d`` columns tell by ``scale``."""
    rng = np.random.default_rng(n)
    X = np.clip(rng.normal(size=(n, d)) / 2, -1.5, 1.5) / math.sqrt(d)
    logits = 2 * scale * X @ rng.normal(size=(d, 8))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


#: Tables of several classes.
SEVERAL: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "ten digits": ten,
    "ten digits, 400": lambda: ten(400),
    "wine": wine,
    "eight classes": lambda: eight(2_000, 10, 1.0),
    "eight classes, 500": lambda: eight(500, 20, 1.0),
    "eight classes, no effects": lambda: eight(800, 20, 0.0),
}


def rivals(n: int, d: int, epsilon: float) -> dict[str, Any]:
    """Make the peers."""
    return {
        "gradient descent": GradientDescent.tuned(n, d, epsilon, DELTA),
        "DP-Newton": DoubleNoiseNewton(epsilon, DELTA, row_norm=1.0, n_steps=20),
        "objective perturbation": ObjectivePerturbationLogisticRegression(row_norm=1.0, epsilon=epsilon, delta=DELTA),
        "one release": OneRelease(epsilon, DELTA),
    }


def ours(epsilon: float, seed: int, constant: float | None = None) -> Any:
    """Make ours, with its defaults; its noise is the same in each run, so that commits compare."""
    options = LogisticOptions(intercept_scaling=constant)
    model = BayesianLogisticRegression(epsilon=epsilon, delta=DELTA, n_jobs=1, options=options)
    return model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big"))


def figures(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Compute AUC and log loss of unseen records."""
    p = np.clip(model.predict_proba(X)[:, 1], 1e-12, 1 - 1e-12)
    loss = -float(np.mean(np.log(np.where(y == 1, p, 1 - p))))
    return round(float(roc_auc_score(y, model.decision_function(X))), 4), round(loss, 4)


def run(names: Iterable[str], stored: Path, name_of_ours: str, again: bool) -> None:
    """Measure the cells that are not stored yet; or ours again."""
    rows = json.loads(stored.read_text()) if stored.exists() else {}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=PAGE.parent)
    for name in names:
        try:
            X, y = TABLES[name]()
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error}")
            continue
        for epsilon in EPSILONS:
            made: dict[str, Any] = {}
            for seed in SEEDS:
                row = rows.setdefault(f"{name} | {epsilon:g} | {seed}", {})
                train, test = split(len(y), seed)
                if "one release" not in row:
                    made = made or rivals(len(train), X.shape[1], epsilon)
                    for method, model in made.items():
                        more = {"seed": seed} if isinstance(model, (GradientDescent, OneRelease)) else {}
                        row[method] = figures(model.fit(X[train], y[train], **more), X[test], y[test])
                if again or name_of_ours not in row:
                    row[name_of_ours] = figures(ours(epsilon, seed).fit(X[train], y[train]), X[test], y[test])
                    row[f"commit of {name_of_ours}"] = commit.stdout.strip()
                stored.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n")
            print(name, epsilon, json.dumps({m: f.round(4).tolist() for m, f in means(rows, name, epsilon).items()}))


def run_constants(names: Iterable[str], stored: Path) -> None:
    """Measure ours with other constants for the intercept, where noise is large."""
    rows = json.loads(stored.read_text())
    for name in names:
        X, y = TABLES[name]()
        for epsilon, constant, seed in product(EPSILONS[:3], CONSTANTS, SEEDS):
            row, method = rows[f"{name} | {epsilon:g} | {seed}"], f"constant {constant:g}"
            if method not in row:
                train, test = split(len(y), seed)
                row[method] = figures(ours(epsilon, seed, constant).fit(X[train], y[train]), X[test], y[test])
                stored.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n")


def run_several(stored: Path) -> None:
    """Measure accuracy and log loss of several classes, and those of the training records' shares."""
    rows = json.loads(stored.read_text())
    for (name, read), epsilon, seed in product(SEVERAL.items(), EPSILONS, SEEDS):
        X, y = read()
        train, test = split(len(y), seed)
        model = ours(epsilon, seed)
        model.classes = range(y.max() + 1)
        shares = np.tile(np.bincount(y[train]) / len(train), (len(test), 1))
        each = {"ours": model.fit(X[train], y[train]).predict_proba(X[test]), "base rates": shares}
        rows[f"{name} | {epsilon:g} | {seed}"] = {
            method: (round(float((p.argmax(axis=1) == y[test]).mean()), 4), round(float(log_loss(y[test], p)), 4))
            for method, p in each.items()
        }
    stored.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n")


def chosen_constants(rows: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Choose the constant with the best mean AUC without each table, and give its AUC on it less that of `CONSTANT`."""
    methods = {"ours": CONSTANT, **{f"constant {one:g}": one for one in CONSTANTS}}
    names = [name for name in TABLES if f"constant {CONSTANTS[0]:g}" in rows.get(f"{name} | 0.1 | 0", {})]
    aucs = {
        name: {one: np.mean([means(rows, name, epsilon)[one][0] for epsilon in EPSILONS[:3]]) for one in methods}
        for name in names
    }
    found = {}
    for name in names:
        best = max(methods, key=lambda method: sum(aucs[other][method] for other in names if other != name))
        found[name] = methods[best], float(aucs[name][best] - aucs[name]["ours"])
    return found


def split(n: int, seed: int) -> list[np.ndarray]:
    """Leave out a fifth."""
    return np.split(np.random.default_rng(seed).permutation(n), [round(0.8 * n)])


def means(rows: dict[str, Any], name: str, epsilon: float) -> dict[str, np.ndarray]:
    """Average AUC and log loss over the seeds of a cell, by method."""
    cell = [row for key, row in rows.items() if key.startswith(f"{name} | {epsilon:g} | ")]
    return {
        method: np.mean([row[method] for row in cell], axis=0) for method in cell[0] if not method.startswith("commit")
    }


def worse(rows: dict[str, Any], least: float = 0.0) -> list[list[str]]:
    """List the cells in which a rival's AUC is higher by more than ``least``, with the difference's standard error."""
    found = []
    for name, epsilon in product(TABLES, EPSILONS):
        cell = means(rows, name, epsilon)
        others = {method: float(cell[method][0]) for method in RIVALS}
        best = max(others, key=lambda method: others[method])
        if (short := others[best] - float(cell["ours"][0])) > least:
            each = [rows[f"{name} | {epsilon:g} | {seed}"] for seed in SEEDS]
            error = float(np.std([row[best][0] - row["ours"][0] for row in each], ddof=1)) / math.sqrt(len(each))
            found.append([name, f"{epsilon:g}", f"{cell['ours'][0]:.4f}", best, f"{short:.4f}", f"{error:.4f}"])
    return found


def tables(rows: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, by name."""
    made = {}
    for k, figure in enumerate(("AUC", "log loss")):
        lines = []
        for name in TABLES:
            cells = [means(rows, name, epsilon) for epsilon in EPSILONS]
            texts = [" ".join(_short(float(cell[method][k])) for cell in cells) for method in ("ours", *RIVALS)]
            lines.append([name, f"**{texts[0]}**", *texts[1:]])
        made[figure] = markdown([f"{figure} at ε = {_EPSILONS}", "ours", *RIVALS], lines)
    lines = []
    for name in SEVERAL:
        cells = [means(rows, name, epsilon) for epsilon in EPSILONS]
        accuracy, loss = (" ".join(_short(float(cell["ours"][k])) for cell in cells) for k in (0, 1))
        lines.append([name, f"**{loss}**", _short(float(cells[0]["base rates"][1])), accuracy])
    made["several"] = markdown([f"log loss at ε = {_EPSILONS}", "ours", "base rates", "accuracy of ours"], lines)
    made["worse"] = markdown(["table", "ε", "ours", "better", "by", "standard error"], worse(rows, 5e-5))
    apart = [[name, f"{one:g}", f"{more:+.4f}"] for name, (one, more) in chosen_constants(rows).items()]
    made["left out"] = markdown(["table left out", "constant", "its AUC there, less ours"], apart)
    return made


def _short(figure: float) -> str:
    return f"{figure:.3f}".removeprefix("0") if figure < 9.9995 else f"{figure:.0f}"


def write_page(rows: dict[str, Any]) -> None:
    """Replace the tables of docs/logistic.md."""
    text = PAGE.read_text("utf-8")
    for name, table in tables(rows).items():
        head, end = f"<!-- bench.panel.tables {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(head)
        assert found, name
        text = before + head + table + "\n" + end + rest.partition(end)[2]
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(TABLES), help="tables; default: all")
    parser.add_argument("--rows", type=Path, default=STORED, help="file of the rows")
    parser.add_argument("--constants", action="store_true", help="measure ours with other constants for the intercept")
    parser.add_argument("--classes", action="store_true", help="measure ours with several classes")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/logistic.md instead")
    parser.add_argument("--again", action="store_true", help="measure ours again")
    parser.add_argument("--name", default="ours", help='name of ours in the rows: "before" for an earlier commit')
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.page:
        write_page(json.loads(asked.rows.read_text()))
    elif asked.classes:
        run_several(asked.rows)
    elif asked.constants:
        run_constants(asked.names, asked.rows)
    else:
        run(asked.names, asked.rows, asked.name, asked.again)
