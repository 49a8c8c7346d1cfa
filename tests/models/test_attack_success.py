"""Fit by target risk, in Python and at the shell."""

import json

import numpy as np
import pytest
from cases import CASES
from runs import Stop, ends, fail

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import attack_success
from vips_fast.accounting.printing import percent
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.models.privacy_file import privacy_record
from vips_fast.report import html_report

COUNTS = np.random.default_rng(0).poisson(1.0, (300, 20))


@pytest.mark.parametrize(
    "how",
    [
        {"sampling": "full"},
        {"batch_size": 60},
        {"sampling": "without_replacement", "batch_size": 60},
        {"sampling": "random_allocation", "batch_size": 100},
    ],
)
def test_the_whole_run_meets_the_risk(how):
    model = LatentDirichletAllocation(2, doc_length=20, n_steps=6, options={"target_attack_success": 0.6}, **how).fit(
        COUNTS
    )
    said = model.privacy_
    assert 0.598 < attack_success(said.event) == said.attack_success <= 0.6
    asked = "which of two records is" if said.relation == "replace_one" else "whether one record is"
    assert f"guesses {asked} in the data, and is right at most 60.0 % of the time; 50 % is chance" in said.statement()


def test_statement_file_and_report_follow_from_the_releases(tmp_path):
    model = LatentDirichletAllocation(2, doc_length=20, n_steps=6, options={"target_attack_success": 0.6}).fit(COUNTS)
    model.save(tmp_path / "m")
    again = LatentDirichletAllocation.load(tmp_path / "m")
    assert again.privacy_ == model.privacy_ and again.options.target_attack_success == 0.6
    risk = json.loads((tmp_path / "m" / "privacy.json").read_text())["risk"]
    assert risk["target_attack_success"] == 0.6 and 0.598 < risk["attack_success"] <= 0.6
    assert [one["baseline"] for one in risk["inference"]] == [0.5, 0.1, 0.01]
    assert all(one["baseline"] < one["success"] < 8 * one["baseline"] for one in risk["inference"])
    page = html_report(model)
    assert "What an attacker can guess" in page and "at most 60.0 % of the time" in page
    assert "which of 100 persons a record belongs to" in page and percent(risk["inference"][2]["success"], 2) in page
    # A run that was not planned by risk has the bounds, and no such target.
    other = LatentDirichletAllocation(2, doc_length=20, n_steps=6, noise_multiplier=5.0).fit(COUNTS)
    assert other.privacy_.attack_success == attack_success(other.privacy_.event)
    assert privacy_record(other._fitted())["risk"]["target_attack_success"] is None
    open_ = LatentDirichletAllocation(2, private=False).fit(COUNTS)
    assert privacy_record(open_._fitted())["risk"] == {
        "attack_success": None,
        "target_attack_success": None,
        "inference": [],
    }


def test_a_resumed_run_keeps_to_the_risk(tmp_path):
    """Pay a release for each interrupt, and end within the target."""
    make, records = CASES["lda"]
    options = dict(noise_multiplier=None, options={"target_attack_success": 0.6}, n_steps=6)
    for _ in range(2):
        model = make(**options)
        ends(model, 2, fail)
        with pytest.raises(Stop):
            model.fit(*records(), checkpoint=tmp_path / "r", resume=True)
    done = make(**options).fit(*records(), checkpoint=tmp_path / "r", resume=True)
    assert (done.n_steps_, len(done.ledger_), done.ledger_.lost) == (4, 6, 2)
    assert 0.59 < done.privacy_.attack_success <= 0.6


def test_a_budget_pays_for_a_fit_by_risk(tmp_path):
    budget = Budget.create(tmp_path / "b", 2.2, 1e-5, dataset="ward")
    settings = dict(doc_length=20, n_steps=4, sampling="full")
    model = LatentDirichletAllocation(2, options={"target_attack_success": 0.6}, **settings).fit(
        COUNTS, budget=budget.path
    )
    assert model.privacy_.attack_success <= 0.6 and 1.9 < Budget(budget.path).spent < 2.2
    assert model._fitted().settings["noise_multiplier"] is None
    before = (tmp_path / "b").read_bytes()
    with pytest.raises(BudgetExceededError):
        LatentDirichletAllocation(2, options={"target_attack_success": 0.6}, **settings).fit(COUNTS, budget=budget.path)
    assert (tmp_path / "b").read_bytes() == before


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"epsilon": 1.0}, "epsilon=1.0: expected None beside target_attack_success=0.6"),
        ({"noise_multiplier": 2.0}, "noise_multiplier=2.0: expected None beside target_attack_success=0.6"),
        ({"private": False}, "private=False: expected True beside target_attack_success=0.6"),
        ({"options": {"target_attack_success": 0.5}}, "target_attack_success=0.5: expected a number in"),
        ({"options": {"target_attack_success": 60}}, "target_attack_success=60: expected a number in"),
    ],
)
def test_contradictions_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        LatentDirichletAllocation(2, **{"options": {"target_attack_success": 0.6}, **settings}).fit(COUNTS)


def test_a_call_has_no_target():
    with pytest.raises(ValueError, match="noise_multiplier=None: expected a number with partial_fit"):
        LatentDirichletAllocation(2, options={"target_attack_success": 0.6}).partial_fit(COUNTS)
