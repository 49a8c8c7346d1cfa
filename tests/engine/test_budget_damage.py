"""Files that were cut, damaged, or could not be written. Never an under-count, never an unforeseen error."""

import json
import os
from collections import Counter

import numpy as np
import pytest
from disk import FAULTS, each_fault
from runs import in_child

from vips_fast.accounting import GaussianEvent
from vips_fast.cli import main
from vips_fast.engine.budget import Budget, BudgetExceededError, LogDamagedError
from vips_fast.store.atomic import leftovers, new_folder
from vips_fast.store.log import _WIDTH, encode

EVENTS = [GaussianEvent(z, "add_remove") for z in (20.0, 25.0, 30.0)]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Return the bytes of a budget after each append (reserve, draw, close), and the draws by then; two runs stay."""
    path = tmp_path_factory.mktemp("budget") / "b"
    budget = Budget.create(path, 3.0, 1e-6, dataset="ward7")
    drawn, files, held = Counter(), [(path.read_bytes(), Counter())], {}
    for call, run in "r0 d0 d0 r1 d1 d0 c0 d1 r2 d2 d2".split():
        number = int(run)
        if call == "r":
            held[number] = budget.reserve(EVENTS[number], (3, 2, 4)[number])
        elif call == "d":
            held[number].release()
            drawn[EVENTS[number]] += 1
        else:
            held[number].close()
        files.append((path.read_bytes(), Counter(drawn)))
    return files


@pytest.fixture
def quick(monkeypatch):
    """Skip the wait for the disk, which these tests do not need."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def put(path, data):
    """Write a new file. ext4 brings one that is cut to nothing and written again to the disk at once."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def counted(path):
    """Return the draws in a file, or None if it is refused."""
    try:
        budget = Budget(path)
        said = Counter()
        for run in budget.show()["runs"]:
            said[GaussianEvent(run["event"]["noise_multiplier"], "add_remove")] += run["counted"]
        return said
    except LogDamagedError as error:
        assert str(error).startswith(str(path))
        return None


def charged_on(path):
    """Return the draws after a further run, which settles a torn end."""
    budget = Budget(path)
    with budget.reserve(EVENTS[0], 1):
        pass
    return counted(path)


def covers(said, drawn):
    return said is None or all(said[event] >= count for event, count in drawn.items())


def test_cut_at_every_byte(history, tmp_path, quick):
    path, (whole, drawn) = tmp_path / "b", history[-1]
    refused, last = [], len(history[-2][0])
    sizes = [*range(0, last - 1, 5), *range(last - 1, len(whole))]
    for size in sizes:
        put(path, whole[:size])
        said = counted(path)
        assert covers(said, drawn), size
        if said is None:
            refused.append(size)
        else:
            assert covers(charged_on(path), drawn), size
    # A cut within the last record is settled, whatever the byte; a cut before it is refused.
    assert refused == [size for size in sizes if size < last]


def test_a_crash_in_the_middle_of_an_append(history, tmp_path, quick):
    """Any prefix of an append loses nothing, and the file resumes. Under the old first line or the new."""
    path = tmp_path / "b"
    for (before, drawn), (after, _) in zip(history[:-1], history[1:], strict=True):
        for size in (len(before), *range(len(before) + 1, len(after), 15), *range(len(after) - 4, len(after) + 1)):
            for first in (before, after):
                put(path, first[:_WIDTH] + after[_WIDTH:size])
                said = counted(path)
                assert said is not None and covers(said, drawn), size
                if size % 7 == 0:
                    assert covers(charged_on(path), drawn), size


@pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_flips(number, history, tmp_path, quick):
    rng, path, (whole, drawn) = np.random.default_rng(number), tmp_path / "b", history[-1]
    refused = 0
    for _ in range(number):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        put(path, data)
        said = counted(path)
        assert covers(said, drawn)
        if said is None:
            refused += 1
        elif rng.random() < 0.1:
            assert covers(charged_on(path), drawn)
    assert refused > number // 2


@pytest.mark.parametrize(
    "fact", [{"at": 10**30}, {"at": True}, {"holder": {}}, {"holder": {"pid": "x"}}, {"count": 1.5}]
)
def test_a_reservation_of_impossible_facts_is_refused(fact, tmp_path, capsys):
    """Also where somebody has computed all hashes anew: a time beyond calendars ended ``budget show`` in an error."""
    path = tmp_path / "b"
    with Budget.create(path, 3.0, 1e-6, dataset="ward7").reserve(EVENTS[0], 1):
        pass
    records = [json.loads(line)["record"] for line in path.read_bytes().splitlines()[1:]]
    records = [{name: value for name, value in one.items() if name not in ("number", "before")} for one in records]
    put(path, encode("budget", [records[0], records[1] | fact, *records[2:]]))
    assert main(["budget", "show", str(path)]) == 2
    assert "record 1 is malformed" in capsys.readouterr().err


def test_records_missing_in_the_middle_or_twice(history, tmp_path):
    path, lines = tmp_path / "b", history[-1][0].split(b"\n")
    for wrong in (lines[:4] + lines[5:], lines + lines[3:4]):
        put(path, b"\n".join(wrong))
        with pytest.raises(LogDamagedError):
            Budget(path)


def test_an_older_file_with_its_own_first_line_is_valid(history, tmp_path):
    """A rollback of everything is seen by a process that has read more, and by the head of a later model."""
    path = tmp_path / "b"
    put(path, history[-1][0])
    budget = Budget(path)
    head = budget.head
    put(path, history[4][0])
    assert counted(path) == history[4][1] and not Budget(path).knows(head)
    with pytest.raises(LogDamagedError, match="older copy"):
        budget.reserve(EVENTS[0], 1)


def test_a_torn_end_counts_every_open_reservation(history, tmp_path):
    path, (whole, _) = tmp_path / "b", history[-1]
    put(path, whole[:-1])
    budget = Budget(path)
    said = budget.show()
    assert said["torn"] and [run["counted"] for run in said["runs"]] == [3, 2, 4]
    with budget.reserve(EVENTS[0], 2) as held:  # goes on, behind a record that says so
        held.release()
    said = Budget(path).show()
    assert not said["torn"] and [run["counted"] for run in said["runs"]] == [3, 2, 4, 1]
    assert [run["state"] for run in said["runs"]][2:] == ["open", "closed"]


def test_the_holder_of_a_torn_end_goes_on(tmp_path):
    """Its draws are paid for already, up to its reservation."""
    path = tmp_path / "b"
    held = Budget.create(path, 3.0, 1e-6, dataset="ward7").reserve(EVENTS[0], 3)
    held.release()
    held.release()
    path.write_bytes(path.read_bytes()[:-5])  # its own second release
    again = type(held)(Budget(path), held.run, held.event, held.count, held.head)
    again._made = 2
    again.release()
    with pytest.raises(BudgetExceededError, match="in full"):
        again.release()
    again.close()
    assert [run["counted"] for run in Budget(path).show()["runs"]] == [3]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("torn", [False, True])
def test_a_fault_at_each_call_of_a_charge(tmp_path, monkeypatch, fault, torn):
    """Every draw counts, and the message names the file. The next run starts."""
    seen = set()

    def prepare(folder):
        budget = Budget.create(folder / "b", 3.0, 1e-6, dataset="ward7")
        if torn:
            with budget.reserve(EVENTS[1], 2):
                pass
            put(budget.path, budget.path.read_bytes()[:-9])
        return Budget(budget.path)

    def work(budget):
        with budget.reserve(EVENTS[0], 3) as held:
            for _ in range(3):
                held.release()
                with open(f"{budget.path.parent}.drawn", "a") as file:
                    file.write(".")

    for folder, budget, failed, error in each_fault(tmp_path, monkeypatch, fault, prepare, work):
        witness = tmp_path / f"{folder.name}.drawn"
        drawn = {EVENTS[0]: witness.stat().st_size if witness.exists() else 0}
        # Its descriptor is closed all the same.
        assert fault == "killed" or (error is None) == (fault == "short" or failed == "unlock")
        said = counted(budget.path)
        assert said is not None and covers(said, drawn) and covers(charged_on(budget.path), drawn)
        # Over-charged is one at most, but for an end that is torn.
        assert fault == "killed" or said[EVENTS[0]] <= drawn[EVENTS[0]] + 1
        assert [path.name for path in folder.iterdir()] == ["b"]
        seen.add(failed)
    assert seen == {"short": {"pwrite"}, "killed": {"killed"}}.get(
        fault, {"open", "flock", "unlock", "pwrite", "fsync", *(["ftruncate"] if torn else [])}
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_each_call_of_create(tmp_path, monkeypatch, fault):
    """The budget is there whole or not at all. A kill's leftovers can be recognized."""

    def create(folder):
        return Budget.create(folder / "b", 3.0, 1e-6, dataset="ward7")

    left = 0
    for folder, _, failed, error in each_fault(tmp_path, monkeypatch, fault, lambda folder: folder, create):
        # An interrupted write of a file is written on.
        harmless = fault == "short" or failed == "unlock" or (fault, failed) == ("EINTR", "write")
        assert fault == "killed" or (error is None) == harmless, failed
        parts = {path.name for path in folder.iterdir()} - {"b"}
        if fault == "killed":
            left += len(parts)
            assert {path.name for path in leftovers(folder)} == parts
        else:
            assert failed == "unlink" or not parts
        budget = Budget(folder / "b") if (folder / "b").exists() else create(folder)
        assert budget.spent == 0.0 and covers(charged_on(budget.path), {})
    assert left > 0 or fault != "killed"


def test_what_another_process_is_making_is_not_left_behind(tmp_path):
    assert new_folder(tmp_path / "m").is_dir() and leftovers(tmp_path) == []
    assert in_child(lambda: new_folder(tmp_path / "n") and os._exit(0)) == 0
    (tmp_path / ".mine.part").touch()
    assert [path.name.split(".")[1] for path in leftovers(tmp_path)] == ["n"]


def test_a_file_that_may_not_be_written(tmp_path):
    path = tmp_path / "b"
    budget = Budget.create(path, 3.0, 1e-6, dataset="ward7")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        budget.reserve(EVENTS[0], 1)
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        budget.reserve(EVENTS[0], 1)
    with pytest.raises(IsADirectoryError) as error:
        Budget(path)
    assert error.value.filename == str(path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Budget.create(tmp_path / "none" / "b", 3.0, 1e-6, dataset="ward7")
