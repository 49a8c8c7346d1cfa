"""``fit mixture``, and ``predict`` of clusters."""

import csv

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import GaussianMixture
from vips_fast.data import Batch, write_shards

N = 600


@pytest.fixture
def rows(tmp_path):
    """Two clear clusters. As answers, and as vectors."""
    rng, z = np.random.default_rng(0), np.arange(N) % 2
    answers = np.stack([z == 0, z == 0, z == 1, z == 1], axis=1).astype(np.uint8)
    np.save(tmp_path / "answers.npy", answers)
    sp.save_npz(tmp_path / "answers.npz", sp.csr_array(answers))
    np.save(tmp_path / "vectors.npy", np.where(z[:, None] == 1, 0.4, -0.4) + 0.05 * rng.normal(size=(N, 4)))
    (tmp_path / "names.txt").write_text("alone\ndaily\nothers\nnever\n")
    return tmp_path


def fit(folder, name, *more, out="model"):
    steps = "--components 2 --steps 4 --seed 1 --quiet".split()
    return ["fit", "mixture", folder / name, "--out", folder / out, *steps, *more]


def components(folder):
    with open(folder / "components.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_answers_and_their_components(run, rows):
    more = ["--epsilon", 20, "--radius", 1.5, "--names", rows / "names.txt"]
    code, text, _ = run(*fit(rows, "answers.npz", *more))
    assert code == 0 and "Clusters, the largest first" in text and "alone" in text
    model = GaussianMixture.load(rows / "model")
    assert (model.radius, model.n_components, model.n_steps) == (1.5, 2, 4)
    assert list(components(rows / "model")[0]) == ["component", "weight", "alone", "daily", "others", "never"]
    said = [float(row["daily"]) for row in components(rows / "model")]
    assert said == pytest.approx(model.means_[:, 1], rel=1e-5)


def test_means_are_in_the_units_of_the_table(run, rows):
    """A missing age is none of 50, the middle; and a schema scales by public numbers, which draws no warning."""
    rng, z = np.random.default_rng(0), np.arange(N) % 2
    ages = [f"{age:.1f}" for age in np.where(z == 1, 80.0, 30.0) + rng.uniform(-20, 20, N)]
    ages[::5], ages[1:3] = [""] * len(ages[::5]), ["0", "100"]
    answers = ("no", "yes")
    (rows / "t.csv").write_text("age,smoker\n" + "".join(f"{a},{answers[b]}\n" for a, b in zip(ages, z.tolist())))
    schema = '[columns.age]\nkind = "number"\nlow = 0\nhigh = 100\nmissing = "flag"\n'
    (rows / "s.toml").write_text(schema + '[columns.smoker]\nkind = "binary"\nvalues = ["no", "yes"]\n')
    code, text, error = run(*fit(rows, "t.csv", "--schema", rows / "s.toml", "--epsilon", 20))
    assert code == 0 and "scaled by private numbers" not in error
    young, old = sorted(components(rows / "model"), key=lambda row: float(row["smoker=yes"]))
    assert float(young["age"]) == pytest.approx(30, abs=6) and float(old["age"]) == pytest.approx(80, abs=6), text
    assert f"age {float(old['age']):.3g}" in text
    named = ["--schema", rows / "s.toml", "--epsilon", 20, "--radius", 1.25]
    assert run(*fit(rows, "t.csv", *named, out="stated"))[0] == 0
    assert GaussianMixture.load(rows / "stated").radius == 1.25 != GaussianMixture.load(rows / "model").radius


def test_repeated_entries_of_a_file_add_up(run, rows):
    answers, parts = np.load(rows / "answers.npy").astype(np.uint8), (130, 130)
    row, column = map(np.tile, np.nonzero(answers), (2, 2))
    data = np.repeat(np.array(parts, np.uint8), len(row) // 2)
    np.save(rows / "whole.npy", answers * float(sum(parts)))
    sp.save_npz(rows / "parts.npz", sp.coo_array((data, (row, column)), shape=answers.shape))
    for name in ("whole.npy", "parts.npz"):
        assert run(*fit(rows, name, "--radius", 400, "--non-private", out=name[:5]))[0] == 0
    assert components(rows / "whole") == components(rows / "parts")


def test_shards_of_numbers(run, rows):
    write_shards(rows / "shards", [Batch(np.load(rows / "vectors.npy"))], kind="numbers")
    assert run(*fit(rows, "shards", "--radius", 2, "--noise-multiplier", 5))[0] == 0
    assert GaussianMixture.load(rows / "model").radius == 2.0


def test_coordinates_of_projected_vectors_are_no_columns(run, rows):
    assert run(*fit(rows, "vectors.npy", "--set", "projection=2", "--noise-multiplier", 5))[0] == 0
    assert list(components(rows / "model")[0]) == ["component", "weight"]
    assert "column 1" in run("show", rows / "model")[1]
