"""Releases through the whole engine: fresh keys after a fork, and a plan that follows from its settings."""

import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, verify
from vips_fast.engine.loop import run
from vips_fast.engine.sampling import SystemRandomness


def releases():
    """Return the noised sums of two steps of a fit. One after the other, with its sampling words."""
    out = []
    model = LatentDirichletAllocation(2, n_steps=2, noise_multiplier=1.0, random_state=0)
    made = model.prepare(sp.csr_array((4, 20), dtype=np.int64))
    parts = made.model, made.records, made.plan, made.ledger, made.randomness, made.backend
    run(*parts, on_release=lambda release: out.append(release.units.reshape(-1)))
    return np.concatenate(out), SystemRandomness().words(20, "sample", 0)


def of_children(n):
    pipes = []
    for _ in range(n):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                os.write(write, b"".join(array.tobytes() for array in releases()))
            finally:
                os._exit(0)
        os.close(write)
        pipes.append((read, child))
    out = []
    for read, child in pipes:
        with os.fdopen(read, "rb") as file:
            out.append(file.read())
        os.waitpid(child, 0)
    assert all(len(data) == 8 * (80 + 20) for data in out)
    return [(np.frombuffer(data[:640], np.int64), np.frombuffer(data[640:], np.uint64)) for data in out]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("released_before", [False, True])
def test_forked_children_release_different_noise(released_before):
    seen = [releases()] if released_before else []
    seen += of_children(8)
    for i in range(len(seen)):
        for j in range(i):
            # 2^22 lattice steps a standard deviation: two entries are equal by chance once in 10^7, half of them never.
            halves = np.split(seen[i][0] != seen[j][0], 2)
            assert min(half.mean() for half in halves) > 0.9 and (seen[i][1] != seen[j][1]).all()


def test_a_plan_that_does_not_follow_from_its_settings_is_found(tmp_path, monkeypatch):
    """A fit makes a step more than its settings say, and all releases follow from its plan."""
    model = LatentDirichletAllocation(2, noise_multiplier=5.0, n_steps=2, doc_length=20)
    planned = LatentDirichletAllocation.prepare

    def one_more(self, *data, **how):
        stage = planned(self, *data, **how)
        return replace(stage, plan=replace(stage.plan, n_steps=stage.plan.n_steps + 1))

    monkeypatch.setattr(LatentDirichletAllocation, "prepare", one_more)
    model.fit(np.ones((50, 3), int), transcript=tmp_path / "releases").save(tmp_path / "m")
    report = verify(tmp_path / "m", tmp_path / "releases")
    assert not report.ok and "its plan is not the one that its settings lead to" in report.text()
