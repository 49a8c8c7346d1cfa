"""Read Excel files (.xlsx), also untrusted ones, with openpyxl (the extra "excel")."""

import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..checks import missing_package
from ..store.archive import BROKEN, RefusedError, check_members, open_archive
from ..store.limits import most_expanded

#: The last row of a sheet.
_MOST_ROWS = 1 << 20
_CSV = "save the sheet as CSV"


def is_excel(path: Any) -> bool:
    """Tell whether a path has the name of an Excel file."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix.lower() in (".xlsx", ".xlsm", ".xls")


def sheet_rows(file: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """Read the rows of the only sheet with cells: their numbers from 1, and their cells up to the last that is filled.

    The first is the header. A row without cells is passed over; an empty cell is None. ``file`` is binary and open.

    Raises ImportError without openpyxl, and ValueError if it is no .xlsx file, has several sheets with cells, or
    expands to more than a file of its size can need.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise missing_package("an Excel file", "openpyxl", "excel") from None
    left = most_expanded(file.seek(0, 2))
    try:
        with open_archive(file) as archive:
            if len(archive.NameToInfo) < len(archive.infolist()):
                raise RefusedError("holds a part twice; expected .xlsx as Excel writes it")
            check_members(archive.infolist(), left)
            with warnings.catch_warnings(action="ignore"):  # about styles and extensions, which no cell depends on
                book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
                sheets = [sheet for sheet in book.worksheets if next(_filled(sheet), None) is not None]
            if len(sheets) != 1:
                raise RefusedError(f"has {len(sheets)} sheets with cells; expected one: {_CSV}")
            for number, row in _filled(sheets[0]):
                left -= sum(len(cell) for cell in row if isinstance(cell, str))
                if left < 0:  # one long text may stand in each cell
                    raise RefusedError(f"its cells share too much text for a file of this size; {_CSV}")
                yield number, row
    except RefusedError as error:
        raise ValueError(str(error)) from None
    except (*BROKEN, OSError):
        # Damaged archives end in errors of many kinds, and some quote the file.
        raise ValueError("not a whole Excel file; expected .xlsx, or CSV") from None


def _filled(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    sheet.reset_dimensions()  # those that the file claims
    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > _MOST_ROWS:
            raise RefusedError(f"a row beyond row {_MOST_ROWS}, the last of Excel; {_CSV}")
        row = list(cells)
        while row and row[-1] is None:
            row.pop()
        if row:
            yield number, row
