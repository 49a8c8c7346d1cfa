"""The transcript of an interrupted run.

The model follows from its releases, and lost ones stand apart.
"""

import shutil

import pytest
from cases import CASES
from runs import ALL, Stop, data, edit_transcript, ends, estimator, fail

from vips_fast.engine.budget import Budget
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
    # The lost releases stay, and the budget counts them.
    kept = [path for path in (tmp_path / "t").glob("lost-*") if any(path.glob("release-*"))]
    assert len(kept) == (1 if first else 2) * (2 + (when == "after a release")) and len(again.ledger_) == 3
    made = 3 + len(kept) + (when == "before a release") * (1 if first else 2)
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


def test_a_transcript_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    model = estimator("own")
    ends(model, 3, fail)
    with pytest.raises(Stop):
        model.fit(*data("own"), checkpoint=tmp_path / "r", transcript=tmp_path / "t", checkpoint_every=1)
    estimator("own", noise_multiplier=3.0).fit(*data("own"), transcript=tmp_path / "other")
    before = {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    for folder in ("other", "none"):
        with pytest.raises(ValueError, match="expected that of the run, with the 2 steps that were done"):
            estimator("own").fit(*data("own"), checkpoint=tmp_path / "r", resume=True, transcript=tmp_path / folder)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "other" / "run-0000").iterdir()}
    shutil.copytree(tmp_path / "r", tmp_path / "r2")
    (tmp_path / "t" / "run-0000" / "release-000001.npz").unlink()
    with pytest.raises(ValueError, match="release-000001.npz: missing"):
        estimator("own").fit(*data("own"), checkpoint=tmp_path / "r2", resume=True, transcript=tmp_path / "t")
    # Without it the run goes on all the same, and the model names no releases.
    done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "r", resume=True)

    assert "transcript" not in done.ledger_.records[-1]
