"""Run folder of a job, ``OUT.run``, beside the model's own folder.

It exists until the fit has ended. It is the folder of `vips_fast.engine.checkpoint`, with more files:

- ``log``: a line for each event
- ``room``: bytes without content, reserved so that a full disk cannot prevent the result
- ``model``: the whole result, after the fit and before it has its place in OUT
- ``result``: the head of the result's ledger, which no other model has
- ``words``: the folder of the vocabulary purchase, a run of its own with a ledger; its result is ``words/model``. Until
  the purchase ends, its checkpoint has noised sums that never leave, in a file for only your account
- ``columns``: the words that the model is fitted over
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ..accounting import rounded_up
from ..engine.checkpoint import LEDGER, RUN, RunFolder, ledger_in, lock_folder
from ..engine.interrupts import Stopped, uninterrupted
from ..engine.ledger import Ledger
from ..models.persistence import write_into
from ..store.atomic import new_folder, put_in_place, replace_file, sync_folder, write_file
from .log import log_to
from .places import check_place, kind_in

LOG, ROOM, MODEL, RESULT, WORDS, COLUMNS = "log", "room", "model", "result", "words", "columns"
_log = logging.getLogger(__name__)


def run_folder(out: Path) -> Path:
    """Name the run folder of a model's folder."""
    return Path(os.path.abspath(out) + ".run")


def spent(folder: Path) -> str:
    """Describe the spending of a run, and the budget that paid."""
    (ledger, torn), what = ledger_in(folder), ""
    if ledger.plan is None and (folder / WORDS / LEDGER).exists():
        (ledger, torn), what = ledger_in(folder / WORDS), " of its vocabulary"
    text = f"{len(ledger)} release{'s' * (len(ledger) != 1)}{what}" + " and one that was cut short" * torn
    plan, event = ledger.plan, ledger.event()
    if plan is not None and event is not None and ledger.private:
        text += f" (epsilon = {rounded_up(ledger.epsilon(plan['delta']), 4)} at delta = {plan['delta']:g})"
    budget = ledger.budget
    return f"{text} spent" + (f" of the budget of {budget['dataset']}" if budget else "")


def belongs(model: Path, folder: Path) -> bool:
    """Tell whether a model is the result of a run, by folders."""
    if not (folder / RESULT).exists() or not model.is_dir() or not any(model.iterdir()):
        return False
    with suppress(OSError, ValueError):
        return bool(kind_in(model).load(model).ledger_.head == (folder / RESULT).read_text("ascii"))
    return False


def refusal(folder: Path) -> str:
    """Explain why a new fit may not use this run folder."""
    clean = f"or vips-fast clean {folder} to give it up"
    if belongs(folder / MODEL, folder):
        return f"{folder}: holds a finished fit; expected vips-fast finish {folder} to write it, {clean}"
    return f"{folder}: holds a run that was stopped, with {spent(folder)}; expected --resume, {clean}"


def remove(folder: Path) -> None:
    """Remove a run folder, never in part; the caller has its lock."""
    with uninterrupted():
        gone = new_folder(folder)
        os.rename(folder, gone)
        shutil.rmtree(gone)


def tidy(out: Path) -> None:
    """Remove the run folder that a killed process left beside a model."""
    folder = run_folder(out)
    if folder.is_dir() and belongs(out, folder):
        with lock_folder(folder):
            remove(folder)


def put(folder: Path, out: Path, force: bool) -> None:
    """Move the result of a run to its place; remove the folder.

    The caller has the lock of the run folder. Raises ValueError if something else is in the place; OSError if the
    system cannot.
    """
    check_place(out, force)
    out = Path(os.path.abspath(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    with uninterrupted():
        try:
            put_in_place(folder / MODEL, out)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            copy = new_folder(out)
            try:
                shutil.copytree(folder / MODEL, copy, dirs_exist_ok=True)
                put_in_place(copy, out)
            except BaseException:
                shutil.rmtree(copy, ignore_errors=True)
                raise
        with suppress(OSError):
            remove(folder)


class JobFolder(RunFolder):
    """Run folder of a job, locked while this object is open.

    The folder of the job that writes ``out``. It stays until the model has its place, unless it is closed before
    anything was spent. ``resume`` and ``every`` are as for `RunFolder`. Raises BlockingIOError if another fit
    is writing to the same place. Raises ValueError if a run has not ended and ``resume`` is False.
    """

    OWN = RunFolder.OWN | {LOG, ROOM, MODEL, RESULT, WORDS, COLUMNS}
    _fresh, _at_first = False, 0

    def __init__(self, out: Path, *, resume: bool, every: int | None = None):
        self._stack = ExitStack()
        super().__init__(run_folder(out), resume=True, every=every)
        try:
            self._stack.enter_context(log_to(str(self.path / LOG)))
            if self._lock.before is not None:
                _log.info("lock of %s, which has ended, taken over", self._lock.before)
            if (self.begun or (self.words / RUN).exists()) and not resume:
                raise ValueError(refusal(self.path))
        except BaseException:
            self.close()
            raise
        self._fresh = not self.begun

    @property
    def words(self) -> Path:
        """Folder of the vocabulary purchase, a `RunFolder` of its own."""
        return self.path / WORDS

    def keep_columns(self, names: Iterable[str]) -> bool:
        """Keep the words of the columns; False if the run has others."""
        path, text = self.path / COLUMNS, "\n".join(names).encode()
        if not self.begun:
            replace_file(path, lambda file: file.write(text))
        return path.exists() and path.read_bytes() == text

    def begin(self, *args: Any, **kwargs: Any) -> tuple[Ledger, range, dict[str, Any]]:
        """Call `RunFolder.begin`, then reserve space for the result.

        Raises OSError if the disk has too little space.
        """
        begun = super().begin(*args, **kwargs)
        self._at_first = len(begun[0])
        model, settings, steps = self._model, begun[2], begun[1]
        assert model is not None
        state, result, settled = (
            sum(getattr(array, "nbytes", 0) for array in arrays.values())
            for arrays in (model.state(), model.result(), settings)
        )
        # A state may grow to thrice the result: an average, its noise, and word weights (`vips_fast.models.lda`).
        state = max(state, 3 * result)
        # The last checkpoint and the model: arrays, a kilobyte a record of the ledger, texts, overhead of file systems.
        size = (2 * state + result + settled) * 17 // 16 + 1024 * (len(begun[0]) + len(steps))
        self._set_aside(size + (1 << 20))
        return begun

    def _set_aside(self, size: int) -> None:
        path = self.path / ROOM
        try:
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            self._release_room()
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                why = f"{os.strerror(error.errno)}: the result needs {size} bytes"
                raise OSError(error.errno, why, str(path)) from None

    def _release_room(self) -> None:
        with suppress(OSError):
            (self.path / ROOM).unlink()

    def keep(self, *, whole: bool = False) -> None:
        """See `RunFolder.keep`."""
        self._release_room()
        super().keep(whole=whole)

    def finish(self) -> Ledger:
        """See `RunFolder.finish`."""
        self._release_room()
        return super().finish()

    def store(self, model: Any, files: Mapping[str, str]) -> None:
        """Write the result and its texts, whole and synced to disk."""
        part, place = self.path / f".{MODEL}.part", self.path / MODEL
        for old in (part, place):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir()
        write_into(model._fitted(), part)
        for name, text in files.items():
            write_file(part / name, lambda file, text=text: file.write(text.encode()))
        sync_folder(part)
        replace_file(self.path / RESULT, lambda file: file.write(model.ledger_.head.encode()))
        os.rename(part, place)
        sync_folder(self.path)

    def publish(self, out: Path, force: bool) -> None:
        """Move the result to its place as `put`; unlock the folder.

        The next fit may then have a run folder of the same name.
        """
        try:
            put(self.path, out, force)
        except Stopped:
            if self.path.exists():
                raise
            # All is done: a better answer than the stop that was just requested.
        self._lock.close()

    @property
    def drawn(self) -> bool:
        """Whether a release was made since this object locked the folder."""
        return self._ledger is not None and len(self._ledger) > self._at_first

    @property
    def advice(self) -> str:
        """The command that uses this folder, or ""."""
        if not self.path.exists() or not self._worth:
            return ""
        if belongs(self.path / MODEL, self.path):
            return f"The result is kept: vips-fast finish {self.path} writes it, at no cost"
        return f"{spent(self.path)}; the same command with --resume goes on with the run in {self.path}"

    @property
    def _worth(self) -> bool:
        """Whether something would be lost with this folder."""
        spent = (self.words / RUN).exists() or (self._ledger is not None and len(self._ledger) > 0)
        return not self._fresh or self._kept >= 0 or spent

    def close(self) -> None:
        """Unlock the folder; remove it if nothing would be lost."""
        self._stack.close()
        if self._lock.held and self.path.exists():
            self._release_room()
            if not self._worth:
                with suppress(OSError):
                    remove(self.path)
        super().close()
