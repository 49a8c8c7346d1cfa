"""Log of a job: a file with a line for each event."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class LogFile(logging.Handler):
    """Handler that adds a line for each event to a file.

    A line has the time (UTC), process, level, logger and text. It is one write to the end of the file, so lines of
    several jobs do not mix. A line that cannot be written is dropped: no fit ends because of its log. Only opening
    the file, before anything is spent, raises OSError.
    """

    def __init__(self, path: str) -> None:
        super().__init__(logging.INFO)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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
    """Add the package's events to a file, if one is given."""
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
