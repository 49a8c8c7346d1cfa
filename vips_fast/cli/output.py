"""Results: tables of numbers, files that appear whole or not at all, and progress."""

import contextlib
import csv
import math
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from ..accounting import rounded_up
from ..engine.budget import Budget
from ..engine.loop import Progress
from ..store.atomic import PUBLIC
from .messages import print_object, rewrite, say, tell


def fit_object(args: Namespace, model: Any, seconds: float) -> dict[str, Any]:
    """Describe a fit for ``--json``. The seconds are for the operator: the guarantee does not cover them."""
    privacy, paid = model.privacy_, None
    if args.budget is not None:
        paid = {"file": args.budget, "spent": None, "left": None}
        # The model is written and paid for, also if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            budget = Budget(args.budget)
            paid |= {"spent": budget.spent, "left": budget.left}
    return {
        "model": type(model).__name__,
        "epsilon": privacy.epsilon if privacy.private else None,
        "delta": privacy.delta if privacy.private else None,
        "unit": privacy.unit,
        "relation": privacy.relation,
        "not_private": list(privacy.taints),
        "steps": model.n_steps_,
        "seconds": round(seconds, 3),
        "paths": {"model": args.out, "transcript": args.transcript, "log": args.log_file},
        "budget": paid,
    }


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


#: Least seconds between two updates on a terminal; most lines of a log.
_PAUSE, _LINES = 0.1, 20


class _Line:
    """A line of standard error that shows how far something is."""

    def __init__(self, label: str):
        self._label, self._terminal = label, sys.stderr is not None and sys.stderr.isatty()
        self._next, self._length = -math.inf, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._length:
            tell("")

    def _show(self, text: str) -> None:
        text = f"{self._label}: {text}"
        if not self._terminal:
            tell(text)
            return
        # A line that wraps could not be rewritten.
        text = text[: shutil.get_terminal_size().columns - 1]
        rewrite(f"{text:<{self._length}}")
        self._length = len(text)


class ReadingLine(_Line):
    """Show the progress of a reader, which passes the bytes read and their number, or 0 if it is unknown.

    Nothing is shown within a second of the first call; in a log, a line follows when the time has doubled.
    """

    _start: float | None = None

    def __call__(self, read: int, size: int) -> None:
        """Show a line, if one is due."""
        now = time.perf_counter()
        if self._start is None:
            self._start, self._next = now, now + 1
        if now >= self._next or (read == size and self._length):
            whole = f" of {size / 1e6:,.1f}" if size else ""
            self._show(f"{read / 1e6:,.1f}{whole} MB, {now - self._start:.1f} s")
            self._next = now + (_PAUSE if self._terminal else now - self._start)


class ProgressLine(_Line):
    """A fit's callback. It computes epsilon, which takes an accountant, only for a line that it shows."""

    def __call__(self, progress: Progress) -> None:
        """Show a line, if one is due."""
        start = time.perf_counter()
        due = start >= self._next if self._terminal else progress.step % math.ceil(progress.n_steps / _LINES) == 0
        if not due and progress.step < progress.n_steps:
            return
        epsilon = progress.epsilon
        spent = f", epsilon {rounded_up(epsilon, 3)}" if math.isfinite(epsilon) else ""
        self._show(f"step {progress.step} of {progress.n_steps}{spent}, {progress.seconds:.1f} s")
        # Even if epsilon is slow to compute, showing it takes less than a tenth of the time.
        now = time.perf_counter()
        self._next = now + max(_PAUSE, 10 * (now - start))
