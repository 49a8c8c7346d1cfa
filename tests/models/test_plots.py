"""Figures of fitted models, also in notebooks. From released numbers, loud if not private."""

import io
import sys

import numpy as np
import pytest
import reported
from cases import CASES

from vips_fast import LatentDirichletAllocation


def drawn(figure):
    """Titles and labels of a figure, which can be written."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=30)
    assert file.getvalue().startswith(b"\x89PNG")
    return [panel for panel in figure.axes if panel.axison]


def labels(panel):
    return [label.get_text() for label in panel.get_yticklabels()]


def test_topics():
    model = reported.tainted()
    words = [f"w${k}" for k in range(12)]  # a dollar sign is no formula
    panels = drawn(model.plot(words, n_words=3))
    assert len(panels) == 3
    first = np.argsort(-model.components_[0], kind="stable")[:3]
    assert labels(panels[0]) == [f"w\\${k}" for k in first]
    widths = [bar.get_width() for bar in panels[0].patches]
    np.testing.assert_allclose(widths, model.components_[0, first] / model.components_[0].sum(), rtol=1e-12)


def test_coefficients():
    model = reported.coefficients()
    (panel,) = drawn(model.plot(most=5))
    first = np.argsort(-np.abs(model.coef_[0]), kind="stable")[:5]
    sure = np.isfinite(model.credible_interval()[first, 1])
    said = [f"column {j}" + " (not known)" * (not known) for j, known in zip(first, sure, strict=True)]
    assert labels(panel) == said and panel.get_title() == "1 against 0" and not sure.all()
    assert len(panel.collections[0].get_segments()) == sure.sum()
    np.testing.assert_array_equal(panel.collections[-1].get_offsets()[:, 0], model.coef_[0, first])
    assert len(reported.coefficients(4).plot([f"x{j}" for j in range(30)]).axes) == 4


@pytest.mark.parametrize("name", ["lda", "logistic"])
def test_a_tainted_model_says_so_above(name):
    make, data = CASES[name]
    model = make().set_unsafe(test_key=b"k" * 32).fit(*data())
    assert model.plot().get_suptitle().startswith("NOT PRIVATE: unsafe test_key")
    shown = model._repr_html_()
    assert "NOT PRIVATE: unsafe test_key" in shown and "<pre>" in shown
    assert "NOT PRIVATE: unsafe test_key" in repr(model)
    private = make().fit(*data())
    assert private.plot().get_suptitle() == "" and "NOT PRIVATE" not in repr(private)


def test_bad_input(monkeypatch):
    model = reported.topics()
    with pytest.raises(ValueError, match="names: 2 were given; expected 60"):
        model.plot(["a", "b"])
    with pytest.raises(ValueError, match="n_words=0"):
        model.plot(n_words=0)
    with pytest.raises(ValueError, match="not fitted"):
        LatentDirichletAllocation().plot()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"vips_fast\[plot\]"):
        model.plot()


def test_what_a_notebook_shows():
    model = LatentDirichletAllocation(3)
    assert model._repr_html_() == "<pre>LatentDirichletAllocation(n_components=3)</pre>"
    fitted = reported.topics()
    assert fitted.privacy_.statement() in fitted._repr_html_() and fitted.privacy_._repr_html_().startswith("<p>")
