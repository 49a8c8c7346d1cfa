"""Public tables: how often the interval of a regression's gain holds the true one.

    python -m bench.panel.public_tables FOLDER  # measures what is missing: each row goes to public_tables.json at once
    python -m bench.panel.public_tables --page  # writes the tables of docs/logistic.md, from the stored rows

``FOLDER`` has the checked-out repositories as OWNER/NAME; public_tables.json has the commits, and for each table its
path, the column of the outcome (of counts also that of the exposure) and the columns that are left out (names, numbers
of records, what is known only after the outcome, and what other columns say). A fit takes as many rows as the table
has, drawn with replacement. So the table's rows are the population, and the true gain is that of all of them; rows held
out would leave an error of their own in it. A row has the told gain, the ends of its interval and the true gain; of
counts also the numbers of known effects, and of those whose interval holds what the likelihood's maximum for the whole
table says. "before" has those of the code that measured several classes once, with a usual factor, and took all of the
optimism for known.
"""

import argparse
import csv
import hashlib
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from paper.common import markdown
from scipy.special import expit, log_expit
from sklearn.metrics import log_loss

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.models.logistic.score import nats_of_mean
from vips_fast.models.verdict import LEAST

from .tables import DELTA, PAGE

STORED = Path(__file__).with_name("public_tables.json")
EPSILONS, SEEDS = (1.0, 4.0), range(10)
MARK = "<!-- bench.panel.public_tables{} -->\n"
#: Classes and values of fewer of a table's rows are left out, and numbers end at this and at the opposite quantile.
_RARE = 0.01
_MISSING = ("", "NA", "?")


def lines(path: Path) -> Iterator[list[str]]:
    """Read a table with the names of its columns first: a CSV whose first column numbers the rows, or an ARFF file."""
    with path.open(encoding="latin-1") as file:
        if path.suffix == ".csv":
            yield from (row[1:] for row in csv.reader(file))
            return
        names: list[str] = []
        for line in map(str.strip, file):
            if line.lower().startswith("@attribute"):
                names.append(re.findall(r"'[^']*'|\S+", line)[1].strip("'"))
            elif line.lower().startswith("@data"):
                yield names
            elif line and line[0] not in "%@":
                yield [cell.strip() for cell in next(csv.reader([line], quotechar="'", skipinitialspace=True))]


def _table(path: Path) -> dict[str, np.ndarray]:
    """Read a table's columns."""
    names, *rows = lines(path)
    return {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def _encoded(columns: list[np.ndarray], least: float, spare: int = 0) -> np.ndarray:
    """Make rows of norm 1 at most.

    A number is brought to [-1, 1], 0 if it is missing; other columns have an entry for each value of as many rows as
    ``least``, but for the first ``spare``.
    """
    made = []
    for values in columns:
        gone = np.isin(values, _MISSING)
        try:
            numbers = np.where(gone, "nan", values).astype(float)
        except ValueError:
            made += [values == one for one, count in Counter(values.tolist()).items() if count >= least][spare:]
            continue
        low, high = np.nanquantile(numbers, [_RARE, 1 - _RARE])
        made.append(np.nan_to_num(np.clip(2 * (numbers - low) / max(high - low, 1e-12) - 1, -1, 1)))
    return np.column_stack(made).astype(float) / np.sqrt(len(columns))


def read(path: Path, outcome: str, dropped: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read rows, and the outcome as numbers of the classes."""
    columns = _table(path)
    classes = columns.pop(outcome)
    counts, least = Counter(classes.tolist()), _RARE * len(classes)
    known = sorted(one for one, count in counts.items() if count >= least and one not in _MISSING)
    kept = np.isin(classes, known)
    X = _encoded([values[kept] for name, values in columns.items() if name not in dropped], least)
    return X, np.searchsorted(known, classes[kept])


def read_counts(path: Path, outcome: str, exposure: str | None, *dropped: str) -> tuple[np.ndarray, ...]:
    """Read rows, counts, and exposures, or else ones. No column of a value is what others and the constant leave.

    Counts are cut at the first of 1, 2, 5, 10, 20, 50 ... that at most 5 % of them pass.
    """
    columns = _table(path)
    y, e = (
        np.where(np.isin(one, _MISSING), "nan", one).astype(float)
        for one in (columns[outcome], columns[exposure] if exposure else np.full(len(columns[outcome]), "1"))
    )
    kept, out = (y >= 0) & (e > 0), {outcome, exposure, *dropped}
    X = _encoded([values[kept] for name, values in columns.items() if name not in out], _RARE * len(y), spare=1)
    largest = next(one for k in range(9) for one in (10**k, 2 * 10**k, 5 * 10**k) if (y[kept] > one).mean() <= 0.05)
    return X, np.minimum(y[kept], largest), e[kept]


def _fit(model: Any, seed: int, key: bytes, *columns: np.ndarray) -> Any:
    """Fit to rows that are drawn anew; the noise is the same in each run."""
    drawn = np.random.default_rng(seed).integers(0, len(columns[0]), len(columns[0]))
    return model.set_unsafe(test_key=key).fit(*(one[drawn] for one in columns))


#: The figures of a fit with an epsilon and a seed, and the shape of its table.
Measured = tuple[Callable[[float, int], list[float]], list[int]]


def of_classes(path: Path, outcome: str, *dropped: str) -> Measured:
    """Find the told gain of fits with the defaults, and its interval, and the true one."""
    X, y = read(path, outcome, list(dropped))
    shares, own = np.bincount(y) / len(y), {"delta": DELTA, "n_jobs": 1, "classes": range(y.max() + 1)}

    def figures(epsilon: float, seed: int) -> list[float]:
        # Tables share the noise of a seed.
        key = (seed + 1).to_bytes(32, "big")
        model = _fit(BayesianLogisticRegression(epsilon=epsilon, **own), seed, key, X, y)
        gain = 1 - log_loss(y, model.predict_proba(X)) / -float(shares @ np.log(shares))
        return [round(float(one), 4) for one in (*model.found_gain_, gain)]

    return figures, [*X.shape, len(shares)]


def of_counts(path: Path, outcome: str, exposure: str | None, *dropped: str) -> Measured:
    """Find the same of counts, and how many effects are known, and how many of these hold the whole table's.

    The gain is of what `predict` says. No effect is counted where the likelihood has no maximum.
    """
    X, y, e = read_counts(path, outcome, exposure, *dropped)
    most = e.max() if exposure else None
    given, own = ((X, y, e) if exposure else (X, y)), {"largest": y.max(), "largest_exposure": most}
    truth = maximum(X, y, e / e.max())

    def nats(means: np.ndarray) -> float:
        odds = np.log(means / e * e.max())
        return float(np.mean(y * log_expit(odds) + e / e.max() * log_expit(-odds)))

    def figures(epsilon: float, seed: int) -> list[float]:
        key = hashlib.sha256(f"{path.name} {outcome} {epsilon} {seed}".encode()).digest()
        model = _fit(CountRegression(epsilon=epsilon, delta=DELTA, n_jobs=1, **own), seed, key, *given)
        saved = nats(model.predict(X, e if exposure else None)) - nats(y.sum() / e.sum() * e)
        gain = -math.expm1(-saved / nats_of_mean(y.mean()))
        low, high = np.array([one.coefficient[1:] for one in model.effects()]).T
        known = np.isfinite(high - low) & np.isfinite(truth)
        held = known & (low <= truth) & (truth <= high)
        return [*(round(float(one), 4) for one in (*model.found_gain_, gain)), int(known.sum()), int(held.sum())]

    return figures, [*X.shape, int(y.max())]


def maximum(X: np.ndarray, y: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Find the coefficients, (d,), that make counts of the stated dispersion 1 likeliest; nan if there are none."""
    Z = np.column_stack([X, np.ones(len(X))])
    w = np.append(np.zeros(X.shape[1]), np.log(y.sum() / size.sum()))
    for _ in range(100):
        p = expit(Z @ w)
        curvature = (Z * (size * p)[:, None]).T @ Z
        if np.linalg.cond(curvature) > 1e10:
            break
        step = np.linalg.solve(curvature, Z.T @ (y * (1 - p) - size * p))
        w += step
        if np.abs(step).max() < 1e-8:
            return w[:-1]
    return np.full(X.shape[1], np.nan)


def run(folder: Path) -> None:
    """Measure the cells that are not stored yet."""
    stored = json.loads(STORED.read_text())
    for kind, measured in (("", of_classes), ("count ", of_counts)):
        tables, fits, shapes = (stored[kind + part] for part in ("tables", "fits", "shapes"))
        for name, (path, *named) in tables.items():
            cells = {f"{name} | {epsilon:g} | {seed}": (epsilon, seed) for epsilon, seed in product(EPSILONS, SEEDS)}
            if cells.keys() <= fits.keys():
                continue
            figures, shapes[name] = measured(folder / path, *named)
            fits |= {key: figures(*cell) for key, cell in cells.items() if key not in fits}
            STORED.write_text(_text(stored))
            print(name, shapes[name], f"held {_held(np.array([fits[key] for key in cells])).mean():.2f}", flush=True)


def _held(fits: np.ndarray) -> np.ndarray:
    """Whether intervals hold the true gain, which they tell down to -1."""
    true = np.maximum(fits[:, 3], -1.0)
    return (fits[:, 1] <= true) & (true <= fits[:, 2])


def groups(stored: dict[str, Any]) -> dict[str, list[str]]:
    """Name the tables of each line of the page: every other one of several classes had no part in the choices."""
    classes = {name: shape[2] for name, shape in sorted(stored["shapes"].items())}
    several = [name for name, number in classes.items() if number > 2]
    return {
        "two classes": [name for name, number in classes.items() if number == 2],
        "several classes, no part in the choices": several[1::2],
        "several classes, chosen on": several[::2],
    }


def tables(stored: dict[str, Any]) -> dict[str, str]:
    """The tables of the page."""
    return {"": _of_classes(stored), " counts": _of_counts(stored)}


def _of_classes(stored: dict[str, Any]) -> str:
    rows = []
    for (group, names), epsilon in product(groups(stored).items(), EPSILONS):
        keys = [f"{name} | {epsilon:g} | {seed}" for name, seed in product(names, SEEDS)]
        before, now = (np.array([stored[part][key] for key in keys]) for part in ("before", "fits"))
        shares = [_share(of(one)) for of in (_held, _unclear) for one in (before, now)]
        rows.append([f"{group}: {len(names)}", f"{epsilon:g}", len(keys), *shares, *_useful(now)])
    head = ["tables", "ε", "fits", "holds the true gain: before", "now", "cannot tell: before", "now"]
    return markdown([*head, "useful", "wrongly"], rows)


def _of_counts(stored: dict[str, Any]) -> str:
    rows, exposed = [], {name: entry[2] is not None for name, entry in stored["count tables"].items()}
    for (group, given), epsilon in product({"without exposure": False, "with exposure": True}.items(), EPSILONS):
        names = [name for name, one in exposed.items() if one is given]
        now = np.array([stored["count fits"][f"{name} | {epsilon:g} | {seed}"] for name, seed in product(names, SEEDS)])
        row = [f"{group}: {len(names)}", f"{epsilon:g}", len(now), _share(_held(now)), _share(_unclear(now))]
        known, held = now[:, 4:].sum(axis=0)
        rows.append([*row, *_useful(now), int(known), _share(held / known)])
    head = ["tables", "ε", "fits", "holds the true gain", "cannot tell", "useful", "wrongly"]
    return markdown([*head, "known effects", "hold the table's"], rows)


def _unclear(fits: np.ndarray) -> np.ndarray:
    return (fits[:, 1] <= LEAST) & (fits[:, 2] >= LEAST)


def _useful(fits: np.ndarray) -> list[int]:
    """Count fits that are called useful, and those of them that gain nothing."""
    useful = fits[:, 1] > LEAST
    return [int(useful.sum()), int((useful & (fits[:, 3] <= 0)).sum())]


def _share(found: np.ndarray) -> str:
    return f"{found.mean():.2f}".removeprefix("0")


def write_page(stored: dict[str, Any]) -> None:
    """Replace the tables of docs/logistic.md."""
    text = PAGE.read_text("utf-8")
    for name, table in tables(stored).items():
        head, end = MARK.format(name), "<!-- end -->"
        before, found, rest = text.partition(head)
        assert found, name
        text = before + head + table + "\n" + end + rest.partition(end)[2]
    PAGE.write_text(text, "utf-8")


def _text(stored: dict[str, Any]) -> str:
    """Write a line for each entry."""
    parts = []
    for name, entries in stored.items():
        each = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(entries.items()))
        parts.append(f"{json.dumps(name)}: {{\n{each}\n}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the repositories are")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/logistic.md instead")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.page:
        write_page(json.loads(STORED.read_text()))
    else:
        run(asked.folder)
