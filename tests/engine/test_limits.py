"""Limits and shares: a budget holds what it says and no more, and each bound has its own share of delta."""

import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import GaussianEvent, PoissonSampledEvent
from vips_fast.engine.budget import Budget, BudgetExceededError

EVENTS = {
    "gaussian": GaussianEvent(40.0, "add_remove"),
    "renyi": PoissonSampledEvent(0.1, GaussianEvent(5.0, "add_remove")),
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_most_that_fits_stays_within_the_limit(name, tmp_path):
    budget = Budget.create(tmp_path / "b", 1.0, 1e-6, dataset="d", filter=name)
    with budget.reserve(EVENTS[name], 10**4, least=1) as held:
        for _ in range(held.count):
            held.release()
    assert 0.99 < budget.spent <= budget.epsilon
    with pytest.raises(BudgetExceededError):
        budget.reserve(EVENTS[name], 1)


def test_a_charge_is_given_back_once(tmp_path):
    budget = Budget.create(tmp_path / "b", 1.0, 1e-6, dataset="d")
    with budget.reserve(EVENTS["gaussian"], 4) as held:
        held.release()
        spent = budget.spent
        held.release()
        for _ in range(3):
            held.undo()
            held.release()
        assert budget.show()["runs"][0]["drawn"] == 2
        held.undo()
        assert budget.spent == spent
        for _ in range(3):
            held.undo()
    assert budget.spent == 0.0


def test_the_statement_for_a_group_of_one_is_the_statement():
    """Calls that may depend on results have a share of delta, for any number of records."""
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = BayesianLogisticRegression(noise_multiplier=5.0, n_steps=2, sampling="full").fit(X, y)
    privacy = model.partial_fit(X, y).privacy_
    assert privacy.share < 1.0 and privacy.for_group(1, privacy.delta) == privacy.epsilon
    assert privacy.for_group(2) > privacy.epsilon
