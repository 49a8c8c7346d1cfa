"""Messages, tables of numbers, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..engine.statement import Privacy


def say(message: str) -> None:
    """One line on standard error."""
    print("vips-fast: " + " ".join(message.split()), file=sys.stderr)


def warn_of_taints(privacy: Privacy) -> None:
    """Say that a model is not private, if it is not."""
    if privacy.taints:
        say(f"warning: {privacy.statement()}")


def warn_of_delta(delta: float, n_records: int) -> None:
    """Say that delta is too large to mean much, if it is."""
    if delta * n_records >= 1:
        say(
            f"warning: delta = {delta:g} is not below 1 / {n_records} records: it allows a whole record to be published"
        )


def width() -> int:
    """Characters a line on this terminal."""
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name only when it is whole."""
    with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.absolute().parent, delete=False) as file:
        try:
            yield file
            file.flush()
            # Temporary files are readable by their owner only; this one gets the mode of any other new file.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(file.name, 0o666 & ~umask)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def check_table_name(name: str | None) -> None:
    """Refuse, before any work, a name for `write_table` that it does not know how to write."""
    if name is not None and Path(name).suffix not in (".csv", ".npy"):
        raise ValueError(f"--out {name}: expected a name that ends in .csv or .npy")


def write_table(name: str | None, columns: Iterable[str], rows: np.ndarray) -> None:
    """Numbers with six digits as CSV to standard output or a file, or all of their bits to a .npy file."""
    if name is None:
        _write_csv(sys.stdout, columns, rows)
        return
    with output_file(Path(name)) as file:
        if Path(name).suffix == ".npy":
            import numpy as np

            np.save(file, rows, allow_pickle=False)
        else:
            import io

            text = io.TextIOWrapper(file, "utf-8", write_through=True)
            _write_csv(text, columns, rows)
            text.detach()


def _write_csv(file: Any, columns: Iterable[str], rows: np.ndarray) -> None:
    import csv

    csv.writer(file, lineterminator="\n").writerow(columns)
    for row in rows.tolist():
        file.write(",".join(f"{value:.6g}" for value in row) + "\n")


def read_array(path: str, kinds: str) -> np.ndarray:
    """The array in a .npy file, of one of these kinds of dtype (as in ``numpy.dtype.kind``)."""
    import numpy as np

    what = f"{path}: not a .npy file of numbers" + (" or texts" if "U" in kinds else "")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(what) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        raise ValueError(what)
    return array
