"""A job with a public prior. Its words, public or purchased, and refusals before anything is spent."""

import csv
from contextlib import nullcontext

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior, load_prior
from vips_fast.jobs import Job, TextFile

WORDS = [f"{a}{b}" for a in "bcdf" for b in ("an", "en", "in", "on", "un")]


@pytest.fixture
def notes(tmp_path):
    """3,000 notes of 15 words about two halves of the words. Each by a person of its own."""
    rng = np.random.default_rng(0)
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "text"])
        for n in range(3000):
            rows.writerow([n, " ".join(rng.choice(WORDS[n % 2 * 10 :][:10], 15))])
    return tmp_path / "notes.csv"


def write_prior(path, words):
    rng = np.random.default_rng(1)
    PublicPrior(words, rng.gamma(1.0, 1.0, (2, len(words))) + 0.01, np.ones(2), np.ones(len(words)), "a test").save(
        path
    )
    return str(path)


def job(notes, prior, n_topics=2, **more):
    model = LatentDirichletAllocation(n_topics, doc_length=15, epsilon=8.0, delta=1e-5, random_state=0)
    more = {"vocab": "private", **more}
    source = TextFile(notes, person="who", stop_words="none", max_share=1.0, public_prior=prior, **more)
    return Job(model, source, notes.parent / "topics", on_forecast=lambda forecast: None)


def test_the_prior_of_purchased_words(notes, tmp_path):
    prior = write_prior(tmp_path / "prior.npz", [*WORDS[::-1], "more"])
    done = job(notes, prior).run()
    found, columns = done.model.public_prior, tuple(done.words.get_feature_names_out())
    assert set(columns) == set(WORDS) and found.words == columns
    assert found.digest == load_prior(prior).restricted_to(columns).digest
    kept = LatentDirichletAllocation.load(tmp_path / "topics").public_prior
    assert kept.digest == found.digest


def test_without_another_vocabulary_the_words_are_those_of_the_prior(notes, tmp_path):
    prior = write_prior(tmp_path / "prior.npz", [*WORDS[::-1], "more", "two words", "Upper"])
    planned = job(notes, prior, vocab=None)
    assert not planned.source.purchases
    done = planned.run()
    assert done.words is None and set(done.model.public_prior.words) == {*WORDS, "more"}
    found, columns = done.model.public_prior, done.model.inputs_["vocab.txt"].split()
    assert found.digest == load_prior(prior).restricted_to(columns).digest  # in the words' order
    few = job(notes, prior, vocab=None, vocab_size=16).source.public_words()
    assert len(few) == 16


def test_purchased_words_that_the_prior_does_not_know(notes, tmp_path):
    """They are paid for. The fit does without the prior, and says so."""
    prior = write_prior(tmp_path / "prior.npz", [f"mot{v}" for v in range(30)])
    with pytest.warns(UserWarning, match="knows 0 of 12 words.*continues without this prior"):
        done = job(notes, prior, vocab_size=12).run()
    assert done.model.public_prior is None and done.words is not None


def test_a_stopped_job_resumes(notes, tmp_path):
    prior = write_prior(tmp_path / "prior.npz", WORDS)

    def stop(progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    stopped = job(notes, prior)
    stopped.progress = lambda: nullcontext(stop)
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    resumed = job(notes, prior)
    resumed.resume = True
    model = resumed.run().model
    assert model.public_prior.words and 3 < model.privacy_.steps and model.privacy_.epsilon <= 8
    assert resumed.run().note.endswith("nothing was spent.")


def test_nothing_is_spent_on_what_does_not_fit(notes, tmp_path):
    prior = write_prior(tmp_path / "prior.npz", WORDS)
    refused = job(notes, prior, n_topics=5)
    with pytest.raises(ValueError, match="n_components=5: expected 2, the number of topics of .*prior.npz"):
        refused.run()
    assert refused.status.name == "PLANNED" and not (tmp_path / "topics").exists()
    (tmp_path / "words.txt").write_text("\n".join(f"mot{v}" for v in range(20)) + "\n")
    refused = job(notes, prior, vocab=str(tmp_path / "words.txt"))
    with pytest.raises(ValueError, match="knows 0 of 20 words"):
        refused.run()
    assert refused.status.name == "PLANNED"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        job(notes, str(tmp_path / "nowhere"))
