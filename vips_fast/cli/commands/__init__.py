"""Run the commands: from arguments to a job, and to lines.

Each command is one function. It turns arguments into a job or a question, and the answer into lines.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...engine.interrupts import stoppable
from ...store.owned import check_apart
from ..messages import print_object
from ..signature import Arguments, load

_log = logging.getLogger(__name__)
#: Values of options with a path that are none, as those with ``public:``.
_WORDS = ("-", "none", "private")


def record_end(args: Arguments, explained: Callable[[BaseException], tuple[str, int]]) -> int:
    """Run a command; log its end, and print a failure as the object of ``--json``."""
    with stoppable():
        try:
            _check_out(args)
            code = int(load(f"commands.{args.function}")(args))
        except (Exception, KeyboardInterrupt) as error:
            message, code = explained(error)
            _log.error("exit %d: %s", code, message)
            if getattr(args, "json", False):
                with suppress(OSError):
                    print_object({}, code, message)
            raise
        _log.info("exit %d", code)
        return code


def _check_out(args: Arguments) -> None:
    """Raise ValueError if ``--out`` is, or holds, something else that the command was given.

    A folder may not lie in one that it was given either.
    """
    kinds = {option.name: option.kind for option in args.options() if option.kind.path}
    own, out = kinds.pop("out", None), getattr(args, "out", None)
    if own is None or out is None:
        return
    for name in kinds:
        given = getattr(args, name) or ()
        texts = [given] if isinstance(given, str) else given
        others = [text for text in texts if text not in _WORDS and not text.startswith("public:")]
        check_apart(Path(out), others, inside=own.path == "folder")
