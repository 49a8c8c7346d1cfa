"""The papers' figures: their runner, small runs of them, and what their modules compute."""

import json
import math

import acc_common
import acc_fig4
import acc_table1
import acc_vi
import common
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
import text_logistic
from common import CLASSICAL, TIGHT
from newton import DoubleNoiseNewton, direction_sensitivity
from peers.theorems import strong_composition

from vips_fast.accounting import GaussianEvent, SelfComposedEvent, epsilon

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
    sizes = {
        lda_fig2: {"N": 400, "K": 5},
        lda_fig3: {"N": 400, "SIZE": 100},
        lda_table3: {"N": 400, "K": 5, "SIZE": 100},
    }
    for module, values in sizes.items():
        monkeypatch.setattr(module, "load", lambda n: (X, X[:50], [f"word{v}" for v in range(40)]), raising=False)
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    lda_table3.reference.cache_clear()


def patients(monkeypatch):
    small = dict(train=200, codes=20, steps=2, run=0)
    cells = [dict(method=name, **small) for name in stroke_fig5.METHODS]
    monkeypatch.setattr(stroke_fig5, "cells", lambda scale: cells)


def rows(monkeypatch):
    X, y = data()
    monkeypatch.setattr(acc_vi, "load", lambda name: (X, y, X, y))
    few = {**acc_vi.SETTINGS["abalone"], "steps": 30, "sgld": 30, "sigmas": [2.0]}
    monkeypatch.setattr(acc_vi, "SETTINGS", {"abalone": few})


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
    """The printed noise on the mean gradient, with the sensitivity that holds, and the right one's target."""
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


def data(n=400, d=5, seed=0):
    """Rows near the unit sphere and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    return X, (X @ np.arange(1, d + 1) + rng.logistic(size=n) > 0).astype(int)


def test_printed_epsilons_of_the_moments_accountant_come_from_one_setting_each():
    """2.18, with the generic accountant's 1.62, 7.6 and 2.90. To the printed digits."""
    c = acc_common
    assert f"{c.moments(c.Q, c.NOISE, c.steps_of(c.EPOCHS), c.DELTA):.2f}" == "2.18"
    assert f"{c.generic(c.Q, c.NOISE, c.steps_of(c.EPOCHS), c.DELTA):.2f}" == "1.62"
    for name, printed in (("abalone", "7.6"), ("adult", "2.90")):
        s = acc_vi.SETTINGS[name]
        assert acc_table1.rounds_to(c.moments(s["q"], min(s["sigmas"]), s["steps"], acc_vi.DELTA_VI / 2, 159), printed)


def test_no_other_setting_that_was_tried_gives_them(monkeypatch):
    monkeypatch.setitem(acc_table1.SEARCHED["mnist"], "sigma", [0.9, 1.0, 1.1])
    found = acc_table1.search("mnist")["found"]
    assert [(round(hit["sigma"], 6), hit["delta"], hit["both"]) for hit in found] == [(1.0, 1e-5, True)]
    monkeypatch.setitem(acc_table1.PRINTED, "mnist", ("2.19", "1.62", ".95"))
    assert acc_table1.search("mnist")["found"] == []


@pytest.mark.parametrize("name", ["moments", "generic"])
def test_delta_is_the_inverse_of_epsilon(name):
    epsilon, delta = getattr(acc_common, name), getattr(acc_common, f"{name}_delta")
    assert delta(0.01, 1.0, 500, epsilon(0.01, 1.0, 500, 1e-5)) == pytest.approx(1e-5, rel=1e-6)


def test_bayesian_accountant_as_printed_is_the_least_over_the_orders():
    squared, order = 0.02, np.geomspace(0.1, 1e3, 100_001)
    least = ((squared * order * (order + 1) + math.log(1e5)) / order).min()
    assert acc_common.bayesian_v1(squared, 1e-5) == pytest.approx(least, rel=1e-6)


def test_langevins_printed_epsilon_is_that_of_its_printed_noise():
    """Their variance on the whole gradient. It is 128 N T L^2 / (b epsilon^2) ln(5 N T / (2 b delta)) ln(2 / delta)."""
    n, b, passes, bound, z, delta = 1000, 50, 3, 2.0, 1.5, 1e-3
    eps = acc_vi.langevin_printed(b / n, z, passes * n // b, delta)
    logs = math.log(5 * n * passes / (2 * b * delta)) * math.log(2 / delta)
    assert 128 * n * passes * bound**2 / (b * eps**2) * logs == pytest.approx((z * bound * n / b) ** 2)


def test_as_printed_the_noise_does_not_enter_what_is_learned():
    X, y = data()
    options = dict(q=0.5, steps=300, clip=10.0, learning_rate=10.0)
    loud, quiet = (acc_vi.as_printed(X, y, 0, noise_sd=sd, **options)[0] for sd in (50.0, 1e-9))
    sd = 50.0 / 0.5 * 10.0 / len(y) / math.sqrt(300)
    assert np.abs(loud - quiet).max() < 8 * sd < 2.5


def test_the_bayesian_accountant_fails_a_constructed_person(monkeypatch):
    X, y = data()
    monkeypatch.setattr(acc_vi, "load", lambda name: (sp.csr_array(X), y, X, y))
    monkeypatch.setitem(acc_vi.SETTINGS, "adult", dict(q=0.1, steps=100))
    monkeypatch.setattr(acc_table1, "NOISE_SD", 1.0)
    monkeypatch.setattr(acc_table1, "HERS", 40.0)
    found = acc_table1.constructed(4)
    assert found["above_printed"] == 4
    assert found["delta_printed"] > 0.1 and max(found["losses"]) < found["exact"]
    # Somebody like the others is hidden as it says.
    monkeypatch.setattr(acc_table1, "USUAL", 1.0)
    monkeypatch.setattr(acc_table1, "HERS", 0.5)
    found = acc_table1.constructed(2)
    assert found["above_printed"] == 0 and found["delta_printed"] == 0.0


@pytest.mark.parametrize(("target", "q", "steps", "delta"), [(1.34, 400 / 60_000, 150, 1e-4), (0.5, 1.0, 10, 1e-4)])
def test_strong_compositions_noise_spends_epsilon_and_delta_whole(target, q, steps, delta):
    z = common.strong_composition_noise(target, round(q * 60_000), 60_000, steps, delta, CLASSICAL)
    step_delta = delta / (2 * steps * q)
    step_epsilon = math.sqrt(2 * math.log(1.25 / step_delta)) / z
    total, spent = strong_composition(math.log1p(q * math.expm1(step_epsilon)), q * step_delta, steps, delta / 2)
    assert total == pytest.approx(target, rel=1e-9) and spent == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("target", stroke_fig5.EPSILONS)
def test_the_moments_accountant_of_the_whole_batch_says_the_target(target):
    """The least over Renyi orders of alpha / (2 z^2) + ln(1/delta) / (alpha - 1) a step; the exact epsilon is less."""
    z = stroke_fig5.moments_noise(target, 10)
    order = 1 + np.geomspace(1e-3, 1e4, 400_001)
    bound = (10 * order / (2 * z * z) + math.log(1 / stroke_fig5.DELTA) / (order - 1)).min()
    assert bound == pytest.approx(target, rel=1e-6)
    assert epsilon(SelfComposedEvent(GaussianEvent(z), 10), stroke_fig5.DELTA) < target
    noises = [common.strong_composition_noise(target, 9, 9, 10, stroke_fig5.DELTA, step) for step in (TIGHT, CLASSICAL)]
    assert z < noises[0] < noises[1]


def test_directions_of_double_noise_newton_move_by_no_more_than_said():
    rng = np.random.default_rng(0)
    reached = []
    for _ in range(200):
        A = rng.normal(size=(4, 3))
        H, g, v = A @ A.T * 10.0 ** rng.uniform(-3, 2), rng.normal(size=4), rng.normal(size=4)
        least = 10.0 ** rng.uniform(-2, 1)
        if rng.random() < 0.5:  # it moves most along the direction that H does not cover
            g = v = np.linalg.svd(A)[0][:, -1]
        before = np.linalg.solve(H + least * np.eye(4), g)
        after = np.linalg.solve(H + np.outer(v, v) + least * np.eye(4), g)
        bound = direction_sensitivity(np.linalg.norm(g), v @ v, least)
        reached.append(np.linalg.norm(before - after) / bound)
    assert max(reached) <= 1 + 1e-9 and max(reached) > 0.999


def wide(n=800, d=30):
    """Sparse rows; only the first column tells the label."""
    rng = np.random.default_rng(1)
    X = sp.random_array((n, d), density=0.3, rng=rng, format="csr")
    y = (np.asarray(X[:, [0]].todense()).ravel() > 0.2).astype(int)
    return sp.csr_array(X), y


def test_steps_of_newton_and_of_frank_wolfe_learn_where_there_is_hardly_noise():
    X, y = wide()
    newton = DoubleNoiseNewton(1e4, 1e-5, n_steps=10).fit(X, y)
    assert ((newton.decision_function(X) > 0) == y).mean() > 0.95 and newton.predict_proba(X).shape == (800, 2)
    w = text_logistic.frank_wolfe(X, y, 1e6, radius=30.0, n_steps=200, rng=np.random.default_rng(2))
    assert abs(w).sum() <= 30 * (1 + 1e-12) and abs(w[:-1]).argmax() == 0
    assert ((X @ w[:-1] + w[-1] > 0) == y).mean() > 0.9
    # With next to no budget the vertices are drawn at random.
    drawn = text_logistic.frank_wolfe(X, y, 1e-3, radius=1.0, n_steps=40, rng=np.random.default_rng(3))
    assert len(np.flatnonzero(drawn)) > 15
