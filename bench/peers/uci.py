"""Read UCI Adult, Abalone and bags of words in their original format.

The comparisons read them this way.

The bounds and categories are public: the categories come from ``adult.names``, the bounds are round figures. Nothing is
learned from the rows, so encoding them spends no privacy.
"""

import gzip
from collections.abc import Callable
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


def read_adult(*paths: str | Path) -> Table:
    """Read ``adult.data`` and ``adult.test``, plain or gzip, one after the other.

    ``y`` is 1 for an income above 50,000. A "?" is a category of its own. Most rows have an L2 norm near 3; their bound
    is sqrt(14).
    """
    return _read(paths, ADULT, {"<=50K": 0, "<=50K.": 0, ">50K": 1, ">50K.": 1}.__getitem__)


def read_abalone(*paths: str | Path) -> Table:
    """Read ``abalone.data``: ``y`` is 1 for more than 9 rings; three columns for the sex, seven for measurements."""
    return _read(paths, ABALONE, lambda rings: int(int(rings) > 9))


def _read(paths: tuple[str | Path, ...], schema: Schema, label: Callable[[str], int]) -> Table:
    """Read features, and a label in the last field."""
    rows = []
    for path in paths:
        raw = Path(path).read_bytes()
        text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        # Empty lines and comments are no rows.
        lines = [line for line in text.decode().splitlines() if line.strip() and not line.startswith("|")]
        rows += [[field.strip() for field in line.split(",")] for line in lines]
    cells = {column.name: [row[k] for row in rows] for k, column in enumerate(schema.columns)}
    y = np.array([label(row[-1]) for row in rows], dtype=np.int64)
    return Table(schema.encode(cells), y, schema.feature_names, schema.row_norm)


def bag_of_words(path: Path) -> sparse.csr_array:
    """Read a docword file: the numbers of documents, words and entries, then a line "document word count" for each."""
    with gzip.open(path, "rt") as lines:
        n_documents, n_words, _ = (int(next(lines)) for _ in range(3))
        document, word, count = np.loadtxt(lines, dtype=np.int32, unpack=True)
    return sparse.csr_array(sparse.coo_array((count, (document - 1, word - 1)), (n_documents, n_words)))
