"""A job that is signalled at its file calls. Nothing is left uncounted, no job is stuck, and every model verifies."""

import pytest
from drill import drill

from vips_fast.engine import transcript
from vips_fast.engine.budget import Reservation
from vips_fast.engine.ledger import Ledger


def drilled(tmp_path, vocab, points, capsys):
    if vocab == "public":
        (tmp_path / "words").write_text("\n".join(("cough", "fever", "rash", "sleep", "work", "rent")) + "\n")
        vocab = tmp_path / "words"
    counts, first = drill(tmp_path / "drill", str(vocab), points)
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:8d}  {what}" for what, count in counts.items()))
    assert not first and counts["points"] > 0 and counts["releases"] > 0, first


def test_signals_at_some_file_calls(tmp_path, capsys):
    drilled(tmp_path, "public", lambda n_calls: range(37, n_calls, n_calls // 7), capsys)


@pytest.mark.slow
@pytest.mark.parametrize("vocab", ["public", "private"])
def test_signals_at_every_file_call(vocab, tmp_path, capsys):
    drilled(tmp_path, vocab, lambda n_calls: range(1, n_calls + 1), capsys)


# ------------------------------------------------------------------ wrong programs


def charges_nothing(patch):
    patch.setattr(Reservation, "release", lambda self: None)


def records_nothing(patch):
    intend = Ledger.intend
    patch.setattr(Ledger, "intend", lambda self, *a, **k: intend(self, *a, **k) if len(self) != 1 else None)


def trusts_no_transcript(patch):
    writer = transcript.TranscriptWriter
    patch.setattr(writer, "_unused", lambda self: [])


@pytest.mark.parametrize(
    "mutate, found",
    [
        (charges_nothing, "the budget under-counts"),
        (records_nothing, "the ledger under-counts"),
        (trusts_no_transcript, "stuck: the resume ends with 2"),
    ],
)
def test_a_wrong_program_is_found(mutate, found, tmp_path, monkeypatch):
    mutate(monkeypatch)
    (tmp_path / "words").write_text("cough\nfever\nrash\nsleep\n")
    counts, _ = drill(
        tmp_path / "drill", str(tmp_path / "words"), lambda n: range(n // 3, n, 12), sound=False, until=found
    )
    assert counts[f"fault: {found}"] > 0, counts
