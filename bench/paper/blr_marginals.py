"""Logistic regression from private marginals beside ours: data-dependent sufficient statistics (Ferrando & Sheldon
2025), and the records that the same marginals make.

AIM (McKenna, Mullins, Sheldon & Miklau 2022), as the package dpmm has it, measures one- and two-way marginals of the
table and fits a graphical model to them. From the model's two-way marginals follow sum x x^T and sum x y, which are all
that the quadratic approximation of the logistic loss needs. Or a regression is fitted to records that the model draws.
Both see the labels and the columns as we do, but for numbers, which are rounded to 21 levels of their public ranges.

dpmm pins its numpy, so it runs in an environment of its own, which `make paper` makes with Python 3.10 or 3.11. Its
interpreter, named by VIPS_FAST_DPMM, runs aim_marginals.py.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from blr_table import DELTA, EPSILONS, load, one, split, table_of
from common import crossed, spread

TITLE = "Logistic regression from private marginals (AIM) beside ours"
NEEDS = ("adult", "abalone", "sklearn", "VIPS_FAST_DPMM")
#: The largest size of a graphical model, in MiB, and the steps of each of its fits.
SIZE, STEPS = 4.0, 200
#: Values that a number is rounded to, of its public range.
LEVELS = 21
#: The logits within which the loss is approximated.
RANGE = 4.0


class Attributes:
    """The attributes of one-hot columns and numbers.

    From rows to codes, and from codes to the same columns. A column that has no "=" in its name is a number from
    ``low`` to 1, rounded to ``levels`` values.
    """

    def __init__(self, names, low, levels=None):
        groups: dict = {}
        for j, name in enumerate(names):
            groups.setdefault(name.partition("=")[0], []).append(j)
        self.columns = list(groups.values())
        self.low, self.n_columns = low, len(names)
        self.levels = [LEVELS] * len(names) if levels is None else levels

    def codes(self, X):
        """Code the rows, (n, attributes).

        No category at all has a code of its own, and a number is its nearest level.
        """
        found = []
        for columns in self.columns:
            part = X[:, columns]
            if len(columns) == 1:
                low, last = self.low[columns[0]], self.levels[columns[0]] - 1
                found.append(np.rint((part[:, 0] - low) / (1 - low) * last).clip(0, last))
            else:
                found.append(np.where(part.max(axis=1) > 0, part.argmax(axis=1), len(columns)))
        return np.stack(found, axis=1).astype(np.int64)

    def embeddings(self):
        """Compute each code's columns: arrays of (codes, d)."""
        out = []
        for columns in self.columns:
            if len(columns) == 1:
                table, low = np.zeros((self.levels[columns[0]], self.n_columns)), self.low[columns[0]]
                table[:, columns[0]] = np.linspace(low, 1, len(table))
            else:
                table = np.zeros((len(columns) + 1, self.n_columns))
                table[range(len(columns)), columns] = 1.0
            out.append(table)
        return out


def of_table(data):
    """Describe the attributes of Adult or Abalone."""
    names = table_of(data).feature_names
    return Attributes(names, [0.0 if name.startswith("capital") else -1.0 for name in names])


def quadratic_loss():
    """Compute (a, b) of a quadratic that approximates the logistic loss.

    log(1 + exp(-s)) is nearly const + a s + b s^2 for |s| <= RANGE, by Chebyshev's interpolation.
    """
    series = np.polynomial.chebyshev.Chebyshev.interpolate(lambda s: np.logaddexp(0, -s), 2, domain=[-RANGE, RANGE])
    _, a, b = series.convert(kind=np.polynomial.Polynomial).coef
    return a, b


def from_statistics(attributes, made, penalty=1.0):
    """Compute (coefficients, intercept) from sums over two-way marginals.

    The marginals are of ``made``; the ridge is ``penalty`` / 2.
    """
    tables = [np.hstack([table, np.zeros((len(table), 1))]) for table in attributes.embeddings()]
    d, last, signs = attributes.n_columns + 1, len(tables), np.array([-1.0, 1.0])
    S, c = np.zeros((d, d)), np.zeros(d)
    # The constant, as if it were an attribute of one code.
    S[-1, -1], c[-1] = made[f"{last}"].sum(), made[f"{last}"] @ signs
    for i, table in enumerate(tables):
        alone = made[f"{i}"]
        S += table.T @ (alone[:, None] * table)
        S[-1] += alone @ table
        S[:, -1] += alone @ table
        c += table.T @ (made[f"{i}-{last}"] @ signs)
        for j in range(i):
            part = tables[j].T @ made[f"{j}-{i}"] @ table
            S += part + part.T
    a, b = quadratic_loss()
    S[np.diag_indices(d - 1)] += penalty / (2 * b)
    found = np.linalg.lstsq(2 * b * S, -a * c, rcond=None)[0]
    return found[:-1], found[-1]


def from_records(attributes, made):
    """(coefficients, intercept) of a regression on the records of ``made``."""
    from sklearn.linear_model import LogisticRegression

    codes, labels = made["records"][:, :-1], made["records"][:, -1]
    drawn = sum(table[codes[:, i]] for i, table in enumerate(attributes.embeddings()))
    if len(np.unique(labels)) < 2:
        return np.zeros(attributes.n_columns), 0.0
    model = LogisticRegression(max_iter=2000).fit(drawn, labels)
    return model.coef_[0], model.intercept_[0]


def measured(attributes, X, labels, epsilon, delta):
    """Run the other interpreter on rows and labels.

    It returns sums and records, private for adding or removing one.
    """
    sizes = [len(table) for table in attributes.embeddings()] + [2]
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(
            given,
            codes=np.column_stack([attributes.codes(X), labels]),
            sizes=sizes,
            epsilon=epsilon,
            delta=delta,
            size=SIZE,
            n_iters=STEPS,
        )
        done = subprocess.run(
            [os.environ["VIPS_FAST_DPMM"], Path(__file__).with_name("aim_marginals.py"), given, made],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"dpmm: {done.stderr[-500:]}")
        return dict(np.load(made))


def cells(scale: int) -> list[dict]:
    runs, epsilons = (3, EPSILONS) if scale == 1 else (1, EPSILONS[1:2])
    return [
        dict(data=data, epsilon=epsilon, run=run)
        for data in ("adult", "abalone")
        for epsilon in epsilons
        for run in range(runs)
    ]


def run(cell: dict) -> dict:
    from sklearn.metrics import roc_auc_score

    rows, y = load(cell["data"])
    X, attributes = rows.toarray(), of_table(cell["data"])
    train, test = split(len(y), cell["run"])
    made = measured(attributes, X[train], y[train], cell["epsilon"], DELTA)
    found = {}
    for name, (w, intercept) in (
        ("statistics", from_statistics(attributes, made)),
        ("records", from_records(attributes, made)),
    ):
        s = X[test] @ w + intercept
        found[name] = float(roc_auc_score(y[test], s)), float(-np.logaddexp(0, np.where(y[test] == 1, -s, s)).mean())
    found["ours"] = one("ours", cell["epsilon"], cell["run"], rows, y)[:2]
    return found


METHODS = {
    "ours": "ours",
    "statistics": "DD-SSP: statistics of AIM's marginals",
    "records": "regression on AIM's records",
}


def report(rows: list[dict]) -> str:
    def shown(line, epsilon):
        data, name = line
        own = [row[name] for row in rows if (row["data"], row["epsilon"]) == (data, epsilon)]
        return f"{spread(auc for auc, _ in own)}; {np.mean([mean for _, mean in own]):.3f}" if own else None

    lines = {(data, name): f"{data}, {method}" for data in ("adult", "abalone") for name, method in METHODS.items()}
    splits = max(row["run"] for row in rows) + 1
    columns = {e: f"ε = {e:g}" for e in EPSILONS if any(row["epsilon"] == e for row in rows)}
    return f"""AUC and mean log-likelihood of the test part; splits: {splits}. Adding or removing a record, δ = 10⁻³.
AIM is the package dpmm's, with a model of at most {SIZE:g} MiB. Neither article has this.

{crossed("data, method", lines, columns, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
