"""Run the commands: from arguments to a job, and to lines.

Each command is one function. It turns arguments into a job or a question, and the answer into lines.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress

from ...engine.interrupts import stoppable
from ...jobs.log import log_to
from ..messages import print_object
from ..output import check_out
from ..signature import Arguments

_log = logging.getLogger(__name__)


def record_end(args: Arguments, explained: Callable[[BaseException], tuple[str, int]]) -> int:
    """Run a command; record its end, and print failures as objects.

    Its log has its end, and its object on standard output has a failure too.
    """
    with stoppable(), ExitStack() as stack:
        try:
            stack.enter_context(log_to(getattr(args, "log_file", None)))
            check_out(args)
            code = int(args.load()(args))
        except (Exception, KeyboardInterrupt) as error:
            message, code = explained(error)
            _log.error("exit %d: %s", code, message)
            if getattr(args, "json", False):
                with suppress(OSError):
                    print_object({}, code, message)
            raise
        _log.info("exit %d", code)
        return code
