"""The transcript of an interrupted run.

The model follows from its releases, and lost ones stand apart.
"""

import errno
import os
import shutil

import pytest
from cases import CASES, calling
from runs import ALL, Stop, data, edit_transcript, ends, estimator, fail

from vips_fast.engine import transcript as transcripts
from vips_fast.engine.budget import Budget
from vips_fast.engine.checkpoint import Checkpoint
from vips_fast.engine.transcript import TranscriptWriter, read_transcript
from vips_fast.models.rebuild import verify


def interrupted(make, name, folder, every, **more):
    """Interrupt a run twice, each within a step.

    It has checkpoint and transcript; then comes the whole run.
    """
    common = dict(checkpoint=folder / "r", transcript=folder / "t", checkpoint_every=every, resume=True, **more)
    for _ in range(2):
        model = make()
        ends(model, 2, fail)
        with pytest.raises(Stop):
            model.fit(*data(name), **common)
    return make().fit(*data(name), **common)


@ALL
@pytest.mark.parametrize("every", [1, 100])
def test_a_model_of_a_resumed_run_follows_from_its_transcript(name, every, tmp_path):
    done = interrupted(lambda: CASES[name][0](n_steps=4), name, tmp_path, every)
    assert done.ledger_.lost == 2 and done.n_steps_ == 4
    done.save(tmp_path / "m")
    report = verify(tmp_path / "m", tmp_path / "t", cls=type(done))
    assert report.ok, report
    # A finished run gives the same again, and its transcript with it.
    again = CASES[name][0](n_steps=4).fit(
        *data(name), checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True
    )
    assert again.ledger_.head == done.ledger_.head


def test_a_run_without_noise_has_a_transcript_too(tmp_path):
    def fit(stops, **more):
        model = calling(CASES["lda"][0](n_steps=4, private=False, noise_multiplier=None), lambda p: stops and fail())
        return model.fit(*data("lda"), checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True, **more)

    for every in (1, 100):
        with pytest.raises(Stop):
            fit(True, checkpoint_every=every)
    done = fit(False)
    done.save(tmp_path / "m")
    report = verify(tmp_path / "m", tmp_path / "t", cls=type(done))
    assert done.n_steps_ == 4 and all(check.ok for check in report.checks if check.name != "statement"), report


@pytest.mark.parametrize("when", ["before a release", "after a release", "before it is saved"])
@pytest.mark.parametrize("first", [True, False])
def test_calls_continue_from_a_saved_model_after_a_stop(when, first, tmp_path, monkeypatch):
    """A model that was saved, and calls after it that were not.

    Later calls are its own, and verify.
    """
    budget = Budget.create(tmp_path / "b", 50.0, 1e-5, dataset="ward")

    def call(model):
        return model.partial_fit(*data("lda"), transcript=tmp_path / "t", budget=budget)

    saved = CASES["lda"][0](n_records=200, batch_size=200)
    call(saved).save(tmp_path / "m")
    for _ in range(1 if first else 2):
        stopped = type(saved).load(tmp_path / "m")
        for _ in range(2):
            call(stopped)
        with monkeypatch.context() as patch:
            if when == "before a release":
                ends(stopped, 1, fail)
            elif when == "after a release":
                patch.setattr(TranscriptWriter, "finish", lambda *_: fail())
            if when != "before it is saved":
                with pytest.raises(Stop):
                    call(stopped)
    again = type(saved).load(tmp_path / "m")
    for _ in range(2):
        call(again)
    shutil.rmtree(tmp_path / "m")
    again.save(tmp_path / "m")
    report = verify(tmp_path / "m", tmp_path / "t")
    assert report.ok, report
    # The runs that no saved model continues stay, and the budget counts the releases of the others, too.
    times, names = 1 if first else 2, sorted(path.name for path in (tmp_path / "t").iterdir())
    assert names[-3:] == ["run-0000", "run-0001", "run-0002"] and len(again.ledger_) == 3
    assert len(names) == 3 + 2 * times and all(name.startswith("lost-") for name in names[:-3])
    made = len(names) + (when != "before it is saved") * times
    assert sum(run["counted"] for run in budget.show()["runs"]) == made


def test_a_run_that_was_shortened_has_as_many_releases(tmp_path):
    def make():
        return CASES["lda"][0](noise_multiplier=None, epsilon=1.0, n_steps=6)

    budget = Budget.create(tmp_path / "b", 2.0, 1e-5, dataset="ward")
    done = interrupted(make, "lda", tmp_path, 1, budget=budget)
    assert done.n_steps_ == 4 and len(done.ledger_) == 6 and done.ledger_.budget["dataset"] == "ward"
    done.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t").ok
    # Its ledger is compared, too: one release fewer, and it is no run of this plan.
    (run,) = read_transcript(tmp_path / "t")
    path = run.path / "run.jsonl"
    whole = path.read_bytes()
    for edit in (
        lambda records: records.pop(),
        lambda records: records[-1].update(clip_norm=9.0),
        lambda records: records.append(dict(records[-1])),
        lambda records: records[0]["plan"].update(n_records=9),
        lambda records: records[-1].update(part="monday"),
    ):
        path.write_bytes(whole)
        edit_transcript(run.path, lambda _, records, edit=edit: edit(records))
        report = verify(tmp_path / "m", tmp_path / "t")
        assert not report.ok and "not those of a run of this plan" in str(report)
    path.unlink()
    with pytest.raises(ValueError, match="run.jsonl: missing; the transcript is not complete"):
        verify(tmp_path / "m", tmp_path / "t")


def test_files_that_changed_places_are_named(tmp_path):
    estimator("own").fit(*data("own"), transcript=tmp_path / "t").save(tmp_path / "m")
    folder = tmp_path / "t" / "run-0000"
    (folder / "release-000000.npz").rename(folder / "kept")
    (folder / "release-000001.npz").rename(folder / "release-000000.npz")
    (folder / "kept").rename(folder / "release-000001.npz")
    (run,) = read_transcript(tmp_path / "t")
    with pytest.raises(ValueError, match="release-000000.npz: is of step 1; expected that of 0"):
        list(run.releases())


def test_a_transcript_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    def stopped(folder, **more):
        model = estimator("own")
        ends(model, 3, fail)
        with pytest.raises(Stop):
            model.fit(*data("own"), checkpoint=folder, checkpoint_every=1, **more)

    def resumed(run, transcript):
        how = dict(checkpoint=tmp_path / run, resume=True, transcript=tmp_path / transcript)
        return estimator("own").fit(*data("own"), **how)

    stopped(tmp_path / "r", transcript=tmp_path / "t")
    assert not (tmp_path / "t").exists()  # a transcript is whole or not there
    estimator("own", noise_multiplier=3.0).fit(*data("own"), transcript=tmp_path / "other")
    before = {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    with pytest.raises(ValueError, match="other: holds another run; expected a new or an empty folder"):
        resumed("r", "other")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    for change in ("gone", "none"):
        shutil.copytree(tmp_path / "r", tmp_path / change)
    (tmp_path / "gone" / "releases" / "release-000001.npz").unlink()
    stopped(tmp_path / "late")
    for run, step in (("gone", 1), ("late", 0)):
        with pytest.raises(ValueError, match=f"lacks the release of step {step}; .* has one from its start"):
            resumed(run, "new")
    # Without it the run goes on all the same, and the model names no releases.
    done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "none", resume=True)
    assert "transcript" not in done.ledger_.records[-1]
    done = resumed("r", "new")
    done.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "new", cls=type(done)).ok
    # A run that is done has its releases still, for the same transcript and for another.
    assert resumed("r", "new").ledger_.head == resumed("r", "newer").ledger_.head == done.ledger_.head
    assert verify(tmp_path / "m", tmp_path / "newer", cls=type(done)).ok


@pytest.mark.parametrize("where", ["before", "after", "copied"])
def test_a_transcript_is_put_in_its_place_at_once(where, tmp_path, monkeypatch):
    """A kill around that moment, and a place on another file system."""
    put, how = transcripts.put_in_place, dict(checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True)

    def ends_here(*arguments):
        if where != "before":
            put(*arguments)
        fail()

    def elsewhere(source, target):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(transcripts, "put_in_place", ends_here)
        if where == "copied":
            patch.setattr(os, "link", elsewhere)
        estimator("own").fit(*data("own"), **how)
    assert (tmp_path / "t" / "run-0000").exists() == (where != "before")
    done = estimator("own").fit(*data("own"), **how)
    done.save(tmp_path / "m")
    assert done.ledger_.lost == 0 and verify(tmp_path / "m", tmp_path / "t", cls=type(done)).ok
    assert not [path for path in (tmp_path / "t").iterdir() if path.name != "run-0000"]
    (tmp_path / "t" / "run-0000" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds 'notes.txt', which would be lost"):
        estimator("own").fit(*data("own"), **how)
    assert (tmp_path / "t" / "run-0000" / "notes.txt").read_text() == "mine"


def test_a_run_whose_last_checkpoint_was_not_written_keeps_its_releases(tmp_path, monkeypatch):
    how = dict(checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True)
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="without this checkpoint"):
        patch.setattr(Checkpoint, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left")))
        done = estimator("own").fit(*data("own"), **how)
    again = estimator("own").fit(*data("own"), **how)
    assert again.ledger_.lost == 0 and len(again.ledger_) == len(done.ledger_)
    again.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t", cls=type(done)).ok
