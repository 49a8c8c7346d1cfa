"""Faults put into the source of a function."""

import inspect
import textwrap


def mutated(function, old, new):
    """Return the function or method with one piece of its source replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, (function.__qualname__, old)
    space = {}
    code = compile("from __future__ import annotations\n" + source.replace(old, new), f"<{old!r} mutated>", "exec")
    exec(code, function.__globals__, space)
    return space[function.__name__]
