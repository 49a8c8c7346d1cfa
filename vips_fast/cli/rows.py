"""Rows of numbers at the shell: matrices in files, and tables with a schema."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy import sparse

from ..data import Schema
from ..data.records import read_batches
from ..models.family import COLUMNS, SCHEMA
from ..models.inputs import listed
from .output import read_array


def read_matrix(path: str) -> Any:
    """Read rows from a file of numbers."""
    if Path(path).suffix == ".npz":
        try:
            return sparse.csr_array(sparse.load_npz(path))
        except (OSError, MemoryError):
            raise
        except Exception:
            # Damaged archives end in errors of many kinds.
            raise ValueError(f"{path}: not a .npz file of a scipy sparse matrix") from None
    if Path(path).suffix != ".npy":
        raise ValueError(f"{path}: expected a name that ends in .npy or .npz, or --schema for a table")
    return read_array(path, "biuf")


def read_table(path: str, schema: Schema, invalid: str, others: Sequence[str] = ()) -> tuple[Any, dict[str, list[Any]]]:
    """Read the encoded rows of a table, and the cells of its ``others``, which are no features."""
    kept, parts, n = schema.without(*others), [], 0
    cells: dict[str, list[Any]] = {name: [] for name in others}
    for batch in read_batches(path, [*kept.names, *others], invalid="raise" if invalid == "raise" else "drop"):
        rows = len(next(iter(batch.values())))
        lines = range(n + 1, n + rows + 1)
        parts.append(kept.encode(batch, invalid=invalid, where=f"{path}: record", lines=lines))
        for name, column in cells.items():
            column.extend(batch[name])
        n += rows
    return sparse.vstack(parts, format="csr") if parts else sparse.csr_array((0, len(kept.feature_names))), cells


def column_inputs(names: Sequence[str] | None, schema: Schema | None) -> dict[str, str]:
    """Write the input of a model that has a schema, or only names of columns."""
    if schema is not None:
        return {SCHEMA: schema.to_toml()}
    return {} if names is None else {COLUMNS: listed(names)}


def read_new_rows(args: Namespace, model: Any) -> Any:
    """Read new rows for a fitted model: a matrix, or a table by ``--schema`` or by the schema of the model."""
    own = model.inputs_.get(SCHEMA)
    if args.schema is None and (own is None or Path(args.input).suffix in (".npy", ".npz")):
        return read_matrix(args.input)
    schema = Schema.load(args.schema) if args.schema is not None else Schema.parse(own)
    return read_table(args.input, schema, "raise")[0]
