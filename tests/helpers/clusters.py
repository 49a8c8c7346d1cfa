"""A cluster of worker processes for tests of remote sums, ends that its workers meet, and a model that fails there."""

import gc
import os
import signal
import threading
from contextlib import contextmanager, suppress

import numpy as np

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.sampling import KeyedRandomness
from vips_fast.models.lda.model import LdaModel

KEY = b"k" * 32


def keyed(estimator):
    """Return an estimator with known randomness that counts as private. So a budget takes its fits."""
    estimator._randomness = lambda public: KeyedRandomness(KEY)
    return estimator


@contextmanager
def uncollected():
    """Collect garbage before and after, in this thread, and never in between.

    A `distributed.Client` that could not connect is garbage in a cycle, and closes itself when it is collected. That
    waits for its event loop, and where the collector happens to run in the thread of a loop, as the next client starts
    there, it waits for good.
    """
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if enabled:
            gc.enable()


@contextmanager
def kills(cluster, seed, mean, most=2, when=lambda: True):
    """Kill workers, at most ``most``, at random moments ``mean`` seconds apart that ``when`` permits; yields those hit.

    A nanny starts each again; one that is killed before it has begun is given up, so those are spared.
    """
    rng, end, hit = np.random.default_rng(seed), threading.Event(), []

    def loop():
        while len(hit) < most and not end.wait(rng.exponential(mean)):
            processes = [nanny.process for nanny in cluster.workers.values() if nanny.process]
            pids = [process.pid for process in processes if process.status.name == "running" and process.pid]
            if pids and when():
                with suppress(ProcessLookupError):
                    os.kill(pid := pids[rng.integers(len(pids))], signal.SIGKILL)
                    hit.append(pid)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield hit
    finally:
        end.set()
        thread.join()


class FailsLate(LatentDirichletAllocation):
    """The way that the third sum fails; "no" does not fail."""

    failure = "no"

    def _model(self, public, schedule=None):
        model = FailingModel(self._model_settings(public, schedule), public)
        model.failure = self.failure
        return model


class FailingModel(LdaModel):
    """Learns like any other."""

    steps = 0

    def update(self, release):
        super().update(release)
        self.steps += 1

    def contribute(self, block, words, out, scratch):
        if self.steps == 2 and self.failure == "die":
            os._exit(1)
        if self.steps == 2 and self.failure == "raise MemoryError":
            raise MemoryError("numbers of a record")
        super().contribute(block, words, out, scratch)
