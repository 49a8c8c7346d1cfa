"""Killed at random moments over steps, checkpoints, saves, budget writes and resumes. Nothing is left uncounted."""

import fcntl
import os
import shutil
import time

import pytest
from torture import FAULTS, torture

from vips_fast.engine import checkpoint
from vips_fast.models import fit
from vips_fast.store import atomic, log


def killed(tmp_path, capsys, kills, **options):
    counts, errors = torture(tmp_path, kills, **options)
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:8d}  {what}" for what, count in counts.items()))
    assert not errors and not any(counts[fault] for fault in FAULTS), errors
    assert counts["kills"] >= kills and counts["runs finished"] > 0 and counts["releases"] > 0


def test_sixty_kills(tmp_path, capsys):
    killed(tmp_path, capsys, 60)


#: Of the slow test, in all; `make torture KILLS=1000` is shorter.
KILLS = int(os.environ.get("VIPS_FAST_KILLS") or 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(1, 5))
def test_ten_thousand_kills(tmp_path, capsys, quarter):
    killed(tmp_path, capsys, KILLS // 4, seed=quarter, share_fresh=0.02)


# ------------------------------------------------------------------ wrong programs


def charges_after_the_draw():
    run, keep = fit.run, checkpoint.RunFolder.keep_release

    def charges_late(*parts, charge, **more):
        def late(self, release):
            keep(self, release)
            time.sleep(0.005)
            with charge(self._ledger):
                pass

        checkpoint.RunFolder.keep_release = late
        return run(*parts, charge=None, **more)

    fit.run = charges_late


def writes_the_ledger_behind():
    write, waiting = log.Log.write, []

    def behind(self, *line):
        if self.kind != "ledger":
            return write(self, *line)
        if waiting:
            write(self, *waiting.pop())
        waiting.append(line)

    log.Log.write = behind


def locks_nothing():
    fcntl.flock = lambda *arguments: None


def saves_in_place():
    atomic.put_in_place = lambda folder, path, owner=None: (
        shutil.rmtree(path, ignore_errors=True),
        time.sleep(0.01),
        os.rename(folder, path),
    )


def keeps_no_release():
    checkpoint.RunFolder.keep_release = lambda self, release: setattr(self, "whole", release.step + 1)


@pytest.mark.parametrize(
    "mutate, found",
    [
        # A budget that is behind the ledger is noticed when the run is resumed, too.
        (charges_after_the_draw, {"under-counts", "could not go on"}),
        (writes_the_ledger_behind, {"under-counts in a ledger", "could not go on"}),
        *(
            pytest.param(mutate, found, marks=pytest.mark.slow)
            for mutate, found in (
                (locks_nothing, {"could not go on", "under-counts"}),
                (saves_in_place, {"unreadable models"}),
                (keeps_no_release, {"over-charges beyond the declared"}),
            )
        ),
    ],
)
def test_a_wrong_program_is_found(mutate, found, tmp_path):
    counts, errors = torture(tmp_path, 1000, seed=2, share_commands=0.0, mutate=mutate)
    assert any(counts[what] for what in found), (counts, errors)
