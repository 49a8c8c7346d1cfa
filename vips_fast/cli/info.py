"""``info``: version, instruction sets, threads."""

from __future__ import annotations

import argparse


def run(args: argparse.Namespace) -> int:
    """Print what a report of a problem should say."""
    import platform

    import numpy
    import scipy

    from vips_fast import runtime_info

    from ..report.text import table

    info = runtime_info()
    rows = [
        ("vips_fast", info["version"]),
        ("instruction set", info["isa"]),
        ("available", ", ".join(info["isas_available"])),
        ("threads", info["n_threads"]),
        ("processors", info["processors"]),
        ("Python", platform.python_version()),
        ("numpy", numpy.__version__),
        ("scipy", scipy.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    print(table(rows))
    return 0
