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


NOISY = ["σ = 1", "σ = 6", "σ = 12"]
#: Settings where a printed order does not hold, by figure. Orders that are not here hold in every setting.
FAILS = {
    "epsilon_table": {"the article's accountant gives the printed digits": ["SBN S=3,200 of 60,000"]},
    "pg_fig4": {},
    # Private ERM passes strong composition at a large epsilon only.
    "stroke_fig5": {
        "replace one patient: ours above exact accounting": ["ε = 0.5"],
        "as printed, strong composition, tight step above private ERM": ["ε = 2", "ε = 4"],
        "as printed, strong composition, classical step above private ERM": ["ε = 2", "ε = 4"],
        "authors' code, moments accountant above private ERM": ["ε = 2", "ε = 4"],
        "authors' code, strong composition, classical step above private ERM": ["ε = 1", "ε = 2", "ε = 4"],
    },
    # VIPS is above DPVI at DPVI's own setting, not above a tuned one.
    "adult_fig6": {
        "as printed above DPVI, tuned": NOISY,
        "authors' code above DPVI, its authors' settings": ["σ = 0"],
        "authors' code above DPVI, tuned": ["σ = 0", *NOISY],
    },
    # The authors' code keeps the order at every S.
    "mnist_fig8": {
        f"as printed: moments accountant above strong composition, {step} step": ["K = 50, S = 400"]
        for step in ("tight", "classical")
    },
    # Only the authors' noise hides topics more than no clipping.
    "lda_table3": {"ten words' share: strong composition, authors' code above no clipping": ["S = 20,000"]},
    # The printed generic accountant is no bound.
    "acc_fig1": {"the printed generic ε is at least the exact ε": ["epoch 100"]},
    "acc_fig3": {"the printed generic ε is at least the exact ε": ["T = 93,750"]},
    # The moments accountant is the largest. No run of a constructed person keeps to the guarantee.
    "acc_table1": {
        "the settings found give the printed generic ε too": ["abalone", "adult"],
        "the constructed person's loss is within the printed Bayesian ε": [f"run {i}" for i in range(1, 6)],
    },
    # All three printed formulas spend more than the target, and the right ones do not.
    "slides_table": {"printed σ spends at most ε = 1": ["laplace", "zcdp", "poisson"]},
    # Neither article prints these orders. Of single runs, only the ends of the curves were in order: noise moves a
    # run by as much as epsilon does. Of means of six runs all six steps are, but letters at 1 and 4 differ by less than
    # a standard error of the difference, so other runs may have these two the other way round.
    "latent_models": {},
}
#: Numbers of printed orders.
ORDERS = dict(zip(FAILS, (2, 3, 12, 4, 7, 7, 3, 2, 3, 2, 2), strict=True))


@pytest.mark.parametrize("name", FAILS)
def test_each_printed_order_holds_as_stated(name):
    found = fails(name)
    assert {statement: where for statement, where in found.items() if where} == FAILS[name]
    assert len(found) == ORDERS[name]


@pytest.mark.parametrize(
    ("name", "end", "numbers", "others"),
    [
        # Orders between methods hold, for each strong composition.
        ("lda_fig2", 'below them, "only for certain settings"', [4, 7, 7], 9),
        # No clipping nears strong composition in difference, not in ratio.
        ("lda_fig3", 'approached the performance of strong composition", in ratio', [3], 8),
        # The printed generic accountant is no bound at most points.
        ("acc_fig2", "generic accountant is at least the exact value", [42], 1),
    ],
)
def test_a_printed_order_fails_in_so_many_settings(name, end, numbers, others):
    found = fails(name)
    assert [len(found.pop(statement)) for statement in list(found) if statement.endswith(end)] == numbers
    assert len(found) == others and not any(found.values())


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
