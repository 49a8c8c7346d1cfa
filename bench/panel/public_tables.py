"""Public tables: how often the interval of a regression's gain holds the true one.

    python -m bench.panel.public_tables FOLDER  # measures what is missing: each row goes to public_tables.json at once
    python -m bench.panel.public_tables --page  # writes the table of docs/logistic.md, from the stored rows

``FOLDER`` has the checked-out repositories as OWNER/NAME; public_tables.json has the commits, and for each table its
path, the column of the outcome and the columns that are left out (names, numbers of records, and what is known only
after the outcome). A fit takes as many rows as the table has, drawn with replacement. So the table's rows are the
population, and the true gain is that of all of them; rows held out would leave an error of their own in it. A row has
the told gain, the ends of its interval and the true gain. "before" has those of the code that measured several classes
once, with a usual factor, and took all of the optimism for known.
"""

import argparse
import csv
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from paper.common import markdown
from sklearn.metrics import log_loss

from vips_fast import BayesianLogisticRegression
from vips_fast.models.verdict import LEAST

from .tables import DELTA, PAGE

STORED = Path(__file__).with_name("public_tables.json")
EPSILONS, SEEDS = (1.0, 4.0), range(10)
MARK = "<!-- bench.panel.public_tables -->\n"
#: Classes and values of fewer of a table's rows are left out, and numbers end at this and at the opposite quantile.
_RARE = 0.01


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


def read(path: Path, outcome: str, dropped: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read rows of norm 1 at most, and the outcome as numbers of the classes.

    A number is brought to [-1, 1], 0 if it is missing; other columns have an entry for each value.
    """
    names, *rows = lines(path)
    columns = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    classes = columns.pop(outcome)
    counts = Counter(classes.tolist())
    missing, least = ("", "NA", "?"), _RARE * len(classes)
    known = sorted(one for one, count in counts.items() if count >= least and one not in missing)
    kept, made = np.isin(classes, known), []
    columns = {name: values[kept] for name, values in columns.items() if name not in dropped}
    for values in columns.values():
        gone = np.isin(values, missing)
        try:
            numbers = np.where(gone, "nan", values).astype(float)
        except ValueError:
            made += [values == one for one, count in Counter(values.tolist()).items() if count >= least]
            continue
        low, high = np.nanquantile(numbers, [_RARE, 1 - _RARE])
        made.append(np.nan_to_num(np.clip(2 * (numbers - low) / max(high - low, 1e-12) - 1, -1, 1)))
    X = np.column_stack(made).astype(float) / np.sqrt(len(columns))
    return X, np.searchsorted(known, classes[kept])


def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> Any:
    """Fit ours, with its defaults, to rows that are drawn anew; its noise is the same in each run."""
    drawn = np.random.default_rng(seed).integers(0, len(y), len(y))
    model = BayesianLogisticRegression(epsilon=epsilon, delta=DELTA, n_jobs=1, classes=range(y.max() + 1))
    return model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big")).fit(X[drawn], y[drawn])


def figures(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Find the told gain and its interval, and the true one."""
    shares = np.bincount(y) / len(y)
    gain = 1 - log_loss(y, model.predict_proba(X)) / -float(shares @ np.log(shares))
    return [round(float(one), 4) for one in (*model.found_gain_, gain)]


def run(folder: Path) -> None:
    """Measure the cells that are not stored yet."""
    stored = json.loads(STORED.read_text())
    fits = stored["fits"]
    for name, (path, outcome, *dropped) in stored["tables"].items():
        cells = {f"{name} | {epsilon:g} | {seed}": (epsilon, seed) for epsilon, seed in product(EPSILONS, SEEDS)}
        if cells.keys() <= fits.keys():
            continue
        X, y = read(folder / path, outcome, dropped)
        for key, (epsilon, seed) in cells.items():
            if key not in fits:
                fits[key] = figures(fit(X, y, epsilon, seed), X, y)
        stored["shapes"][name] = [*X.shape, int(y.max()) + 1]
        STORED.write_text(_text(stored))
        print(
            name,
            X.shape,
            np.bincount(y),
            f"held {_held(np.array([fits[key] for key in cells])).mean():.2f}",
            flush=True,
        )


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


def table(stored: dict[str, Any]) -> str:
    """The table of the page."""
    rows = []
    for (group, names), epsilon in product(groups(stored).items(), EPSILONS):
        keys = [f"{name} | {epsilon:g} | {seed}" for name, seed in product(names, SEEDS)]
        before, now = (np.array([stored[part][key] for key in keys]) for part in ("before", "fits"))
        unclear = [float(((one[:, 1] <= LEAST) & (one[:, 2] >= LEAST)).mean()) for one in (before, now)]
        useful = now[:, 1] > LEAST
        row = [f"{group}: {len(names)}", f"{epsilon:g}", len(keys)]
        row += [f"{one:.2f}".removeprefix("0") for one in (_held(before).mean(), _held(now).mean(), *unclear)]
        rows.append([*row, int(useful.sum()), int((useful & (now[:, 3] <= 0)).sum())])
    head = ["tables", "ε", "fits", "holds the true gain: before", "now", "cannot tell: before", "now"]
    return markdown([*head, "useful", "wrongly"], rows)


def write_page(stored: dict[str, Any]) -> None:
    """Replace the table of docs/logistic.md."""
    before, head, rest = PAGE.read_text("utf-8").partition(MARK)
    end = "<!-- end -->"
    PAGE.write_text(before + head + table(stored) + "\n" + end + rest.partition(end)[2], "utf-8")


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
    parser.add_argument("--page", action="store_true", help="write the table of docs/logistic.md instead")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.page:
        write_page(json.loads(STORED.read_text()))
    else:
        run(asked.folder)
