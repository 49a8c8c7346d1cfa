"""Readers of UCI tables: Adult and Abalone in their original format.

What the columns mean is public and written down here: the categories are those of the data sets' own descriptions
(``adult.names``), the bounds of the numbers are round figures chosen without looking at the rows. Nothing is learned
from the rows, so the encoding of the table spends no privacy.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ._files import blocks, naming, open_text
from .schema import Column, Schema

PathLike = str | os.PathLike[str]


class Table(NamedTuple):
    """An encoded table.

    X, a float64 CSR array of shape (n, d), has numbers scaled by their public bounds and one column for each category;
    ``feature_names`` names its columns, "name" or "name=category"; ``row_norm`` is the largest L2 norm that any row
    could have: a public bound. y, int64 of shape (n,), is 0 or 1.
    """

    X: sparse.csr_array
    y: np.ndarray
    feature_names: tuple[str, ...]
    row_norm: float


def _number(name: str, low: float, high: float, centred: bool = True) -> Column:
    return Column(name, "number", low, high, centred=centred, missing="zero")


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


def _rows(path: PathLike, n_fields: int, header: str) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line of a comma-separated file, without empty lines, comments and a header."""
    number = 0
    with naming(path), open_text(path) as file:
        for block in blocks(file):
            try:
                lines = block.decode("utf-8").splitlines()
            except UnicodeDecodeError:
                raise ValueError("is not UTF-8 text") from None
            for line in lines:
                number += 1
                line = line.strip()
                if not line or line.startswith("|"):
                    continue
                fields = [field.strip() for field in line.split(",")]
                if len(fields) != n_fields:
                    raise ValueError(f"line {number} has {len(fields)} fields; expected {n_fields}")
                if fields[0].lower() != header:
                    yield number, fields


def _read(
    paths: Sequence[PathLike], schema: Schema, label: Callable[[str], int | None], *, whole: bool = False
) -> Table:
    """A table of features and a label in the last field; ``whole`` leaves out rows with a missing value."""
    if not paths:
        raise ValueError("no path given; expected one or more files")
    values, targets, lines = [], [], []
    for path in paths:
        for number, fields in _rows(path, len(schema.columns) + 1, schema.columns[0].name):
            if whole and "?" in fields:
                continue
            target = label(fields.pop())
            if target is None:
                raise ValueError(f"{path}: line {number}: the label is not one of those of the data set")
            values.append(fields)
            targets.append(target)
            lines.append(number)
    cells = {column.name: [row[k] for row in values] for k, column in enumerate(schema.columns)}
    X = schema.encode(cells, where=f"{', '.join(map(str, paths))}: line", lines=lines)
    return Table(X, np.asarray(targets, dtype=np.int64), schema.feature_names, schema.row_norm)


def read_adult(*paths: PathLike, missing: str = "category") -> Table:
    """Read UCI Adult (census income) files, ``adult.data`` and ``adult.test``.

    Files in the original format, plain or gzip, with or without a header line; their rows are put one after the other.
    ``y`` is 1 for an income above 50,000 (labels with or without a full stop). ``missing`` is what becomes of "?": a
    "category" of its own (108 columns), "zero" for no category (105 columns), or "drop", which leaves out the row (and
    makes the number of rows depend on the data). Capital gains are bounded by 20,000, other numbers by what the
    quantity can be. Most rows have an L2 norm near 3; the bound ``row_norm`` is sqrt(14).

    Raises OSError if a file cannot be opened, and ValueError, with its number, if a line has a wrong form.
    """
    if missing not in ("category", "zero", "drop"):
        raise ValueError(f"missing={missing!r}: expected 'category', 'zero' or 'drop'")

    def label(text: str) -> int | None:
        return {">50K": 1, "<=50K": 0}.get(text.removesuffix("."))

    columns = (column if missing == "category" else replace(column, missing="zero") for column in ADULT.columns)
    return _read(paths, Schema(tuple(columns), ADULT.nulls), label, whole=missing == "drop")


def read_abalone(*paths: PathLike, threshold: int = 9) -> Table:
    """Read the UCI Abalone file ``abalone.data``; files and errors as for `read_adult`.

    ``y`` is 1 for more rings than `threshold`. The 10 columns are three for the sex and seven measurements.
    """

    def label(text: str) -> int | None:
        return int(int(text) > threshold) if text.isdecimal() else None

    return _read(paths, ABALONE, label)
