"""The runner of the papers' figures, with toy figures. Resumed, missing needs, failing cells, the same page twice."""

import ast
import importlib
import json
import math
import re
from operator import attrgetter
from pathlib import Path

import lda_fig2
import lda_fig3
import lda_table3
import numpy as np
import pg_fig4
import pytest
import runner
import scipy.sparse as sp
import slides_table as slides

from vips_fast import LatentDirichletAllocation

TOY = """
import os
TITLE, NEEDS = "A toy", {needs}

def cells(scale):
    return [dict(x=x, scale=scale) for x in range(4 // scale)]

def run(cell):
    assert os.environ["OMP_NUM_THREADS"] == "1"
    with open({log!r}, "a") as file:
        file.write(f"{{cell['x']}}\\n")
    if cell["x"] == 2:
        {bad}
    return dict(square=cell["x"] ** 2, points=[cell["x"]])

def report(rows):
    return "squares " + ", ".join(str(row["square"]) for row in rows)

def draw(rows, folder):
    from common import save, subplots
    figure, axes = subplots()
    axes.plot([row["square"] for row in rows])
    return save(figure, folder, "toy_one")
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Toy figures of given names; the runner with its output below tmp_path."""
    (tmp_path / "docs").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runner, "OUT", tmp_path / "out")
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "PAGE", tmp_path / "docs" / "papers.md")

    def make(**toys):
        for name, needs_bad in toys.items():
            needs, bad = needs_bad
            text = TOY.format(needs=needs, bad=bad, log=str(tmp_path / f"{name}.log"))
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(runner, "FIGURES", tuple(toys))
        return tmp_path

    return make


def ran(folder, name):
    """Note which x a toy was run with."""
    return sorted(map(int, (folder / f"{name}.log").read_text().split()))


def test_a_done_cell_is_not_run_again_and_the_page_comes_out_equal(toys):
    folder = toys(toy_one=((), "pass"))
    assert runner.main(["--jobs", "1"]) == 0
    first = runner.PAGE.read_text()
    assert "## A toy" in first and "squares 0, 1, 4, 9" in first
    assert "![A toy](papers/toy_one.png)" in first
    assert (folder / "out" / "1" / "toy_one.csv").read_text().startswith("x,scale,square,seconds\n0,1,0,")
    picture = folder / "docs" / "papers" / "toy_one.png"
    drawn = picture.read_bytes()
    # One line is gone and the last is cut off, as by a kill: only these two run again.
    store = folder / "results" / "1" / "toy_one.jsonl"
    lines = store.read_text().splitlines()
    store.write_text("\n".join([*lines[1:3], lines[3][:20]]))
    assert runner.main(["--jobs", "1"]) == 0
    assert ran(folder, "toy_one") == [0, 0, 1, 2, 3, 3]
    assert len([json.loads(line) for line in store.read_text().splitlines()]) == 4
    runner.main(["--page"])
    second = runner.PAGE.read_text()
    runner.main(["--page"])
    assert second == runner.PAGE.read_text()
    assert ran(folder, "toy_one") == [0, 0, 1, 2, 3, 3]
    assert drawn == picture.read_bytes()


@pytest.mark.parametrize("bad", ["raise ValueError('no square')", "os._exit(3)"], ids=["raises", "dies"])
def test_a_cell_that_fails_is_named_and_the_rest_goes_on(toys, bad, capfd):
    folder = toys(toy_bad=((), bad))
    assert runner.main([]) == 1
    assert 'FAILED toy_bad {"scale": 1, "x": 2}' in capfd.readouterr().err
    assert ran(folder, "toy_bad") == [0, 1, 2, 3]
    assert "3 of 4 cells" in runner.PAGE.read_text() and "squares 0, 1, 9" in runner.PAGE.read_text()


def test_a_missing_need_is_said_and_the_rest_runs(toys, capfd):
    folder = toys(toy_needy=(("no_such_module",), "pass"), toy_free=(("numpy",), "pass"))
    assert runner.main(["--scale", "4"]) == 0
    assert "left out: toy_needy, missing no_such_module" in capfd.readouterr().err
    page = runner.PAGE.read_text()
    assert "Not run: missing no_such_module" in page and "Scale 4." in page
    assert not (folder / "toy_needy.log").exists()


def test_a_figure_that_was_run_elsewhere_keeps_its_section(toys, tmp_path):
    """Neither a missing package nor a smaller run removes a section."""
    toys(toy_needy=(("no_such_module",), "pass"), toy_small=((), "pass"), toy_run=((), "pass"))
    assert runner.main(["--only", "small", "--scale", "4"]) == 0
    parts = [f"<!-- {name} -->\nScale 1: all of it\n<!-- end -->" for name in ("toy_needy", "toy_small")]
    runner.PAGE.write_text("\n".join(parts))
    assert runner.main(["--only", "needy", "run", "--scale", "4"]) == 0
    page = runner.PAGE.read_text()
    assert all(part in page for part in parts) and "Scale 4." in page


def test_every_figure_has_the_form():
    """Title, needs, and cells of both scales. They come back from JSON as they went."""
    for name in runner.FIGURES:
        module = importlib.import_module(name)
        assert isinstance(module.TITLE, str) and isinstance(module.NEEDS, tuple), name
        for scale in (1, 10):
            cells = module.cells(scale)
            assert cells and json.loads(json.dumps(cells)) == cells, name
            assert len({runner.key(cell) for cell in cells}) == len(cells), name
        assert callable(module.run) and callable(module.report) and callable(module.draw), name


SOURCES = [(source, entry) for source, entries in runner.sources().items() for entry in entries]


@pytest.mark.parametrize("source, entry", SOURCES, ids=[f"{source[:6]}-{entry[0]}" for source, entry in SOURCES])
def test_what_the_sources_state_lives_where_the_page_says(source, entry):
    _, _, code, tests = entry
    assert code and tests
    for module, _, name in (place.partition(":") for place in code):
        inside = "." in module and not module.startswith("peers.")
        attrgetter(name)(importlib.import_module(f"vips_fast.{module}" if inside else module))
    for path, _, name in (test.partition("::") for test in tests):
        tree = ast.parse((Path(__file__).parent / path).read_text("utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"


def test_every_figure_of_the_page_is_in_the_list():
    places = {place.partition(":")[0] for _, (_, _, code, _) in SOURCES for place in code}
    assert set(runner.FIGURES) <= places


@pytest.mark.parametrize(
    "source, numbered",
    [
        ("VIPS article", {"Algorithm": 6, "Figure": 8, "Table": 4}),
        ("Accountants' paper", {"Theorem": 4, "Figure": 5, "Table": 1}),
        ("Slides", {"Scenario": 3}),
    ],
)
def test_no_numbered_statement_is_left_out(source, numbered):
    items = "; ".join(entry[0] for name, entry in SOURCES if name.startswith(source))
    for kind, count in numbered.items():
        listed = {n for several in re.findall(rf"{kind}s? ((?:\d+(?:, )?)+)", items) for n in several.split(", ")}
        assert {str(n) for n in range(1, count + 1)} <= listed, kind


def test_the_slides_formulas_printed_and_right():
    """Compare the printed noise on the mean gradient.

    With the sensitivity that holds, and with the right one's target.
    """
    n, clip = 39_074, 1.0
    m, steps, target = round(slides.SHARE * n), slides.STEPS, slides.EPSILON
    root = math.sqrt(math.log(1 / slides.DELTA))
    rho = math.sqrt(root**2 + target) - root
    right = slides.noise("poisson", "right", n)
    printed = {
        "laplace": clip / (m * math.log(1 + math.expm1(target / steps) * n / m)) * m / (2 * clip),
        "zcdp": math.sqrt(steps * clip**2 / (n * rho) ** 2) * n / (2 * clip),
        # The sigma that makes C^2 / (n sigma)^2 the target's base divergence 1 / (2 z^2).
        "poisson": math.sqrt(2 * right**2 * clip**2 / n**2) * (slides.SHARE * n) / clip,
    }
    for scenario, z in printed.items():
        assert slides.noise(scenario, "printed", n) == pytest.approx(z, rel=1e-9)
        assert slides.own(scenario, n, z) > 1.4 * target
        assert slides.own(scenario, n, slides.noise(scenario, "right", n)) == pytest.approx(target, rel=2e-3)


@pytest.mark.parametrize("argument", [0.0, 2.0, 20.0])
def test_the_polya_gamma_mean_is_that_of_draws(argument):
    figures = pg_fig4.run(dict(argument=argument, draws=20_000))
    assert abs(figures["mean"] - figures["drawn"]) < 5 * figures["error"] < 0.01


def test_the_topic_figures_say_which_orders_hold(tmp_path):
    """Make rows in which one order fails in one setting. Strong composition is above no clipping in one of nine."""
    rows = []
    level = {"unigram": 9, "non-private": 1, "ours": 2, lda_fig2.MA: 3, lda_fig2.NO_CLIP: 5}
    for cell in lda_fig2.cells(10):
        value = 100.0 * level.get(cell["method"], 4)
        if (cell["method"], cell["size"], cell["sigma"]) == (lda_fig2.TIGHT, 5_000, 2.0):
            value = 950.0
        made = dict(epsilon=1 / (1 + cell["sigma"]), tight=0.1, sound=0.2, noise_multiplier=1.0, seconds=1.0)
        rows.append(cell | made | dict(perplexity=value))
    found = {o.statement: o for o in lda_fig2.orders(rows)}
    assert len(found["moments accountant below strong composition, tight step"].holds) == 9
    assert found["strong composition, tight step below no clipping"].fails == ["S = 5,000, σ = 2"]
    assert not found["strong composition, classical step below no clipping"].fails
    assert not found["moments accountant: S = 20,000 below S = 10,000"].holds
    said = "tight step below no clipping: 8 of 9, not at S = 5,000, σ = 2"
    assert said in " ".join(lda_fig2.report(rows).split())
    assert [path.suffix for path in lda_fig2.draw(rows, tmp_path)] == [".png"]


def test_perplexity_after_each_step_and_words_of_a_topic(monkeypatch, tmp_path):
    """Figure 3 and Table 3 on a small corpus, all methods. The last perplexity is the finished model's."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.5 + 4.0 * (rng.integers(0, 5, (400, 1)) == np.arange(40) // 8)))
    for module in (lda_fig3, lda_table3):
        monkeypatch.setattr(module, "load", lambda n: (X, X[:50], [f"word{v}" for v in range(40)]))
    for module in (lda_fig2, lda_fig3, lda_table3):
        monkeypatch.setattr(module, "N", 400)
    for module in (lda_fig2, lda_table3):
        monkeypatch.setattr(module, "K", 5)
    for module in (lda_fig3, lda_table3):
        monkeypatch.setattr(module, "SIZE", 100)
    lda_table3.reference.cache_clear()
    steps = [cell | lda_fig3.run(cell) | dict(seconds=1.0) for cell in lda_fig3.cells(1)]
    assert [len(row["perplexity"]) for row in steps[:6]] == [4] * 6
    assert all(0 <= share <= 1 for row in steps for share in row["clipped"])
    plain = LatentDirichletAllocation.paper(**lda_fig3.paper_options("non-private", 100, 0.0, 1)).fit(X)
    assert steps[0]["last"] == pytest.approx(plain.perplexity(X[:50]), rel=1e-6)
    best = min(steps, key=lambda row: row["last"])
    assert f"*Here*, at the end: {best['method']} {best['last']:.0f}, " in lda_fig3.report(steps)
    assert lda_fig3.draw(steps, tmp_path)
    words = [cell | lda_table3.run(cell) | dict(seconds=1.0) for cell in lda_table3.cells(1)]
    lda_table3.reference.cache_clear()
    assert words[0]["overlap"] == 1.0 and words[0]["mass"] > max(row["mass"] for row in words[1:6])
    # The ten most probable words of a topic without privacy belong to one class, but for two.
    assert max(np.bincount([int(word[4:]) // 8 for word, _ in words[0]["topics"][0]])) == 8
    assert "| no clipping |" in lda_table3.report(words)
