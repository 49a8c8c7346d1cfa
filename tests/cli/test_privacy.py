"""``privacy`` and ``audit``."""

import json

import pytest

PAPER = ["privacy", "--records", 400_000, "--batch-size", 20_000, "--steps", 20, "--delta", 1e-4]


def figures(out):
    """Return the first table of `privacy` as numbers."""
    table = out.split("\n\n")[0].splitlines()
    rows = (line.removesuffix(" %").rsplit(None, 1) for line in table)
    return {name.strip(): float(value) for name, value in rows}


@pytest.mark.parametrize(
    "more, expected",
    [
        # The paper's setting: exact for Poisson sampling, the proven bound for sampling without replacement.
        ([], 0.932),
        (["--sampling", "without_replacement"], 0.984),
        # An epoch, 20 minibatches.
        (["--sampling", "random_allocation"], 0.7337),
    ],
)
def test_the_papers_run(run, more, expected):
    code, out, err = run(*PAPER, "--noise-multiplier", 1.24, *more)
    assert code == 0 and "differentially private under" in out
    # To the digits that were printed.
    assert figures(out)["epsilon"] == pytest.approx(expected, rel=1e-3)
    assert "delta = 0.0001 is not below 1 / 400000 records" in err


def test_steps_fill_epochs(run):
    plan = "privacy --records 400000 --batch-size 100000 --delta 1e-4 --sampling random_allocation".split()
    noise = figures(run(*plan, "--steps", 20, "--epsilon", 1)[1])["noise multiplier"]
    assert noise < 0.95 * 3.8397
    code, _, err = run(*plan, "--steps", 21, "--epsilon", 1)
    assert code == 2 and "--steps 21: expected a multiple of 4" in err


def test_the_other_way_round(run):
    out = run(*PAPER, "--epsilon", 0.932)[1]
    noise = figures(out)["noise multiplier"]
    # The calibration's own tolerance is 10^-3.
    assert noise == pytest.approx(1.24, rel=2e-3) and figures(out)["epsilon"] <= 0.932
    assert figures(run(*PAPER, "--noise-multiplier", noise)[1])["epsilon"] <= 0.932


def test_rows_of_one_person(run):
    """A person's epsilon at the row's noise, and the converse.

    That is the noise that gives the person the row's epsilon.
    """
    plan = ["privacy", "--records", 400_000, "--batch-size", 100_000, "--steps", 20, "--delta", 1e-4]
    asked = figures(run(*plan, "--epsilon", 1, "--rows-per-person", 5)[1])
    assert asked["epsilon of 5 records"] == pytest.approx(6.61, rel=2e-3) and asked["epsilon"] <= 1
    enough = asked["noise multiplier, 5 records at 1"]
    assert enough / asked["noise multiplier"] == pytest.approx(4.71, rel=3e-3)
    again = figures(run(*plan, "--noise-multiplier", enough, "--rows-per-person", 5)[1])
    assert 0.998 < again["epsilon of 5 records"] <= 1
    # Without a target, the noise is for the epsilon of one row.
    assert next(v for k, v in again.items() if k.startswith("noise multiplier, 5")) > 4 * enough
    single = figures(run(*plan, "--epsilon", 1, "--rows-per-person", 1)[1])
    assert single["epsilon of 1 records"] == single["epsilon"]
    without = ["--noise-multiplier", 1.24, "--sampling", "without_replacement"]
    fixed = figures(run(*PAPER, *without, "--rows-per-person", 2)[1])
    assert 2 * fixed["epsilon"] < fixed["epsilon of 2 records"] < 2.5 * fixed["epsilon"]


def test_whole_batches(run):
    argv = ["privacy", "--records", 1000, "--steps", 10, "--delta", 1e-5, "--noise-multiplier", 2]
    whole = figures(run(*argv)[1])
    assert whole["expected batch"] == 1000 and whole["sampling probability"] == 1
    code, out, err = run(*argv, "--sampling", "full", "--relation", "replace_one")
    assert (code, figures(out), err) == (0, whole, "") and "under replacing one record" in out


def test_audit_follows_the_settings(run, monkeypatch):
    """What reaches the audit; the audit itself has tests of its own."""
    from vips_fast import audit
    from vips_fast.models.lda import LdaOptions

    asked = {}

    class Report:
        passed = True

        def text(self):
            return "passed"

        def to_dict(self):
            return {"passed": True}

    def replaced(model, settings, **more):
        asked.update(more, model=model, settings=settings)
        return Report()

    monkeypatch.setattr(audit, "audit", replaced)
    sets = ["--set", "dtype=float64", "--set", "options.mean_change_tol=0", "--set", "doc_length=20"]
    argv = ["audit", "lda", "--layers", "b,A", "--clip", 0.2, *sets, "--json"]
    assert run(*argv[:-1])[:2] == (0, "passed\n")
    code, text, _ = run(*argv)
    assert code == 0 and json.loads(text) == {"passed": True, "exit": "done", "error": None}
    options = LdaOptions(dtype="float64", mean_change_tol=0)
    assert asked["settings"] == dict(n_components=4, sampling="poisson", clip=0.2, doc_length=20, options=options)
    assert (asked["model"], asked["layers"], asked["full"]) == ("lda", ["B", "A"], False)
    assert run("audit", "blr")[0] == 0 and "n_components" not in asked["settings"]
