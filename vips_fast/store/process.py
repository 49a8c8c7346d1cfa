"""Identify a process by host, number and start, to tell its end."""

import os
import socket
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def _host() -> dict[str, str]:
    """Return the host's name, its boot, and the namespace of process numbers."""
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
    """Return a process's start in ticks; "" if unknown, None if ended."""
    try:
        # The name in parentheses may hold anything; only the fields after the last parenthesis are plain.
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
    # A zombie holds nothing any more.
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def this_process() -> dict[str, Any]:
    """Describe this process, for `is_dead`."""
    pid = os.getpid()
    return {**_host(), "pid": pid, "start": _start(pid) or ""}


def is_dead(process: dict[str, Any]) -> bool:
    """Tell whether a process of `this_process` has ended for certain.

    Only the same host can judge: by number and start within one boot, and after a reboot at once. Elsewhere the answer
    is False.
    """
    host = _host()
    if process["host"] != host["host"]:
        return False
    if process["boot"] != host["boot"]:
        return bool(process["boot"] and host["boot"])
    if process["space"] != host["space"]:
        return False
    start = _start(process["pid"])
    return start is None or bool(start and process["start"] and start != process["start"])


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8] if text else ""


def tag() -> str:
    """Return a short name of this process: its number, its start, and digests of host, boot and namespace."""
    return "-".join([str(os.getpid()), _start(os.getpid()) or "", *map(_short, _host().values())])


def is_dead_tag(word: str) -> bool:
    """Tell whether the process of a `tag` has ended for certain, as `is_dead` does."""
    pid, start, *place = word.split("-")
    said = {
        name: own if short == _short(own) else short for (name, own), short in zip(_host().items(), place, strict=True)
    }
    return start.isdigit() and all(_host().values()) and is_dead({**said, "pid": int(pid), "start": start})
