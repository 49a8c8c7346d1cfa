"""A checkpoint that was written beside another ledger is refused, even of an equal run."""

import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling

from vips_fast import LatentDirichletAllocation

X = sp.csr_array(np.random.default_rng(0).integers(0, 4, (40, 6)))


def run(folder, last, resume=False):
    """Fit up to a step, where it is stopped."""

    def stop(progress):
        if progress.step == last:
            raise KeyboardInterrupt

    model = calling(
        LatentDirichletAllocation(2, noise_multiplier=5.0, n_steps=6, sampling="full", doc_length=9, random_state=0),
        stop,
    )
    model.fit(X, checkpoint=folder, checkpoint_every=1, resume=resume)


def test_a_checkpoint_of_an_equal_run_with_another_ledger_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "straight", 4)
    for last, resume in ((1, False), (5, True)):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "resumed", last, resume)
    shutil.copy(tmp_path / "straight" / "checkpoint.npz", tmp_path / "resumed")
    with pytest.raises(ValueError, match="does not extend them, so what was spent cannot be known"):
        run(tmp_path / "resumed", 99, resume=True)


def test_a_checkpoint_whose_steps_were_done_again_is_refused(tmp_path):
    """Releases of the later steps belong to another state than its own."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", 2)
    old = (tmp_path / "run" / "checkpoint.npz").rename(tmp_path / "old")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", 3, resume=True)
    shutil.copy(old, tmp_path / "run" / "checkpoint.npz")
    with pytest.raises(ValueError, match="its steps were done again since; remove it, or restore"):
        run(tmp_path / "run", 99, resume=True)
    (tmp_path / "run" / "checkpoint.npz").unlink()
    run(tmp_path / "run", 99, resume=True)
