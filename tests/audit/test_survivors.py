"""Faults outside the audit's seams, each with the check that sees it.

Some once survived.

A check runs on the honest code first. The fault is then put into the source of one function.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from events import exact_group_profile
from mutation import mutated
from peers.attacks import epsilon_lower_bound

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, verify
from vips_fast import accounting as acc
from vips_fast.data import groups
from vips_fast.engine.budget import Budget
from vips_fast.engine.loop import run
from vips_fast.engine.statement import PlannedRun, Privacy
from vips_fast.models import fit as fit_module
from vips_fast.models import rebuild as verify_module

X, Y = np.random.default_rng(0).normal(size=(40, 3)) / 3, np.arange(40) % 2


# A budget's filter is never below the proven lower bound of the runs that it lets through.


def check_the_filter(path):
    for number, (batches, epochs, z) in enumerate([(2, 9, 4.0), (3, 30, 12.0)]):
        event = acc.RandomAllocationEvent(batches, epochs, acc.GaussianEvent(z))
        budget = Budget.create(path / str(number), 50.0, 1e-5, dataset="d", filter="gaussian")
        with budget.reserve(event, 1) as held:
            held.release()
            assert budget.spent >= epsilon_lower_bound(event, 1e-5)


def one_release_for_all_epochs(patch):
    event = acc.RandomAllocationEvent
    fault = mutated(event.gaussian_mu_squared, "repeats * self.n_epochs", "repeats")
    patch.setattr(event, "gaussian_mu_squared", fault)


# `verify` finds a plan that does not follow from the settings, although all releases follow from the plan.


class OneStepMore(LatentDirichletAllocation):
    """A fit makes a step more than its settings say."""

    def prepare(self, *data, **how):
        stage = super().prepare(*data, **how)
        return replace(stage, plan=replace(stage.plan, n_steps=stage.plan.n_steps + 1))


OneStepMore.__name__ = "LatentDirichletAllocation"


def check_verify(path):
    model = OneStepMore(2, noise_multiplier=5.0, n_steps=2, doc_length=20)
    model.fit(sp.csr_array(np.ones((50, 3), dtype=int)), transcript=path / "t").save(path / "m")
    report = verify(path / "m", path / "t")
    print(report.text())
    assert not report.ok and "its plan is not the one that its settings lead to" in report.text()


def any_plan(patch):
    patch.setattr(verify_module, "rebuild", mutated(fit_module.rebuild, "plan.public() != one.plan or ", ""))


# The statement for owners of two rows covers the exact profile.


def check_owners(path):
    fit = dict(sampling="random_allocation", batch_size=20, n_steps=2, noise_multiplier=3.0)
    said = BayesianLogisticRegression(delta=1e-4, n_records=40, **fit).fit(X, Y).privacy_
    assert exact_group_profile(3.0, said.for_group(2)) <= 1e-4


def twice_the_epsilon(patch):
    patch.setattr(Privacy, "for_group", lambda self, size, delta=None: size * self.epsilon)


# The releases of an epoch have noise of their own.


def check_an_epoch(path):
    kept = []
    fit = dict(sampling="random_allocation", batch_size=20, n_steps=4, noise_multiplier=30.0)
    model = BayesianLogisticRegression(delta=1e-4, n_records=40, covariance="spherical", **fit)
    rows = sp.csr_array((40, 3_000))
    stage = model.prepare(rows, Y)
    looped = fit_module.run if fit_module.run is not run else run
    looped(
        stage.model, stage.records, stage.plan, stage.ledger, stage.randomness, stage.backend, on_release=kept.append
    )
    noises = [release.units.reshape(-1) / np.std(release.units) for release in kept]
    # 3,000 entries: equal noise has a correlation of 1, and other noise passes 0.1 once in 10^7 draws.
    assert all(abs(np.mean(a * b)) < 0.1 for i, a in enumerate(noises) for b in noises[:i])


def one_key_an_epoch(patch):
    old = "mechanism.add_noise(sums, randomness.noise_key(step), backend.n_threads)"
    new = "mechanism.add_noise(sums, bytes([step // sampler.n_batches]) * 32, backend.n_threads)"
    patch.setattr(fit_module, "run", mutated(run, old, new))


# A minibatch without records is released like any other.


def check_an_empty_minibatch(path):
    fit = dict(sampling="poisson", batch_size=1e-6, n_steps=5, noise_multiplier=3.0, delta=1e-4)
    model, kept = BayesianLogisticRegression(n_records=40, **fit), []
    stage = model.prepare(X, Y)
    parts = stage.model, stage.records, stage.plan, stage.ledger, stage.randomness, stage.backend
    fit_module.run(*parts, on_release=kept.append)
    assert len(kept) == len(stage.ledger) == 5 and all(release.units.any() for release in kept)


def nothing_for_nobody(patch):
    old = "sums = model.round("
    patch.setattr(fit_module, "run", mutated(run, old, f"if not len(rows):\n            continue\n        {old}"))


# A statement is about all runs of its ledger.


def check_all_runs(path):
    fit = dict(sampling="poisson", batch_size=20, n_steps=3, delta=1e-4)
    model = BayesianLogisticRegression(noise_multiplier=2.0, **fit).fit(X, Y)
    said = str(model.set_params(noise_multiplier=20.0).partial_fit(X, Y).privacy_)
    assert "noise multiplier 20" in said and "noise multiplier 2;" in said.replace(",", ";").replace(".", ";")


def the_last_run(patch):
    fault = mutated(
        PlannedRun.of, "for run, releases in counts.items())", "for run, releases in [*counts.items()][-1:])"
    )
    patch.setattr(PlannedRun, "of", fault)


# A row of nobody moves no sum.


def check_nobody(path):
    sums = []
    for n in (40, 39):
        model = BayesianLogisticRegression(
            options={"invalid": "drop"}, noise_multiplier=3.0, n_records=40, n_steps=2, sampling="full"
        )
        stage = model.prepare(X[:n], Y[:n], groups=[*map(str, range(39)), None][:n])
        rows = np.arange(stage.records.n_rows)
        sums.append(stage.backend.sum(stage.model, stage.records, rows, np.zeros(len(rows), np.uint64)))
    assert np.array_equal(*sums)


def somebody(patch):
    true = groups.canonical_label
    patch.setattr(groups, "canonical_label", lambda label: true(label) or "nobody")


@pytest.mark.parametrize(
    ("check", "mutant"),
    [
        (check_the_filter, one_release_for_all_epochs),
        (check_verify, any_plan),
        (check_owners, twice_the_epsilon),
        (check_an_epoch, one_key_an_epoch),
        (check_an_empty_minibatch, nothing_for_nobody),
        (check_all_runs, the_last_run),
        (check_nobody, somebody),
    ],
)
def test_survivors_are_seen(check, mutant, tmp_path, monkeypatch):
    for name in ("honest", "mutant"):
        (tmp_path / name).mkdir()
    check(tmp_path / "honest")
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(tmp_path / "mutant")
