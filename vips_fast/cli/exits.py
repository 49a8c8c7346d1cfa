"""The exit codes of the command line."""

from enum import IntEnum

from .help import rows


class Exit(IntEnum):
    """Exit codes, each with its meaning."""

    meaning: str

    DONE = 0, "done"
    FAILED = 1, "failed: memory, disk, an internal error; or the answer is no (verify, audit, demo)"
    BAD_INPUT = 2, "bad usage, bad input or a hopeless forecast, or another job has the folder; nothing is spent"
    REFUSED = 3, "refused by the budget; nothing more is spent"
    KEPT = 4, "fitted and kept in OUT.run, but OUT could not be written; see vips-fast finish"
    UNREPORTED = 5, "written to OUT, but the report could not be printed"
    HANGUP = 129, "stopped by SIGHUP; go on with --resume"
    INTERRUPTED = 130, "stopped by SIGINT (Ctrl-C); go on with --resume"
    TERMINATED = 143, "stopped by SIGTERM; go on with --resume"

    def __new__(cls, code: int, meaning: str = "") -> "Exit":
        """Make a number with a meaning."""
        one = int.__new__(cls, code)
        one._value_, one.meaning = code, meaning
        return one


class ExitWith(Exception):
    """The error that is its cause ends the command, with this code."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code)
        self.code = code


def cause(error: BaseException) -> BaseException:
    """The error that an `ExitWith` is about, or the error itself."""
    return error.__cause__ if isinstance(error, ExitWith) and error.__cause__ is not None else error


def table() -> str:
    """Show the codes and their meanings, for ``--help``."""
    return "\n".join(["exit codes:", *rows((f"{code:3d}", code.meaning) for code in Exit), ""])
