"""Keep each release of a run in its folder, before anything else uses it.

A release that was paid for is worth its epsilon, whatever happens next. So the noised sums go to the disk first: before
the model sees them, before a transcript has them, before anyone is told. A resumed run takes a release that lies here
whole as its own, and neither draws nor pays for that step again.

*Why this costs no privacy.* A release r of step t is one draw of a mechanism whose event is in the ledger: its file
names that record, and is refused if the ledger lacks it. All that follows is a function of r, of earlier releases and
of public numbers, in the first process as in the resumed one. So whatever both show together is post-processing of r. A
step whose file is not whole is another matter. Its r may have been seen, in this file's bytes or in a copy of the
folder that was taken in time, and nothing here can prove the contrary. So a new draw is a second release, with a record
and a charge of its own (`vips_fast.engine.checkpoint`).

*Why this loses little.* The file for the next release is made, in full size, before the release is charged: a disk
without room is noticed while nothing is spent. A file gets its name only when it is whole, and what a killed process
left of one is removed by the next run.

*Which files go on.* A release belongs to the state that it was made from. The run goes on from its checkpoint through
files whose records in the ledger follow it, each after the one before. A record that does not is of a step that was
lost and done again, and its file belongs to a state that is no more.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..store.atomic import fill, make_folder, reserve
from ..store.limits import parse_json
from ..store.log import canonical_json, json_digest
from ..store.npz import read_npz, write_npz
from .ledger import Ledger
from .model import Release
from .result import array_digest

FORMAT = 1
_META = "release"
#: Name of a release's file, also in the making.
RELEASE = re.compile(r"\d{8}\.npz|\.\d{8}\.npz\.part")
#: Bytes of a file beside the noised sums: heads of arrays, the record's hash, the archive's directory.
_MORE = 4096
#: Bytes for the records of ledger and budget, which are written between the space and the release.
_RECORDS = 1 << 16


class KeptReleases:
    """The folder of a run's releases since its last checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[int, Path] = {}

    def _file(self, step: int) -> Path:
        return self.path / f"{step:08d}.npz"

    def clear_parts(self) -> None:
        """Make the folder, and remove what is left of files in the making."""
        make_folder(self.path, 0o700)
        for part in self.path.glob(".*.part"):
            part.unlink()

    def make_room(self, step: int, nbytes: int) -> None:
        """Make the file of a step's release, of ``nbytes``, in full size.

        Raises OSError if the disk cannot hold it.
        """
        try:
            reserve(self._file(step), nbytes + _MORE, _RECORDS)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                why = f"{os.strerror(error.errno)}: the next release needs {nbytes + _MORE + _RECORDS} bytes"
                raise OSError(error.errno, why, str(self.path)) from None
            raise

    def keep(self, release: Release, ledger: Ledger, run: str) -> None:
        """Bring a release to the disk; OSError if it failed twice, in two files."""
        meta = {
            "format": FORMAT,
            "step": release.step,
            "n_records": len(ledger.records),
            "head": ledger.head,
            "run": run,
        }
        arrays = {"units": release.units, "law": np.array([release.scale, release.noise_sd])}
        text = canonical_json(dict(meta, digest=_digest(meta, arrays)))
        arrays[_META] = np.frombuffer(text, dtype=np.uint8)
        fill(self._file(release.step), lambda file: write_npz(file, arrays))

    def find(self, step: int, n_records: int, ledger: Ledger, run: str) -> int:
        """Find the releases that continue a checkpoint; return the step after them.

        ``step`` and ``n_records`` are the checkpoint's step and length of the ledger. Raises ValueError if a file is
        damaged, of another run, or of a ledger that this one does not extend.
        """
        self._found, heads = {}, ledger.heads
        while (path := self._file(step)).exists():
            meta = _meta(path, _read(path, (_META,)))
            if meta["run"] != run:
                raise ValueError(f"{path}: is not of the run beside it; expected files of one run")
            number = meta["n_records"]
            if not 0 < number <= len(heads) or heads[number - 1] != meta["head"]:
                raise ValueError(
                    f"{path}: was written with {number} records in the ledger; the ledger, with {len(heads)}, does not "
                    "extend them, so what was spent cannot be known"
                )
            if number <= n_records:
                break  # of a step that was lost, and done again
            self._found[step] = path
            step, n_records = step + 1, number
        return step

    def of(self, step: int) -> Release | None:
        """Read a release that `find` has found; None if it has not."""
        path = self._found.get(step)
        if path is None:
            return None
        arrays = _read(path)
        meta = _meta(path, arrays)
        try:
            scale, noise_sd = arrays["law"].tolist()
            if meta.pop("digest") != _digest(meta, arrays):
                raise ValueError
            return Release(step, arrays["units"], float(scale), float(noise_sd))
        except (KeyError, TypeError, ValueError):
            raise _damaged(path) from None

    def forget(self, step: int) -> None:
        """Remove the releases before a step, whose state is kept."""
        with suppress(OSError):
            for path in self.path.glob("*.npz"):
                if path.name < self._file(step).name:
                    path.unlink()


def _read(path: Path, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
    try:
        return read_npz(path, names=names)
    except ValueError:
        raise _damaged(path) from None


def _meta(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        meta = parse_json(arrays.pop(_META).tobytes())
        if meta["format"] != FORMAT or type(meta["n_records"]) is not int or meta["step"] != int(path.stem):
            raise ValueError
        return {name: meta[name] for name in ("format", "step", "n_records", "head", "run", "digest")}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise _damaged(path) from None


def _damaged(path: Path) -> ValueError:
    return ValueError(f"{path}: damaged; restore it, or remove it: its step is then done, and paid for, again")


def _digest(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    return json_digest([dict(meta), {k: array_digest(v) for k, v in arrays.items()}])
