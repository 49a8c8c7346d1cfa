"""The output of a command for a scheduler: the file of ``--log-file``, and the one object of ``--json``."""

import json
import logging
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from ..engine.interrupts import stoppable
from ..jobs.log import log_to
from .exits import Exit, cause

_log = logging.getLogger(__name__)


def recorded(args: Namespace, explained: Callable[[BaseException], tuple[str, int]]) -> int:
    """Run a command; its log has its end, and its object on standard output has a failure too."""
    with stoppable(), ExitStack() as stack:
        try:
            stack.enter_context(log_to(getattr(args, "log_file", None)))
            code = int(args.command.load()(args))
        except (Exception, KeyboardInterrupt) as error:
            message, code = explained(error)
            # A fit that ended early notes its spending, and how to resume it.
            message = ". ".join([message, *getattr(cause(error), "__notes__", ())])
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
        "relation": privacy.relation,
        "not_private": list(privacy.taints),
        "steps": model.n_steps_,
        "seconds": round(seconds, 3),
        "paths": {"model": args.out, "transcript": args.transcript, "log": args.log_file},
        "budget": paid,
    }
