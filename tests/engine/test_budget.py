"""Budgets: several fits on the same records."""

import pytest

from vips_fast import accounting as acc
from vips_fast.engine.budget import Budget, BudgetExceededError


def poisson(q, z, steps=20):
    return acc.SelfComposedEvent(acc.PoissonSampledEvent(q, acc.GaussianEvent(z)), steps)


def fixed(size, n, z, steps=20):
    return acc.SelfComposedEvent(acc.WithoutReplacementEvent(size, n, acc.GaussianEvent(z)), steps)


def test_budget_composes_fits_tightly_and_refuses():
    budget = Budget(2.2, 1e-4)
    first, second = fixed(20000, 400000, 0.8768124086713188), fixed(4, 1000, 1.25, 100)
    one = budget.charge(first)
    both = budget.charge(second)
    # Golden value of the two fits, and far less than the sum of their epsilons.
    assert both == pytest.approx(2.16652, rel=2e-4)
    assert both < one + acc.epsilon(second, 1e-4) - 0.05
    before = budget.to_dict()
    with pytest.raises(BudgetExceededError, match="above target_epsilon = 2.2") as error:
        budget.charge(first)
    assert isinstance(error.value, ValueError)
    assert budget.to_dict() == before and budget.spent_epsilon() == both
    assert budget.remaining_epsilon() == pytest.approx(2.2 - both)
    with pytest.raises(ValueError, match="relations"):
        budget.check(poisson(0.1, 10.0))
    again = Budget.from_dict(before)
    assert again.spent_epsilon() == both and again.events == (first, second)
    assert "replacing one record" in budget.statement()
    assert "fits=2" in repr(budget)


def test_budget_calibrates_what_is_left():
    budget = Budget(2.0, 1e-5)
    budget.charge(poisson(0.05, 1.5))

    def make(z):
        return poisson(0.01, z, 500)

    z = budget.calibrate_noise_multiplier(make)
    spent = budget.charge(make(z))
    assert 2.0 * 0.995 <= spent <= 2.0
    with pytest.raises(BudgetExceededError):
        budget.charge(acc.GaussianEvent(20.0, "add_remove"))


def test_budget_of_a_calibrated_fit_is_enough():
    """A fit calibrated for the whole budget may start."""
    for target in (0.3, 1.0, 4.0):
        budget = Budget(target, 1e-6)
        z = acc.calibrate_noise_multiplier(lambda z: poisson(0.02, z, 300), target, 1e-6)
        assert budget.charge(poisson(0.02, z, 300)) <= target


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: Budget(-1.0, 1e-5), "target_epsilon"),
        (lambda: Budget(0.0, 1e-5), "target_epsilon"),
        (lambda: Budget(1.0, 1.0), "target_delta"),
        (lambda: Budget.from_dict({}), "keys"),
    ],
)
def test_bad_budget(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_budget_refuses_what_is_no_event():
    with pytest.raises(TypeError, match="event"):
        Budget(1.0, 1e-5).charge(acc.BayesianAccountant(0.1, 1.0, 3))
