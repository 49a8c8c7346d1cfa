"""Regressions: ``fit blr`` and ``fit counts``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...data import Schema
from ...data.shards import is_sharded
from ...jobs import Material
from ...models.family import family_named
from ...store.limits import parse_json
from ..arguments import FitBlr, FitCounts
from ..inputs import Rows, at_lines, read_array, read_labels, read_new_rows, read_rows, unlike_rows
from .data import CLASSES
from .fit import ReadBy, run_fit

#: What the model's family asks for.
read_new = read_new_rows
#: Settings that a schema or shards may give.
_PUBLIC = frozenset({"classes", "row_norm", "largest", "largest_exposure"})


def fit(args: FitBlr | FitCounts) -> int:
    """Fit a regression of labels or counts."""
    if is_sharded(args.input):
        if args.exposure is not None:
            raise ValueError(f"--exposure {args.exposure}: expected a table or a matrix; shards hold no exposures")
    elif args.label is None:
        raise ValueError("--label: expected a file of the labels, or with --schema their column")
    elif args.schema is None and args.person is not None:
        raise ValueError(f"--person {args.person}: expected with --schema; use --groups FILE for a matrix")

    def read(model: Any) -> Material:
        found = read_rows(args, args.label, args.exposure)
        y, exposure, known = _outcomes(args, found)
        model.set_params(**{name: value for name, value in known.items() if getattr(args, name) is None})
        if isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and args.classes is not None:
            model.set_params(classes=_numbers(args.classes))
        data = (found.rows, y) if exposure is None else (found.rows, y, exposure)
        return Material(data, found.inputs, found.groups)

    sets = frozenset(name for name in _PUBLIC if getattr(args, name, None) is None) | {"classes"}
    source = ReadBy(args.input, read, args.person, sets, unlike_rows(args, args.label, args.exposure))
    return run_fit(args, family_named(args.family).estimator(), source)


def _outcomes(args: FitBlr | FitCounts, found: Rows) -> tuple[Any, Any, dict[str, Any]]:
    """Return labels or counts, exposures, and the settings that a schema or shards give."""
    counts = args.family == "counts"
    known: dict[str, Any] = {} if found.schema is None else {"row_norm": found.schema.row_norm}
    if is_sharded(args.input):
        classes = found.rows.text(CLASSES)
        if classes is not None and counts:
            raise ValueError(f"{args.input}: shards of labels; expected shards of counts for fit counts")
        return found.rows.labels, None, known | ({} if classes is None else {"classes": parse_json(classes)})
    if args.schema is None:
        exposure = None if args.exposure is None else _column(args.exposure, args.invalid, counts=True)
        return _column(str(args.label), args.invalid, counts), exposure, known
    schema = Schema.load(args.schema)

    def column(name: str, counts: bool) -> Any:
        place = at_lines(args, range(1, found.rows.shape[0] + 1))
        return schema.label(name, found.cells[name], counts=counts, **place)

    if counts and schema[str(args.label)].kind in ("binary", "category"):
        raise ValueError(f"--label {args.label}: the schema has classes; expected a number, or fit blr")
    y = column(str(args.label), counts)
    exposure = None if args.exposure is None else column(args.exposure, True)
    if counts:
        known["largest"] = schema[str(args.label)].high
        known |= {} if args.exposure is None else {"largest_exposure": schema[args.exposure].high}
    else:
        known["classes"] = list(schema[str(args.label)].values)
    return y, exposure, known


def _column(path: str, invalid: str, counts: bool) -> np.ndarray:
    """Read labels, or numbers of ``counts``, from their own file."""
    if Path(path).suffix == ".npy":
        return read_array(path, "biuf" if counts else "biufU")
    labels = read_labels(path, invalid)
    if not counts:
        return np.array(labels, dtype=object if None in labels else None)
    return np.array([_number(label, path, invalid) for label in labels], dtype=np.float64)


def _number(label: str | None, path: str, invalid: str) -> float:
    try:
        return math.nan if label is None else float(label)
    except ValueError:
        if invalid == "drop":
            return math.nan
        raise ValueError(f"{path}: expected one number on each line; fit blr takes classes") from None


def _numbers(classes: list[str]) -> list[float]:
    try:
        return [float(label) for label in classes]
    except ValueError:
        raise ValueError(f"--classes {' '.join(classes)}: expected numbers, as the labels are") from None
