"""Plans: one calibration a fit, one plan a request. Refusals come from only public numbers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import CASES

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, plan
from vips_fast.accounting import accountants
from vips_fast.accounting.privacy_loss.distribution import PldAccountant
from vips_fast.engine import plan as module
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.result import Public

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def calibrations(monkeypatch):
    """The targets that the noise was calibrated for, in order."""
    seen, calibrate = [], module.calibrate_noise_multiplier

    def counted(make_event, epsilon, *more, **options):
        seen.append(epsilon)
        return calibrate(make_event, epsilon, *more, **options)

    monkeypatch.setattr(module, "calibrate_noise_multiplier", counted)
    monkeypatch.setattr("vips_fast.accounting.calibration.calibrate_noise_multiplier", counted)
    return seen


#: Plans that decide on steps, batches or lengths too.
OPEN = [{"n_steps": None}, {"n_steps": None, "doc_length": None}, {"n_steps": None, "sampling": "without_replacement"}]


@pytest.mark.parametrize("name, how", [(name, {}) for name in sorted(CASES)] + [("lda", how) for how in OPEN])
def test_one_calibration_a_fit(name, how, calibrations):
    make, data = CASES[name]
    make(noise_multiplier=None, epsilon=3.0, **how).fit(*data())
    assert calibrations == [3.0]


def test_nothing_is_computed_twice_with_a_vocabulary_purchase(monkeypatch):
    asked, compute, target = [], PldAccountant.epsilon, {"epsilon": 4.0}

    def counted(self, event, *how, **options):
        asked.append((event, how, *options.items()))
        return compute(self, event, *how, **options)

    monkeypatch.setattr(PldAccountant, "epsilon", counted)
    accountants._answer.cache_clear()
    found = plan(600, None, 2, delta=1e-5, **target).vocabulary
    words = PrivateVocabulary(**{**found.parameters(), "delta": 1e-5})
    words.fit(["cough and fever", "fever again", "a cold"] * 200)
    counts = sp.csr_array(np.random.default_rng(0).poisson(0.5, (600, len(words.get_feature_names_out()))))
    model = LatentDirichletAllocation(2, delta=1e-5, **target).fit(counts, after=words)
    # The fits calibrate as their plan did, by its answers.
    assert 10 < len(asked) == len(set(asked)) and model.privacy_.epsilon <= 4.0
    assert words.get_feature_names_out().size > 0


def test_a_cost_is_what_a_fit_spends():
    X = sp.csr_array(np.random.default_rng(0).poisson(0.5, (120, 30)))
    model = LatentDirichletAllocation(3, epsilon=2.0, delta=1e-5, n_records=120)
    assert LatentDirichletAllocation(3).cost(30) is None and model.cost() is None
    cost = model.cost(30)
    assert dict(model.fit(X).ledger_.spent) == {(None, cost.event): cost.count}


def test_a_budget_that_is_spent_refuses_before_the_columns_are_known(tmp_path):
    budget = Budget.create(tmp_path / "b", 1.0, 1e-5, dataset="ward7")
    model = LatentDirichletAllocation(3, noise_multiplier=0.5, n_steps=5, n_records=120)
    with pytest.raises(BudgetExceededError):
        model.cost(budget=budget)
    assert budget.show()["runs"] == []
    public = Public(n_features=0, n_records=120, seed=0)
    assert replace(model.request(public), terms=replace(model._terms, noise_multiplier=0.0)).cost() is None
