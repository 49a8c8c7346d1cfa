"""Work of a child that may take little memory, and not for ever."""

import os
import resource
import signal
from pathlib import Path

#: Bytes beyond those of the parent, and seconds. The seconds are a guard against hanging, and no measure.
MEMORY, SECONDS = 2 << 30, 100


def bounded(work, memory=MEMORY):
    """Do ``work()`` in a child; return the type of its error and its message, or "" and its value as text."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            said = f"\n{work()}"
        except BaseException as error:
            said = f"{type(error).__name__}\n{error}"
        os.write(writes, said.encode("utf-8", "replace")[:60_000])
        os._exit(0)
    os.close(writes)
    with open(reads, "rb") as pipe:
        said = pipe.read().decode()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0, f"the child ended with {ended}"
    kind, _, message = said.partition("\n")
    return kind, message
