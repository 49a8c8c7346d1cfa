"""Interrupted runs that a budget pays for. Each release once, the steps that are left and no others."""

from contextlib import nullcontext

import pytest
from cases import CASES, calling
from runs import Stop, ends, fail

from vips_fast.accounting import event_from_dict
from vips_fast.engine.budget import Budget, BudgetExceededError

OWN = CASES["own"][1]()


def own(n_records=200, **options):
    return CASES["own"][0](n_records=n_records, **options)


def interrupted(model, at, folder, budget):
    with pytest.raises(Stop):
        ends(model, at, fail).fit(*OWN, checkpoint=folder, budget=budget)


def drawn(budget):
    return sum(run["drawn"] for run in budget.show()["runs"])


@pytest.mark.parametrize("n_records", [200, None])  # reserved before the data are read, and after
def test_a_resume_reserves_what_is_left(tmp_path, n_records):
    budget, held = Budget.create(tmp_path / "b", 50.0, 1e-5, dataset="ward"), []
    how = dict(checkpoint=tmp_path / "r", resume=True, budget=budget)
    interrupted(own(n_records, n_steps=6), 4, tmp_path / "r", budget)
    done = calling(own(n_records, n_steps=6), lambda p: held.append(budget.show()["runs"][-1]["reserved"]))
    done.fit(*OWN, **how)
    assert done.n_steps_ == 6 and held == [3, 3, 3] and drawn(budget) == len(done.ledger_) == 7
    n_runs = len(budget.show()["runs"])
    own(n_records, n_steps=6).fit(*OWN, **how)
    assert len(budget.show()["runs"]) == n_runs  # a finished run needs nothing


@pytest.mark.parametrize("n_records", [200, None])
@pytest.mark.parametrize("name", ["lda", "own"])
def test_a_run_that_takes_what_is_left_goes_on(name, n_records, tmp_path):
    """Its noise follows the plan in the folder. It does not follow the rest by now."""
    make, records = CASES[name]
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward")

    def model(**more):
        return make(noise_multiplier=None, n_records=n_records, n_steps=6, **more)

    with pytest.raises(Stop):
        calling(model(), lambda p: p.step == 4 and fail()).fit(*records(), checkpoint=tmp_path / "r", budget=budget)
    done = model().fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
    assert (done.n_steps_, len(done.ledger_), done.privacy_.shortened) == (6, 6, None)
    assert 2.99 < budget.spent <= 3.0 and drawn(budget) == 6


@pytest.mark.parametrize("others, steps", [(0, 5), (2, 3), (3, 2)])
def test_a_resume_ends_with_the_steps_that_the_budget_holds(others, steps, tmp_path):
    """Two steps remain and one was lost, so three are paid for. Others reserve some meanwhile."""
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward")
    how = dict(checkpoint=tmp_path / "r", resume=True, budget=budget)
    interrupted(own(noise_multiplier=None, n_steps=6), 3, tmp_path / "r", budget)
    event = event_from_dict(budget.show()["runs"][0]["event"])
    with budget.reserve(event, others) if others else nullcontext():
        done = own(noise_multiplier=None, n_steps=6).fit(*OWN, **how)
        assert done.n_steps_ == steps and done.privacy_.shortened == (steps, 6)
        assert f"{steps} of 6 planned steps" in done.privacy_.statement() and done.ledger_.lost == 1
        assert len(done.ledger_) == drawn(budget) == steps + 1
    again = own(noise_multiplier=None, n_steps=6).fit(*OWN, **how)
    assert again.ledger_.head == done.ledger_.head and drawn(budget) == steps + 1 and budget.spent <= 3.0


def test_a_resume_that_kept_nothing_and_gets_nothing_is_refused(tmp_path):
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward")
    how = dict(checkpoint=tmp_path / "r", resume=True, budget=budget)
    interrupted(own(noise_multiplier=None, n_steps=2), 1, tmp_path / "r", budget)
    event = event_from_dict(budget.show()["runs"][0]["event"])
    with budget.reserve(event, 1), pytest.raises(BudgetExceededError, match="1 release more would bring it to"):
        own(noise_multiplier=None, n_steps=2).fit(None, **how)
    done = own(noise_multiplier=None, n_steps=2).fit(*OWN, **how)
    assert (done.n_steps_, drawn(budget)) == (1, 2)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("first, then", ["ab", "a-", "-a"])
def test_a_run_stays_with_the_budget_that_pays_for_it(first, then, done, tmp_path):
    """Begun or finished, on another one, on none, or from none."""
    budgets = {name: Budget.create(tmp_path / name, 50.0, 1e-5, dataset=name) for name in "ab"}

    def fit(name):
        model = calling(own(n_steps=6), lambda p: done or p.step < 3 or fail())
        return model.fit(*OWN, checkpoint=tmp_path / "r", resume=True, budget=budgets.get(name))

    with nullcontext() if done else pytest.raises(Stop):
        fit(first)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    payer = "no budget pays" if first == "-" else r"the budget of a \(\w+\) pays"
    with pytest.raises(ValueError, match=f"budget=.*: {payer} for the run in .*; expected") as error:
        fit(then)
    assert "\n" not in str(error.value)
    assert before == {path: path.read_bytes() for path in before}
    done = True
    assert fit(first).n_steps_ == 6 and drawn(budgets["b"]) == 0
