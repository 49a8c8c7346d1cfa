"""A job that meets a fault or a signal at its file calls: what it prints, followed, leads to a result.

Each release counts once, and what was paid is in the result.
"""

import pytest
from advised import JOBS, advised, prepare

from vips_fast.engine import transcript
from vips_fast.engine.budget import Reservation
from vips_fast.engine.checkpoint import RunFolder
from vips_fast.engine.ledger import Ledger

#: Faults of the disk, and signals. SIGTERM may also come before a call that reads; SIGINT and SIGHUP have its handler.
FAULTS, SIGNALS = ("killed", "ENOSPC", "full"), ("SIGTERM", "SIGKILL")
#: Jobs that are signalled: without and with a purchase.
SIGNALLED = ("lda", "purchase")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from vips_fast.jobs import clusters

    monkeypatch.setattr(clusters, "SentenceEncoder", clusters.SentenceEncoder)
    prepare(tmp_path)
    return tmp_path


def followed(place, kind, points, capsys, faults=FAULTS):
    counts, first = advised(place, kind, points, like=faults[0])
    with capsys.disabled():
        print(f"\n{kind}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    assert not first and counts["points"] > 0, first


@pytest.mark.parametrize(
    "kind, faults", [*((kind, FAULTS) for kind in JOBS), *((kind, SIGNALS) for kind in SIGNALLED[1:])]
)
def test_the_advice_after_some_faults_leads_to_a_result(kind, faults, place, capsys):
    def points(n_calls):
        step = max(1, n_calls // 4)
        return [(point, faults[number % len(faults)]) for number, point in enumerate(range(step, n_calls + 1, step))]

    followed(place, kind, points, capsys, faults)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, fault",
    [*((kind, fault) for kind in JOBS for fault in FAULTS), *((kind, one) for kind in SIGNALLED for one in SIGNALS)],
)
def test_the_advice_after_every_fault_leads_to_a_result(kind, fault, place, capsys):
    followed(place, kind, lambda n_calls: [(point, fault) for point in range(1, n_calls + 1)], capsys, (fault,))


# ------------------------------------------------------------------ wrong programs


def gives_no_charge_back(patch):
    patch.setattr(Reservation, "undo", lambda self: None)


def gives_back_what_was_drawn(patch):
    close = Reservation.close

    def closes(self):
        if self._made:
            self.undo()
        close(self)

    patch.setattr(Reservation, "close", closes)


def promises_a_resume(patch):
    patch.setattr(RunFolder, "used_up", lambda self: "nothing is left")


def charges_nothing(patch):
    patch.setattr(Reservation, "release", lambda self: None)


def records_nothing(patch):
    intend = Ledger.intend
    patch.setattr(Ledger, "intend", lambda self, *a, **k: intend(self, *a, **k) if len(self) != 1 else None)


def refuses_its_own_transcript(patch):
    init = transcript.TranscriptWriter.__init__
    patch.setattr(transcript.TranscriptWriter, "__init__", lambda self, path, **_: init(self, path, first=True))


@pytest.mark.parametrize(
    "mutate, kind, fault, sound, found",
    [
        (gives_no_charge_back, "blr", "ENOSPC", True, "charged 4 for 3"),
        pytest.param(gives_back_what_was_drawn, "blr", "ENOSPC", False, "releases drawn", marks=pytest.mark.slow),
        (promises_a_resume, "tabulate", "killed", True, "stuck"),
        (charges_nothing, "lda", "SIGKILL", False, "in the budget, before any advice is followed"),
        (records_nothing, "lda", "SIGTERM", False, "the run folder says"),
        pytest.param(refuses_its_own_transcript, "lda", "SIGTERM", False, "stuck", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_program_is_found(mutate, kind, fault, sound, found, place, monkeypatch):
    begin, step = (3, 12) if fault in SIGNALS else (4, 2)  # more calls may meet a signal

    def points(n_calls):
        return [(point, fault) for point in range(n_calls // begin, n_calls, step)]

    with monkeypatch.context() as patch:
        mutate(patch)
        _, first = advised(place, kind, points, like=fault, until=found, sound=sound)
    assert found in first
