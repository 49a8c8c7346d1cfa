"""What killed writers leave is removed by the next writer of the same name, and nothing else is."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from runs import in_child

from vips_fast.data import Batch, shards, write_shards
from vips_fast.store import process
from vips_fast.store.atomic import leftovers, new_folder, part_of, put_in_place, replacing


def killed(work):
    """Run in a child that ends without a clean-up."""
    assert in_child(lambda: (work(), os._exit(0))) == 0


def folder(path):
    made = new_folder(path)
    (made / "model.npz").write_text("part")
    return made


def exchanged(path):
    """Stop between the two renames of a system that cannot exchange folders."""
    os.rename(path, part_of(path).with_suffix(".old"))


def begun(path):
    with replacing(path):
        os._exit(0)


def written(path):
    put_in_place(folder(path), path)


def printed(path):
    with replacing(path) as part:
        part.write(b"whole")


def sharded(path, end=None):
    """Write shards with all arrays that there are; end after some batches, or before the spool is removed."""

    def batches():
        for number in range(3):
            yield Batch(np.array([[1.0, np.nan]]), labels=[1], persons=["a"])
            if end == "batch" and number == 1:
                os._exit(0)

    if end == "spool":
        shards.shutil.rmtree = lambda path: os._exit(0)
    write_shards(path, batches(), invalid="drop", kind="numbers", files={"schema.toml": ""}, vocabulary=["x", "y"])


@pytest.mark.parametrize(
    ("name", "stop", "again"),
    [
        ("o", folder, written),
        ("o.run", folder, written),
        ("a file.csv", begun, printed),
        ("figure.tar.png", begun, printed),
        ("no end", begun, printed),
        ("o", lambda path: (written(path), exchanged(path)), written),
        ("o", lambda path: sharded(path, "batch"), sharded),
        ("o", lambda path: sharded(path, "spool"), sharded),
    ],
)
def test_what_killed_writers_left_is_removed_by_the_next(name, stop, again, tmp_path):
    path = tmp_path / name
    for _ in range(3):
        killed(lambda: stop(path))
    assert any(entry.name.startswith(f".{name}.") for entry in tmp_path.iterdir())
    assert set(leftovers(tmp_path)) == {one for one in tmp_path.iterdir() if one.name.startswith(".")}
    again(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def _of_a_dead(path):
    """Name a part of a process that has ended."""
    killed(lambda: part_of(path).touch())
    (part,) = leftovers(path.parent, path.name)
    return part


@pytest.mark.parametrize(
    "foreign",
    [
        lambda part: part.replace(".o.", ".other."),  # of another path
        lambda part: part.replace(".o.", ".o.run."),
        lambda part: re.sub(r"-[0-9a-f]{8}(?=-[0-9a-f]{8}-[0-9a-f]{8}\.)", "-00000000", part),  # another machine
        lambda part: re.sub(r"-[0-9a-f]{8}\.", "-00000000.", part),  # another container
        lambda part: re.sub(r"-[0-9a-f]{8}\.", ".", part),
        lambda part: re.sub(r"\.[0-9]+-[0-9]+-", f".{os.getpid()}-{process._start(os.getpid())}-", part),  # alive
        lambda part: part.removeprefix("."),
        lambda part: part + "ial",
        lambda part: part.replace(".part", ".bak"),
        lambda part: ".o.part",
        lambda part: ".o.notes.2026.old",
    ],
)
def test_nothing_else_is_removed(foreign, tmp_path):
    part = _of_a_dead(tmp_path / "o")
    name = foreign(part.name)
    os.rename(part, tmp_path / name)
    written(tmp_path / "o")
    assert {entry.name for entry in tmp_path.iterdir()} == {"o", name}


def test_parts_of_an_earlier_boot_are_removed(tmp_path):
    """Their process has ended, whatever number it had."""
    part = part_of(tmp_path / "o")  # of this process, which runs
    (tmp_path / re.sub(r"-[0-9a-f]{8}(?=-[0-9a-f]{8}\.)", "-00000000", part.name)).touch()
    written(tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_where_numbers_of_processes_mean_nothing_no_part_is_removed(tmp_path, monkeypatch):
    part = _of_a_dead(tmp_path / "o")
    monkeypatch.setattr(process, "_host", lambda: {"host": "h", "boot": "", "space": ""})
    written(tmp_path / "o")
    assert part.exists() and not leftovers(tmp_path)


def test_a_folder_that_cannot_be_listed_keeps_its_parts(tmp_path, monkeypatch):
    part = _of_a_dead(tmp_path / "o")

    def refuse(self):
        raise PermissionError

    monkeypatch.setattr(Path, "iterdir", refuse)
    written(tmp_path / "o")
    monkeypatch.undo()
    assert part.exists() and (tmp_path / "o").exists()
