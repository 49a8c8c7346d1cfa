"""The program itself: ``--version``."""

import platform

import numpy
import scipy

from .. import runtime_info


def info() -> str:
    """List versions, instruction sets and threads."""
    known = runtime_info()
    rows = [
        ("vips_fast", known["version"]),
        ("instruction set", known["isa"]),
        ("available", ", ".join(known["isas_available"])),
        ("threads", known["n_threads"]),
        ("Python", platform.python_version()),
        ("numpy", numpy.__version__),
        ("scipy", scipy.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    return "\n".join(f"{name:<15}  {value}" for name, value in rows)
