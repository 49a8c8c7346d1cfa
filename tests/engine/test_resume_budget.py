"""Interrupted runs that a budget pays for. Each release once, the steps that are left and no others."""

from contextlib import nullcontext

import pytest
from cases import CASES, calling
from runs import Stop, ends, fail

from vips_fast.accounting import GaussianEvent, event_from_dict
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.filters import gaussian_filter_epsilon


def interrupted(make, records, folder, at=2, **options):
    """Interrupt a run or its resumption inside a step. There is a checkpoint after each."""
    with pytest.raises(Stop):
        ends(make(), at, fail).fit(*records, checkpoint=folder, resume=True, **options)


def drawn(path):
    return sum(run["drawn"] for run in Budget(path).show()["runs"])


@pytest.mark.parametrize("n_records", [200, None])  # reserved before the data are read, and after
def test_a_resume_reserves_what_is_left(tmp_path, n_records):
    make, records = CASES["own"]
    budget = Budget.create(tmp_path / "b", 50.0, 1e-5, dataset="ward")

    def model(**more):
        return make(n_records=n_records, n_steps=6, **more)

    interrupted(model, records(), tmp_path / "r", 4, budget=budget)
    held = []
    done = calling(model(), lambda p: held.append(budget.show()["runs"][-1]["reserved"]))
    done.fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
    assert done.n_steps_ == 6 and held == [3, 3, 3] and drawn(budget.path) == len(done.ledger_) == 7
    n_runs = len(budget.show()["runs"])
    model().fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
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
    assert 2.99 < budget.spent <= 3.0 and drawn(budget.path) == 6


@pytest.mark.parametrize("others, steps", [(0, 5), (2, 3), (3, 2)])
def test_a_resume_ends_with_the_steps_that_the_budget_holds(others, steps, tmp_path):
    """Two steps remain and one was lost, so three are paid for. Others reserve some meanwhile."""
    make, records = CASES["own"]
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward")

    def model():
        return make(noise_multiplier=None, n_records=200, n_steps=6)

    interrupted(model, records(), tmp_path / "r", 3, budget=budget)
    event = event_from_dict(budget.show()["runs"][0]["event"])
    with budget.reserve(event, others) if others else nullcontext():
        done = model().fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
        assert done.n_steps_ == steps and done.privacy_.shortened == (steps, 6)
        assert f"{steps} of 6 planned steps" in done.privacy_.statement() and done.ledger_.lost == 1
        assert len(done.ledger_) == drawn(budget.path) == steps + 1
    again = model().fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
    assert again.ledger_.head == done.ledger_.head and drawn(budget.path) == steps + 1 and budget.spent <= 3.0


def test_a_resume_that_kept_nothing_and_gets_nothing_is_refused(tmp_path):
    make, records = CASES["own"]
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward")

    def model():
        return make(noise_multiplier=None, n_records=200, n_steps=2)

    interrupted(model, records(), tmp_path / "r", 1, budget=budget)
    event = event_from_dict(budget.show()["runs"][0]["event"])
    with budget.reserve(event, 1), pytest.raises(BudgetExceededError, match="1 release more would bring it to"):
        model().fit(None, checkpoint=tmp_path / "r", resume=True, budget=budget)
    done = model().fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budget)
    assert (done.n_steps_, drawn(budget.path)) == (1, 2)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("first, then", ["ab", "a-", "-a"])
def test_a_run_stays_with_the_budget_that_pays_for_it(first, then, done, tmp_path):
    """Begun or finished, on another one, on none, or from none."""
    make, records = CASES["own"]
    budgets = {name: Budget.create(tmp_path / name, 50.0, 1e-5, dataset=name) for name in "ab"}

    def fit(name):
        model = calling(make(n_records=200, n_steps=6), lambda p: done or p.step < 3 or fail())
        return model.fit(*records(), checkpoint=tmp_path / "r", resume=True, budget=budgets.get(name))

    with nullcontext() if done else pytest.raises(Stop):
        fit(first)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    payer = "no budget pays" if first == "-" else r"the budget of a \(\w+\) pays"
    with pytest.raises(ValueError, match=f"budget=.*: {payer} for the run in .*; expected") as error:
        fit(then)
    assert "\n" not in str(error.value)
    assert before == {path: path.read_bytes() for path in before}
    done = True
    assert fit(first).n_steps_ == 6 and drawn(tmp_path / "b") == 0


def test_a_reservation_may_take_what_fits(tmp_path):
    event = GaussianEvent(10.0, "add_remove")
    budget = Budget.create(tmp_path / "b", 1.0, 1e-6, dataset="ward")
    most = next(n for n in range(1, 100) if gaussian_filter_epsilon({event: n + 1}, 1e-6) > 1.0)
    for least, count, held in ((1, 3, 3), (2, 1000, most), (most, most + 1, most)):
        with budget.reserve(event, count, least=least) as reservation:
            assert reservation.count == held
    with pytest.raises(BudgetExceededError, match=f"{most + 1} releases more"):
        budget.reserve(event, most + 5, least=most + 1)
    assert all(run["state"] == "closed" for run in budget.show()["runs"])
