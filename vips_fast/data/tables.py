"""Readers of UCI tables: Adult and Abalone in their original format.

What the columns mean is public and written down here: the categories are those of
the data sets' own descriptions (``adult.names``), the bounds of the numbers are
round figures chosen without looking at the rows. Nothing is learned from the rows,
so a model fitted to the encoded table owes no privacy to its encoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from vips_fast.data._integers import blocks, open_text

__all__ = ["ABALONE_COLUMNS", "ADULT_COLUMNS", "Categorical", "Numeric", "Table", "encode_table", "read_abalone", "read_adult"]


class Numeric(NamedTuple):
    """A number with public bounds; values beyond them are moved to them."""

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

    Attributes
    ----------
    X : scipy.sparse.csr_array, float64, shape (n, d)
        Numbers scaled by their public bounds, one column for each category.
    y : ndarray, int64, shape (n,)
        0 or 1.
    feature_names : tuple of str
        Names of the columns, "name" or "name=category".
    row_norm : float
        Largest L2 norm that any row could have: a public bound.
    """

    X: sparse.csr_array
    y: np.ndarray
    feature_names: tuple[str, ...]
    row_norm: float


def _split(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


#: Attributes of Adult in the file's order (adult.names).
ADULT_COLUMNS = (
    Numeric("age", 16, 90),
    Categorical(
        "workclass",
        _split(
            "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, Without-pay, Never-worked"
        ),
        True,
    ),
    Numeric("fnlwgt", 0, 1_500_000),
    Categorical(
        "education",
        _split(
            "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, 7th-8th, 12th, Masters,"
            "1st-4th, 10th, Doctorate, 5th-6th, Preschool"
        ),
    ),
    Numeric("education-num", 1, 16),
    Categorical(
        "marital-status",
        _split(
            "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, Married-spouse-absent, Married-AF-spouse"
        ),
    ),
    Categorical(
        "occupation",
        _split(
            "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, Prof-specialty, Handlers-cleaners,"
            "Machine-op-inspct, Adm-clerical, Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv,"
            "Armed-Forces"
        ),
        True,
    ),
    Categorical("relationship", _split("Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried")),
    Categorical("race", _split("White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black")),
    Categorical("sex", _split("Female, Male")),
    Numeric("capital-gain", 0, 20_000, centred=False),
    Numeric("capital-loss", 0, 5_000, centred=False),
    Numeric("hours-per-week", 0, 100),
    Categorical(
        "native-country",
        _split(
            "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, Outlying-US(Guam-USVI-etc), India, Japan,"
            "Greece, South, China, Cuba, Iran, Honduras, Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal,"
            "Ireland, France, Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua,"
            "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, Holand-Netherlands"
        ),
        True,
    ),
)

#: Attributes of Abalone in the file's order; lengths in 200 mm, weights in 200 g.
ABALONE_COLUMNS = (
    Categorical("sex", ("M", "F", "I")),
    Numeric("length", 0, 1),
    Numeric("diameter", 0, 1),
    Numeric("height", 0, 0.5),
    Numeric("whole-weight", 0, 3),
    Numeric("shucked-weight", 0, 1.5),
    Numeric("viscera-weight", 0, 1),
    Numeric("shell-weight", 0, 1),
)


def _rows(path, n_fields: int, header: str):
    """(line number, fields) of a comma-separated file; skips empty lines, comments and a header."""
    number = 0
    with open_text(path) as file:
        try:
            for block in blocks(file):
                for line in block.decode("utf-8").splitlines():
                    number += 1
                    line = line.strip()
                    if not line or line.startswith("|"):
                        continue
                    fields = [field.strip() for field in line.split(",")]
                    if len(fields) != n_fields:
                        raise ValueError(f"line {number} has {len(fields)} fields; expected {n_fields}")
                    if fields[0].lower() == header:
                        continue
                    yield number, fields
        except UnicodeDecodeError:
            raise ValueError(f"{path}: not a text file") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def encode_table(columns: Sequence, values: Sequence[Sequence[str]], *, missing: str = "category", lines=None, name="values"):
    """Encode the text of a table by its public description.

    Parameters
    ----------
    columns : sequence of Numeric and Categorical
    values : sequence of sequences of str
        The fields of each row, in the order of ``columns``.
    missing : {"category", "zero"}
        What "?" becomes in a column that may be missing: a category of its own, or
        zeros. A missing number is always the middle of its bounds (or 0).
    lines : sequence of int or None
        Line numbers for messages.
    name : str
        What is being read, for messages.

    Returns
    -------
    X : scipy.sparse.csr_array, float64
    feature_names : tuple of str
    row_norm : float

    Raises
    ------
    ValueError
        If a field is not a number, or not one of the public categories. The message
        has the line and the column, never the value.
    """
    if missing not in ("category", "zero"):
        raise ValueError(f"missing={missing!r}: expected 'category' or 'zero'")
    n = len(values)
    entries, indices, names, square = [], [], [], 0.0

    def refuse(i, what):
        line = i if lines is None else lines[i]
        raise ValueError(f"{name}: line {line}, column {column.name!r}: {what}")

    for position, column in enumerate(columns):
        start = len(names)
        square += 1.0
        if isinstance(column, Numeric):
            names.append(column.name)
            middle = (column.low + column.high) / 2 if column.centred else column.low
            numbers = np.empty(n)
            for i, row in enumerate(values):
                field = row[position]
                try:
                    numbers[i] = middle if field == "?" else float(field)
                except ValueError:
                    refuse(i, "expected a number")
                if not math.isfinite(numbers[i]):
                    refuse(i, "expected a finite number")
            scaled = (np.clip(numbers, column.low, column.high) - column.low) / (column.high - column.low)
            entries.append(2 * scaled - 1 if column.centred else scaled)
            indices.append(np.full(n, start))
            continue
        categories = column.categories + (("?",) if column.may_be_missing and missing == "category" else ())
        names.extend(f"{column.name}={category}" for category in categories)
        place = {category: start + k for k, category in enumerate(categories)}
        if column.may_be_missing:
            place.setdefault("?", -1)
        where = np.empty(n, dtype=np.int64)
        for i, row in enumerate(values):
            found = place.get(row[position])
            if found is None:
                refuse(i, "not one of the public categories")
            where[i] = found
        entries.append((where >= 0).astype(float))
        indices.append(np.maximum(where, 0))
    data = np.stack(entries, axis=1) if n else np.empty((0, len(columns)))
    column_of = np.stack(indices, axis=1) if n else np.empty((0, len(columns)), dtype=np.int64)
    keep = data != 0
    indptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    X = sparse.csr_array((data[keep], column_of[keep].astype(np.int32), indptr), shape=(n, len(names)))
    return X, tuple(names), math.sqrt(square)


def _read(paths, columns, header, label, missing, drop):
    if not paths:
        raise ValueError("no path given; expected one or more files")
    values, targets, lines, names = [], [], [], []
    for path in paths:
        for number, fields in _rows(path, len(columns) + 1, header):
            if drop and "?" in fields:
                continue
            target = label(fields[-1])
            if target is None:
                raise ValueError(f"{path}: line {number}: the label is not one of those of the data set")
            values.append(fields[:-1])
            targets.append(target)
            lines.append(number)
        names.append(str(path))
    X, feature_names, row_norm = encode_table(columns, values, missing=missing, lines=lines, name=", ".join(names))
    return Table(X, np.asarray(targets, dtype=np.int64), feature_names, row_norm)


def read_adult(*paths, missing: str = "category") -> Table:
    """Read UCI Adult (census income) files, ``adult.data`` and ``adult.test``.

    Parameters
    ----------
    *paths : path-like
        Files in the original format, plain or gzip, with or without a header line;
        their rows are put one after the other.
    missing : {"category", "zero", "drop"}
        What becomes of "?": a category of its own (108 columns), no category (105
        columns), or the row is left out (which makes the number of rows depend on
        the data).

    Returns
    -------
    Table
        ``y`` is 1 for an income above 50,000 (labels with or without a full stop).

    Raises
    ------
    OSError
        If a file cannot be opened.
    ValueError
        If a line has a wrong form, with its number.

    Notes
    -----
    Capital gains are bounded by 20,000, other numbers by what the quantity can be.
    Most rows have an L2 norm near 3; the bound ``row_norm`` is sqrt(14).
    """
    if missing not in ("category", "zero", "drop"):
        raise ValueError(f"missing={missing!r}: expected 'category', 'zero' or 'drop'")

    def label(text):
        return {">50K": 1, "<=50K": 0}.get(text.removesuffix("."))

    return _read(paths, ADULT_COLUMNS, "age", label, "zero" if missing == "drop" else missing, missing == "drop")


def read_abalone(*paths, threshold: int = 9) -> Table:
    """Read the UCI Abalone file ``abalone.data``.

    Parameters
    ----------
    *paths : path-like
        Files in the original format, plain or gzip, with or without a header line.
    threshold : int
        ``y`` is 1 for more rings than this.

    Returns
    -------
    Table
        10 columns: three for the sex, seven measurements.

    Raises
    ------
    OSError
        If a file cannot be opened.
    ValueError
        If a line has a wrong form, with its number.
    """

    def label(text):
        return int(int(text) > threshold) if text.isdecimal() else None

    return _read(paths, ABALONE_COLUMNS, "sex", label, "category", False)
