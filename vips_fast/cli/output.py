"""Write results: tables of numbers, and files. A file appears whole or not at all."""

import io
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from ..data import Schema
from ..store.atomic import PUBLIC, replacing
from ..store.owned import check_apart
from ..store.text import csv_text
from ..store.words import counted
from .messages import say
from .signature import Arguments, is_path


def check_out(args: Arguments) -> None:
    """Raise ValueError if ``--out`` is, or holds, something else that the command was given.

    A folder may not lie in one that it was given either.
    """
    kinds = {option.name: option.kind for option in args.options() if option.kind.path}
    own, out = kinds.pop("out", None), getattr(args, "out", None)
    if own is None or out is None:
        return
    for name, kind in kinds.items():
        given = getattr(args, name) or ()
        texts = [given] if isinstance(given, str) else given
        others = [text for text in texts if is_path(kind, text)]
        check_apart(Path(out), others, inside=own.path == "folder")


def warn_of_taints(model: Any) -> None:
    """Warn if a model is not private."""
    if model.privacy_.taints:
        say(f"warning: {model.privacy_.statement()}")


def warn_of_delta(delta: float, n_units: int, unit: str = "record") -> None:
    """Warn if delta is too large to mean much.

    ``unit`` is the privacy unit.
    """
    if delta * n_units >= 1:
        what = "a whole record" if unit == "record" else f"all that is known of one {unit}"
        say(f"warning: delta = {delta:g} is not below 1 / {counted(n_units, unit)}: {what} may be published")


def privacy_object(model: Any) -> dict[str, Any]:
    """Describe a model's guarantee for ``--json``."""
    privacy = model.privacy_
    return {
        "epsilon": privacy.epsilon if privacy.private else None,
        "delta": privacy.delta if privacy.private else None,
        "unit": privacy.unit,
        "relation": privacy.relation,
        "not_private": list(privacy.taints),
        "statement": privacy.statement(),
    }


def warn_of_drops(invalid: str | None, schema: str | None = None) -> None:
    """Say, by public facts only, what ``--invalid drop`` keeps back.

    ``schema`` is the file of a table's columns.
    """
    if invalid != "drop":
        return
    numbers = [] if schema is None else [c for c in Schema.load(schema).columns if c.kind == "number"]
    pointed = ", ".join(column.name for column in numbers if column.decimal == ".")
    comma = (
        f' (numbers in {pointed} need a decimal point; the schema\'s decimal = "," takes a comma)' if pointed else ""
    )
    say(
        f"warning: --invalid drop: a record that cannot be read contributes nothing{comma}, and nothing tells how many "
        "there are: try it with --invalid raise on public records of the same form"
    )


def output_file(name: str | Path, mode: int = PUBLIC) -> AbstractContextManager[BinaryIO]:
    """Open a new file first; it replaces ``name`` once written (`vips_fast.store.atomic.replacing`)."""
    return replacing(Path(name), mode)


def write_table(name: str | None, columns: Iterable[str], rows: np.ndarray) -> None:
    """Write a model's output for records.

    Numbers go with six digits as CSV to standard output or a file, and with all their bits to a .npy file.
    """
    if name is None:
        _write_csv(sys.stdout, columns, rows)
        return
    # The rows describe records.
    with output_file(name, 0o600) as file:
        if name.endswith(".npy"):
            np.save(file, rows, allow_pickle=False)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
            _write_csv(text, columns, rows)
            text.flush()
            text.detach()


def _write_csv(file: IO[str], columns: Iterable[str], rows: np.ndarray) -> None:
    file.write(csv_text([columns]))
    file.writelines(",".join(f"{value:.6g}" for value in row.tolist()) + "\n" for row in rows)
