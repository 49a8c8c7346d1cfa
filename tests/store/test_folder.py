"""Read folders that somebody else wrote. Without a wait and in bounded memory."""

import os
import socket
import zipfile

import numpy as np
import pytest
from bounded import bounded

from vips_fast.store.folder import Folder


def link_inside(path):
    (path.parent / "other").write_bytes(b"x")
    path.symlink_to("other")


def listening(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def device(path):
    try:
        os.mknod(path, 0o20600, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/etc/hostname"), link_inside, listening, device, os.mkdir]
)
def test_only_regular_files_are_read_and_nothing_waits(tmp_path, make):
    make(tmp_path / "a")
    with Folder(tmp_path) as folder:
        assert folder.holds("a") and "a" in folder.names()
        for read in (folder.read, folder.text, folder.arrays):
            with pytest.raises(ValueError, match="expected a file") as seen:
                read("a")
            assert str(tmp_path / "a") in str(seen.value)


def test_files_are_those_of_the_folder_that_was_opened(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "text").write_bytes("wörd\r\n".encode())
    with Folder(tmp_path / "a") as folder:
        os.rename(tmp_path / "a", tmp_path / "b")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "text").write_text("another")
        assert folder.text("text") == "wörd\r\n" and not folder.holds("none")
        with pytest.raises(FileNotFoundError) as seen:
            folder.read("none")
    assert seen.value.filename == str(tmp_path / "a" / "none")


def test_a_link_in_place_of_a_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with Folder(tmp_path / "link"), pytest.raises(OSError):
        Folder(tmp_path / "link", follow=False)


def test_texts_are_bounded_and_are_utf8(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff" * 11)
    with Folder(tmp_path) as folder:
        assert folder.read("a", 11) == b"\xff" * 11
        with pytest.raises(ValueError, match="larger than 10 bytes"):
            folder.read("a", 10)
        with pytest.raises(ValueError, match="not UTF-8"):
            folder.text("a")


def test_values_of_json_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("vips_fast.store.folder.MOST_VALUES", 5)
    monkeypatch.setattr("vips_fast.store.limits.MOST_VALUES", 5)
    for name, text in (("few", "[1,2,3,4]"), ("many", "[1,2,3]\n[1,2,3]"), ("one", "[1,2,3,4,5,6]")):
        (tmp_path / name).write_text(text)
    with Folder(tmp_path) as folder:
        assert folder.json("few") == [1, 2, 3, 4] and folder.json_lines("few")
        for read, name in ((folder.json_lines, "many"), (folder.json, "one")):
            with pytest.raises(ValueError, match=f"{name}: .*has more than 5 values"):
                read(name)


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file, file.open("a.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (3 << 23,)})
        for _ in range(12):
            member.write(bytes(1 << 24))


def many(path):
    entry = b"PK\x01\x02" + bytes(24) + (10).to_bytes(2, "little") + bytes(16)
    entries = b"".join(entry + b"%06d.npy" % i for i in range(400_000))
    size, n = len(entries), 400_000 % 65536
    end = b"PK\x05\x06" + bytes(4) + n.to_bytes(2, "little") * 2 + size.to_bytes(4, "little") + bytes(6)
    path.write_bytes(entries + end)


def huge(path):
    with open(path, "wb") as file:
        file.truncate(1 << 31)


@pytest.mark.parametrize(
    "make, read, said",
    [
        (bomb, Folder.arrays, "expands to"),
        (many, Folder.arrays, "a directory of more than"),
        (huge, Folder.arrays, "not an .npz file"),
        (huge, Folder.text, "is larger than"),
        (huge, Folder.json, "is larger than"),
        (huge, Folder.json_lines, "is larger than"),
        (lambda path: path.write_text("[" * 200_000), Folder.json, "too many brackets"),
        (lambda path: path.write_bytes(b"[" + b"[]," * 9_000_000 + b"[]]"), Folder.json, "has more than"),
    ],
)
def test_files_are_refused_before_they_take_memory(tmp_path, make, read, said):
    make(tmp_path / "a")

    def refused():
        with Folder(tmp_path) as folder, pytest.raises(ValueError, match=f"{tmp_path}/a: .*{said}"):
            read(folder, "a")
        return "refused"

    assert bounded(refused, (100 << 20) if read is Folder.arrays else (1 << 30)) == ("", "refused")


def test_a_folder_of_too_many_entries_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("vips_fast.store.folder._MOST_ENTRIES", 3)
    for number in range(4):
        with Folder(tmp_path) as folder:
            assert len(folder.names()) == number
        (tmp_path / str(number)).touch()
    with Folder(tmp_path) as folder, pytest.raises(ValueError, match="more than 3 entries"):
        folder.names()
