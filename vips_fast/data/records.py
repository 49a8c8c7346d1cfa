"""Records in: columns of tables in batches, from files of several formats and from tables in memory."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._files import naming

#: Rows of a batch.
BATCH_ROWS = 65_536


def column_names(source: Any) -> list[str]:
    """Names of the columns of a table, from its header alone."""
    if isinstance(source, (str, os.PathLike)):
        with naming(source):
            return list(_open(source).schema.names)
    if hasattr(source, "column_names"):
        return list(source.column_names)
    return [str(name) for name in (source.columns if hasattr(source, "columns") else source)]


def read_batches(source: Any, columns: Sequence[str], *, batch_rows: int = BATCH_ROWS) -> Iterator[dict[str, Any]]:
    """Batches of columns of a table: lists of texts or objects, arrays of numbers.

    Raises OSError or ValueError, which never shows a cell, if the table cannot be read or has not these columns.
    """
    if isinstance(source, (str, os.PathLike)):
        with naming(source):
            opened = _open(source)
            names = list(opened.schema.names)
            _expect(columns, names)
            import pyarrow

            try:
                for batch in opened:
                    yield {name: _cells(batch.column(names.index(name))) for name in columns}
            except pyarrow.ArrowInvalid:
                raise ValueError("rows of unequal length, wrong quoting or cells of several types") from None
        return
    _expect(columns, column_names(source))
    table = {name: _cells(source[name]) for name in columns}
    n = len(next(iter(table.values()))) if table else 0
    for first in range(0, n, batch_rows):
        yield {name: cells[first : first + batch_rows] for name, cells in table.items()}


def _expect(columns: Sequence[str], names: Sequence[str]) -> None:
    for name in columns:
        if name not in names:
            raise ValueError(f"there is no column {name!r}")
        if list(names).count(name) > 1:
            raise ValueError(f"there are several columns {name!r}")


def _open(path: str | os.PathLike[str]) -> Any:
    """A pyarrow reader of batches."""
    import pyarrow
    from pyarrow import csv, json, parquet

    name = Path(path).name.removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            file = parquet.ParquetFile(path)
            return pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        stream: Any = gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")
        if name.endswith(".jsonl"):
            return json.read_json(stream).to_reader()
        header = csv.open_csv(stream).schema.names
        stream.seek(0)
        options = csv.ConvertOptions(column_types=dict.fromkeys(header, pyarrow.string()))
        return csv.open_csv(stream, convert_options=options)
    except pyarrow.ArrowInvalid as error:
        if "Empty" in str(error):
            raise ValueError("is empty: expected a header") from None
        raise ValueError("rows of unequal length, wrong quoting or cells of several types") from None


def _cells(column: Any) -> Any:
    if hasattr(column, "to_pylist"):
        column = column.to_pylist()
    elif hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if isinstance(column, Mapping) or isinstance(column, np.ndarray):
        return column.tolist() if column.dtype.kind == "O" else column
    return list(column)
