"""The run folder of a job. Its facts, files that are not its own, links, and files that only its owner may read."""

import shutil
import signal
import stat

import pytest
from advised import Trial
from runs import Stop, data, die, estimator, in_child
from written import write_notes

from vips_fast.cli import main
from vips_fast.engine.budget import Budget, LogDamagedError
from vips_fast.engine.checkpoint import RunFolder
from vips_fast.jobs import folder as folders
from vips_fast.models import estimator as estimators
from vips_fast.models import fit
from vips_fast.store import log


@pytest.fixture
def stage(tmp_path):
    write_notes(tmp_path / "notes.csv")
    (tmp_path / "words").write_text("\n".join(("cough", "fever", "rash", "sleep", "work")) + "\n")
    command = f"fit lda {tmp_path / 'notes.csv'} --vocab {tmp_path / 'words'} --text note --person patient --topics 2"
    more = "--records 400 --epsilon 8 --steps 3 --anyway --jobs 1"
    return Trial(tmp_path / "job", f"{command} {more}", paid=True)


def resumed(trial):
    return trial.run([*trial.line, "--resume"])


@pytest.fixture
def stopped(stage, monkeypatch):
    keep = RunFolder.keep_release

    def stops(self, release):
        keep(self, release)
        if release.step == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep_release", stops)
        assert main(stage.line) == 130
    return stage


def names(run):
    return {path.name for path in run.iterdir()}


def test_the_folder_tells_the_state(stopped, capsys):
    run = folders.run_folder(stopped.out)
    assert folders._facts(run).keys() == {"model", "transcript", "budget", "asked", "times"}
    assert folders.state(run) == "step 2 of 3"
    line = [*stopped.line]
    del line[line.index("--transcript") : line.index("--transcript") + 2]
    assert main(line) == 2
    assert "was stopped at step 2 of 3, with 2 releases (epsilon" in capsys.readouterr().err
    assert resumed(stopped)[0] == 0
    assert not run.exists() and stopped.charged() == 3


@pytest.mark.parametrize("name", [".words.4711-1.0a1b2c3d.part", ".ledger.jsonl.part", ".model.part"])
def test_parts_of_a_killed_process_are_removed(stopped, name):
    run = folders.run_folder(stopped.out)
    (run / name).mkdir()
    (run / name / "file").write_text("part")
    with RunFolder(run, resume=True):
        assert ((run / name).exists()) == name.startswith((".words", ".model"))  # not its own
    assert resumed(stopped)[0] == 0 and not run.exists()


def test_files_of_others_do_not_stop_a_job_and_stay(stopped):
    run = folders.run_folder(stopped.out)
    (run / "notes.txt").write_text("mine")
    assert resumed(stopped)[0] == 0
    assert names(run) == {"notes.txt"}


def test_a_folder_of_another_program_is_refused(stage):
    run = folders.run_folder(stage.out)
    run.mkdir()
    (run / "notes").write_text("mine")
    code, said = resumed(stage)
    assert code == 2 and "out.run: holds 'notes', and no job.json; expected another place" in said
    assert (run / "notes").read_text() == "mine"


@pytest.mark.parametrize("name", ["run.json", "releases", "ledger.jsonl", "words", "model", "job.json"])
def test_a_planted_link_is_not_followed(stopped, tmp_path, name):
    run, other = folders.run_folder(stopped.out), tmp_path / "other"
    if (run / name).exists():
        (run / name).rename(other)
    if not other.is_file():
        other.mkdir(exist_ok=True)
        (other / "file").write_text("mine")
    (run / name).symlink_to(other)
    before = other.read_bytes() if other.is_file() else (other / "file").read_bytes()
    code, said = resumed(stopped)
    assert code == 2 and f"{name}: is a symbolic link" in said
    assert (other.read_bytes() if other.is_file() else (other / "file").read_bytes()) == before


def test_a_link_in_the_place_of_a_run_folder_is_refused(stage, tmp_path):
    (tmp_path / "other").mkdir()
    folders.run_folder(stage.out).symlink_to(tmp_path / "other")
    code, said = resumed(stage)
    assert code == 2 and "out.run: is a symbolic link" in said


def test_private_files_are_for_their_owner(stopped, tmp_path):
    run = folders.run_folder(stopped.out)
    for path in (*run.rglob("*"), *(stopped.folder / "releases").rglob("*"), stopped.budget.path):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    shard = f"shard {tmp_path / 'notes.csv'} {tmp_path / 'shards'} --text note --person patient"
    assert main([*shard.split(), "--vocab", str(tmp_path / "words")]) == 0
    assert resumed(stopped)[0] == 0
    line = ["predict", str(stopped.out), str(tmp_path / "notes.csv"), "--out", str(tmp_path / "rows.csv")]
    assert main(line) == 0
    for path in (tmp_path / "rows.csv", *(p for p in (tmp_path / "shards").rglob("*") if p.is_file())):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    # A model is published.
    assert stat.S_IMODE((stopped.out / "model.npz").stat().st_mode) == 0o644


def test_a_charge_that_the_ledger_has_not_counts(stage, monkeypatch):
    """A kill between the budget's record and the ledger's."""

    intend = estimators.Ledger.intend

    def killed(self, *arguments, **more):
        if len(self) == 1:
            die()
        intend(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(estimators.Ledger, "intend", killed)
        assert in_child(lambda: main(stage.line)) == signal.SIGKILL and stage.charged() == 2
    assert "1 release and one that was cut short (epsilon" in folders.spent(folders.run_folder(stage.out))


# ------------------------------------------------------------ a budget that was rolled back


def test_a_resume_notices_a_budget_that_was_rolled_back(stopped, tmp_path):
    whole = stopped.budget.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (2, 4):  # before the reservation; before the second release
        stopped.budget.path.write_bytes(log.encode("budget", []) + b"".join(lines[1:kept]))
        first = b"".join(lines[1:kept])
        stopped.budget.path.write_bytes(log._first_line("budget", kept - 1) + first)
        code, said = resumed(stopped)
        assert code == 2 and "an older copy was put back" in said.splitlines()[-1], kept
        assert stopped.made() == 0  # the first run was in this process
    stopped.budget.path.write_bytes(whole)
    assert resumed(stopped)[0] == 0


def partial(budget):
    model = estimator("lda", noise_multiplier=60.0)
    model._test_key = None
    return model.partial_fit(*data("lda"), budget=budget)


def test_a_partial_fit_notices_a_budget_that_was_rolled_back(tmp_path):
    budget = Budget.create(tmp_path / "b", 50.0, 1e-5, dataset="ward7")
    copied = budget.path.read_bytes()
    model = partial(budget)
    newest, head = budget.path.read_bytes(), model.ledger_.head
    budget.path.write_bytes(copied)
    with pytest.raises(LogDamagedError, match="an older copy was put back.*restore the newest copy"):
        model.partial_fit(*data("lda"), budget=Budget(budget.path))
    assert Budget(budget.path).spent == 0.0 and model.ledger_.head == head
    budget.path.write_bytes(newest)
    assert len(model.partial_fit(*data("lda"), budget=Budget(budget.path)).ledger_) == 2


# ------------------------------------------------------------ transcripts of runs without a release


@pytest.mark.parametrize("again", ["fit", "partial_fit"])
def test_a_stop_before_the_first_release_leaves_a_transcript_that_the_next_run_takes(tmp_path, monkeypatch, again):
    from vips_fast.jobs.publication import verify

    model = estimator("lda")
    if again == "partial_fit":
        model.partial_fit(*data("lda"), transcript=tmp_path / "t")

    def fails(*arguments, **options):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(fit, "run", fails)
        with pytest.raises(Stop):
            getattr(model, again)(*data("lda"), transcript=tmp_path / "t")
    model.set_params(random_state=99) if again == "fit" else None
    getattr(model, again)(*data("lda"), transcript=tmp_path / "t").save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t").ok


@pytest.mark.parametrize("where", ["", "words/"])
def test_releases_of_a_run_go_with_its_folder(stopped, where):
    """Whole ones and parts; other names stay."""
    releases = folders.run_folder(stopped.out) / f"{where}releases"
    releases.mkdir(parents=True, exist_ok=True)
    for name in ("release-000000.npz", ".release-000001.npz.part"):
        (releases / name).write_bytes(b"noise")
    shutil.copytree(releases.parent, stopped.folder / "kept")
    (folders.run_folder(stopped.out) / ".job.json.4711.part").write_text("{")
    folders.remove(folders.run_folder(stopped.out))
    assert not folders.run_folder(stopped.out).exists()
    shutil.copytree(stopped.folder / "kept", releases.parent)
    (releases / "notes.npz").write_bytes(b"mine")
    folders.remove(folders.run_folder(stopped.out))
    assert {path.name for path in releases.iterdir()} == {"notes.npz"}
