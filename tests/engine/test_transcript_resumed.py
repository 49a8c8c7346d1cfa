"""The transcript of an interrupted run. The model follows from its releases, and lost ones stand apart."""

import errno
import os
import shutil

import pytest
from cases import CASES, calling
from disk import FAULTS, each_fault
from runs import ALL, Stop, begun, bits, data, drawn, edit_transcript, ends, estimator, fail, whole

from vips_fast.engine import transcript as transcripts
from vips_fast.engine.budget import Budget
from vips_fast.engine.transcript import TranscriptWriter, read_transcript
from vips_fast.jobs.publication import verify


@pytest.fixture
def fit(tmp_path):
    return lambda model, name="own", run="r", into="t", **more: model.fit(
        *data(name), checkpoint=tmp_path / run, transcript=tmp_path / into, resume=True, **more
    )


@pytest.fixture
def verified(tmp_path):
    def report(model, into="t"):
        shutil.rmtree(tmp_path / "m", ignore_errors=True)
        model.save(tmp_path / "m")
        return verify(tmp_path / "m", tmp_path / into, cls=type(model))

    return report


def stopped(fit, make, at, times=1, **how):
    for _ in range(times):
        with pytest.raises(Stop):
            fit(ends(make(), at, fail), **how)


@ALL
def test_a_model_of_a_resumed_run_follows_from_its_transcript(name, fit, verified):
    def make():
        return CASES[name][0](n_steps=4)

    stopped(fit, make, 2, 2, name=name)
    done = fit(make(), name)
    assert done.ledger_.lost == 2 and done.n_steps_ == 4
    report = verified(done)
    assert report.ok, report
    # A finished run gives the same again, and its transcript with it.
    assert fit(make(), name).ledger_.head == done.ledger_.head


@pytest.mark.parametrize("when", ["before a release", "after a release", "before it is saved"])
@pytest.mark.parametrize("first", [True, False])
def test_calls_continue_from_a_saved_model_after_a_stop(when, first, tmp_path, monkeypatch):
    """A model that was saved, and calls after it that were not. Later calls are its own, and verify."""
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
    # The runs that no saved model continues stay, and the budget counts the releases of the others, too.
    times, names = 1 if first else 2, sorted(path.name for path in (tmp_path / "t").iterdir())
    assert f"DIFFERS {names[0]}/: not a file of the model's runs" in verify(tmp_path / "m", tmp_path / "t").text()
    for name in names[:-3]:
        (tmp_path / "t" / name).rename(tmp_path / name)
    report = verify(tmp_path / "m", tmp_path / "t")
    assert report.ok, report
    assert names[-3:] == ["run-0000", "run-0001", "run-0002"] and len(again.ledger_) == 3
    assert len(names) == 3 + 2 * times and all(name.startswith("lost-") for name in names[:-3])
    made = len(names) + (when != "before it is saved") * times
    assert sum(run["counted"] for run in budget.show()["runs"]) == made


def test_a_run_that_was_shortened_has_as_many_releases(fit, verified, tmp_path):
    def make():
        return CASES["lda"][0](noise_multiplier=None, epsilon=1.0, n_steps=6)

    budget = Budget.create(tmp_path / "b", 2.0, 1e-5, dataset="ward")
    stopped(fit, make, 2, 2, name="lda", budget=budget)
    done = fit(make(), "lda", budget=budget)
    assert done.n_steps_ == 4 and len(done.ledger_) == 6 and done.ledger_.budget["dataset"] == "ward"
    assert verified(done).ok
    # Its ledger is compared, too: one release fewer, and it is no run of this plan.
    (run,) = read_transcript(tmp_path / "t")
    path = run.path / "run.jsonl"
    whole = path.read_bytes()
    for edit in (
        lambda records: records.pop(),
        lambda records: records[-1].update(clip_norm=9.0),
        lambda records: records.append(dict(records[-1])),
        lambda records: records[0]["plan"].update(n_records=9),
        lambda records: records[0]["plan"].update(part="monday"),
        lambda records: records[-1].update(part="monday"),
    ):
        path.write_bytes(whole)
        edit_transcript(run.path, lambda _, records, edit=edit: edit(records))
        report = verify(tmp_path / "m", tmp_path / "t")
        assert not report.ok and "not those of a run of this plan" in str(report)
    path.unlink()
    with pytest.raises(ValueError, match="run.jsonl: missing; the transcript is not complete"):
        verify(tmp_path / "m", tmp_path / "t")


@pytest.mark.parametrize("name, value", [("classes", "a" * 64), ("inputs", {"vocab.txt": "a" * 64})])
def test_a_digest_of_what_the_transcript_does_not_hold_is_refused(name, value, tmp_path):
    estimator("own").fit(*data("own"), transcript=tmp_path / "t")
    edit_transcript(tmp_path / "t" / "run-0000", lambda run, _: run["public"].update({name: value}))
    with pytest.raises(ValueError, match="run.jsonl: not a run that this version wrote"):
        read_transcript(tmp_path / "t")


def test_files_that_changed_places_are_named(tmp_path):
    estimator("own").fit(*data("own"), transcript=tmp_path / "t").save(tmp_path / "m")
    folder = tmp_path / "t" / "run-0000"
    (folder / "release-000000.npz").rename(folder / "kept")
    (folder / "release-000001.npz").rename(folder / "release-000000.npz")
    (folder / "kept").rename(folder / "release-000001.npz")
    (run,) = read_transcript(tmp_path / "t")
    with pytest.raises(ValueError, match="release-000000.npz: is of step 1; expected that of 0"):
        list(run.releases())


def test_a_transcript_of_another_run_is_refused_and_left_as_it_is(fit, verified, tmp_path):
    def resumed(run, into):
        return fit(estimator("own"), run=run, into=into)

    stopped(fit, lambda: estimator("own"), 3)
    assert not (tmp_path / "t").exists()  # a transcript is whole or not there
    estimator("own", noise_multiplier=3.0).fit(*data("own"), transcript=tmp_path / "other")
    before = {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    with pytest.raises(ValueError, match="other: holds another run; expected a new or an empty folder"):
        resumed("r", "other")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    shutil.copytree(tmp_path / "r", tmp_path / "none")
    begun(tmp_path / "late")  # a run that had none gets one, since its folder has all releases
    assert verified(resumed("late", "of-late"), "of-late").ok
    # Without it the run goes on all the same, and the model names no releases.
    done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "none", resume=True)
    assert "transcript" not in done.ledger_.records[-1]
    done = resumed("r", "new")
    assert verified(done, "new").ok
    # A run that is done has its releases still, for the same transcript and for another.
    assert resumed("r", "new").ledger_.head == resumed("r", "newer").ledger_.head == done.ledger_.head
    assert verified(done, "newer").ok


@pytest.mark.parametrize("where", ["before", "after", "copied"])
def test_a_transcript_is_put_in_its_place_at_once(where, fit, verified, tmp_path, monkeypatch):
    """A kill around that moment, and a place on another file system."""
    put = transcripts.put_in_place

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
        fit(estimator("own"))
    assert (tmp_path / "t" / "run-0000").exists() == (where != "before")
    done = fit(estimator("own"))
    assert done.ledger_.lost == 0 and verified(done).ok
    assert not [path for path in (tmp_path / "t").iterdir() if path.name != "run-0000"]
    (tmp_path / "t" / "run-0000" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds 'notes.txt', which would be lost"):
        fit(estimator("own"))
    assert (tmp_path / "t" / "run-0000" / "notes.txt").read_text() == "mine"


FOLDERS = [False, True]


def test_no_run_replaces_the_transcript_of_another_one_that_is_alike(fit, verified):
    """Equal settings, seed and shape: the releases tell the two apart."""
    make = CASES["own"][0]
    first = fit(make(), run="first")
    stopped(fit, make, 3, into="other")
    with pytest.raises(ValueError, match="t: holds another run; expected a new or an empty folder"):
        fit(make())
    assert verified(first).ok
    # Nothing is lost of the one that was refused.
    done = fit(make(), into="other")
    assert len(done.ledger_) == done.n_steps_ + 1


@pytest.mark.parametrize("inner", FOLDERS)
@pytest.mark.parametrize("outer", FOLDERS)
def test_of_two_runs_into_one_transcript_at_once_one_is_refused(outer, inner, fit, verified, tmp_path):
    make, found, refused = CASES["own"][0], {}, []

    def begin(made, name, kept):
        try:
            more = dict(checkpoint=tmp_path / name, resume=True) if kept else {}
            found[name] = made.fit(*data("own"), transcript=tmp_path / "t", **more)
        except (FileExistsError, ValueError) as error:
            refused.append(error)

    def meanwhile(progress):
        if progress.step == 1 and not refused:
            begin(make(), "second", inner)

    begin(calling(make(), meanwhile), "first", outer)
    ((name, model),) = found.items()
    assert len(refused) == 1 and "expected a new or an empty folder" in str(refused[0])
    assert isinstance(refused[0], FileExistsError if name == "first" else ValueError)
    assert verified(model).ok and len(list((tmp_path / "t").iterdir())) == 1
    if outer and name == "second":  # the first's releases are kept for another place
        done = fit(make(), run="first", into="u")
        assert len(done.ledger_) == done.n_steps_ and verified(done, "u").ok


def test_of_two_further_runs_at_once_none_loses_a_release(tmp_path):
    records = data("lda")
    saved = CASES["lda"][0](n_records=200, batch_size=200).partial_fit(*records, transcript=tmp_path / "t")
    saved.save(tmp_path / "m")
    other, last = (type(saved).load(tmp_path / "m") for _ in range(2))
    calling(last, lambda _: other.partial_fit(*records, transcript=tmp_path / "t"))
    last.partial_fit(*records, transcript=tmp_path / "t")
    last.save(tmp_path / "last")
    other.save(tmp_path / "other")
    (aside,) = (tmp_path / "t").glob("lost-*")
    aside = aside.rename(tmp_path / "aside")
    assert verify(tmp_path / "last", tmp_path / "t").ok
    shutil.rmtree(tmp_path / "t" / "run-0001")
    aside.rename(tmp_path / "t" / "run-0001")
    assert verify(tmp_path / "other", tmp_path / "t").ok


@pytest.mark.parametrize("place", ["a file", "below a file", "a link to a release"])
def test_what_a_transcript_cannot_take_is_refused_before_the_run_goes_on(place, fit, tmp_path):
    draws = tmp_path / "draws"
    stopped(fit, lambda: estimator("own", draws), 3)
    before = drawn(draws)
    if place != "a link to a release":
        (tmp_path / "t").write_text("mine")
    else:
        release = tmp_path / "r" / "releases" / "release-000000.npz"
        release.rename(tmp_path / "elsewhere")
        release.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((OSError, ValueError), match="a new or an empty folder|damaged; restore it|File exists: '.*t'"):
        fit(estimator("own", draws), into="t/below" if place == "below a file" else "t")
    assert drawn(draws) == before


@pytest.mark.parametrize(
    "fault", [one if one == "ENOSPC" else pytest.param(one, marks=pytest.mark.slow) for one in FAULTS]
)
def test_a_fault_at_each_call_of_a_run_with_a_transcript(fault, verified, tmp_path, monkeypatch):
    """Without a run folder, no half transcript verifies. `torture/test_advice.py` has the faults of runs with one."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    made, seen = [], set()

    def work(folder):
        made.append(estimator("own").fit(*data("own"), transcript=folder / "t"))

    for folder, _, failed, error in each_fault(tmp_path, monkeypatch, fault, lambda folder: folder, work):
        seen.add(failed)
        there = (folder / "t" / "run-0000").exists()
        if fault != "killed" and error is None:
            assert there and verified(made[-1], folder / "t").ok
        if there:
            assert len(list(read_transcript(folder / "t")[0].releases())) == 3
            shutil.rmtree(folder / "t")
        work(folder)
        assert verified(made[-1], folder / "t").ok and bits(made[-1]) == whole("own")
        assert {path.name for path in (folder / "t").iterdir()} == {"run-0000"}
    if fault not in ("short", "killed"):
        assert seen >= {"open", "write", "fsync", "rename", "mkdir"}
