"""The command ``budget``, and ``--budget`` of a fit."""

import json
import re

import pytest

from vips_fast.accounting import GaussianEvent
from vips_fast.accounting.printing import rounded_down
from vips_fast.engine.budget import Budget
from vips_fast.models.lda import LatentDirichletAllocation

KEYS = {"spent", "left", "epsilon", "delta", "dataset", "unit", "runs", "purchases"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ward7.budget"


@pytest.fixture
def made(run, path):
    code, out, _ = run("budget", "create", path, "--epsilon", 3, "--delta", "1e-6", "--dataset", "ward7")
    assert code == 0 and "ward7" in out and Budget(path).head in out
    return path


def said(run, path):
    code, out, err = run("budget", "show", path, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_new_budget(run, made, refused):
    shown = said(run, made)
    assert set(shown) == KEYS | {"exit", "error"}
    assert (shown["spent"], shown["left"], shown["runs"]) == (0.0, 3.0, [])
    assert (shown["epsilon"], shown["delta"], shown["dataset"], shown["unit"]) == (3.0, 1e-6, "ward7", "record")


def test_a_new_budget_is_about_what_is_asked_for(run, path):
    limits = ["--epsilon", 3, "--delta", "1e-6", "--dataset", "ward7"]
    about = ["--relation", "replace_one", "--unit", "patient", "--filter", "renyi", "--purchases", 3]
    assert run("budget", "create", path, *limits, *about)[0] == 0
    said = Budget(path).show()
    assert [said[key] for key in ("relation", "unit", "filter")] == ["replace_one", "patient", "renyi"]
    assert (said["purchases"]["number"], said["purchases"]["left"]) == (3, 3)


def test_fits_charge_and_a_refusal_is_exit_3(run, files, made, refused):
    small = ["--delta", "1e-6", "--noise-multiplier", 6, "--sampling", "full", "--budget", made]
    code, out, _ = run(*files.fit(*small, "--quiet"))
    assert code == 0
    shown = said(run, made)
    assert [(one["what"], one["drawn"], one["state"]) for one in shown["runs"]] == [
        ("LatentDirichletAllocation", 5, "closed")
    ]
    assert f"of 3 spent at delta = 1e-06, {shown['left']:.4g}"[:30] in out
    # In the model's folder, printed by fit, and printed by show.
    model = LatentDirichletAllocation.load(files.model)
    head = re.search(r"head ([0-9a-f]{64})", out)[1]
    assert model.ledger_.budget["dataset"] == "ward7" and head == Budget(made).head
    for one in (head, model.ledger_.budget["head"]):
        assert run("budget", "show", made, "--head", one)[0] == 0
    # Without a target or a multiplier: all that is left.
    assert run(*files.fit("--sampling", "full", "--budget", made, "--force", "--quiet"))[0] == 0
    shown = said(run, made)
    assert 2.99 < shown["spent"] <= 3.0
    kept = made.read_bytes()
    message = refused(*files.fit(*small, "--force", "--quiet"), code=3)
    assert "ward7" in message and "limit is 3" in message and made.read_bytes() == kept


def test_refused_before_the_data_are_read(files, made, refused):
    files.docs.write_text("no documents at all")
    options = ["--delta", "1e-6", "--noise-multiplier", 0.5, "--sampling", "full", "--records", 60, "--budget", made]
    assert "limit is 3" in refused(*files.fit(*options, "--quiet"), code=3)
    assert files.names() == {"docs.npz", "words.txt", "ward7.budget"}


def test_show_for_people(run, files, made):
    run(*files.fit("--noise-multiplier", 6, "--sampling", "full", "--quiet", "--budget", made))
    event = LatentDirichletAllocation.load(files.model).ledger_.event().event
    early = Budget(made).reserve(event, 3, what="cut short", part="north")
    early.release()
    early.close()
    held = Budget(made).reserve(event, 2, what="waiting")
    code, out, _ = run("budget", "show", made)
    assert code == 0
    runs = "5/5", "done", "cut short, part north", "1/3", "ended early", "waiting", "0/2", "held by process"
    for said in ("ward7", "spent", "left", "Gaussian filter", "1; each record in one only", *runs, held.budget.head):
        assert said in out, said
    assert ["left", rounded_down(Budget(made).left)] in [line.split() for line in out.splitlines()]
    code, out, _ = run("budget", "show", made, "--give-back", held.run)
    assert code == 0 and "open reservation" not in run("budget", "show", made)[1]


def test_the_head_and_the_whole(made, refused):
    assert "older copy" in refused("budget", "show", made, "--head", "0" * 64, code=3)
    data = bytearray(made.read_bytes())
    data[120] ^= 1
    made.write_bytes(data)
    assert "record 0 is damaged" in refused("budget", "show", made)


def test_a_torn_end_is_said(run, made):
    held = Budget(made).reserve(GaussianEvent(20.0, "add_remove"), 3)
    held.release()
    made.write_bytes(made.read_bytes()[:-3])
    assert "torn" in run("budget", "show", made)[1] and said(run, made)["runs"][0]["counted"] == 3
