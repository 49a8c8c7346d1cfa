"""The report of a saved model. Made without data, whole, the same each time, and loud if not private."""

import base64
import dataclasses
import io
import os
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import reported
from cases import CASES
from matplotlib.image import imread
from reported import REPORTED, again, page

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, TopicTables
from vips_fast.accounting import GaussianEvent
from vips_fast.accounting.printing import percent
from vips_fast.models.privacy_file import privacy_record
from vips_fast.report import html_report, make_dossier, part_of, short_report
from vips_fast.report.dossier import purchased_words
from vips_fast.report.figures import bars, gray_png, intervals
from vips_fast.report.html import environment
from vips_fast.report.words import secret_risks

ROOT = Path(__file__).resolve().parents[2]
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Outline(HTMLParser):
    """Tags of a page in order, and the texts of headings. Unclosed tags stand out."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.heads, self.title = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.heads.append([tag, ""])

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if any(re.fullmatch(r"h\d", tag) for tag in self.open):
            self.heads[-1][1] += data
        if self.open[-1:] == ["title"]:
            self.title += data


@pytest.mark.parametrize("name", REPORTED)
def test_a_page_is_whole_and_can_be_read_aloud(name):
    text = page(name)
    outline = Outline(text)
    assert outline.open == [] and text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text
    assert len(text.encode()) < 3_000_000
    levels = [int(tag[1]) for tag, _ in outline.heads]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:]))
    for tag, attributes in outline.tags:
        assert tag not in ("script", "link", "iframe", "object") and not any(key.startswith("on") for key in attributes)
        if tag == "img":
            assert attributes["alt"] and attributes["src"].startswith("data:image/png;base64,")
        assert tag != "svg"
        if attributes.get("class") in ("chart", "map"):
            assert attributes["aria-label"] and (tag == "ul" or attributes["role"] == "img")
        for key in ("src", "href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert text.count("<table") == text.count("<caption>") and "url(" not in text and "@import" not in text
    targets = {attributes["id"] for _, attributes in outline.tags if "id" in attributes}
    assert {attributes["href"][1:] for tag, attributes in outline.tags if tag == "a"} <= targets
    # What stands in names is text.
    assert "<script>" not in text and ("&lt;script&gt;" in text or name in ("images", "tainted", "vocabulary"))
    assert again(name) == text


def test_a_tainted_model_says_so_everywhere():
    text = page("tainted")
    outline = Outline(text)
    assert outline.title.startswith("NOT PRIVATE: ")
    heads = [said for tag, said in outline.heads if tag in ("h1", "h2")]
    assert len(heads) == 7 and all(said.startswith("NOT PRIVATE") for said in heads)
    body = text.partition("<body>")[2]
    assert body.index("NOT PRIVATE: unsafe test_key") < body.index("<h1>") and "What an attacker can gain" not in body
    assert short_report(make_dossier(reported.tainted())).startswith("NOT PRIVATE: ")
    assert "NOT PRIVATE" not in page("topics") and "NOT PRIVATE" not in short_report(make_dossier(reported.topics()))


def test_a_report_is_made_where_there_are_no_data(tmp_path):
    """Another process with only the model makes the same page.

    To the byte, from the model's folder and no other file.
    """
    model = LatentDirichletAllocation(3, epsilon=8.0, n_steps=2, doc_length=12, random_state=0)
    rows = np.random.default_rng(0).poisson(0.6, (200, 12))
    model.fit(rows, inputs={"vocab.txt": "".join(f"word{k}\n" for k in range(12))}).save(tmp_path / "model")
    code = (
        "import sys; from vips_fast.cli import main\n"
        "def watch(event, arguments):\n"
        "    if event == 'open' and str(arguments[0]).startswith('/') and arguments[1] in ('r', 'rb'):\n"
        "        opened.append(str(arguments[0]))\n"
        "opened = []; sys.addaudithook(watch)\n"
        "assert main(['show', 'model', '--out', 'out.html']) == 0\n"
        "print('\\n'.join(opened), file=sys.stderr)\n"
    )
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    roots = tuple({str(ROOT), sys.prefix, sys.base_prefix, "/usr", "/lib", "/proc", "/sys", "/etc", "/dev"})
    assert [name for name in done.stderr.splitlines() if not name.startswith((*roots, str(tmp_path)))] == []
    assert (tmp_path / "out.html").read_text() == html_report(model) and "word7" in html_report(model)


@pytest.mark.parametrize("name", ["lda", "logistic", "network", "lda-paper", "logistic-paper"])
def test_reports_hold_nothing_but_the_result(name):
    """An estimator may hold figures of its training records; a report has none."""
    make, data = CASES[name]
    fitted, other = make().set_unsafe(test_key=b"k" * 32, diagnostics=True).fit(*data()), make()
    other._result = dataclasses.replace(fitted._result, diagnostics=None)
    assert html_report(fitted) == html_report(other)


def test_one_page_is_about_a_model_its_words_and_its_tables():
    model, _ = reported.purchased()
    tables, n_rounds = [reported.tables(False), reported.tables()], len(purchased_words(model).ledger_)
    dossier, last = make_dossier(model, tables=tables), tables[-1]
    assert dossier.privacy == last.privacy_ and dossier.gains[0].epsilon == last.privacy_.epsilon
    assert [one.name for one in dossier.sections] == ["tables1", "tables2", "words"] and len(dossier.released) == 4
    assert dossier.n_releases == 6 + n_rounds and dict(dossier.facts)["releases"] == f"{6 + n_rounds}"
    assert dossier.head == last.ledger_.head
    text = page("whole")
    verdict, pictures, assumptions = (text.index(said) for said in ("<h1>", "Shares by month", 'id="assumptions"'))
    assert verdict < text.index("Released: ") < pictures < assumptions
    assert f"It covers all {6 + n_rounds} releases that this page shows." in text
    # A name given for a topic is its name everywhere.
    script = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"{script} by month" in text and f"Topic 4: {script}" in text
    notes = {group.title: group.note for group in dossier.sections[1].learned.groups}
    assert sum(note.startswith("Grows by ") for note in notes.values()) == 1
    alone = make_dossier(model)
    assert [one.name for one in alone.sections] == ["words"] and alone.privacy == model.privacy_
    # An assumption that is open for one part is open for all.
    held = [{f.assumption.name: f.held for f in make_dossier(one).findings} for one in (model, *tables)]
    assert {f.assumption.name: f.held for f in dossier.findings} == {
        name: held[0][name] if name == "columns" else all(one[name] for one in held) for name in held[0]
    }


def test_charts_of_tables_hold_together():
    """Of 60 topics in two groups dealt at random the twelve that noise sets apart most are shown; keys are fixed."""
    rng = np.random.default_rng(0)
    topics, ward = rng.dirichlet(np.full(60, 0.3), size=8000), rng.integers(0, 2, 8000)
    truth = np.array([topics[ward == group].mean(axis=0) for group in (0, 1)])
    held = []
    for key in range(20):
        tables = TopicTables({"ward": [0, 1]}, epsilon=0.5).set_unsafe(test_key=bytes([key]) * 32)
        tables.fit(topics, {"ward": ward}, inputs={"columns.txt": "".join(f"t{k}\n" for k in range(60))})
        charts = part_of(tables).learned(tables, None, 10).groups
        said = [[re.findall(r"[\d.]+(?=%)", row.value) for row in chart.rows.rows] for chart in charts]
        _, low, high = np.array(said, float).T / 100  # rounded to a tenth of a percent
        right = truth[:, [int(chart.title.split()[0][1:]) for chart in charts]]
        held.append(((low <= right + 5e-4) & (right - 5e-4 <= high)).all())
    assert right.shape == (2, 12) and sum(held) >= 16


def test_the_list_of_tables_names_what_grows():
    rng = np.random.default_rng(0)
    month = rng.integers(1, 7, 20_000)
    topics = np.eye(4)[np.where(rng.random(20_000) < 0.1 * month, 0, rng.integers(0, 4, 20_000))]
    tables = TopicTables({"month": range(1, 7)}, epsilon=0.5).fit(topics, {"month": month})
    said = short_report(make_dossier(tables))
    assert " month 6: topic 1 " in said
    assert re.search(r"^  topic 1: Grows by \d+\.\d\d points from one month to the next", said, re.M)
    # A share is shown if it can be read by the interval beside it, which holds with all others.
    clear = 0
    for epsilon in (0.3, 0.05, 0.02):
        tables = TopicTables({"month": range(1, 7)}, epsilon=epsilon).set_unsafe(test_key=bytes(32))
        said = part_of(tables.fit(topics, {"month": month})).shown(tables, None)
        ends = np.array(re.findall(r"\(([\d.]+)% to ([\d.]+)%\)", said), float).reshape(-1, 2)
        clear += len(ends)
        assert (ends @ [-1, 1] <= 20.1).all() and (said.count("cannot tell") == 6) == (len(ends) == 0)
    assert clear == 36


def test_tables_that_leave_a_release_out_have_no_page_with_it():
    model, _ = reported.purchased()
    wards, months = reported.tables(False), reported.tables()
    for every in ([months], [months, wards], [wards, wards], [model]):
        with pytest.raises(ValueError, match="^tables: "):
            make_dossier(model, tables=every)
    with pytest.raises(ValueError, match="leaves out the model, so no statement is about all"):
        make_dossier(reported.topics(), tables=[wards])


def test_gains_and_spending_are_the_ledgers():
    model = reported.topics()
    dossier, privacy = make_dossier(model, names=reported.words(60)), model.privacy_
    assert [g.epsilon for g in dossier.gains] == [privacy.for_group(k) for k in (1, 2, 5, 10)]
    assert dossier.head == model.ledger_.head
    parts = LatentDirichletAllocation(3, noise_multiplier=2.0, delta=1e-5, doc_length=30, random_state=0)
    data = CASES["lda"][1]
    parts.partial_fit(data()[0], part="a").partial_fit(data(seed=1)[0], part="b").partial_fit(data(seed=2)[0], part="b")
    (one,) = make_dossier(parts).gains
    assert one.epsilon == parts.privacy_.epsilon


def test_topics_show_words_shares_and_what_is_noise():
    model = reported.topics()
    dossier = make_dossier(model, names=reported.words(60), n_words=4)
    assert [len(topic.words) for topic in dossier.learned.topics] == [4] * 14
    assert sum(topic.share for topic in dossier.learned.topics) == pytest.approx(1, rel=1e-12)
    first = dossier.learned.topics[0]
    row = np.argsort(-model.components_[0], kind="stable")[:4]
    values = model.components_[0, row] / model.components_[0].sum()
    clear = model._clear()[0, row]
    assert [mark.weak for mark in first.bars.rows] == (~clear).tolist() and first.clear == clear.sum()
    # Other noise would have found other topics, so there is no error to state.
    assert (first.bars.rows[0].name, first.bars.rows[0].value) == (f"word{row[0]}", f"{100 * values[0]:.3g} %")
    # Without noise there is nothing to tell words from.
    free = make_dossier(CASES["lda"][0](noise_multiplier=None, private=False).fit(*CASES["lda"][1]()))
    assert not any(mark.weak or mark.high > mark.end for topic in free.learned.topics for mark in topic.bars.rows[1:])


def test_pages_of_large_models_stay_small(monkeypatch):
    """Limits of large models, tried on small ones.

    As 1,000 topics, 50,000 columns or images of a megapixel would meet them.
    """
    for name, value in (("topics._MOST", 5), ("coefficients._MOST_CELLS", 12), ("networks._MOST_PIXELS", 100)):
        monkeypatch.setattr(f"vips_fast.report.parts.{name}", value)
    learned = make_dossier(reported.topics()).learned
    components = reported.topics().components_.sum(axis=1)
    assert [topic.number for topic in learned.topics] == sorted(np.argsort(-components)[:5] + 1)
    assert "5 of 14 topics are shown." in learned.note
    learned = make_dossier(reported.coefficients()).learned
    assert len(learned.table) == 12 and learned.caption == "The 12 largest effects"
    learned = make_dossier(reported.images()).learned
    assert len(learned.pictures) == 1 + 2 and learned.note == "2 of 6 hidden units are shown."


def test_bad_input():
    with pytest.raises(ValueError, match="names: 3 were given; expected 60, one for each column"):
        html_report(reported.topics(), names=["a", "b", "c"])
    with pytest.raises(ValueError, match="n_words=0"):
        html_report(reported.topics(), n_words=0)
    with pytest.raises(ValueError, match="not fitted"):
        html_report(LatentDirichletAllocation())


def test_images_are_png():
    image = np.array([[1.0, 0.0, -1.0], [2.0, 0.5, -2.0]])
    head, _, content = gray_png(image, 1.0, -1.0).partition(",")
    back = imread(io.BytesIO(base64.b64decode(content)))
    assert head == "data:image/png;base64"
    assert np.rint(255 * back).astype(int).tolist() == [[0, 128, 255], [0, 64, 255]]


def test_a_page_opens_with_what_was_released_and_what_it_means():
    model = reported.topics()
    text = html_report(model, names=reported.words(60), dataset="notes of 2025", date="July 2026")
    head = text[text.index("<h1>") : text.index("<main>")]
    assert "14 topics, with the probability of each of 60 words" in head and "notes of 2025" in head
    assert "July 2026" in head and "50 % is chance" in head
    assert f"at most {percent(model.privacy_.attack_success)} of the time" in head
    rarest = privacy_record(model._fitted())["risk"]["inference"][2]
    assert "which of 100 persons a record belongs to" in text and percent(rarest["success"], 2) in text
    assert text.index('id="learned"') < text.index('id="guarantee"') < text.index('id="assumptions"')


@pytest.mark.parametrize("n_steps", (1, 3))
def test_the_guarantee_is_said_in_plain_lines_before_what_is_for_experts(n_steps):
    model = LatentDirichletAllocation(2, n_steps=n_steps, noise_multiplier=5.0, doc_length=5)
    counts = np.random.default_rng(0).integers(0, 3, (40, 12))
    text = html_report(model.fit(counts, groups=np.arange(40) // 2, unit="family"))
    section = text.partition('id="guarantee"')[2].partition('id="assumptions"')[0]
    plain, _, experts = section.partition("For experts")
    assert "One family is protected" in plain and "right at most" in plain
    assert not re.search("μ|Poisson|multiplier|accountant|minibatch", plain) and "noise multiplier" in experts
    assert "whether the records of one family are among the data" in text and "about one family with" in text
    assert "number of families" in plain and "familys" not in text and not re.search(r"\b1 (release|run|topic)s", text)
    assert len(make_dossier(model).gains) == 1
    assert "The fit kept no releases" in text and "No budget paid for this model" in text


def test_replaced_records_are_two_values():
    make, data = CASES["lda"]
    text = html_report(make(sampling="full", options={"relation": "replace_one"}).fit(*data()))
    assert "which of two possible values the records of one person have" in text


def test_the_risk_of_several_bounds_is_the_largest():
    bounds = [(GaussianEvent(10.0), 1.0), (GaussianEvent(1.0), 1.0), (GaussianEvent(3.0), 1.0)]
    alone = [secret_risks([bound]) for bound in bounds]
    for shown, *each in zip(secret_risks(bounds), *alone, strict=True):
        assert shown.success == max(risk.success for risk in each) > min(risk.success for risk in each)


def test_an_interval_is_pale_where_it_holds_zero():
    chart = intervals(["hidden", "more", "less"], [0.1, 0.5, -0.5], [-0.1, 0.2, -0.9], [0.3, 0.8, -0.1], (-1.0, 1.0))
    assert [row.weak for row in chart.rows] == [True, False, False]


def test_words_of_the_data_are_no_markup():
    assert environment().from_string("{{ word }}").render(word="<b>&") == "&lt;b&gt;&amp;"


def test_a_page_without_a_known_effect_shows_none():
    X = np.random.default_rng(0).normal(size=(60, 2)) / 3
    model = BayesianLogisticRegression(classes=[0, 1], epsilon=0.01).set_unsafe(test_key=bytes(32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is hopeless
        page = html_report(model.fit(X, np.arange(60) % 2))
    assert "none is known." in page and "The 0 largest" not in page


def test_an_estimate_has_the_decimals_of_its_interval():
    """In charts, as in lists (`models/test_effect_words.py`); a share beside its standard error."""
    (interval,) = intervals(["x"], [0.123456], [-0.3], [0.5], (-1.0, 1.0)).rows
    (bar,) = bars(["x"], [0.0123456], [0.002]).rows
    assert (interval.value, bar.value) == ("+0.12, from -0.30 to +0.50", "1.23 % ± 0.20 %")
