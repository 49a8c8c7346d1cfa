"""Faults in the machinery that the audit reaches a model by."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from vips_fast.audit import Bench, bench
from vips_fast.engine.backend import Threads


@contextmanager
def seams(*, estimator=None, sampler=None, mechanism=None, **parts):
    """Replace parts of the audit's fits; each is a function of the honest part, and None leaves that.

    ``parts`` are those of a stage: ``model``, ``backend``, ``randomness``.
    """
    parts = {name: wrong for name, wrong in parts.items() if wrong is not None}
    of_plan = {name: wrong for name, wrong in (("sampler", sampler), ("mechanism", mechanism)) if wrong is not None}
    honest, honest_estimator = Bench.prepare_data, Bench.estimator

    def put(faults, into):
        return replace(into, **{name: wrong(getattr(into, name)) for name, wrong in faults.items()})

    def prepare_data(self, *data, **how):
        stage = honest(self, *data, **how)
        return put(parts, replace(stage, plan=put(of_plan, stage.plan)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "prepare_data", prepare_data)
        if estimator is not None:
            patch.setattr(Bench, "estimator", lambda self, **how: estimator(honest_estimator(self, **how)))
        if "backend" in parts:
            patch.setattr(bench, "Threads", lambda n_threads: parts["backend"](Threads(n_threads)))
        yield
