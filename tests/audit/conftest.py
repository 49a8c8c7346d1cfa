"""Helpers of the audit's tests."""

import inspect
import textwrap

import pytest


@pytest.fixture
def mutate(monkeypatch):
    """Replace a function by a copy of its own source with one change, which must apply exactly once."""

    def change(owner, name, old, new):
        function = inspect.getattr_static(owner, name)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(old) == 1, f"{name}: {source.count(old)} places to change"
        scope = {}
        exec(compile(source.replace(old, new), f"<mutant of {name}>", "exec"), function.__globals__, scope)
        monkeypatch.setattr(owner, name, scope[name])

    return change
