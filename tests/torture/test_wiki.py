"""A real corpus. Runs that were killed five times give models as good as whole runs."""

import json
import os
import signal
import time

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling

from vips_fast import LatentDirichletAllocation

#: The steps after which a run is killed.
MOMENTS = (2, 4, 7, 9, 12)


def fitting(folder, documents, test, seed):
    """Return a child process that fits (or resumes), and a pipe.

    It tells each step there; its figures are a file then.
    """
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            model = calling(
                LatentDirichletAllocation(
                    50,
                    n_steps=20,
                    batch_size=documents.shape[0] // 4,
                    epsilon=1.0,
                    delta=1e-4,
                    n_records=documents.shape[0],
                    n_jobs=-1,
                    random_state=seed,
                ),
                lambda progress: os.write(say, bytes([progress.step])),
            ).fit(documents, checkpoint=folder, resume=True, checkpoint_every=1)
            said = [model.perplexity(test), model.n_steps_, model.ledger_.lost, model.privacy_.epsilon]
            folder.with_suffix(".json").write_text(json.dumps(said))
        finally:
            os._exit(0)
    os.close(say)
    return child, open(hear, "rb", buffering=0)


@pytest.mark.slow
def test_wiki_killed_five_times(data_dir, tmp_path, capsys):
    """Each kill may cost a step that epsilon = 1 cannot pay. The perplexity stays as low as whole runs'."""
    documents, test = (sp.load_npz(data_dir / "wiki" / f"{name}.npz") for name in ("train", "test"))
    rng, found = np.random.default_rng(0), {(): [], MOMENTS: []}
    for seed in range(5):
        for moments in found:
            folder = tmp_path / f"{len(moments)}-{seed}"
            for at in moments:
                child, steps = fitting(folder, documents, test, seed)
                begun, first = time.monotonic(), ord(steps.read(1))
                while (step := ord(steps.read(1))) < at:
                    pass
                time.sleep(rng.uniform(0.0, (time.monotonic() - begun) / (step - first + 1)))
                os.kill(child, signal.SIGKILL)
                assert os.waitpid(child, 0)[1] == signal.SIGKILL
            child, steps = fitting(folder, documents, test, seed)
            assert os.waitpid(child, 0)[1] == 0
            found[moments].append(json.loads(folder.with_suffix(".json").read_text()))
            with capsys.disabled():
                print(
                    "\nkilled {} times: perplexity {:.1f}, {} steps, {} lost, epsilon {:.6f}".format(
                        len(moments), *found[moments][-1]
                    ),
                    end="",
                    flush=True,
                )
    whole, killed = (np.array([run[0] for run in runs]) for runs in found.values())
    with capsys.disabled():
        print(f"\nwhole runs {whole.min():.1f} to {whole.max():.1f}, killed {killed.min():.1f} to {killed.max():.1f}")
    assert all(run[3] <= 1.0 and run[1] + run[2] == 20 for runs in found.values() for run in runs)
    assert whole.min() <= killed.mean() <= whole.max()
