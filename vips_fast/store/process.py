"""Who holds a reservation: a process, known by its host, number and start, so that a dead one can be told."""

import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def _host() -> dict[str, str]:
    """Name of the host, this boot of it, and the space that process numbers are counted in (a container's own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        boot = ""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return {"host": socket.gethostname(), "boot": boot, "space": space}


def _start(pid: int) -> str | None:
    """When a process began, in the system's own ticks; "" where that cannot be known, None if there is none."""
    try:
        # The name in parentheses may hold anything; what follows the last parenthesis is plain.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except OSError:
            pass
        return ""
    except OSError:
        return ""
    # A process that ended and was not collected yet holds nothing any more.
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def this_process() -> dict[str, Any]:
    """The holder that this process is."""
    pid = os.getpid()
    return {**_host(), "pid": pid, "start": _start(pid) or ""}


def is_dead(holder: dict[str, Any]) -> bool:
    """Whether a holder has ended for certain; one that cannot be judged from here has not.

    A process is judged on its own host alone: by its number and start within one boot, and as ended where the host has
    been started again since.
    """
    host = _host()
    if holder["host"] != host["host"]:
        return False
    if holder["boot"] != host["boot"]:
        return bool(holder["boot"] and host["boot"])
    if holder["space"] != host["space"]:
        return False
    start = _start(holder["pid"])
    return start is None or bool(start and holder["start"] and start != holder["start"])


def tag() -> str:
    """This process in a word, for names of files: its number and start."""
    return f"{os.getpid()}-{_start(os.getpid()) or ''}"


def is_dead_tag(word: str) -> bool:
    """Whether the process of a `tag` has ended; False for what is none."""
    pid, _, begun = word.partition("-")
    if not (pid.isdigit() and begun.isdigit()):
        return False
    start = _start(int(pid))
    return start is None or bool(start) and start != begun
