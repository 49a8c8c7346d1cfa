"""A damaged budget.

The readable part is shown, and a repaired copy never counts less than was spent.
"""

import os
import stat
from collections import Counter

import numpy as np
import pytest

from vips_fast.accounting import GaussianEvent
from vips_fast.cli import main
from vips_fast.engine import budget_repair
from vips_fast.engine.budget import Budget, BudgetExceededError, LogDamagedError
from vips_fast.engine.budget_repair import read_damaged

EVENTS = [GaussianEvent(z, "add_remove") for z in (20.0, 25.0, 30.0)]


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Return a budget's lines with three runs, one ended early.

    The rest of the tests get a file.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    budget = Budget.create(tmp_path / "whole", 3.0, 1e-6, dataset="ward7")
    with budget.reserve(EVENTS[0], 3) as first:
        first.release()
        first.release()
    second, third = budget.reserve(EVENTS[1], 2), budget.reserve(EVENTS[2], 4)
    for held in (third, second, third, third):
        held.release()
    lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)

    def put(lines):
        path = tmp_path / "damaged"
        path.write_bytes(b"".join(lines))
        return path

    return budget, lines, put


def counted(state):
    """Releases of each event that count as spent."""
    counts = Counter()
    for run in state.runs.values():
        counts[run.event] += run.spent
    return counts


def covers(state, budget):
    """Check that the copy counts each release, or the whole budget.

    It never counts less than was spent.
    """
    drawn = Counter()
    with budget._reading() as whole:
        for run in whole.runs.values():
            drawn[run.event] += run.drawn
        enough = state.total(reserved=False) >= min(whole.total(reserved=False), budget.epsilon)
    return enough and (state.exhausted or all(counted(state)[event] >= count for event, count in drawn.items()))


def test_one_lost_record_is_covered_by_full_reservations(damaged, tmp_path):
    budget, lines, put = damaged
    whole = 0
    for number in range(2, len(lines) - 1):
        found = read_damaged(put([*lines[:number], lines[number].replace(b'"kind"', b'"Kind"'), *lines[number + 1 :]]))
        assert found.damage and found.lost == 1 and covers(found.state, budget), number
        whole += found.state.exhausted
        if not found.state.exhausted:
            assert all(run.spent == run.count for run in found.state.runs.values())
    # Only a lost reservation whose releases are left makes the whole budget spent.
    assert whole == 3


def test_the_copy_goes_on_and_knows_the_heads_of_models(damaged, tmp_path, capsys):
    budget, lines, put = damaged
    path = put([*lines[:3], *lines[4:]])  # a release of the first run is lost
    before = path.read_bytes()
    with pytest.raises(LogDamagedError):
        Budget(path)
    repair = ["budget", "show", "--out", str(tmp_path / "copy")]
    assert main([*repair, str(budget.path)]) == 0 and not (tmp_path / "copy").exists()
    assert main([*repair, str(path)]) == 0
    said = capsys.readouterr().out
    assert "at most 1 record" in said and "every reservation in full" in said and "is not damaged" in said
    assert path.read_bytes() == before and stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    copy = Budget(tmp_path / "copy")
    # A torn end loses one record; the other of the two that say the same is left.
    (tmp_path / "torn").write_bytes((tmp_path / "copy").read_bytes()[:-1])
    assert Budget(tmp_path / "torn").spent == copy.spent
    assert copy.identity == budget.identity and copy.spent > budget.spent and copy.show()["repaired"]
    assert all(copy.knows(head) for head in budget._log.heads)
    with copy.reserve(EVENTS[0], 1) as held:
        held.release()
    assert main([*repair, str(path)]) == 2  # never replaces
    capsys.readouterr()
    assert main(["budget", "show", str(copy.path), "--out", str(tmp_path / "other")]) == 0
    assert "is not damaged" in capsys.readouterr().out


@pytest.mark.parametrize("left", ["tail", "block", "first line", "two"])
def test_more_lost_records_make_the_whole_budget_spent(damaged, tmp_path, left):
    budget, lines, put = damaged
    kept = {
        "tail": lines[:-3],
        "block": [*lines[:6], *lines[8:]],
        "first line": [lines[0].replace(b"0011 ", b"0010 "), *lines[1:]],
        "two": [*lines[:3], *lines[4:8], *lines[9:]],
    }[left]
    found = read_damaged(put(kept))
    assert found.state.exhausted and covers(found.state, budget)
    found.write(tmp_path / "copy")
    for size in (0, 1):  # whole, and with a torn end
        data = (tmp_path / "copy").read_bytes()
        (tmp_path / "copy").write_bytes(data[: len(data) - size])
        copy = Budget(tmp_path / "copy")
        assert copy.left == 0.0 and copy.spent >= copy.epsilon
        with pytest.raises(BudgetExceededError, match="all of it counts as spent"):
            copy.reserve(EVENTS[0], 1)
        with pytest.raises(BudgetExceededError):
            copy.reserve_list([EVENTS[0]])


def test_a_file_without_its_first_record_is_refused(damaged, tmp_path):
    _, lines, put = damaged
    with pytest.raises(LogDamagedError, match="first record is lost"):
        read_damaged(put([lines[0], *lines[2:]]))
    (tmp_path / "other").write_bytes(b"PK\x03\x04" * 50)
    with pytest.raises(LogDamagedError, match="first record is lost"):
        read_damaged(tmp_path / "other")


def mangled(rng, lines):
    """Leave out, cut, flip, repeat or exchange some lines.

    Another fault leaves out all from one line on.
    """
    lines = list(lines)
    for _ in range(rng.integers(1, 4)):
        number = int(rng.integers(len(lines)))
        how, data = rng.integers(6), bytearray(lines[number])
        if how == 0 and len(lines) > 2:
            del lines[number]
        elif how == 1:
            lines[number] = bytes(data[: rng.integers(len(data) + 1)])
        elif how == 2 and data:
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            lines[number] = bytes(data)
        elif how == 3:
            lines.insert(number, bytes(data))
        elif how == 4 and number > 1:
            del lines[number:]
        else:
            other = int(rng.integers(len(lines)))
            lines[number], lines[other] = lines[other], lines[number]
    return lines


def wrong(damaged, tries=1500):
    """Count sums of a repaired copy below the true spending."""
    (budget, lines, put), rng, found = damaged, np.random.default_rng(0), 0
    for _ in range(tries):
        try:
            state = read_damaged(put(mangled(rng, lines))).state
        except LogDamagedError:
            continue
        found += not covers(state, budget)
    return found


def test_no_damage_lowers_what_was_spent(damaged):
    assert wrong(damaged) == 0


@pytest.mark.parametrize("mutant", ["drawn only", "two may be lost"])
def test_a_wrong_repair_is_found(damaged, monkeypatch, mutant):
    if mutant == "drawn only":
        applied = budget_repair._apply
        monkeypatch.setattr(
            budget_repair, "_apply", lambda records: applied([r for r in records if r["kind"] != "repaired"])
        )
    else:
        salvage = budget_repair.salvage
        monkeypatch.setattr(budget_repair, "salvage", lambda data, kind: (0, salvage(data, kind)[1]))
    assert wrong(damaged) > 0
