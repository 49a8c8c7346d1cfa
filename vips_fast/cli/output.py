"""Tables of numbers, labels, and files that appear whole or not at all."""

import contextlib
import csv
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from ..store.atomic import PUBLIC
from .messages import say
from .record import print_object


def warn_of_taints(model: Any) -> None:
    """Warn if a model is not private."""
    if model.privacy_.taints:
        say(f"warning: {model.privacy_.statement()}")


def warn_of_delta(delta: float, n_units: int, unit: str = "record") -> None:
    """Warn if delta is too large to mean much; ``unit`` is the privacy unit."""
    if delta * n_units >= 1:
        what = "a whole record" if unit == "record" else f"all that is known of one {unit}"
        say(f"warning: delta = {delta:g} is not below 1 / {n_units} {unit}s: {what} may be published")


@contextlib.contextmanager
def output_file(name: str | Path, mode: int = PUBLIC) -> Iterator[Path]:
    """Make an empty file before any work begins; it replaces ``name`` once it is written."""
    path = Path(name)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    part.touch(mode, exist_ok=False)
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink()
        raise


def write_table(args: Namespace, columns: Iterable[str], rows: np.ndarray) -> None:
    """Write a model's output for records to the place of ``--out`` and ``--json``.

    Numbers go with six digits as CSV to standard output or a file, with all their bits to a .npy file or into the
    object of ``--json``, which holds no rows where a file does.
    """
    columns = list(columns)
    if args.out is not None:
        _write_table(args.out, columns, rows)
    elif not args.json:
        _write_csv(sys.stdout, columns, rows)
    if args.json:
        numbers = rows.tolist() if args.out is None else None
        print_object({"model": args.model, "columns": columns, "rows": numbers, "paths": {"table": args.out}})


def _write_table(name: str, columns: Iterable[str], rows: np.ndarray) -> None:
    # The rows describe records.
    with output_file(name, 0o600) as part:
        if part.suffix == ".npy":
            np.save(part, rows, allow_pickle=False)
        else:
            with open(part, "w", encoding="utf-8") as file:
                _write_csv(file, columns, rows)


def _write_csv(file: IO[str], columns: Iterable[str], rows: np.ndarray) -> None:
    csv.writer(file, lineterminator="\n").writerow(columns)
    file.writelines(",".join(f"{value:.6g}" for value in row.tolist()) + "\n" for row in rows)


def read_lines(path: str) -> list[str]:
    """Read the lines of a text file."""
    try:
        return Path(path).read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        # The error's own text quotes bytes of the file.
        raise ValueError(f"{path}: is not UTF-8 text") from None


def read_labels(path: str, invalid: str) -> Any:
    """Read one label for each record: a .npy array, or the lines of a text file.

    With ``invalid="drop"`` a line that is not UTF-8 text is None.
    """
    if path.endswith(".npy"):
        return read_array(path, "biufUS")
    if invalid == "raise":
        return read_lines(path)
    lines = Path(path).read_text("utf-8-sig", "replace").splitlines()
    return [None if "\ufffd" in line else line for line in lines]


def read_array(path: str, kinds: str) -> np.ndarray:
    """Read a .npy file; its dtype must be of one of these kinds (``numpy.dtype.kind``)."""
    array: Any = None
    # The head is Python source, which numpy's own reader splits into tokens.
    with contextlib.suppress(ValueError, EOFError, SyntaxError, TokenError, ArithmeticError):
        array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        raise ValueError(f"{path}: not a .npy file of numbers" + " or texts" * ("U" in kinds))
    return array
