"""A killed run resumes from its releases, at any moment. Every release counts."""

import errno
import json
import os
import re
import resource
import shutil

import numpy as np
import pytest
from cases import CASES, calling
from runs import (
    ALL,
    KEY,
    EndsInSum,
    Stop,
    Witnessed,
    begun,
    bits,
    data,
    drawn,
    ends,
    estimator,
    fail,
    holding,
    stopping_after,
    whole,
)

from vips_fast.engine import checkpoint as checkpoints
from vips_fast.engine.budget import Budget
from vips_fast.engine.checkpoint import LEDGER, LOCK, RELEASES, RUN, RunFolder, UsedUpError, ledger_in
from vips_fast.engine.releases import opened, release_digest, release_of
from vips_fast.engine.sampling import KeyedRandomness
from vips_fast.jobs.publication import verify
from vips_fast.models.vocabulary import PrivateVocabulary
from vips_fast.store import log
from vips_fast.store.log import Log, encode

# --------------------------------------------------------- interrupts and kills


@ALL
def test_a_whole_run_with_a_folder_is_a_run_without_one(name, tmp_path, monkeypatch):
    """Its places are those of its beginning, wherever the program goes meanwhile."""

    def fitted(**places):
        monkeypatch.chdir(tmp_path)
        return calling(estimator(name), lambda progress: os.chdir(tmp_path.parent)).fit(*data(name), **places)

    done, plain = fitted(checkpoint="run"), fitted()
    assert bits(done) == bits(plain) == bits(fitted(transcript="t")) == whole(name)
    assert done.ledger_.head == plain.ledger_.head and len(done.ledger_) == done.n_steps_ and done.ledger_.lost == 0
    content = (tmp_path / "run" / LEDGER).read_bytes()
    again = estimator(name).fit(*data(name), checkpoint=tmp_path / "run", resume=True)
    assert again.ledger_.head == done.ledger_.head and bits(again) == whole(name)
    assert (tmp_path / "run" / LEDGER).read_bytes() == content
    again.save(tmp_path / "m")
    assert str(type(again).load(tmp_path / "m").privacy_) == str(done.privacy_)
    again.partial_fit(*data(name))
    assert (tmp_path / "run" / LEDGER).read_bytes() == content


@ALL
def test_interrupted_at_each_step_by_an_exception(name, tmp_path):
    n_steps = estimator(name).n_steps
    for where in range(1, n_steps + 1):
        for kind in ("between", "in the sum", "paid"):
            folder, draws = tmp_path / f"{where}{kind}", tmp_path / f"draws{where}{kind}"
            started = calling(estimator(name, draws), lambda p, at=where: fail() if p.step == at else None)
            if kind == "in the sum":
                started._backend = lambda at=where: EndsInSum(at, fail)
            elif kind == "paid":
                ends(started, where, fail)
            with pytest.raises(Stop):
                started.fit(*data(name), checkpoint=folder)
            seen = []
            done = calling(estimator(name, draws), lambda p, seen=seen: seen.append((p.step, p.n_steps)))
            done.fit(*data(name), checkpoint=folder, resume=True)
            # A step that was paid for is paid for again; between two steps and in a sum nothing is lost.
            lost = kind == "paid"
            assert len(done.ledger_) == n_steps + lost and done.ledger_.lost == lost
            assert done.privacy_.steps == n_steps + lost and done.n_steps_ == n_steps
            first = where if kind == "between" else where - 1
            assert seen == [(step, n_steps) for step in range(first + 1, n_steps + 1)]
            assert bits(done) == whole(name) and drawn(draws) <= len(done.ledger_)


@pytest.mark.parametrize("epsilon", [1.0, None])  # without a target it is 1
def test_lost_steps_are_paid_for_and_the_target_holds(epsilon, tmp_path):
    """Each interrupt costs a release. The run ends with the steps that the target still pays for, and says so."""
    options = dict(noise_multiplier=None, epsilon=epsilon, n_steps=6)
    make, records = CASES["lda"]
    for _ in range(2):
        with pytest.raises(Stop):
            ends(make(**options), 2, fail).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    done = make(**options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    assert (done.n_steps_, len(done.ledger_), done.ledger_.lost) == (4, 6, 2)
    assert done.privacy_.private and 0.9 < done.privacy_.epsilon <= 1.0
    said = done.privacy_.statement()
    assert "6 releases (4 of steps that were done, 2 of steps that were interrupted)" in said
    assert "4 of 6 planned steps" in said
    done.save(tmp_path / "m")
    assert str(type(done).load(tmp_path / "m").privacy_) == said
    again = make(**options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    assert again.ledger_.head == done.ledger_.head and str(again.privacy_) == said


def test_a_target_of_purchase_and_fit_holds_for_a_resumed_run(tmp_path):
    words = PrivateVocabulary(epsilon=2.0, delta=1e-5).fit(["cough and fever", "fever again", "a cold"] * 200)
    counts = np.ones((600, len(words.get_feature_names_out())), dtype=int)

    def fit(model):
        return model.fit(counts, after=words, checkpoint=tmp_path, resume=True)

    with pytest.raises(Stop):
        fit(ends(CASES["lda"][0](noise_multiplier=None, epsilon=4.0, n_steps=6), 2, fail))
    done = fit(CASES["lda"][0](noise_multiplier=None, epsilon=4.0, n_steps=6))
    assert (done.n_steps_, done.ledger_.lost) == (5, 1) and 3.0 < done.privacy_.epsilon <= 4.0


@pytest.mark.parametrize("lost", [1, 2])
def test_a_target_that_is_used_up_without_a_step_says_what_pays_for_one(lost, tmp_path):
    """The larger target is a target of the same run: its noise stays, and the lost releases count."""
    make, records = CASES["own"]
    options = dict(noise_multiplier=None, n_steps=lost)
    for _ in range(lost):
        with pytest.raises(Stop):
            ends(make(epsilon=1.0, **options), 1, fail).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    with pytest.raises(UsedUpError, match=f"{lost} releases? spent, and no step was kept") as error:
        make(epsilon=1.0, **options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    epsilon = float(re.search(r"expected epsilon=([\d.]+) or more", str(error.value))[1])
    done = make(epsilon=epsilon, **options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    assert (done.n_steps_, len(done.ledger_), done.ledger_.lost) == (1, lost + 1, lost)
    assert 1.0 < done.privacy_.epsilon <= epsilon and done.ledger_.plan["noise_multiplier"] > 0
    again = make(epsilon=epsilon, **options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    assert again.ledger_.head == done.ledger_.head
    with pytest.raises(ValueError, match="epsilon = 1.0, this fit has 0.9"):
        make(epsilon=0.9, **options).fit(*records(), checkpoint=tmp_path / "r", resume=True)


def test_a_larger_epsilon_is_refused_where_it_pays_for_nothing(tmp_path):
    """A finished run, and one that lost nothing, keep the noise of their plan."""
    make, records = CASES["own"]

    def fit(epsilon, stop=lambda p: None):
        model = calling(make(noise_multiplier=None, n_steps=6, epsilon=epsilon), stop)
        return model.fit(*records(), checkpoint=tmp_path, resume=True)

    larger = "settings: epsilon = 1.0, this fit has 2.0; expected the same, as its noise stays that of 1; or another"
    with pytest.raises(Stop):
        fit(1.0, lambda p: p.step == 3 and fail())
    before = files(tmp_path)
    with pytest.raises(ValueError, match=larger):
        fit(2.0)
    assert files(tmp_path) == before
    done = fit(1.0)
    with pytest.raises(ValueError, match=larger):
        fit(2.0)
    assert fit(1.0).ledger_.head == done.ledger_.head


@ALL
def test_a_release_on_the_disk_is_neither_drawn_nor_paid_again(name, tmp_path, monkeypatch):
    """Each step ends in the moment after its release is on the disk: before transcript and model."""
    draws, budget = tmp_path / "draws", None
    if not CASES[name][0](n_records=200).prepare(*data(name)).plan.taints:  # no budget pays for the paper's own
        budget = Budget.create(tmp_path / "b", 1e3, 1e-5, dataset="ward")
    n_steps, keep = estimator(name).n_steps, RunFolder.keep_release

    def model():
        made = CASES[name][0](n_records=200)
        made._randomness = lambda public: Witnessed(draws)
        return made

    how = dict(checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True, budget=budget)
    for _ in range(n_steps):
        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(RunFolder, "keep_release", lambda self, release: (keep(self, release), fail()))
            model().fit(*data(name), **how)
    done = model().fit(*data(name), **how)
    assert (done.n_steps_, len(done.ledger_), done.ledger_.lost, drawn(draws)) == (n_steps, n_steps, 0, n_steps)
    assert budget is None or sum(run["counted"] for run in budget.show()["runs"]) == n_steps
    done.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t", cls=type(done)).ok
    for path in (tmp_path / "r" / RELEASES).iterdir():  # each release is stored once
        assert path.samefile(tmp_path / "t" / "run-0000" / path.name)


@pytest.mark.parametrize("system", ["Linux", "macOS"])
def test_a_disk_without_room_for_a_release_is_noticed_before_it_is_charged(system, tmp_path, monkeypatch):
    budget = Budget.create(tmp_path / "b", 1e3, 1e-5, dataset="ward")

    model, limits = CASES["own"][0](n_records=200), resource.getrlimit(resource.RLIMIT_FSIZE)
    if system == "macOS":  # which gives no space ahead: it is written
        monkeypatch.delattr(os, "posix_fallocate")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match="the next release needs"):
            model.fit(*data("own"), checkpoint=tmp_path / "r", budget=budget)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert budget.show()["runs"][0]["counted"] == 0 and len(ledger_in(tmp_path / "r")[0]) == 0
    assert model.fit(*data("own"), checkpoint=tmp_path / "r", resume=True, budget=budget).ledger_.lost == 0


@pytest.mark.parametrize("written", ["nothing", "a part", "a count"])
def test_a_charge_is_given_back_only_if_the_ledger_surely_lacks_it(written, tmp_path, monkeypatch):
    """No key was drawn, and none can be. If the file may hold the record, the charge stays."""
    torn = written == "a count"
    budget = Budget.create(tmp_path / "b", 1e3, 1e-5, dataset="ward")
    write, at = log.Log.write, []

    def fails(self, record, head):
        if self.kind == "ledger" and record["kind"] == "release" and record["number"] == 3:
            if written != "nothing":
                with open(self.path, "r+b") as file:
                    if torn:
                        file.write(log._first_line("ledger", 4))
                    file.seek(0, os.SEEK_END)
                    file.write(b"{")
            at.append(budget.show()["runs"][0]["counted"])
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        write(self, record, head)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr(log.Log, "write", fails)
        CASES["own"][0](n_records=200).fit(*data("own"), checkpoint=tmp_path / "r", budget=budget)
    assert at == [2] and budget.show()["runs"][0]["counted"] == 1 + torn
    done = CASES["own"][0](n_records=200).fit(*data("own"), checkpoint=tmp_path / "r", resume=True, budget=budget)
    counted = sum(run["counted"] for run in budget.show()["runs"])
    assert counted == len(done.ledger_) == 3 + torn and done.ledger_.lost == torn


@pytest.mark.parametrize("restored", [False, True])
def test_a_release_of_a_lost_step_is_not_used(restored, tmp_path):
    """A damaged one and all after it are done anew, from the state that was left; so is one that is restored late."""
    with stopping_after(2):
        estimator("own").fit(*data("own"), checkpoint=tmp_path)
    first, second, third = sorted((tmp_path / RELEASES).iterdir())
    before = second.read_bytes()
    content = bytearray(before)
    content[-200] ^= 1
    second.write_bytes(content)
    with pytest.raises(ValueError, match="damaged.*remove it: its step is then done, and paid for, again"):
        estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)
    second.unlink()
    # Stopped after it has done the second step anew: the third's release is of another second one.
    with pytest.raises(Stop):
        ends(estimator("own"), 2, fail).fit(*data("own"), checkpoint=tmp_path, resume=True)
    assert third.exists()
    if restored:  # its own step was done again, so the next one would be of a state that it did not make
        second.write_bytes(before)
    done = estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)
    assert bits(done) == whole("own") and done.ledger_.lost == 3 + restored


def test_without_a_key_a_resumed_run_draws_anew_from_the_same_public_start(tmp_path):
    make, records = CASES["lda"]
    model = calling(make(random_state=None), lambda p: fail())
    with pytest.raises(Stop):
        model.fit(*records(), checkpoint=tmp_path)
    seed = json.loads((tmp_path / RUN).read_bytes())["public"]["seed"]
    done = make(random_state=None).fit(*records(), checkpoint=tmp_path, resume=True)
    assert done._result.public.seed == seed and done.n_steps_ == 3 and done.privacy_.private
    assert {path.name for path in tmp_path.iterdir()} == {LEDGER, RUN, LOCK, RELEASES}


@pytest.mark.parametrize("options", [dict(private=False, noise_multiplier=None), dict(noise_multiplier=0.0)])
def test_runs_without_noise_go_on_too(options, tmp_path):
    make, records = CASES["lda"]
    plain = make(**options)
    plain._randomness = lambda public: KeyedRandomness(KEY)
    plain.fit(*records())
    model = calling(make(**options), lambda p: fail() if p.step == 2 else None)
    model._randomness = lambda public: KeyedRandomness(KEY)
    with pytest.raises(Stop):
        model.fit(*records(), checkpoint=tmp_path)
    calling(model, None).fit(*records(), checkpoint=tmp_path, resume=True)
    assert bits(model) == bits(plain) and not model.privacy_.private and model.n_steps_ == 3


@ALL
def test_the_folder_holds_the_releases_and_no_key(name, tmp_path):
    """Anybody who has the model's releases has all that the folder says."""
    begun(tmp_path / "r", name, steps=2)
    estimator(name).fit(*data(name), transcript=tmp_path / "t")
    for path in (tmp_path / "r" / RELEASES).glob("release-*"):
        there, here = (release_of(*opened(one, ""), one, "") for one in (tmp_path / "t" / "run-0000" / path.name, path))
        assert release_digest(there) == release_digest(here)
    for path in (one for one in (tmp_path / "r").rglob("*") if one.is_file()):
        content = path.read_bytes()
        assert KEY not in content and KEY.hex().encode() not in content
    kinds = [json.loads(line)["record"]["kind"] for line in (tmp_path / "r" / LEDGER).read_bytes().splitlines()[1:]]
    assert set(kinds) == {"plan", "taint", "release"}


# -------------------------------------------------------------------- refusals


def files(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != LOCK}


def test_what_does_not_fit_the_folder_is_refused_in_one_line(tmp_path, monkeypatch):
    begun(tmp_path)
    before = files(tmp_path)

    def refused(call, match, kind=ValueError):
        with pytest.raises(kind, match=match) as error:
            call()
        assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)

    def other(name="own", X=None, **options):
        return lambda: estimator(name, **options).fit(*(X or data(name)), checkpoint=tmp_path, resume=True)

    refused(other(n_steps=7), "n_steps = 3, this fit has 7")
    refused(other(noise_multiplier=3.0), "noise_multiplier = 2.0, this fit has 3.0")
    refused(other(random_state=5), "random_state = 0, this fit has 5")
    refused(other(X=(np.zeros((200, 7)),)), r"n_columns = 4, this fit has 7|n_features = 4, this fit has 7")
    refused(other(X=(np.zeros((150, 4)),)), "n_records = 200, this fit has 150")
    refused(other("lda"), 'model = "Mean", this fit has "LatentDirichletAllocation"')
    persons = dict(groups=np.arange(200), checkpoint=tmp_path, resume=True)
    refused(lambda: estimator("own").fit(*data("own"), **persons), 'unit = null, this fit has "person"')
    plain = CASES["own"][0]()
    refused(lambda: plain.fit(*data("own"), checkpoint=tmp_path, resume=True), r"taints = \[.*this fit has \[\]")
    refused(lambda: estimator("own").fit(*data("own"), checkpoint=tmp_path), "holds a run", FileExistsError)
    monkeypatch.setattr(checkpoints, "versions", lambda: {"vips_fast": "9", "numpy": np.__version__})
    refused(other(), "versions: ")
    monkeypatch.undo()
    assert before == files(tmp_path)
    # Threads are no part of the result.
    assert bits(estimator("own", n_jobs=2).fit(*data("own"), checkpoint=tmp_path, resume=True)) == whole("own")


def test_arguments_that_do_not_go_together(tmp_path):
    model = estimator("own")
    with pytest.raises(ValueError, match="expected checkpoint="):
        model.fit(*data("own"), resume=True)
    (tmp_path / "own.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"own\.txt"):
        model.fit(*data("own"), checkpoint=tmp_path)
    with pytest.raises(FileExistsError, match="expected a folder"):
        model.fit(*data("own"), checkpoint=tmp_path / "own.txt")
    with pytest.raises(TypeError):
        model.partial_fit(*data("own"), checkpoint=tmp_path / "r")
    assert not (tmp_path / "r").exists() and model._result is None


def test_missing_and_foreign_files_are_refused(tmp_path):
    begun(tmp_path / "a")
    begun(tmp_path / "b", steps=1)
    for gone in (LEDGER, RUN):
        folder = tmp_path / f"without-{gone}"
        shutil.copytree(tmp_path / "a", folder)
        (folder / gone).unlink()
        for resume in (True, False):
            with pytest.raises(OSError, match=gone):
                estimator("own").fit(*data("own"), checkpoint=folder, resume=resume)
    # The ledger of b is shorter than the releases of a know it to be.
    shutil.copytree(tmp_path / "a", tmp_path / "mixed")
    records = Log.of(tmp_path / "b" / LEDGER, "ledger").records
    (tmp_path / "mixed" / LEDGER).write_bytes(encode("ledger", records[:-1]))
    with pytest.raises(ValueError, match="does not extend"):
        estimator("own").fit(*data("own"), checkpoint=tmp_path / "mixed", resume=True)
    # Without its releases a run starts again, and its spending stays spent.
    shutil.rmtree(tmp_path / "a" / RELEASES)
    done = estimator("own").fit(*data("own"), checkpoint=tmp_path / "a", resume=True)
    assert bits(done) == whole("own") and (len(done.ledger_), done.ledger_.lost) == (6, 3)


def test_a_release_of_an_equal_run_is_refused(tmp_path):
    """Of the same settings and seed, whose ledger has the same heads; and of a copy that went another way."""

    def goes_to(step, folder):
        with stopping_after(step):
            estimator("own", n_steps=6).fit(*data("own"), checkpoint=tmp_path / folder, resume=True)

    goes_to(3, "equal")
    goes_to(1, "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for step, folder in ((2, "run"), (3, "run"), (3, "copy")):
        goes_to(step, folder)
    for other, message in (
        ("equal", "is not of the run beside it"),
        ("copy", "does not extend them, so what was spent"),
    ):
        shutil.copy(tmp_path / other / RELEASES / "release-000003.npz", tmp_path / "run" / RELEASES)
        with pytest.raises(ValueError, match=message):
            estimator("own", n_steps=6).fit(*data("own"), checkpoint=tmp_path / "run", resume=True)


def test_a_second_process_is_refused_before_it_reads(tmp_path):
    with holding(lambda holds: calling(estimator("own"), holds).fit(*data("own"), checkpoint=tmp_path)) as child:
        second = estimator("own")
        second._read = lambda *a, **k: pytest.fail("the data were read")
        for resume in (True, False):
            with pytest.raises(BlockingIOError, match=f"in use by process {child} since 20") as error:
                second.fit(None, checkpoint=tmp_path, resume=resume)
            assert str(tmp_path) in str(error.value)
    # The lock of a dead process is free by itself.
    assert bits(estimator("own").fit(*data("own"), checkpoint=tmp_path, resume=True)) == whole("own")
