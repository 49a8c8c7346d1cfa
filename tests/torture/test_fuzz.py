"""Files changed at random, for every reader. Refused or taken, with no traceback, internal error or wait."""

import os

import fuzz
import pytest


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("fuzz") / "files"
    root.mkdir()
    fuzz.make(root)
    return root


@pytest.mark.parametrize("quarter", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))])
def test_changed_files(files, quarter, capsys, monkeypatch):
    """One of each quickly, and ten thousand in quarters."""
    monkeypatch.chdir(files.parent)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    names = sorted(fuzz.targets(files))
    assert len(names) > 50 and not fuzz.unread(files)
    number = 2500 if quarter else len(names)
    counts, faults = fuzz.fuzz(files, names, number, quarter)
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:8d}  {what}" for what, count in sorted(counts.items())))
    assert not faults and sum(counts.values()) == number
