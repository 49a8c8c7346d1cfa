"""The stored raw results of bench/paper. The page is made of them, and each printed order holds as stated."""

import importlib
import re

import acc_vi
import matplotlib.text
import pytest
import runner

PAGE = runner.PAGE.read_text("utf-8")
SHOWN = [name for name in runner.FIGURES if name not in runner.OURS]
SECTIONS = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\s*<!-- end -->", PAGE, re.S))
#: What a picture says of neighbors.
RELATION = re.compile(r"replace one|add or remove", re.I)
#: Pictures of the VIPS article's methods, which show both baselines.
BASELINES = ("lda_fig2", "lda_fig3", "stroke_fig5", "adult_fig6", "mnist_fig8")


def stored(name):
    rows = runner.rows_of(name, runner.fullest(name, 10))
    assert rows, f"no stored result of {name}"
    return rows


@pytest.mark.parametrize("name", SHOWN)
def test_each_section_is_made_of_stored_results(name):
    scale = int(re.match(r"Scale (\d+)", SECTIONS[name]).group(1))
    rows = runner.rows_of(name, scale)
    assert len(rows) == len(importlib.import_module(name).cells(scale))
    assert SECTIONS[name] == runner.section(name, scale)


def test_the_quick_form_of_all_takes_at_most_45_minutes_of_two_cores():
    seconds = [sum(r["seconds"] for r in runner.rows_of(n, runner.fullest(n, 10))) for n in runner.FIGURES]
    assert sum(seconds) <= 2 * 45 * 60


@pytest.mark.parametrize("name", [n for n in runner.FIGURES if "Figure" in importlib.import_module(n).TITLE])
def test_each_figure_has_orders_and_says_its_relation_and_baselines(name, tmp_path, monkeypatch):
    module, said = importlib.import_module(name), []
    assert module.orders(stored(name))
    if name == "pg_fig4":
        return  # neither data nor privacy

    def note(figure, folder, stem):
        said.extend(found.get_text() for found in figure.findobj(matplotlib.text.Text))
        return []

    for drawing in (module, acc_vi):
        monkeypatch.setattr(drawing, "save", note, raising=False)
    module.draw(stored(name), tmp_path)
    text = " ".join(said)
    assert RELATION.search(text), text
    if name in BASELINES:
        assert "as printed" in text and "authors' code" in text


def fails(name):
    """Map each printed order of a figure to failing settings."""
    return {o.statement: o.fails for o in importlib.import_module(name).orders(stored(name))}


def test_printed_epsilons():
    assert fails("epsilon_table") == {
        "the article's accountant gives the printed digits": ["SBN S=3,200 of 60,000"],
        "the printed ε covers the sensitivities that hold": [],
    }


def test_figure_4():
    assert not any(fails("pg_fig4").values())


def test_figure_5():
    """Check that private ERM passes strong composition at a large epsilon only."""
    found = fails("stroke_fig5")
    assert found.pop("replace one patient: ours above exact accounting") == ["ε = 0.5"]
    beaten = {statement: found.pop(statement) for statement in list(found) if statement.endswith("above private ERM")}
    assert beaten == {
        "as printed, moments accountant above private ERM": [],
        "as printed, strong composition, tight step above private ERM": ["ε = 2", "ε = 4"],
        "as printed, strong composition, classical step above private ERM": ["ε = 2", "ε = 4"],
        "authors' code, moments accountant above private ERM": ["ε = 2", "ε = 4"],
        "authors' code, strong composition, classical step above private ERM": ["ε = 1", "ε = 2", "ε = 4"],
    }
    assert len(found) == 6 and not any(found.values())


def test_figure_6():
    """Check that VIPS is above DPVI at DPVI's own setting. It is not above a tuned one."""
    noisy = ["σ = 1", "σ = 6", "σ = 12"]
    assert fails("adult_fig6") == {
        "as printed above DPVI, its authors' settings": [],
        "as printed above DPVI, tuned": noisy,
        "authors' code above DPVI, its authors' settings": ["σ = 0"],
        "authors' code above DPVI, tuned": ["σ = 0", *noisy],
    }


def test_accountants_figure_1():
    """Check that the printed generic accountant is no bound. That is at the last printed epoch."""
    assert fails("acc_fig1") == {
        "moments accountant above generic accountant": [],
        "generic accountant above Bayesian accountant": [],
        "the printed generic ε is at least the exact ε": ["epoch 100"],
    }


def test_accountants_figure_2():
    """Check that the printed generic accountant is no bound at most points."""
    found = fails("acc_fig2")
    assert found["generic accountant below moments accountant"] == []
    assert len(found["the printed generic accountant is at least the exact value"]) == 42


def test_accountants_figure_3():
    assert fails("acc_fig3") == {
        "the best λ falls as T grows": [],
        "the printed generic ε is at least the exact ε": ["T = 93,750"],
    }


def test_figure_8():
    """Check that the authors' code keeps the order at every S."""
    found = fails("mnist_fig8")
    for steps in ("moments accountant above strong composition, classical step", "the same after 2 steps"):
        assert found[f"authors' code: {steps}"] == []
    assert found["authors' code: the same after 6 steps"] == []
    for step in ("tight", "classical"):
        assert found.pop(f"as printed: moments accountant above strong composition, {step} step") == ["K = 50, S = 400"]
    assert not any(found.values())


def test_figure_2():
    """Check that all orders between methods hold, for each strong composition."""
    found = fails("lda_fig2")
    some = [s for s in found if s.endswith('below them, "only for certain settings"')]
    assert [len(found.pop(s)) for s in some] == [4, 7, 7]
    assert len(found) == 9 and not any(found.values())


def test_figure_3():
    """Check that no clipping nears strong composition in difference, not in ratio."""
    found = fails("lda_fig3")
    ratio = found.pop('no clipping "gradually approached the performance of strong composition", in ratio')
    assert len(ratio) == 3
    assert len(found) == 8 and not any(found.values())


def test_table_3():
    """Check that only the authors' noise hides topics more than no clipping."""
    found = fails("lda_table3")
    assert found.pop("ten words' share: strong composition, authors' code above no clipping") == ["S = 20,000"]
    assert len(found) == 6 and not any(found.values())


def test_numbers_of_the_explanation():
    text = (runner.ROOT / "docs" / "explanation" / "paper.md").read_text("utf-8")
    last = {row["method"]: f"{row['last']:.0f}" for row in stored("lda_fig3")}
    assert re.findall(r"perplexity is (\d+) here, with a proof\. It is (\d+) with", text) == [
        (last["ours"], last["moments accountant"])
    ]


@pytest.mark.parametrize("name", ["lda_fig2", "lda_fig3", "lda_table3", "stroke_fig5", "adult_fig6", "mnist_fig8"])
def test_sections_name_the_relation(name):
    assert "replac" in SECTIONS[name]


@pytest.mark.parametrize(
    ("name", "broken"), [("acc_fig4", [0, 1, 1, 3, 3]), ("acc_fig5", [0, 0, 4, 0, 1])], ids=["figure 4", "figure 5"]
)
def test_accountants_figures_4_and_5(name, broken):
    """Check the printed accountants' orders, and a sound one's. The methods are sampling VI, DPVI and DP-SGLD."""
    found = acc_vi.orders(stored(name))
    assert [len(o.fails) for o in found] == broken and all(len(o.holds) + len(o.fails) == 4 for o in found)


def test_latent_models():
    """Check fits without privacy against other packages.

    They reach those, and epsilon helps.

    Neither article prints this order. Of single runs, only the ends of the three curves were in order: noise moves a
    run by as much as epsilon does. Of means of six runs all six steps are, but letters at 1 and 4 differ by less than
    a standard error of the difference, so other runs may have these two the other way round.
    """
    assert not any(fails("latent_models").values())


def test_accountants_table_1():
    """Check that the moments accountant is the largest. No run of a constructed person keeps to the guarantee."""
    assert fails("acc_table1") == {
        "moments accountant above generic": [],
        "the settings found give the printed generic ε too": ["abalone", "adult"],
        "the constructed person's loss is within the printed Bayesian ε": [f"run {i}" for i in range(1, 6)],
    }


def test_slides():
    """Check that the printed formulas spend more than the target. All three do, and the right ones do not."""
    assert fails("slides_table") == {
        "printed σ spends at most ε = 1": ["laplace", "zcdp", "poisson"],
        "right σ spends at most ε = 1": [],
    }
