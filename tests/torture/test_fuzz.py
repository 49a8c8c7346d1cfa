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


def fuzzed(files, names, number, seed, capsys, monkeypatch):
    monkeypatch.chdir(files.parent)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    counts, faults = fuzz.fuzz(files, names, number, seed)
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:8d}  {what}" for what, count in sorted(counts.items())))
    return counts, faults


def test_some_changed_files(files, capsys, monkeypatch):
    monkeypatch.chdir(files.parent)
    names = sorted(fuzz.targets(files))
    assert len(names) > 50 and not fuzz.unread(files)
    counts, faults = fuzzed(files, names, 2 * len(names), 0, capsys, monkeypatch)
    assert not faults and sum(counts.values()) == 2 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(1, 5))
def test_ten_thousand_changed_files(files, quarter, capsys, monkeypatch):
    names = sorted(fuzz.targets(files))
    counts, faults = fuzzed(files, names, 2500, quarter, capsys, monkeypatch)
    assert not faults and sum(counts.values()) == 2500
