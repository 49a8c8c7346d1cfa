"""Every writer of a file: the old file or the whole new one, whoever writes beside it."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from disk import FAULTS, each_fault

import vips_fast
from vips_fast.models.lda import PublicPrior
from vips_fast.store.atomic import create_file, leftovers, new_folder, replace_file, replace_text, replacing, write_file
from vips_fast.store.cache import store
from vips_fast.store.npz import write_npz

WORDS = [f"word{v}" for v in range(16)]
PRIOR = PublicPrior(WORDS, np.ones((2, 16)), [0.5, 0.5], np.ones(16), "a test")


def of_output(path):
    with replacing(path) as file:
        file.write(b"new" * 1000)


WRITERS = {
    "bytes": lambda path: replace_file(path, lambda file: file.write(b"new" * 1000)),
    "text": lambda path: replace_text(path, "new" * 1000),
    "arrays": lambda path: write_npz(path, {"a": np.arange(1000)}),
    "prior": PRIOR.save,
    "the shell's": of_output,
}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


#: It makes the folder, too.
CACHE = {"the cache's": lambda path: store(path, "key", b"new" * 1000)}


@pytest.mark.parametrize("write", [pytest.param(write, id=name) for name, write in {**WRITERS, **CACHE}.items()])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_writer_leaves_the_old_file_or_the_new_one(write, fault, tmp_path, monkeypatch):
    write(tmp_path / "whole")
    new = (tmp_path / "whole").read_bytes()

    def prepare(folder):
        (folder / "a").write_bytes(b"old")
        return folder / "a"

    for folder, path, failed, error in each_fault(tmp_path, monkeypatch, fault, prepare, write):
        assert path.read_bytes() in (b"old", new)
        rest = set(names(folder)) - {"a"}
        # A killed process leaves its part, which says so; a failed call leaves none, unless its removal is what fails.
        assert rest == {one.name for one in leftovers(folder)} if failed == "killed" else not rest
        if error is None and failed != "killed":
            assert path.read_bytes() == new


#: It writes in a folder in the making.
NEW = {"new": lambda path: write_file(path, lambda file: file.write(b"new" * 1000))}


@pytest.mark.parametrize("write", [pytest.param(write, id=name) for name, write in {**WRITERS, **NEW}.items()])
def test_a_file_or_a_link_is_replaced_and_not_followed(write, tmp_path):
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "a").write_bytes(b"longer" * 10_000)
    for target in ("", "target", "nowhere"):
        if target:
            (tmp_path / "a").unlink()
            (tmp_path / "a").symlink_to(tmp_path / target)
        write(tmp_path / "a")
        assert not (tmp_path / "a").is_symlink() and 100 < (tmp_path / "a").stat().st_size < 10_000
    assert (tmp_path / "target").read_bytes() == b"kept" and names(tmp_path) == ["a", "target"]


@pytest.mark.parametrize("make", [new_folder, lambda path: create_file(path, b"new")])
def test_an_error_names_the_place_and_not_its_part(make, tmp_path):
    path = tmp_path / ("a" * 250)  # a part's name is longer, and the system takes 255
    with pytest.raises(OSError) as caught:
        make(path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_file_is_refused_by_its_name(writer, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for name in ("folder", "pipe", "link", "/dev/null"):
        with pytest.raises(OSError, match="is a folder, a pipe or a device; expected the name of a file") as caught:
            WRITERS[writer](tmp_path / name)
        assert caught.value.filename == str(tmp_path / name)
    assert names(tmp_path) == ["folder", "link", "pipe"] and Path("/dev/null").is_char_device()
    with pytest.raises(FileNotFoundError) as caught:
        WRITERS[writer](tmp_path / "absent" / "a")
    assert caught.value.filename == str(tmp_path / "absent" / "a")


def test_threads_write_one_file_at_once(tmp_path):
    barrier = threading.Barrier(8)

    def work(number):
        for _ in range(50):
            barrier.wait(60)
            replace_file(tmp_path / "a", lambda file: file.write(b"%d" % number * 10_000))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))  # raises what a thread raised
    data = (tmp_path / "a").read_bytes()
    assert data in {b"%d" % number * 10_000 for number in range(8)} and names(tmp_path) == ["a"]


#: Modules that may open a file for writing: what they write is new, or grows, and is theirs to keep whole.
OPENS = {
    "store/atomic.py": "the writers",
    "store/lock.py": "locks, which have no content to lose",
    "store/text.py": "os.devnull, for a stream that failed",
    "engine/checkpoint.py": "the ledger, which only grows",
    "data/shards.py": "arrays that grow, in a folder in the making",
    "cli/main.py": "os.devnull, for a stream that is closed",
    "cli/output.py": "into the file of `replacing`",
}


#: What writes to a name by itself: not a member of an archive, and not an example of a docstring.
WRITES = re.compile(
    r"""^(?!\.\.\.|>>>).*(\.write_(text|bytes)\(|\bnp\.savez?\w*\(|O_WRONLY|O_RDWR"""
    r"""|(?<!archive\.)(?<!gzip\.)\bopen\([^()]*(\([^()]*\)[^()]*)*["']([wax]b?|r\+b)["'])""",
    re.M,
)


def test_no_other_module_writes_by_itself():
    root = Path(vips_fast.__file__).parent
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if WRITES.search(path.read_text("utf-8"))}
    assert found == OPENS.keys(), found ^ OPENS.keys()
