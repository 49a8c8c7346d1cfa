"""The program itself: ``--version``."""

import platform

import numpy
import scipy

from .. import runtime_info


def info() -> str:
    """List versions, instruction sets and threads."""
    known = dict(runtime_info())
    rows = {"vips_fast": known.pop("version"), **known, "Python": platform.python_version()}
    rows |= {"numpy": numpy.__version__, "scipy": scipy.__version__, "machine": platform.platform(terse=True)}
    return "\n".join(f"{name:<15}  {value}" for name, value in rows.items())
