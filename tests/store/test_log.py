"""The log, as a reader finds it after appends, kills and damage."""

import errno
import os
import signal
from contextlib import contextmanager

import pytest
from runs import die, in_child

from vips_fast.store.log import _WIDTH, NO_HEAD, Chain, Log, LogDamagedError, _first_line, encode

KIND = "budget"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(encode(KIND, [{"n": 0}]))
    return path


@contextmanager
def opened(path):
    log = Log(path, KIND)
    with open(path, "r+b") as file:
        log.read(file.fileno())
        yield log


@pytest.fixture
def five(path):
    with opened(path) as log:
        for n in range(1, 5):
            log.append({"n": n})
    return path


def numbers(path):
    return [record["n"] for record in Log.of(path, KIND).records]


def goes_on(path):
    """Append a sixth record to a log that is as good as `five`."""
    with opened(path) as log:
        log.append({"n": 5})
    assert numbers(path) == list(range(6)) and not Log.of(path, KIND).torn


def test_a_reader_finds_the_new_records(path):
    reader = Log(path, KIND)
    with opened(path) as log, open(path, "rb") as file:
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
        with opened(path) as log:
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
    with opened(path) as log:
        log.append({"n": 6})
    assert numbers(path) == list(range(7)) and path.read_bytes().startswith(_first_line(KIND, 7))


@pytest.mark.parametrize(
    ("count", "rest", "torn"),
    [(4, b'{"hash":"', True), (5, b'{"hash":"', False), (6, b'{"hash":"', True), (3, b"", True), (2, b"", True)],
)
def test_ends_that_are_clean_or_torn_and_go_on(five, count, rest, torn):
    """A part of a record is of an append that never returned, and is cut off.

    If the first line counts it, or lags far behind the whole records, its append may have returned.
    """
    five.write_bytes(_first_line(KIND, count) + five.read_bytes()[_WIDTH:] + rest)
    log = Log.of(five, KIND)
    assert log.torn == torn and len(log.records) == 5 and five.read_bytes().endswith(rest)
    goes_on(five)


def test_a_cut_at_the_end_of_a_line_is_noticed(five):
    lines = five.read_bytes().splitlines(keepends=True)
    five.write_bytes(b"".join(lines[:-1]))
    assert Log.of(five, KIND).torn and numbers(five) == [0, 1, 2, 3]
    five.write_bytes(b"".join(lines[:-2]))
    with pytest.raises(LogDamagedError, match=r"log: record 3 is damaged or missing, of 5"):
        Log.of(five, KIND)


def test_damage_is_refused_in_one_line_and_the_rest_can_be_looked_at(five):
    path, content = five, five.read_bytes()
    for find, put, message in (
        (b'"n":2', b'"n":7', "record 2 is damaged or missing, of 5"),
        (b"0005 ", b"0004 ", "its first line is damaged"),
        (b"budget ", b"ledger ", "not a budget of this version"),
        (b"fast log 1", b"fast log 9", "not a budget of this version; use the version of vips_fast that wrote it, or"),
    ):
        path.write_bytes(content.replace(find, put))
        with pytest.raises(LogDamagedError, match=message) as error:
            Log.of(path, KIND)
        assert "\n" not in str(error.value) and str(path) in str(error.value)
    path.write_bytes(content.replace(b'"n":2', b'"n":7'))
    log = Log.of(path, KIND, strict=False)
    assert log.torn and [record["n"] for record in log.records] == [0, 1]


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_after_an_error_the_log_is_read_again_before_it_takes_records(path, monkeypatch, call):
    whole = path.read_bytes()

    def fails(*arguments):
        monkeypatch.undo()  # the disk is full once
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(path) as log:
        monkeypatch.setattr(os, call, fails)
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            log.append({"n": 1})
        assert path.read_bytes() == whole and len(log.records) == 1
        with pytest.raises(OSError, match="before it is read again"):
            log.append({"n": 1})
    with opened(path) as log:
        log.append({"n": 1})
    assert numbers(path) == [0, 1]
