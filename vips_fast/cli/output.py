"""Messages, tables of numbers, and files that appear whole or not at all."""

import contextlib
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .record import print_object

if TYPE_CHECKING:
    import numpy as np


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error where that is possible: neither a closed pipe nor a full device ends anything."""
    _put(sys.stderr, text + end)


def say(message: str) -> None:
    """One line on standard error."""
    tell("vips-fast: " + " ".join(message.split()))


def report(text: str) -> bool:
    """Write lines to standard output, now; False where that is not possible."""
    return _put(sys.stdout, text + "\n")


def flush() -> None:
    """Bring out what was printed to standard output; what cannot be brought out is dropped."""
    _put(sys.stdout, "")


def _put(stream: IO[str] | None, text: str) -> bool:
    """Write to a stream at once; where that fails, for good: what is left in it would fail again at exit."""
    try:
        if stream is not None:
            stream.write(text)
            stream.flush()
        return stream is not None
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())  # type: ignore[union-attr]
        return False


def warn_of_taints(model: Any) -> None:
    """Say that a model is not private, if it is not."""
    if model.privacy_.taints:
        say(f"warning: {model.privacy_.statement()}")


def warn_of_delta(delta: float, n_units: int, unit: str = "record") -> None:
    """Say that delta is too large to mean much, if it is; ``unit`` is what the guarantee is about."""
    if delta * n_units >= 1:
        what = "a whole record" if unit == "record" else f"all that is known of one {unit}"
        say(f"warning: delta = {delta:g} is not below 1 / {n_units} {unit}s: {what} may be published")


def width() -> int:
    """Characters of a line on this terminal."""
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))


@contextlib.contextmanager
def output_file(name: str | Path) -> Iterator[Path]:
    """An empty file, made before any work is done, that takes the place of ``name`` when it has been written."""
    path = Path(name)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    part.touch(exist_ok=False)
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink()
        raise


def write_table(args: Namespace, columns: Iterable[str], rows: "np.ndarray") -> None:
    """What a model says of records, where the arguments of `add_table` have it.

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


def _write_table(name: str, columns: Iterable[str], rows: "np.ndarray") -> None:
    with output_file(name) as part:
        if part.suffix == ".npy":
            import numpy as np

            np.save(part, rows, allow_pickle=False)
        else:
            with open(part, "w", encoding="utf-8") as file:
                _write_csv(file, columns, rows)


def _write_csv(file: IO[str], columns: Iterable[str], rows: "np.ndarray") -> None:
    import csv

    csv.writer(file, lineterminator="\n").writerow(columns)
    file.writelines(",".join(f"{value:.6g}" for value in row.tolist()) + "\n" for row in rows)


def read_lines(path: str) -> list[str]:
    """The lines of a text file."""
    try:
        return Path(path).read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        # The error's own text quotes bytes of the file.
        raise ValueError(f"{path}: is not UTF-8 text") from None


def read_labels(path: str) -> Any:
    """One label for each record: a .npy array, or the lines of a text file."""
    return read_array(path, "biufUS") if path.endswith(".npy") else read_lines(path)


def read_array(path: str, kinds: str) -> "np.ndarray":
    """The array in a .npy file, whose dtype must be of one of these kinds (``numpy.dtype.kind``)."""
    import numpy as np

    array: Any = None
    with contextlib.suppress(ValueError, EOFError):
        array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        raise ValueError(f"{path}: not a .npy file of numbers" + " or texts" * ("U" in kinds))
    return array
