"""A vocabulary purchase is a run like any other. It goes on after a kill, and nothing that was drawn is forgotten."""

import stat
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from written import write_notes

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast.data import load_corpus
from vips_fast.data.records import Records
from vips_fast.engine.budget import Budget
from vips_fast.engine.checkpoint import RunFolder, ledger_in
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.releases import opened, release_name, release_of
from vips_fast.jobs import Job, TextFile
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.vocabulary.model import (
    LARGEST_DELTA,
    ThresholdSampler,
    VocabularyModel,
    threshold_delta,
    threshold_for,
)
from vips_fast.store.log import Log

ROUNDS = 4
TEXTS = ["cough fever rash", "cough sleep", "fever sleep zebra"] * 150 + ["sesame cough"]


def purchase(**options):
    options = dict(epsilon=4.0, delta=1e-5, max_tokens=20) | options
    return PrivateVocabulary(**options)


class Killed(BaseException):
    """Ends a run as a kill does: nothing is tidied up."""


def killed_in_round(monkeypatch, number, place):
    """Kill a run in a round. Before its ledger's record, before its noise, after its release is kept."""
    kind, name = {
        "ledger": (Ledger, "intend"),
        "noise": (GaussianMechanism, "add_noise"),
        "kept": (RunFolder, "keep_release"),
    }[place]
    true, calls = getattr(kind, name), Counter()

    def method(self, *arguments, **more):
        if kind is Ledger and not isinstance(self._chain, Log):
            return true(self, *arguments, **more)  # records that are read again
        calls["all"] += 1
        if calls["all"] == number:
            if place == "kept":
                true(self, *arguments, **more)
            raise Killed
        return true(self, *arguments, **more)

    monkeypatch.setattr(kind, name, method)


@pytest.mark.parametrize("place", ["ledger", "noise", "kept"])
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
@pytest.mark.parametrize("paid", [False, True])
def test_a_purchase_goes_on_after_a_kill_in_any_round(number, place, paid, tmp_path, monkeypatch):
    budget = Budget.create(tmp_path / "b", 9.0, 1e-5, dataset="d", filter="gaussian", purchases=1) if paid else None
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_in_round(patch, number, place)
        purchase().fit(TEXTS, checkpoint=tmp_path / "run", budget=budget)
    lost = place == "noise"
    spent = ledger_in(tmp_path / "run")[0]
    assert len(spent) == number - (place == "ledger")
    words = purchase().fit(TEXTS, checkpoint=tmp_path / "run", resume=True, budget=budget)
    # A round that was lost is counted, and target and budget pay for the rounds that are left. An exception, unlike a
    # kill, gives a charge without a record back.
    assert len(words.ledger_) == ROUNDS and words.privacy_.lost == lost and words.n_steps_ == ROUNDS - lost
    assert words.ledger_.records[: len(spent.records)] == spent.records
    assert words.privacy_.epsilon <= 4.0 and set(words.vocabulary_) == {"cough", "fever", "rash", "sleep", "zebra"}
    if budget is not None:
        runs = budget.show()["runs"]
        assert sum(run["counted"] for run in runs) == ROUNDS and budget.spent < 4.1
        assert budget.show()["purchases"]["left"] == 0
    again = purchase().fit(TEXTS, checkpoint=tmp_path / "run", resume=True, budget=budget)
    assert again.ledger_.head == words.ledger_.head and again.vocabulary_ == words.vocabulary_


def test_what_the_folder_of_a_purchase_holds(tmp_path):
    """Sums of all tokens in their numbers' order, and the key of the persons' words: no name, and no key of noise."""
    words = purchase().fit(TEXTS, checkpoint=tmp_path / "run")
    held = {path.name: path for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert set(held) == {*(release_name(k) for k in range(ROUNDS)), "ledger.jsonl", "lock", "run.json", "start.npz"}
    for name, path in held.items():
        content = path.read_bytes()
        assert all(token not in content for token in (b"sesame", b"zebra", b"cough"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if name.startswith("release"):
            assert release_of(*opened(path, ""), path, "").units.shape == (7,)
    assert set(opened(held["start.npz"], "")[1]) == {"sums", "sets", "key"}
    assert words.vocabulary_
    # Without the start nobody knows which tokens the sums are of.
    held["start.npz"].unlink()
    with pytest.raises(FileNotFoundError, match="start.npz: missing, beside releases"):
        purchase().fit(TEXTS, checkpoint=tmp_path / "run", resume=True)


def test_a_person_keeps_the_same_tokens_after_a_kill(tmp_path, monkeypatch):
    """They are chosen once. The proof's mixture is over one random word a person."""
    held, true = [], VocabularyModel.learn

    def learn(self, sets, key=b""):
        held.append(sets.digest())
        true(self, sets, key)

    monkeypatch.setattr(VocabularyModel, "learn", learn)
    texts = [" ".join(f"w{i}" for i in range(40))] * 60
    settings = dict(max_tokens=10, epsilon=9.0)
    for kill, resume in ((3, False), (2, True), (None, True)):
        with monkeypatch.context() as patch:
            if kill is not None:
                killed_in_round(patch, kill, "ledger")
            try:
                purchase(**settings).fit(texts, checkpoint=tmp_path / "run", resume=resume)
            except Killed:
                assert kill is not None
    assert len(held) == 3 and len(set(held)) == 1
    other = purchase(**settings).fit(texts, checkpoint=tmp_path / "other")
    assert len(other.ledger_) == ROUNDS and held[-1] != held[0]


def test_other_texts_are_refused_by_a_line_that_names_none(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_in_round(patch, 3, "ledger")
        purchase().fit(TEXTS, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run on other texts or persons; expected the same") as error:
        purchase(n_records=451).fit([*TEXTS[:-1], "cough onion"], checkpoint=tmp_path / "run", resume=True)
    assert "onion" not in str(error.value)
    assert len(ledger_in(tmp_path / "run")[0]) == 2


@pytest.mark.parametrize("rounds", [2, 4, 8, 30])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3, LARGEST_DELTA])
@pytest.mark.parametrize("most", [1, 300])
def test_the_threshold_is_valid_for_fewer_rounds(rounds, delta, most):
    """At most the shares of the rounds that were begun. The proof of `VocabularyModel`, in numbers."""
    for sigma in (1.0, 5.0, 40.0):
        threshold = threshold_for(delta, sigma, most, rounds)
        share = ThresholdSampler(100, rounds, most, delta).round_delta
        for done in range(1, rounds + 1):
            assert threshold_delta(threshold, sigma, most, done) <= -np.expm1(done * np.log1p(-share)) * (1 + 1e-9)


# ---------------------------------------------------------------- the whole job


def job(folder, resume=False, **more):
    source = TextFile(folder / "notes.csv", text=["note"], person="patient", language="en", max_share=1.0)
    model = LatentDirichletAllocation(2, epsilon=8.0, delta=1e-5, n_steps=2, n_jobs=1 + resume)
    return Job(
        model, source, folder / "out", budget=folder / "b", resume=resume, on_forecast=lambda forecast: None, **more
    )


@pytest.mark.parametrize("person", ["patient", None])
def test_the_attempt_that_purchases_reads_the_texts_once(person, tmp_path, monkeypatch):
    """A later one reads them again; both count what `load_corpus` counts."""
    path, reads, given = tmp_path / "notes.csv", [], []
    write_notes(path, 600)
    source = TextFile(path, text=["note"], person=person, language="en", max_share=1.0)
    batches, read = Records.batches, TextFile.read
    monkeypatch.setattr(Records, "batches", lambda self: reads.append(1) or batches(self))
    monkeypatch.setattr(TextFile, "read", lambda *arguments: given.append(read(*arguments)) or given[-1])
    for resume in (False, True):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(LatentDirichletAllocation, "fit", lambda *a, **k: killed())
            replace(job(tmp_path), source=source, budget=None, resume=resume).run()
    assert len(reads) == 2
    vocabulary = given[0].inputs["vocab.txt"].split()
    expected = load_corpus(path, vocabulary, text="note", person=person, analyzer=source.words_analyzer)
    for material in given:
        (counts,) = material.data
        assert material.inputs == given[0].inputs and (counts != expected.counts).nnz == 0
        assert counts.shape == expected.counts.shape and counts.dtype == expected.counts.dtype
        np.testing.assert_array_equal(material.groups, expected.groups)


def killed():
    raise Killed
