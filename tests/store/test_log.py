"""The log, as a reader finds it after appends, kills and damage."""

import errno
import os
import signal

import pytest
from runs import die, in_child

from vips_fast.accounting import GaussianEvent
from vips_fast.engine.budget import Budget
from vips_fast.store.log import _WIDTH, NO_HEAD, Chain, Log, LogDamagedError, _first_line, encode

KIND = "budget"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(encode(KIND, [{"n": 0}]))
    return path


class Opened:
    """A log that is open for appends."""

    def __init__(self, path):
        self.log, self.descriptor = Log(path, KIND), os.open(path, os.O_RDWR)

    def __enter__(self):
        self.log.read(self.descriptor)
        return self.log

    def __exit__(self, *error):
        os.close(self.descriptor)


def numbers(path):
    return [record["n"] for record in Log.of(path, KIND).records]


def test_a_reader_finds_the_new_records(path):
    reader = Log(path, KIND)
    with Opened(path) as log, open(path, "rb") as file:
        assert [r["n"] for r in reader.read(file.fileno())] == [0]
        for n in (1, 2):
            log.append({"n": n})
        assert [r["n"] for r in reader.read(file.fileno())] == [1, 2] and reader.read(file.fileno()) == []
        assert reader.heads == log.heads and reader.head == log.head and not reader.torn
    memory = Chain()
    for record in reader.records:
        assert record["before"] == (memory.head if memory.heads else NO_HEAD)
        memory.append(record)
    assert memory.heads == reader.heads and path.read_bytes() == encode(KIND, memory.records)
    with pytest.raises(OSError, match="takes no records before it is read again"):
        Log.of(path, KIND).append({"n": 3})


def killed_between(path, n):
    """Kill an append after the record. Before the first line."""

    def job():
        with Opened(path) as log:
            calls, pwrite = [], os.pwrite

            def call(descriptor, data, position):
                if position == 0 and data != _first_line(KIND, len(log.records)):
                    die()
                calls.append(position)
                return pwrite(descriptor, data, position)

            os.pwrite = call
            log.append({"n": n})

    assert in_child(job) == signal.SIGKILL


def test_kills_between_a_record_and_the_first_line_lose_nothing(path):
    for n in range(1, 6):
        killed_between(path, n)
        assert numbers(path) == list(range(n + 1)) and not Log.of(path, KIND).torn
        # As many as one record is ahead of the first line, whatever happens.
        assert int(path.read_bytes()[_WIDTH - 22 : _WIDTH - 10]) == n
    with Opened(path) as log:
        log.append({"n": 6})
    assert numbers(path) == list(range(7)) and path.read_bytes().startswith(_first_line(KIND, 7))


def test_a_part_of_a_record_is_of_an_append_that_never_returned(path):
    """It is cut off. If the first line counts it, or lags behind the whole records, its append may have returned."""
    with Opened(path) as log:
        for n in range(1, 5):
            log.append({"n": n})
    records = path.read_bytes()[_WIDTH:]
    for count, torn in ((4, True), (5, False), (6, True)):
        path.write_bytes(_first_line(KIND, count) + records + b'{"hash":"')
        log = Log.of(path, KIND)
        assert log.torn == torn and len(log.records) == 5 and path.read_bytes().endswith(b'"')
        with Opened(path) as log:
            log.append({"n": 5})
        assert numbers(path) == list(range(6)) and not Log.of(path, KIND).torn


@pytest.mark.parametrize("ahead", [2, 3])
def test_a_first_line_far_behind_the_records_is_torn_and_goes_on(path, ahead):
    with Opened(path) as log:
        for n in range(1, 5):
            log.append({"n": n})
    path.write_bytes(_first_line(KIND, 5 - ahead) + path.read_bytes()[_WIDTH:])
    log = Log.of(path, KIND)
    assert log.torn and len(log.records) == 5
    with Opened(path) as log:
        log.append({"n": 5})
    assert numbers(path) == list(range(6)) and not Log.of(path, KIND).torn


def test_a_budget_lives_through_kills_between_a_record_and_the_first_line(tmp_path):
    event = GaussianEvent(20.0, "add_remove")
    budget = Budget.create(tmp_path / "b", 3.0, 1e-6, dataset="ward7")
    for kills in range(1, 5):

        def job():
            pwrite = os.pwrite

            def call(descriptor, data, position):
                if position == 0 and b"vips_fast log" in data and data != before:
                    die()
                return pwrite(descriptor, data, position)

            again = Budget(budget.path)
            before = _first_line(KIND, len(again._log.records))
            os.pwrite = call
            again.reserve(event, 2)

        assert in_child(job) == signal.SIGKILL
        said = Budget(budget.path).show()
        # One record each: a reservation, or the end of the one that the killed process had made.
        assert not said["torn"] and said["records"] == kills + 1 and said["spent"] == 0.0
    with budget.reserve(event, 1) as held:
        held.release()
    assert sum(run["counted"] for run in budget.show()["runs"]) == 1


def test_a_cut_at_the_end_of_a_line_is_noticed(path):
    with Opened(path) as log:
        for n in range(1, 5):
            log.append({"n": n})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert Log.of(path, KIND).torn and numbers(path) == [0, 1, 2, 3]
    path.write_bytes(b"".join(lines[:-2]))
    with pytest.raises(LogDamagedError, match=r"log: record 3 is damaged or missing, of 5"):
        Log.of(path, KIND)


def test_damage_is_refused_in_one_line_and_the_rest_can_be_looked_at(path):
    with Opened(path) as log:
        for n in range(1, 5):
            log.append({"n": n})
    content = path.read_bytes()
    for find, put, message in (
        (b'"n":2', b'"n":7', "record 2 is damaged or missing, of 5"),
        (b"0005 ", b"0004 ", "its first line is damaged"),
        (b"budget ", b"ledger ", "not a budget of this version"),
        (b"fast log 1", b"fast log 9", "not a budget of this version"),
    ):
        path.write_bytes(content.replace(find, put))
        with pytest.raises(LogDamagedError, match=message) as error:
            Log.of(path, KIND)
        assert "\n" not in str(error.value) and str(path) in str(error.value)
    path.write_bytes(content.replace(b'"n":2', b'"n":7'))
    log = Log.of(path, KIND, strict=False)
    assert log.torn and [record["n"] for record in log.records] == [0, 1]


def test_an_older_copy_is_noticed_by_who_has_read_further(path):
    copied = path.read_bytes()
    with Opened(path) as log:
        log.append({"n": 1})
        path.write_bytes(copied)
        with pytest.raises(LogDamagedError, match="older copy"):
            log.read(os.open(path, os.O_RDONLY))


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_after_an_error_the_log_is_read_again_before_it_takes_records(path, monkeypatch, call):
    whole = path.read_bytes()

    def fails(*arguments):
        monkeypatch.undo()  # the disk is full once
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Opened(path) as log:
        monkeypatch.setattr(os, call, fails)
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            log.append({"n": 1})
        assert path.read_bytes() == whole and len(log.records) == 1
        with pytest.raises(OSError, match="before it is read again"):
            log.append({"n": 1})
    with Opened(path) as log:
        log.append({"n": 1})
    assert numbers(path) == [0, 1]
