"""A fit that keeps its run in a folder, and goes on there."""

import pytest

from vips_fast import LatentDirichletAllocation
from vips_fast.cli.progress import ProgressLine
from vips_fast.engine.checkpoint import RunFolder


def test_a_fit_that_was_interrupted_goes_on(run, refused, files, monkeypatch):
    kept = files.folder / "kept"
    more = ["--epsilon", 1, "--delta", 1e-3, "--checkpoint", kept]

    def stop(line, progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        code, _, err = run(*files.fit(*more))
    assert code == 130 and "Up to 3 releases were made" in err and not files.model.exists()
    assert "holds a run; expected resume=True" in refused(*files.fit(*more))
    assert "n_steps = 5, this fit has 6" in refused(*files.fit(*more, "--resume", "--steps", 6))
    code, _, err = run(*files.fit(*more, "--resume"))
    assert code == 0 and "step 4 of 5" in err and "step 3 of 5" not in err
    model = LatentDirichletAllocation.load(files.model)
    assert len(model.ledger_) == model.n_steps_ == 5 and model.privacy_.epsilon <= 1.0
    # A finished run gives the same model again and spends nothing.
    code, _, err = run(*files.fit(*more, "--resume", "--force"))
    assert code == 0 and LatentDirichletAllocation.load(files.model).ledger_.head == model.ledger_.head


@pytest.mark.parametrize(
    "more, message",
    [
        (["--resume"], "resume=True: expected checkpoint="),
        (["--checkpoint-every", 3], "checkpoint_every=3: expected checkpoint="),
        (["--checkpoint", "{model}/run"], "expected a folder that is not inside --out"),
    ],
)
def test_options_that_do_not_go_together(refused, files, more, message):
    command, family, _, *others = files.fit("--epsilon", 1, *(str(word).format(model=files.model) for word in more))
    assert message in refused(command, family, "absent", *others)
    assert not files.model.exists()


def test_a_second_job_is_refused_before_it_reads(refused, files):
    command, family, _, *others = files.fit("--epsilon", 1, "--checkpoint", files.folder / "kept", "--resume")
    with RunFolder(files.folder / "kept"):
        assert "in use by process" in refused(command, family, "absent", *others, code=1)
