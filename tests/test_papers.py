"""The runner of the papers' figures, with toy figures. Resumed, missing needs, failing cells, the same page twice."""

import json
import math

import acc_fig4
import acc_vi
import lda_fig2
import lda_fig3
import lda_table3
import numpy as np
import pg_fig4
import pytest
import runner
import scipy.sparse as sp
import slides_table as slides
import stroke_fig5

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


def test_a_figure_that_was_run_elsewhere_keeps_its_section(toys, tmp_path):
    """Neither a missing package nor a smaller run removes a section."""
    toys(toy_needy=(("no_such_module",), "pass"), toy_small=((), "pass"), toy_run=((), "pass"))
    assert runner.main(["--only", "small", "--scale", "4"]) == 0
    parts = [f"<!-- {name} -->\nScale 1: all of it\n<!-- end -->" for name in ("toy_needy", "toy_small")]
    runner.PAGE.write_text("\n".join(parts))
    assert runner.main(["--only", "needy", "run", "--scale", "4"]) == 0
    page = runner.PAGE.read_text()
    assert all(part in page for part in parts) and "Scale 4." in page


def topics(monkeypatch):
    """A small corpus of five topics of eight words each."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.5 + 4.0 * (rng.integers(0, 5, (400, 1)) == np.arange(40) // 8)))
    changes = {
        lda_fig2: {"N": 400, "K": 5},
        lda_fig3: {"N": 400, "SIZE": 100},
        lda_table3: {"N": 400, "K": 5, "SIZE": 100},
    }
    for module, values in changes.items():
        monkeypatch.setattr(module, "load", lambda n: (X, X[:50], [f"word{v}" for v in range(40)]), raising=False)
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    lda_table3.reference.cache_clear()


def patients(monkeypatch):
    small = dict(train=200, codes=20, steps=2, run=0)
    monkeypatch.setattr(
        stroke_fig5, "cells", lambda scale: [dict(method=name, **small) for name in stroke_fig5.METHODS]
    )


def rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) / 5**0.5
    y = (X @ np.arange(1, 6) + rng.logistic(size=400) > 0).astype(int)
    monkeypatch.setattr(acc_vi, "load", lambda name: (X, y, X, y))
    monkeypatch.setattr(
        acc_vi, "SETTINGS", {"abalone": {**acc_vi.SETTINGS["abalone"], "steps": 30, "sgld": 30, "sigmas": [2.0]}}
    )


@pytest.mark.parametrize(
    "module, small", [(lda_fig3, topics), (lda_table3, topics), (stroke_fig5, patients), (acc_fig4, rows)]
)
def test_figures_are_run_shown_and_drawn(module, small, monkeypatch, tmp_path):
    """On small data, with every method: what a fit takes and gives is what the figures read."""
    small(monkeypatch)
    found = [cell | module.run(cell) | dict(seconds=1.0) for cell in module.cells(1)]
    assert len(found) > 4 and "NOT PRIVATE" in module.report(found)
    assert all(path.exists() for path in module.draw(found, tmp_path))


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
