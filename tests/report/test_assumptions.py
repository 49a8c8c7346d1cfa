"""The list of assumptions. One for the page and for reports, each checked against a fit's own record."""

import re
from pathlib import Path

import numpy as np
import pytest
from cases import CASES

from vips_fast.engine.assumptions import ASSUMPTIONS, assess
from vips_fast.engine.budget import Budget

PAGE = Path(__file__).resolve().parents[2] / "docs" / "privacy.md"


def found(model):
    return {one.assumption.name: one for one in assess(model._fitted())}


def test_the_page_has_the_list():
    section = PAGE.read_text("utf-8").partition("\n## Assumptions\n")[2].partition("\n## ")[0]
    items = [" ".join(item.split()) for item in re.split(r"^\d+\. ", section, flags=re.M)[1:]]
    assert len(items) == len(ASSUMPTIONS)
    for item, one in zip(items, ASSUMPTIONS):
        assert item.startswith(f"**{one.title}.** {one.text}"), item
    assert len({one.name for one in ASSUMPTIONS}) == len(ASSUMPTIONS)


#: A model of one's own takes long to compile, and has nothing here that others have not.
@pytest.mark.parametrize("name", [name for name in CASES if name != "own"])
def test_each_model_has_a_word_on_each(name):
    make, data = CASES[name]
    model = make().fit(*data())
    findings = assess(model._fitted())
    assert [one.assumption for one in findings] == list(ASSUMPTIONS) and all(one.why for one in findings)
    held = {one.assumption.name for one in findings if one.held}
    # Nothing in a file can say these of any fit.
    assert not held & {"time", "operator", "parameters"}
    assert "randomness" in held and "parts" in held


def test_what_a_fit_does_opens_and_closes_assumptions(tmp_path):
    make, data = CASES["lda"]
    plain = found(make().fit(*data()))
    assert not any(plain[name].held for name in ("n_records", "columns", "unit", "refusals", "all_runs"))
    assert plain["labels"].held and "has none" in plain["labels"].why

    stated = found(
        make(n_records=200, options={"invalid": "drop"}, sampling="poisson").fit(*data(), groups=np.arange(200) // 2)
    )
    assert all(stated[name].held for name in ("n_records", "unit", "refusals")) and "person" in stated["unit"].why
    replaced = found(make(sampling="without_replacement", batch_size=50).fit(*data()))
    assert replaced["n_records"].held and "replacement" in replaced["n_records"].why

    budget = Budget.create(tmp_path / "budget", epsilon=50, delta=1e-5, dataset="ward 7")
    paid = found(make().fit(*data(), budget=budget))
    assert paid["all_runs"].held and "ward 7" in paid["all_runs"].why

    for tainted in (make().set_unsafe(test_key=b"k" * 32), make(noise_multiplier=None, private=False)):
        assert not found(tainted.fit(*data()))["randomness"].held

    part = make().partial_fit(*data(), part="ward 1").partial_fit(*data(seed=1), part="ward 2")
    assert not found(part)["parts"].held and "2 parts" in found(part)["parts"].why

    after = found(make().fit(*data(), after=make().fit(*data())))["calls"]
    assert plain["calls"].held and not after.held and after.why.startswith("A fit came before: ")

    make, data = CASES["logistic"]
    for known in (False, True):
        assert found(make(classes=[0, 1] if known else None).fit(*data()))["labels"].held == known


def test_findings_are_about_all_runs(tmp_path):
    """The last call does not speak for those before it."""
    make, data = CASES["lda"]
    budget = Budget.create(tmp_path / "budget", epsilon=50, delta=1e-5, dataset="ward 7")
    counted = make().fit(*data())
    head = counted.ledger_.head
    with pytest.raises(ValueError, match="did not pay for 3 earlier releases of the model; expected the budget that"):
        counted.partial_fit(*data(), n_records=200, budget=budget)
    assert counted.ledger_.head == head and budget.spent == 0.0
    counted.partial_fit(*data(), n_records=200)
    assert not found(counted)["n_records"].held and not found(counted)["calls"].held
    paid = make().fit(*data(), budget=budget)
    assert found(paid)["calls"].held
    paid.partial_fit(*data(), budget=budget)
    assert found(paid)["all_runs"].held
    paid.partial_fit(*data())
    assert not found(paid)["all_runs"].held and "No budget paid for all" in found(paid)["all_runs"].why
    other = Budget.create(tmp_path / "other", epsilon=50, delta=1e-5, dataset="ward 7")
    paid = make().fit(*data(), budget=budget)
    with pytest.raises(ValueError, match="did not pay"):
        paid.partial_fit(*data(), budget=other)
    stated = make(n_records=200).partial_fit(*data(), n_records=200).partial_fit(*data(), n_records=150)
    assert found(stated)["n_records"].held and found(stated)["calls"].held
    stated.set_params(n_records=None).partial_fit(*data())
    assert not found(stated)["n_records"].held and "The fit counted 200, and" in found(stated)["n_records"].why


def test_a_statement_names_every_run():
    make, data = CASES["lda"]
    model = make(sampling="poisson", batch_size=100).fit(*data())
    model.set_params(noise_multiplier=20.0).partial_fit(*data())
    said = str(model.privacy_)
    assert "3 of them: minibatches of 100 expected records (Poisson sampling), noise multiplier 2" in said
    assert "1 of them: the whole data set in each step, noise multiplier 20" in said
    model.partial_fit(*(part[:150] for part in data()), n_records=150)
    assert re.search(r"one record of 100 to 200, .*: 5 releases, 3 of them", str(model.privacy_))
