"""Write results: tables of numbers, and files. A file appears whole or not at all."""

import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..data import Schema
from ..engine.statement import Privacy
from ..models.family import family_of
from ..models.inputs import column_names
from ..store.atomic import replacing
from ..store.text import csv_text
from ..store.words import counted
from .arguments import Fit
from .messages import say
from .signature import COMMANDS, in_options


def at_shell(model: Any, text: str) -> str:
    """Write parameters in a text about a model as options of the command that fits it."""
    command = COMMANDS.get(f"fit {family_of(model).command}", Fit)
    columns = column_names(model._fitted().public) or ()
    return in_options(command, text, tuple(name for name in columns if "=" in name))


def warn_of_taints(model: Any) -> None:
    """Warn if a model is not private."""
    if model.privacy_.taints:
        say(f"warning: {at_shell(model, model.privacy_.statement())}")


def warn_of_delta(privacy: Privacy) -> None:
    """Warn if delta is too large to mean much."""
    unit, units = privacy.unit, counted(privacy.n_records, privacy.unit)
    if privacy.delta * privacy.n_records >= 1:
        what = "a whole record" if unit == "record" else f"all that is known of one {unit}"
        say(f"warning: delta = {privacy.delta:g} is not below 1 / {units}: {what} may be published")


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
    """Say, by public facts only, what ``--invalid drop`` keeps back. ``schema`` is the file of a table's columns."""
    if invalid != "drop":
        return
    numbers = [] if schema is None else [c for c in Schema.load(schema).columns if c.kind == "number"]
    pointed = ", ".join(column.name for column in numbers if column.decimal == ".")
    comma = (
        f' (numbers in {pointed} need a decimal point; the schema\'s decimal = "," takes a comma)' if pointed else ""
    )
    say(
        f"warning: --invalid drop: a record that cannot be read contributes nothing{comma}: try it with "
        "--invalid raise on public records of the same form"
    )


def write_table(name: str | None, columns: Iterable[str], rows: np.ndarray) -> None:
    """Write a model's output for records.

    Numbers go with six digits as CSV to standard output or a file, and with all their bits to a .npy file.
    """
    if name is None:
        _write_csv(sys.stdout, columns, rows)
        return
    # The rows describe records.
    with replacing(Path(name), 0o600) as file:
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
