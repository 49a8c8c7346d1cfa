"""What a writer has written is on the disk, and whole, before it has its name or anything is done on its account."""

import os

import pytest

from vips_fast.store import atomic
from vips_fast.store.log import Log, encode


@pytest.fixture
def calls(monkeypatch):
    """Note each write, sync and new name with the inode that it is about, in order."""
    noted = []

    def note(kind, call, inode):
        def noting(*args, **options):
            about = inode(args)
            made = call(*args, **options)
            noted.append((kind, about))
            return made

        return noting

    for name, kind, inode in (
        ("pwrite", "write", lambda args: os.fstat(args[0]).st_ino),
        ("fsync", "sync", lambda args: os.fstat(args[0]).st_ino),
        ("rename", "name", lambda args: os.stat(args[0]).st_ino),
        ("link", "name", lambda args: os.stat(args[0]).st_ino),
    ):
        monkeypatch.setattr(os, name, note(kind, getattr(os, name), inode))
    return noted


def filled(path):
    atomic.reserve(path, 1 << 16)
    atomic.fill(path, lambda file: file.write(b"new" * 1000))


def a_folder(path):
    with atomic.replacing_folder(path) as folder:
        (folder / "b" / "c").mkdir(parents=True)
        for place in (folder, folder / "b" / "c"):
            atomic.write_file(place / "a", lambda file: file.write(b"new"))


WRITERS = {
    "replaced": lambda path: atomic.replace_file(path, lambda file: file.write(b"new" * 1000)),
    "created": lambda path: atomic.create_file(path, b"new" * 1000),
    "filled": filled,
    "folder": a_folder,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_contents_are_on_the_disk_before_the_name_and_the_name_before_the_end(writer, tmp_path, calls):
    WRITERS[writer](tmp_path / "a")
    names = [place for place, (kind, _) in enumerate(calls) if kind == "name"]
    assert names
    for place in names:
        assert ("sync", calls[place][1]) in calls[:place]
        assert ("sync", os.stat(tmp_path).st_ino) in calls[place:]
    for path in (tmp_path / "a", *(tmp_path / "a").rglob("*")):
        assert ("sync", path.stat().st_ino) in calls[: names[0]], path


def appended(path):
    path.write_bytes(encode("budget", [{"n": 0}]))
    descriptor, log = os.open(path, os.O_RDWR), Log(path, "budget")
    log.read(descriptor)
    for n in (1, 2):
        log.append({"n": n})
    os.close(descriptor)
    return [record["n"] for record in Log.of(path, "budget").records]


def test_an_append_is_on_the_disk_when_it_returns(tmp_path, calls):
    appended(tmp_path / "log")
    last_write = max(place for place, (kind, _) in enumerate(calls) if kind == "write")
    assert calls[last_write + 1 :] == [("sync", (tmp_path / "log").stat().st_ino)]


def test_a_system_that_writes_a_few_bytes_at_a_time_loses_none(tmp_path, monkeypatch):
    true = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, place: true(descriptor, data[:7], place))
    atomic.create_file(tmp_path / "a", b"0123456789" * 20)
    assert (tmp_path / "a").read_bytes() == b"0123456789" * 20
    assert appended(tmp_path / "log") == [0, 1, 2]
