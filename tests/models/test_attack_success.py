"""The bound of an attacker's right guesses: statement, files and report have that of the releases."""

import json

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import attack_success
from vips_fast.accounting.printing import percent
from vips_fast.models.privacy_file import privacy_record
from vips_fast.report import html_report

COUNTS = np.random.default_rng(0).poisson(1.0, (300, 20))


@pytest.mark.parametrize("how", [{}, {"sampling": "without_replacement", "batch_size": 60}])
def test_statement_file_and_report_follow_from_the_releases(tmp_path, how):
    model = LatentDirichletAllocation(2, doc_length=20, n_steps=6, noise_multiplier=5.0, **how).fit(COUNTS)
    said = model.privacy_
    assert 0.5 < attack_success(said.event) == said.attack_success < 0.7
    asked = "which of two records is" if said.relation == "replace_one" else "whether one record is"
    share = f"at most {percent(said.attack_success)} of the time"
    assert f"guesses {asked} in the data, and is right {share}; 50 % is chance" in said.statement()
    model.save(tmp_path / "m")
    risk = json.loads((tmp_path / "m" / "privacy.json").read_text())["risk"]
    assert risk["attack_success"] == said.attack_success
    assert [one["baseline"] for one in risk["inference"]] == [0.5, 0.1, 0.01]
    assert all(one["baseline"] < one["success"] < 8 * one["baseline"] for one in risk["inference"])
    page = html_report(model)
    assert "What an attacker can guess" in page and share in page
    assert "which of 100 persons a record belongs to" in page and percent(risk["inference"][2]["success"], 2) in page


def test_a_model_without_privacy_has_no_bound():
    model = LatentDirichletAllocation(2, private=False).fit(COUNTS)
    assert privacy_record(model._fitted())["risk"] == {"attack_success": None, "inference": []}
