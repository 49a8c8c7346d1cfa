"""``fit mixture``, and ``predict`` of clusters."""

import csv
import json

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import BernoulliMixture, GaussianMixture, VectorMixture
from vips_fast.data import Batch, write_shards
from vips_fast.engine.budget import Budget
from vips_fast.jobs.progress import ProgressLine

N = 600
SCHEMA = """[columns.work]
kind = "category"
values = ["private", "state"]
[columns.ill]
kind = "binary"
values = ["no", "yes"]
"""


@pytest.fixture
def rows(tmp_path):
    """Two clear clusters.

    As answers, numbers, sentence vectors with words, and a table.
    """
    rng, z = np.random.default_rng(0), np.arange(N) % 2
    answers = np.stack([z == 0, z == 0, z == 1, z == 1], axis=1).astype(np.uint8)
    np.save(tmp_path / "answers.npy", answers)
    sp.save_npz(tmp_path / "answers.npz", sp.csr_array(answers))
    np.save(tmp_path / "vectors.npy", np.where(z[:, None] == 1, 0.4, -0.4) + 0.05 * rng.normal(size=(N, 4)))
    sp.save_npz(tmp_path / "held.npz", sp.csr_array(np.stack([z == 0, z == 1], axis=1).astype(np.uint8)))
    (tmp_path / "words.txt").write_text("cough\nwheel\n")
    (tmp_path / "names.txt").write_text("alone\ndaily\nothers\nnever\n")
    lines = [f"h{i // 3},{'private' if one else 'state'},{'yes' if one else 'no'}" for i, one in enumerate(z)]
    (tmp_path / "t.csv").write_text("\n".join(["home,work,ill", *lines, ""]))
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "n.toml").write_text(SCHEMA + '[columns.age]\nkind = "number"\nlow = 0\nhigh = 9\n')
    return tmp_path


def fit(folder, name, kind, *more, out="model"):
    return [
        "fit",
        "mixture",
        folder / name,
        "--kind",
        kind,
        "--components",
        2,
        "--out",
        folder / out,
        "--steps",
        4,
        "--seed",
        1,
        "--quiet",
        *more,
    ]


def components(folder):
    with open(folder / "components.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_answers_from_fit_to_report(run, rows):
    out, transcript = rows / "model", ["--transcript", rows / "kept"]
    code, text, _ = run(
        *fit(
            rows,
            "answers.npy",
            "bernoulli",
            "--epsilon",
            20,
            "--set",
            "center=0.0",
            "--radius",
            1.5,
            "--names",
            rows / "names.txt",
            "--report",
            *transcript,
        )
    )
    assert code == 0 and "Clusters, the largest first" in text and "alone" in text and "differential privacy" in text
    written = ["columns.txt", "components.csv", "model.json", "model.npz", "privacy.json", "privacy.txt", "report.html"]
    assert sorted(path.name for path in out.iterdir()) == written
    model = BernoulliMixture.load(out)
    assert (model.center, model.radius, model.n_components, model.n_steps) == (0.0, 1.5, 2, 4)
    assert list(components(out)[0]) == ["component", "weight", "alone", "daily", "others", "never"]
    assert [float(row["daily"]) for row in components(out)] == pytest.approx(model.probabilities_[:, 1], rel=1e-5)
    code, text, _ = run("verify", out, *transcript)
    assert code == 0 and "equal   components.csv" in text and "equal   report.html" in text
    assert "others" in (out / "report.html").read_text() and "others" in run("show", out)[1]
    code, text, _ = run("predict", out, rows / "answers.npz")
    assert code == 0 and text.startswith("component1,component2\n") and len(text.splitlines()) == N + 1
    assert run("predict", out, rows / "answers.npy", "--out", rows / "p.npy")[0] == 0
    assert np.array_equal(np.load(rows / "p.npy"), model.predict_proba(np.load(rows / "answers.npy")))
    (out / "components.csv").write_text((out / "components.csv").read_text().replace("0.", "1."))
    code, text, _ = run("verify", out, *transcript)
    differing = [line.split()[-1] for line in text.splitlines() if line.startswith("DIFFERS")]
    assert (code, differing) == (1, ["components.csv"])
    # A sparse file has the same rows.
    assert run(*fit(rows, "answers.npz", "bernoulli", "--epsilon", 20, "--force"))[0] == 0


def test_vectors_and_their_words(run, rows):
    words = [
        "--held",
        rows / "held.npz",
        "--vocab",
        rows / "words.txt",
        "--set",
        "max_words=2",
        "--set",
        "projection=3",
    ]
    transcript = ["--transcript", rows / "kept"]
    fitted = fit(rows, "vectors.npy", "vector", *words, "--non-private", *transcript)
    code, text, _ = run(*fitted)
    assert code == 0 and "NOT PRIVATE" in text
    model = VectorMixture.load(rows / "model")
    assert (model.projection, model.max_words, model.vocabulary) == (3, 2, ["cough", "wheel"])
    assert sorted(row["keywords"] for row in components(rows / "model")) == ["cough", "wheel"]
    assert "cough" in text and "wheel" in text
    assert run("verify", rows / "model", *transcript)[0] == 0
    # The words are a setting of the model: a finished model belongs to this fit, and is not fitted again.
    code, text, _ = run(*fitted, "--resume")
    assert code == 0 and "nothing was spent" in text
    assert run("predict", rows / "model", rows / "vectors.npy")[1].count("\n") == N + 1
    assert run(*fit(rows, "vectors.npy", "vector", "--epsilon", 5, out="plain"))[0] == 0
    assert list(components(rows / "plain")[0]) == ["component", "weight"]
    assert run("show", rows / "plain")[0] == 0


def test_a_table_with_persons_and_numbers_in_a_ball(run, rows):
    named = ["--schema", rows / "s.toml", "--person", "home", "--unit", "household", "--delta", 1e-6]
    code, text, _ = run(*fit(rows, "t.csv", "bernoulli", *named, "--epsilon", 20))
    assert code == 0 and "household" in text and "work=state" in text
    assert (rows / "model" / "schema.toml").exists()
    assert run("predict", rows / "model", rows / "t.csv")[1].count("\n") == N + 1
    assert run(*fit(rows, "vectors.npy", "gaussian", "--radius", 2, "--epsilon", 20, out="ball"))[0] == 0
    assert GaussianMixture.load(rows / "ball").radius == 2.0
    # Shards are taken as for the other models, those with labels are not.
    X = np.load(rows / "vectors.npy")
    write_shards(rows / "shards", [Batch(X)], kind="numbers")
    assert run(*fit(rows, "shards", "gaussian", "--noise-multiplier", 5, out="sharded"))[0] == 0


def test_ledger_budget_and_resume(run, refused, rows, monkeypatch):
    """A stopped run has its charge and its releases.

    It resumes to its last step at no further charge.
    """
    budget, out = rows / "b", rows / "model"
    Budget.create(budget, 2.2, 1e-6, dataset="survey")
    paid = fit(rows, "answers.npy", "bernoulli", "--epsilon", 2, "--delta", 1e-6, "--budget", budget)
    paid += ["--checkpoint-every", 1, "--records", N]
    paid.remove("--quiet")

    def stop(line, progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        assert run(*paid)[0] == 130
    assert not out.exists() and (rows / "model.run").exists()
    spent = Budget(budget).spent
    assert 0 < spent < 2
    assert "2 releases" in refused(*paid)
    code, text, _ = run(*paid, "--resume", "--json")
    assert code == 0 and not (rows / "model.run").exists()
    said = json.loads(text)
    assert (said["model"], said["steps"]) == ("BernoulliMixture", 4) and said["epsilon"] <= 2
    model = BernoulliMixture.load(out)
    assert len(model.ledger_) == 4 and Budget(budget).spent == pytest.approx(model.privacy_.epsilon)
    assert model.ledger_.epsilon(1e-6) <= 2
    assert model.ledger_.budget["dataset"] == "survey"
    # A second fit of this size is refused before it draws anything.
    again = [*paid[:-4], "--out", rows / "second", *paid[-4:]]
    assert "does not hold" in refused(*again, code=3) and not (rows / "second").exists()


def test_a_job_file(run, rows):
    job = rows / "job.toml"
    job.write_text(
        'command = "fit mixture"\n[options]\ninput = "vectors.npy"\nkind = "vector"\ncomponents = 2\nsteps = 4\n'
        'held = "held.npz"\nvocab = "words.txt"\nepsilon = 2\nrecords = 600\nout = "model"\nquiet = true\n'
    )
    assert run("fit", "mixture", "--config", job)[0] == 0 and (rows / "model").exists()


@pytest.mark.parametrize(
    ("kind", "more", "text"),
    [
        ("bernoulli", ["--set", "projection=3"], "'projection' is not a setting of BernoulliMixture"),
        ("vector", ["--set", "center=0.5"], "'center' is not a setting of VectorMixture"),
        ("vector", ["--radius", 2], "--radius: not with --kind vector"),
        ("vector", ["--names", "names.txt"], "--names: not with --kind vector"),
        ("gaussian", ["--vocab", "words.txt"], "--vocab: not with --kind gaussian"),
        ("vector", ["--vocab", "words.txt"], "--held and --vocab: expected both, or neither"),
        ("gaussian", ["--set", "radius=3"], "--set radius: expected --radius"),
        ("vector", ["--held", "answers.npy", "--vocab", "words.txt"], "y has shape (600, 4): expected (600, 2)"),
        ("vector", ["--held", "held.npz", "--vocab", "public:en"], "public:en"),
        ("vector", ["--set", "projection=9"], "projection=9: expected at most the 4 columns"),
        ("bernoulli", ["--schema", "n.toml"], "column 'age' is a number"),
        ("bernoulli", ["--names", "words.txt"], "2 names; expected 4"),
        ("bernoulli", ["--set", "center=2"], "center=2: expected a number"),
        ("bernoulli", ["--person", "home"], "--person home"),
    ],
)
def test_what_is_refused_leaves_nothing(refused, rows, kind, more, text):
    more = [rows / word if str(word).endswith((".npy", ".npz", ".txt", ".toml")) else word for word in more]
    name = "answers.npy" if kind == "bernoulli" else "vectors.npy"
    assert text in refused(*fit(rows, name, kind, *more, "--epsilon", 1)) and not (rows / "model").exists()


def test_what_holds_no_mixture(run, refused, rows):
    assert "expected a name that ends in .npy, .npz" in refused(*fit(rows, "words.txt", "gaussian", "--epsilon", 1))
    np.save(rows / "one.npy", np.ones(3))
    assert "got shape (3,)" in refused(*fit(rows, "one.npy", "gaussian", "--epsilon", 1))
    assert run(*fit(rows, "answers.npy", "bernoulli", "--epsilon", 1))[0] == 0
    np.save(rows / "wide.npy", np.ones((3, 9)))
    assert "9 columns" in refused("predict", rows / "model", rows / "wide.npy")
    write_shards(rows / "shards", [Batch(np.load(rows / "answers.npy").astype(float))], kind="numbers")
    assert "shards" in refused("predict", rows / "model", rows / "shards")
