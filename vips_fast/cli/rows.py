"""Rows of numbers at the shell: matrices in files, and tables with a schema."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy import sparse

from ..data import Schema
from ..data.records import read_batches
from ..jobs.beside import SCHEMA
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
    for batch in read_batches(path, [*kept.names, *others]):
        rows = len(next(iter(batch.values())))
        lines = range(n + 1, n + rows + 1)
        parts.append(kept.encode(batch, invalid=invalid, where=f"{path}: record", lines=lines))
        for name, column in cells.items():
            column.extend(batch[name])
        n += rows
    return sparse.vstack(parts, format="csr") if parts else sparse.csr_array((0, len(kept.feature_names))), cells


def read_new_rows(args: Namespace) -> Any:
    """Read new rows for a fitted model: a matrix, or a table by ``--schema`` or by the schema beside the model."""
    path = Path(args.schema or Path(args.model) / SCHEMA)
    if args.schema is None and (not path.exists() or Path(args.input).suffix in (".npy", ".npz")):
        return read_matrix(args.input)
    return read_table(args.input, Schema.load(path), "raise")[0]
