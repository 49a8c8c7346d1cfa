"""A job that meets a fault at its file calls: what it prints, followed, leads to a result.

Each release counts once, and what was paid is in the result.
"""

import pytest
from advised import JOBS, advised, prepare

from vips_fast.engine.budget import Reservation
from vips_fast.engine.checkpoint import RunFolder
from vips_fast.engine.payment import Payment

FAULTS = ("killed", "ENOSPC", "EIO", "full")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from vips_fast.jobs import clusters

    monkeypatch.setattr(clusters, "SentenceEncoder", clusters.SentenceEncoder)
    prepare(tmp_path)
    return tmp_path


def followed(place, kind, points, capsys):
    counts, first = advised(place, kind, points)
    with capsys.disabled():
        print(f"\n{kind}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    assert not first and counts["points"] > 0, first


@pytest.mark.parametrize("kind", JOBS)
def test_the_advice_after_some_faults_leads_to_a_result(kind, place, capsys):
    def points(n_calls):
        step = max(1, n_calls // 7)
        return [(point, FAULTS[number % 4]) for number, point in enumerate(range(step, n_calls + 1, step))]

    followed(place, kind, points, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", JOBS)
def test_the_advice_after_every_fault_leads_to_a_result(kind, fault, place, capsys):
    followed(place, kind, lambda n_calls: [(point, fault) for point in range(1, n_calls + 1)], capsys)


# ------------------------------------------------------------------ wrong programs


def keeps_no_release(patch):
    patch.setattr(RunFolder, "keep_release", lambda self, release: None)


def gives_no_charge_back(patch):
    patch.setattr(Reservation, "undo", lambda self: None)


def gives_back_what_was_drawn(patch):
    close = Payment.close

    def closes(self):
        if self._reservation is not None and self._reservation._made:
            self._reservation.undo()
        close(self)

    patch.setattr(Payment, "close", closes)


def promises_a_resume(patch):
    patch.setattr(RunFolder, "used_up", lambda self: "nothing is left")


@pytest.mark.parametrize(
    "mutate, kind, fault, sound, found",
    [
        (keeps_no_release, "tabulate", "ENOSPC", True, "1 lost"),
        (gives_no_charge_back, "blr", "EIO", True, "charged 4 for 3"),
        (gives_back_what_was_drawn, "blr", "EIO", False, "releases drawn"),
        (promises_a_resume, "tabulate", "killed", True, "stuck"),
    ],
)
def test_a_wrong_program_is_found(mutate, kind, fault, sound, found, place, monkeypatch):
    with monkeypatch.context() as patch:
        mutate(patch)
        _, first = advised(
            place, kind, lambda n: [(point, fault) for point in range(n // 4, n, 2)], until_found=True, sound=sound
        )
    assert found in first
