"""The output of a command for a scheduler: the file of ``--log-file``, and the one object of ``--json``."""

import json
import logging
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ..engine.interrupts import stoppable
from .exits import Exit

_log = logging.getLogger(__name__)


class LogFile(logging.Handler):
    """Adds a line for each event to a file: time (UTC), process, level, logger, text.

    A line is one write to the end of the file, so those of several jobs do not mix. One that cannot be written is
    dropped: no fit ends because of its log. Only opening the file, before anything is spent, raises OSError.
    """

    def __init__(self, path: str) -> None:
        super().__init__(logging.INFO)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        form = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        form.converter = time.gmtime
        self.setFormatter(form)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        with suppress(Exception):
            os.write(self._file, (" ".join(self.format(record).split()) + "\n").encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._file)
        super().close()


@contextmanager
def log_to(path: str | None) -> Iterator[None]:
    """Add the package's events to a file; None adds them to none."""
    if path is None:
        yield
        return
    handler, logger = LogFile(path), logging.getLogger("vips_fast")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(logging.INFO, logger.getEffectiveLevel()))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


def recorded(args: Namespace, explained: Callable[[BaseException], tuple[str, int]]) -> int:
    """Run a command; its log has its end, and its object on standard output has a failure too."""
    with stoppable(), ExitStack() as stack:
        try:
            stack.enter_context(log_to(getattr(args, "log_file", None)))
            code = int(args.command.load()(args))
        except (Exception, KeyboardInterrupt) as error:
            message, code = explained(error)
            # A fit that ended early notes its spending, and how to resume it.
            message = ". ".join([message, *getattr(error, "__notes__", ())])
            _log.error("exit %d: %s", code, message)
            if getattr(args, "json", False):
                with suppress(OSError):
                    print_object({}, code, message)
            raise
        _log.info("exit %d", code)
        return code


def object_line(said: dict[str, Any], code: int = 0, error: str | None = None) -> str:
    """Write the object of ``--json`` in one line."""
    return json.dumps(dict(said, exit=Exit(code).name.lower(), error=error), allow_nan=False, sort_keys=True)


def print_object(said: dict[str, Any], code: int = 0, error: str | None = None) -> None:
    """Print the object of ``--json``."""
    print(object_line(said, code, error), flush=True)


def fit_object(args: Namespace, model: Any, seconds: float) -> dict[str, Any]:
    """Describe a fit for ``--json``. The seconds are for the operator: the guarantee does not cover them."""
    from ..engine.budget import Budget

    privacy, paid = model.privacy_, None
    if args.budget is not None:
        paid = {"file": args.budget, "spent": None, "left": None}
        # The model is written and paid for, also if the budget cannot be read now.
        with suppress(OSError, ValueError):
            budget = Budget(args.budget)
            paid |= {"spent": budget.spent, "left": budget.left}
    return {
        "model": type(model).__name__,
        "epsilon": privacy.epsilon if privacy.private else None,
        "delta": privacy.delta if privacy.private else None,
        "unit": privacy.unit,
        "relation": privacy.neighbors,
        "not_private": list(privacy.taints),
        "steps": model.n_steps_,
        "seconds": round(seconds, 3),
        "paths": {"model": args.out, "transcript": args.transcript, "log": args.log_file},
        "budget": paid,
    }
