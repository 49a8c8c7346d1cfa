"""What one process may do at a time."""

import fcntl
import os
from contextlib import contextmanager


@contextmanager
def alone(folder):
    """Wait until no other process is in this block. That is, for the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
