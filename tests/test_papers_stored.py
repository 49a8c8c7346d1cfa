"""The stored raw results of bench/paper: the page is made of them, and each printed order holds where it says."""

import importlib
import re

import pytest
import runner

#: Sections from before raw results were stored; each run of one of these takes it off the list.
UNSTORED = {
    "acc_fig1",
    "blr_coverage",
    "blr_marginals",
    "blr_table",
    "latent_models",
    "lda_coverage",
    "lda_table",
    "lda_vectors",
    "mnist_downstream",
    "text_logistic",
    "topic_labels",
}
PAGE = runner.PAGE.read_text("utf-8")
SECTIONS = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\s*<!-- end -->", PAGE, re.S))


def stored(name):
    rows = runner.rows_of(name, runner.fullest(name, 10))
    assert rows, f"no stored result of {name}"
    return rows


@pytest.mark.parametrize("name", runner.FIGURES)
def test_each_section_is_made_of_stored_results(name):
    body = SECTIONS[name]
    if body.startswith("Not run"):
        return
    if name in UNSTORED:
        assert not runner.rows_of(name, 1) and not runner.rows_of(name, 10)
        return
    scale = int(re.match(r"Scale (\d+):", body).group(1))
    assert body == runner.section(name, scale)


def test_the_summary_is_made_of_stored_results():
    for row in runner.printed_orders():
        assert runner.markdown(["a"] * 4, [row]).splitlines()[-1] in PAGE


def fails(name):
    """The orders of a figure that are printed: statement -> settings at which it fails."""
    return {o.statement: o.fails for o in importlib.import_module(name).orders(stored(name))}
