"""Words, labels and names from strangers, in the text files of every model."""

import csv
import io
import warnings

import numpy as np
import pandas
import pytest

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, TopicTables
from vips_fast.engine.budget import Budget
from vips_fast.jobs import beside
from vips_fast.jobs.folder import write_model
from vips_fast.jobs.publication import check_texts
from vips_fast.models.mixture import GaussianMixture
from vips_fast.report import make_dossier, topics_table
from vips_fast.report.short import short_report
from vips_fast.store.text import printable

NAMES = ["red\x1b[2J", "\u202eder", '=HYPERLINK("http://x.test";"y")', "+cmd|' /C calc'!A0"]
NAMES += ["@SUM(1+1)", "-2+3", "a\rb"]
N = 300
rng = np.random.default_rng(0)
BITS = rng.integers(0, 2, (N, len(NAMES)))
LABELS = np.array(NAMES)[rng.integers(0, len(NAMES), N)]
VOCABULARY = {"vocab.txt": "".join(f"{name}\n" for name in NAMES)}


def topics():
    return LatentDirichletAllocation(2, doc_length=4, epsilon=4.0, n_steps=2).fit(BITS, inputs=VOCABULARY)


def tables():
    model = TopicTables({"=ward": NAMES}, epsilon=4.0)
    return model.fit(rng.dirichlet(np.ones(2), N), {"=ward": LABELS})


MODELS = {
    "topics": topics,
    "coefficients": lambda: BayesianLogisticRegression(epsilon=4.0, n_steps=1, classes=NAMES).fit(
        pandas.DataFrame(BITS, columns=NAMES).astype(float), LABELS
    ),
    "tables": tables,
    "components": lambda: GaussianMixture(2, epsilon=4.0, n_steps=1).fit(pandas.DataFrame(BITS, columns=NAMES)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_names_from_strangers_are_harmless_in_every_text(kind, tmp_path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = MODELS[kind]()
    assert all(str(one.message) == printable(str(one.message)) for one in told)
    texts = beside.texts(model)
    assert len(texts) == 2
    for name, text in texts.items():
        assert text == printable(text)
        if name.endswith(".csv"):
            for cell in (cell for row in csv.reader(io.StringIO(text)) for cell in row):
                assert not cell.startswith(tuple("=+-@")) or float(cell) == float(cell), cell
    for text in (beside.shown(model), short_report(make_dossier(model))):
        assert text == printable(text)
    write_model(model, tmp_path / "m")
    assert all(check.ok for check in check_texts(type(model).load(tmp_path / "m"), tmp_path / "m"))


def test_a_word_cannot_begin_a_line_of_a_table():
    assert len(topics_table(np.eye(2), ["a\nVerdict: useful", "b\tc"]).splitlines()) == 2


def test_the_name_of_a_data_set_is_harmless(tmp_path):
    with pytest.raises(ValueError, match="dataset"):
        Budget.create(tmp_path / "b", epsilon=1.0, delta=1e-5, dataset="a\x1b[2J")
    assert "\x1b" not in beside.statement(topics())
