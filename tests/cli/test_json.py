"""``--json``: one object a command, and the same figures as its lines."""

import json
import math

import pytest

from vips_fast.cli.messages import print_object

PLAN = ("plan", "--records", 15000, "--vocab-size", 5000, "--topics", 10)


@pytest.fixture
def said(run):
    """The object of a command; it is all of standard output."""

    def call(*argv, code=0):
        got, out, _ = run(*argv, "--json")
        (line,) = out.splitlines()
        assert got == code
        return json.loads(line)

    return call


@pytest.fixture
def model(run, files):
    assert run(*files.fit("--epsilon", 3, "--doc-length", 3, "--steps", 2, "--anyway", "--quiet"))[0] == 0
    return files.model


def test_of_a_model(run, said, model):
    found = said("show", model)
    assert found["exit"] == "done" and found["error"] is None
    assert found["statement"] in " ".join(run("show", model)[1].split())
    assert 0 < found["epsilon"] <= 3 and (found["unit"], found["not_private"]) == ("record", [])
    assert {"verdict", "worth", "attacker", "assumptions", "head"} <= set(found)


@pytest.mark.parametrize("target", (("--epsilon", 1), ("--attack-success", 0.6)))
def test_of_a_plan(run, said, target):
    found = said(*PLAN, *target)
    lines = run(*PLAN, *target)[1]
    assert f"{found['noise_multiplier']:.4g}" in lines and found["n_components"] == 10
    assert found["forecast"][10:] in " ".join(lines.split())


@pytest.mark.parametrize("argv", (("show", "none"), ("budget", "show", "none")))
def test_a_failure_is_an_object_too(said, argv):
    found = said(*argv, code=2)
    assert found["exit"] == "bad_input" and found["error"]


def test_what_is_no_number_in_json_is_null(capsys):
    print_object({"left": math.inf, "runs": [{"epsilon": math.nan}]})
    said = json.loads(capsys.readouterr().out)
    assert (said["left"], said["runs"], said["exit"]) == (None, [{"epsilon": None}], "done")
