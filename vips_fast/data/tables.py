"""Readers of UCI tables: Adult and Abalone in their original format.

What the columns mean is public and written down here: the categories are those of the data sets' own descriptions
(``adult.names``), the bounds of the numbers are round figures chosen without looking at the rows. Nothing is learned
from the rows, so the encoding of the table spends no privacy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from scipy import sparse

from ._files import blocks, naming, open_text
from .arrays import INT32_MAX

PathLike = str | os.PathLike[str]


class Numeric(NamedTuple):
    """A number with public bounds; a value beyond one of them is moved to it."""

    name: str
    low: float
    high: float
    #: Scaled to [-1, 1]; False: to [0, 1], for amounts that are mostly zero.
    centred: bool = True


class Categorical(NamedTuple):
    """One of a public list of categories."""

    name: str
    categories: tuple[str, ...]
    #: Whether the description allows the value to be missing ("?").
    may_be_missing: bool = False


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


def _listed(name: str, categories: str, may_be_missing: bool = False) -> Categorical:
    return Categorical(name, tuple(word.strip() for word in categories.split(",")), may_be_missing)


#: Attributes of Adult in the file's order (adult.names).
ADULT_COLUMNS = (
    Numeric("age", 16, 90),
    _listed(
        "workclass",
        "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked", True,
    ),
    Numeric("fnlwgt", 0, 1_500_000),
    _listed(
        "education",
        "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters,"
        "1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    ),
    Numeric("education-num", 1, 16),
    _listed(
        "marital-status",
        "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse",
    ),
    _listed(
        "occupation",
        "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners,"
        "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv,"
        "Armed-Forces", True,
    ),
    _listed("relationship", "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried"),
    _listed("race", "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black"),
    _listed("sex", "Female, Male"),
    Numeric("capital-gain", 0, 20_000, centred=False),
    Numeric("capital-loss", 0, 5_000, centred=False),
    Numeric("hours-per-week", 0, 100),
    _listed(
        "native-country",
        "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, "
        "Japan, Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, "
        "Portugal, Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, "
        "Guatemala, Nicaragua, Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
        "Holand-Netherlands", True,
    ),
)  # fmt: skip

#: Attributes of Abalone in the file's order; lengths in 200 mm, weights in 200 g.
ABALONE_COLUMNS = (
    Categorical("sex", ("M", "F", "I")), Numeric("length", 0, 1), Numeric("diameter", 0, 1), Numeric("height", 0, 0.5),
    Numeric("whole-weight", 0, 3), Numeric("shucked-weight", 0, 1.5), Numeric("viscera-weight", 0, 1),
    Numeric("shell-weight", 0, 1),
)  # fmt: skip


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


def encode_table(
    columns: Sequence[Numeric | Categorical], values: Sequence[Sequence[str]], *, missing: str = "category",
    lines: Sequence[int] | None = None, name: str = "values",
) -> tuple[sparse.csr_array, tuple[str, ...], float]:  # fmt: skip
    """Encode the text of a table, the fields of each row in the order of ``columns``, by its public description.

    ``missing`` is what "?" becomes in a column that may be missing: a "category" of its own, or "zero" for zeros. A
    missing number always becomes the middle of its bounds (or 0 where it is not centred). For messages, ``lines`` are
    line numbers, None counts the rows from 0, and ``name`` says what is being read.

    Returns X, feature_names and row_norm as in `Table`; index arrays are int32 where they fit. Raises ValueError if a
    field is not a number, or not one of the public categories. The message has the line and the column, never the
    value.
    """
    if missing not in ("category", "zero"):
        raise ValueError(f"missing={missing!r}: expected 'category' or 'zero'")
    n = len(values)
    entries, places = np.empty((n, len(columns))), np.empty((n, len(columns)), np.int32)
    names: list[str] = []
    for position, column in enumerate(columns):

        def refuse(row: int, what: str, column: Numeric | Categorical = column) -> NoReturn:
            line = row if lines is None else lines[row]
            raise ValueError(f"{name}: line {line}, column {column.name!r}: {what}")

        fields = [row[position] for row in values]
        if isinstance(column, Numeric):
            places[:, position] = len(names)
            names.append(column.name)
            entries[:, position] = _scaled(column, fields, refuse)
            continue
        categories = column.categories + (("?",) if column.may_be_missing and missing == "category" else ())
        place = {category: len(names) + k for k, category in enumerate(categories)}
        if column.may_be_missing:
            place.setdefault("?", -1)
        names.extend(f"{column.name}={category}" for category in categories)
        for i, field in enumerate(fields):
            if field not in place:
                refuse(i, "not one of the public categories")
            places[i, position] = place[field]
        entries[:, position] = places[:, position] >= 0
    present = entries != 0
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    if indptr[-1] <= INT32_MAX:
        # Some users of sparse matrices, such as liblinear, read int32 indices alone.
        indptr = indptr.astype(np.int32)
    X = sparse.csr_array((entries[present], places[present], indptr), shape=(n, len(names)))
    return X, tuple(names), math.sqrt(len(columns))


def _scaled(column: Numeric, fields: Sequence[str], refuse: Callable[[int, str], NoReturn]) -> np.ndarray:
    """The numbers of a column on the scale that its bounds set."""
    middle = (column.low + column.high) / 2 if column.centred else column.low
    numbers = np.empty(len(fields))
    for i, field in enumerate(fields):
        try:
            numbers[i] = middle if field == "?" else float(field)
        except ValueError:
            refuse(i, "expected a number")
        if not math.isfinite(numbers[i]):
            refuse(i, "expected a finite number")
    scaled: np.ndarray = (np.clip(numbers, column.low, column.high) - column.low) / (column.high - column.low)
    return 2 * scaled - 1 if column.centred else scaled


def _read(
    paths: Sequence[PathLike], columns: Sequence[Numeric | Categorical], header: str,
    label: Callable[[str], int | None], missing: str = "category",
) -> Table:  # fmt: skip
    """A table of features and a label in the last field. `missing` may also be "drop"."""
    if not paths:
        raise ValueError("no path given; expected one or more files")
    values, targets, lines = [], [], []
    for path in paths:
        for number, fields in _rows(path, len(columns) + 1, header):
            if missing == "drop" and "?" in fields:
                continue
            target = label(fields.pop())
            if target is None:
                raise ValueError(f"{path}: line {number}: the label is not one of those of the data set")
            values.append(fields)
            targets.append(target)
            lines.append(number)
    missing, name = "zero" if missing == "drop" else missing, ", ".join(map(str, paths))
    X, feature_names, row_norm = encode_table(columns, values, missing=missing, lines=lines, name=name)
    return Table(X, np.asarray(targets, dtype=np.int64), feature_names, row_norm)


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

    return _read(paths, ADULT_COLUMNS, "age", label, missing)


def read_abalone(*paths: PathLike, threshold: int = 9) -> Table:
    """Read the UCI Abalone file ``abalone.data``; files and errors as for `read_adult`.

    ``y`` is 1 for more rings than `threshold`. The 10 columns are three for the sex and seven measurements.
    """

    def label(text: str) -> int | None:
        return int(int(text) > threshold) if text.isdecimal() else None

    return _read(paths, ABALONE_COLUMNS, "sex", label)
