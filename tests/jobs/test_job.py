"""A job from Python is the job of the shell.

Statuses that are true, and a run that goes on; tests/cli/test_doors.py compares the bits.
"""

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from runs import stopping_after
from written import write_notes

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast.cli import main
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.jobs import Job, PurchaseError, Status, TextFile


@pytest.fixture
def notes(tmp_path):
    write_notes(tmp_path / "notes.csv", 1500)
    return tmp_path / "notes.csv"


def model(**settings):
    return LatentDirichletAllocation(2, **{"epsilon": 6.0, "delta": 1e-5, "random_state": 3} | settings)


def quiet(forecast):
    """Take any forecast."""


def stops(progress):
    raise KeyboardInterrupt


#: What stops a job after its first step.
STOPS = dict(progress=lambda: nullcontext(stops))


def bought(notes, folder, read=(), **more):
    """A job of topics over words that it purchases, unless ``read`` has others."""
    source = TextFile(
        notes, **{"text": ["note"], "person": "patient", "language": "en", "max_share": 1.0, **dict(read)}
    )
    return Job(model(n_steps=4), source, folder / "out", on_forecast=quiet, **more)


def test_a_job_that_was_stopped_goes_on_and_purchases_once(notes, tmp_path, monkeypatch):
    purchases, real = [], PrivateVocabulary.fit
    monkeypatch.setattr(PrivateVocabulary, "fit", lambda self, *a, **k: purchases.append(0) or real(self, *a, **k))
    budget = Budget.create(tmp_path / "b", 9.0, 1e-5, dataset="ward7", unit="person")

    def job(read=(), **more):
        monkeypatch.chdir(tmp_path)  # the places stay, wherever the program goes
        away = {"progress": lambda: nullcontext(lambda progress: os.chdir(tmp_path.parent))}
        return bought(notes, Path(), read, budget="b", **away | more)

    first = job(**STOPS)
    with pytest.raises(KeyboardInterrupt) as error:
        first.run()
    assert first.status is Status.SPENT and "with resume=True continues" in "".join(error.value.__notes__)
    with pytest.raises(ValueError, match="expected resume=True"):
        job().run()
    with pytest.raises(ValueError, match="holds a run with encoding = none, this fit has 'cp1252'; expected the same"):
        job(resume=True, asked={"encoding": "cp1252"}).run()
    with pytest.raises(ValueError, match="max_share=0.9: gives other words than the topics that resume=True continues"):
        job({"max_share": 0.9}, resume=True).run()
    again = job(resume=True)
    done = again.run()
    assert (tmp_path / "out").is_dir() and done.budget.spent == budget.spent
    assert again.status is Status.PUBLISHED and len(purchases) == 1 and done.model.n_steps_ == 4
    spent = budget.spent
    assert job(resume=True).run().note.endswith("nothing was spent.") and budget.spent == spent


def test_the_status_after_an_error_says_what_was_spent(notes, tmp_path):
    small = Budget.create(tmp_path / "b", 1.0, 1e-5, dataset="ward7", unit="person")
    source = TextFile(notes, text=["note"], person="patient", language="en", max_share=1.0)
    refused = Job(model(), source, tmp_path / "out", budget=small)
    with pytest.raises(BudgetExceededError):
        refused.run()
    assert refused.status is Status.PLANNED and small.spent == 0 and not (tmp_path / "out.run").exists()
    empty = Job(model(epsilon=0.001), source, tmp_path / "empty", on_forecast=quiet)
    with pytest.raises(PurchaseError, match="no word can be released"):
        empty.run()
    assert empty.status is Status.SPENT

    def hopeless(forecast):
        raise ValueError(forecast.text)

    told = Job(model(), TextFile(notes, text=["note"], vocab="public:en"), tmp_path / "told", on_forecast=hopeless)
    with pytest.raises(ValueError, match="forecast"):
        told.run()
    assert told.status is Status.PLANNED and not (tmp_path / "told.run").exists()

    def fails(progress):
        raise ValueError("the caller's own error, after a release")

    public = TextFile(notes, text=["note"], vocab="public:en")
    begun = Job(model(n_steps=2), public, tmp_path / "begun", on_forecast=quiet, progress=lambda: nullcontext(fails))
    with pytest.raises(ValueError, match="the caller's own"):
        begun.run()
    assert begun.status is Status.SPENT


def test_a_finished_model_is_the_answer_to_the_same_question_only(notes, tmp_path):
    """What no setting of the model holds is compared, too; nothing is spent, and the model stays."""
    budget, other = (Budget.create(tmp_path / name, 9.0, 1e-5, dataset="ward7", unit="patient") for name in "bc")

    def job(paid=budget, out="out", person="patient", unit="patient", settings=None, transcript=None, **read):
        source = TextFile(notes, **{"text": ["note"], "person": person, "vocab": "public:en", "vocab_size": 900} | read)
        more = dict(budget=paid, unit=unit if person else None, resume=True, on_forecast=quiet, transcript=transcript)
        return Job(model(**{"n_steps": 2} | (settings or {})), source, tmp_path / out, **more)

    job().run()
    spent, before = budget.spent, {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    for match, changed in {
        "epsilon = 6.0, this fit has 7.0": dict(settings={"epsilon": 7.0}),
        "n_steps = 2, this fit has 3": dict(settings={"n_steps": 3}),
        "person = 'patient', this fit has none": dict(person=None),
        "unit = 'patient', this fit has 'case'": dict(unit="case"),
        r"text = \['note'\], this fit has \['patient', 'note'\]": dict(text=["patient", "note"]),
        "ngrams = 1, this fit has 2": dict(ngrams=2),
        "with vocab unlike this fit's": dict(vocab_size=800),
        "vocab = another tuple, this fit has 'private'": dict(vocab="private", language="en"),
        "transcript = none, this fit has '.*releases'": dict(transcript=tmp_path / "releases"),
        "pays for the model in": dict(paid=other),
        "budget=None: the budget of ward7": dict(paid=None),
    }.items():
        with pytest.raises(ValueError, match=match) as error:
            job(**changed).run()
        assert "\n" not in str(error.value) and "expected" in str(error.value), match
    assert job().run().note.endswith("nothing was spent.") and (budget.spent, other.spent) == (spent, 0)
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_a_purchase_stays_with_the_budget_that_paid_for_it(notes, tmp_path):
    budgets = [Budget.create(tmp_path / name, 9.0, 1e-5, dataset=name, unit="person") for name in "ab"]
    job = partial(bought, notes, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        job(budget=budgets[0], **STOPS).run()
    with pytest.raises(ValueError, match="the budget of a .* pays for the run in"):
        job(budget=budgets[1], resume=True).run()
    assert budgets[1].spent == 0
    assert job(budget=budgets[0], resume=True).run().model.n_steps_ == 4


def test_messages_speak_of_parameters_to_python_and_of_options_to_the_shell(notes, tmp_path, capsys):
    read = "--text note --person patient --language en --topics 2 --epsilon 6".split()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    with pytest.raises(ValueError, match="is not empty; force=True replaces a model"):
        Job(model(), TextFile(notes, text=["note"], person="patient", language="en"), tmp_path / "out").run()
    assert main(["fit", "lda", str(notes), *read, "--out", str(tmp_path / "out")]) == 2
    assert "is not empty; --force replaces a model" in capsys.readouterr().err


@pytest.mark.parametrize("first, then", [("private", "public:en"), ("public:en", "private")])
def test_a_run_stays_with_its_purchase_or_without_one(first, then, notes, tmp_path):
    """Words that the other one purchased would be in no statement; nothing is spent on them."""

    def job(vocab, **more):
        return bought(notes, tmp_path, {"vocab": vocab, "stop_words": "none"}, **more)

    with pytest.raises(KeyboardInterrupt):
        job(first, **STOPS).run()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]
    before = [path.read_bytes() for path in files]
    with pytest.raises(ValueError, match="holds a run with (a|no) vocabulary purchase; expected the same vocab, or"):
        job(then, resume=True).run()
    assert before == [path.read_bytes() for path in files]
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"] == files
    assert job(first, resume=True).run().model.n_steps_ == 4


def test_a_purchase_has_the_bounds_of_its_question(notes, tmp_path):
    """A purchase that was begun, and a finished model; what is refused before it spends has status "planned"."""
    job = partial(bought, notes, tmp_path, resume=True)
    with stopping_after(0):
        job().run()
    refused = job({"max_share": 0.9})
    with pytest.raises(ValueError, match=r"max_share = 1.0, this fit has 0.9"):
        refused.run()
    assert refused.status is Status.PLANNED
    job().run()
    for match, changed in {
        "max_share = 1.0, this fit has 0.9": dict(max_share=0.9),
        "vocab_size = .*, this fit has 3": dict(vocab_size=3),
        "vocab = 'private', this fit has another tuple": dict(vocab="public:en"),
    }.items():
        with pytest.raises(ValueError, match=match):
            job(changed).run()
    assert job().run().note.endswith("nothing was spent.")
