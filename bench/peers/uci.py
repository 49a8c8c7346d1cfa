"""Read UCI Adult and Abalone in their original format.

The comparisons read them this way.

The bounds and categories are public: the categories come from ``adult.names``, the bounds are round figures. Nothing is
learned from the rows, so encoding them spends no privacy.
"""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from vips_fast.data import Column, Schema


class Table(NamedTuple):
    """A table that a schema encoded.

    ``X``, float64 CSR of shape (n, d), holds scaled numbers and one column a category. ``y``, int64 of shape (n,), is 0
    or 1. ``feature_names`` are "name" or "name=category"; ``row_norm`` bounds the L2 norm of any row, publicly.
    """

    X: sparse.csr_array
    y: np.ndarray
    feature_names: tuple[str, ...]
    row_norm: float


def _number(name: str, low: float, high: float, centered: bool = True) -> Column:
    return Column(name, "number", low, high, centered=centered)


def _category(name: str, values: str, missing: str = "refuse") -> Column:
    return Column(name, "category", values=tuple(word.strip() for word in values.split(",")), missing=missing)


#: Attributes of Adult in the file's order (adult.names).
ADULT = Schema(
    (
        _number("age", 16, 90),
        _category(
            "workclass",
            "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked",
            "flag",
        ),
        _number("fnlwgt", 0, 1_500_000),
        _category(
            "education",
            "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters,"
            "1st-4th, 10th, Doctorate, 5th-6th, Preschool",
        ),
        _number("education-num", 1, 16),
        _category(
            "marital-status",
            "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse",
        ),
        _category(
            "occupation",
            "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners,"
            "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv,"
            "Armed-Forces",
            "flag",
        ),
        _category("relationship", "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried"),
        _category("race", "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black"),
        _category("sex", "Female, Male"),
        _number("capital-gain", 0, 20_000, False),
        _number("capital-loss", 0, 5_000, False),
        _number("hours-per-week", 0, 100),
        _category(
            "native-country",
            "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
            "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
            "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, "
            "Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
            "Holand-Netherlands",
            "flag",
        ),
    ),
    frozenset({"", "?"}),
)

#: Attributes of Abalone in the file's order; lengths in 200 mm, weights in 200 g.
ABALONE = Schema(
    (
        _category("sex", "M, F, I"),
        _number("length", 0, 1),
        _number("diameter", 0, 1),
        _number("height", 0, 0.5),
        _number("whole-weight", 0, 3),
        _number("shucked-weight", 0, 1.5),
        _number("viscera-weight", 0, 1),
        _number("shell-weight", 0, 1),
    ),
    frozenset({"", "?"}),
)


def read_adult(*paths: str | Path, missing: str = "category") -> Table:
    """Read ``adult.data`` and ``adult.test``, plain or gzip, one after the other.

    ``y`` is 1 for an income above 50,000. A "?" becomes, by ``missing``, a "category" of its own (108 columns),
    "fill", the first category (105 columns), or "drop", which leaves out the row. Most rows have an L2 norm near 3;
    their bound is sqrt(14).

    Raises OSError if a file cannot be read, and ValueError with the number of the line that has a wrong form.
    """
    if missing not in ("category", "fill", "drop"):
        raise ValueError(f"missing={missing!r}: expected 'category', 'fill' or 'drop'")
    columns = (
        column if missing == "category" or column.kind == "number" else replace(column, missing="fill")
        for column in ADULT.columns
    )
    labels = {">50K": 1, "<=50K": 0}
    schema = Schema(tuple(columns), ADULT.nulls)
    return _read(paths, schema, lambda text: labels.get(text.removesuffix(".")), whole=missing == "drop")


def read_abalone(*paths: str | Path, threshold: int = 9) -> Table:
    """Read ``abalone.data``; files and errors are as for `read_adult`.

    ``y`` is 1 for more rings than ``threshold``. The 10 columns are three for the sex and seven measurements.
    """
    return _read(paths, ABALONE, lambda text: int(int(text) > threshold) if text.isdecimal() else None)


def _read(
    paths: tuple[str | Path, ...], schema: Schema, label: Callable[[str], int | None], whole: bool = False
) -> Table:
    """Read features, and a label in the last field.

    ``whole`` leaves out rows with a missing value.
    """
    rows, targets, numbers = [], [], []
    for path in paths:
        raw = Path(path).read_bytes()
        text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        for number, line in enumerate(text.decode().splitlines(), 1):
            fields = [field.strip() for field in line.split(",")]
            # Empty lines, comments and a header are no rows.
            if not line.strip() or line.startswith("|") or fields[0] == schema.columns[0].name:
                continue
            if len(fields) != len(schema.columns) + 1:
                wanted = len(schema.columns) + 1
                raise ValueError(f"{path}: line {number} has {len(fields)} fields; expected {wanted}")
            if whole and "?" in fields:
                continue
            target = label(fields.pop())
            if target is None:
                raise ValueError(f"{path}: line {number}: the label is not one of those of the data set")
            rows.append(fields)
            targets.append(target)
            numbers.append(number)
    cells = {column.name: [row[k] for row in rows] for k, column in enumerate(schema.columns)}
    X = schema.encode(cells, where=f"{', '.join(map(str, paths))}: line", lines=numbers)
    return Table(X, np.asarray(targets, dtype=np.int64), schema.feature_names, schema.row_norm)
