"""Read Excel files; needs openpyxl (the extra "excel")."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..checks import missing_package


def is_excel(path: Any) -> bool:
    """Tell whether a path has the name of an Excel file."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix.lower() in (".xlsx", ".xlsm", ".xls")


def sheet_rows(file: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """Read the rows of the only sheet with cells, and their numbers.

    The first row is the header.

    Raises ValueError if it is no .xlsx file or has several sheets, and ImportError without openpyxl.
    """
    try:
        import openpyxl
    except ImportError:
        raise missing_package("an Excel file, unless you save it as CSV,", "openpyxl", "excel") from None
    try:
        sheets = [sheet for sheet in openpyxl.load_workbook(file, read_only=True, data_only=True) if _filled(sheet)]
    except Exception:
        # Damaged archives end in errors of many kinds, and some quote the file.
        raise ValueError("not a whole Excel file; expected .xlsx, or CSV") from None
    if len(sheets) != 1:
        raise ValueError(f"has {len(sheets)} sheets with cells; expected one: save the sheet as CSV")
    width = None
    for number, row in enumerate(sheets[0].iter_rows(values_only=True), 1):
        if any(cell is not None for cell in row):
            if width is None:
                width = max(place for place, cell in enumerate(row, 1) if cell is not None)
            yield number, (*row, *(None,) * (width - len(row)))[:width]


def _filled(sheet: Any) -> bool:
    """Tell whether a sheet has cells at its beginning; charts have none."""
    rows = sheet.iter_rows(values_only=True) if hasattr(sheet, "iter_rows") else ()
    return any(cell is not None for row in islice(rows, 100) for cell in row)
