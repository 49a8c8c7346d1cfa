"""A run with a public prior, in each kind of its steps: lengths, words, own topics and score."""

import dataclasses

import numpy as np
import pytest
from priors import Compares, Counting, Fixed, Lengths, OwnPrior, Peeking, Prior, Scores, Topics, Words
from seams import failing_checks

from vips_fast import LatentDirichletAllocation
from vips_fast.audit import Sizes, audit
from vips_fast.audit.adapter import Adapter
from vips_fast.audit.adapters import LdaAdapter
from vips_fast.engine import gain
from vips_fast.models.lda import public_topics, score
from vips_fast.models.lda.model import WordHistogram
from vips_fast.models.lda.public_topics import LENGTHS, PublicTopicsModel

SIZES = Sizes(pairs=40, records=12, draws=200_000, releases=1_200, runs=60, rows=2**13)
#: Lengths and scores have few entries: each draw is a step of its own.
FEW = dataclasses.replace(SIZES, draws=6_000, releases=400)


class Begun(LdaAdapter):
    """Runs that begin with some kind of step, whose made-up releases before it are public."""

    many = 1_000  # the blocks of sixteen threads are looked at in topics without a prior

    def sharp(self, stage):
        pass

    def scramble(self, stage, rng, releases):
        if stage.model.kind != LENGTHS:  # those change the kind
            Adapter.scramble(self, stage, rng, releases)

    def tight(self, relation):
        return False

    def canaries(self, *arguments):
        return super().canaries(*arguments) if self.kind is Words else None


def passes(kind, layers, sizes=SIZES, adapter=Begun, persons=None, **settings):
    audited = adapter({"n_components": 4, **settings}, kind)
    report = audit(audited, layers=layers, sizes=sizes, random_state=0, rows_per_unit=persons)
    assert report.passed, report.text()
    return report


def failed(kind, layers, adapter=Begun, **settings):
    return failing_checks(adapter({"n_components": 4, **settings}, kind), layers, SIZES)


kinds = pytest.mark.parametrize("kind", [Lengths, Words, Topics, Scores, Compares])
relations = pytest.mark.parametrize("relation", ["add_remove", "replace_one"])


@kinds
@relations
def test_contributions_keep_to_the_bound(kind, relation):
    passes(kind, "A", options={"relation": relation})


@kinds
def test_purity_and_noise(kind):
    passes(kind, "BC", SIZES if kind in (Words, Topics) else FEW)


@kinds
@relations
def test_mu_of_a_step(kind, relation):
    report = passes(kind, "D", SIZES if kind is Words else FEW, sampling="full", options={"relation": relation})
    row = report.layer("D").figures["mu"]
    assert row["low"] <= 1 and (kind is not Words or row["mu"] > 0.75)


@kinds
def test_persons(kind):
    passes(kind, "AB", persons=5)


@pytest.mark.parametrize("n_steps", [3, 20])
@pytest.mark.parametrize("kind", [Prior, OwnPrior])
def test_everything_public_follows_from_the_releases(kind, n_steps):
    passes(kind, "G", adapter=LdaAdapter, n_steps=n_steps)


@pytest.mark.parametrize("kind", [Prior, OwnPrior])
def test_whole_runs(kind):
    claimed = passes(kind, "E", adapter=LdaAdapter).claimed
    assert 0 < claimed["delta"][0] < 1


@relations
def test_topics_that_begin_with_histograms(relation):
    """Without a public prior."""
    passes(Counting, "ABG", adapter=LdaAdapter, options={"relation": relation})


# ----------------------------------------------------------------------------------------------------------- mutants


def unbounded(self, units, out, spacing):
    """Add a histogram whose long units are not brought to the clip."""
    values = units.counts**self._power / self.scales[units.columns] * (self._clip / self._long)
    np.add.at(out, units.columns, (values / spacing).astype(np.int64))


@pytest.mark.parametrize("kind, adapter", [(Words, Begun), (Counting, LdaAdapter)])
def test_a_histogram_without_a_clip_is_seen(kind, adapter, monkeypatch):
    monkeypatch.setattr(WordHistogram, "contribute", unbounded)
    assert "distance of neighbors" in failed(kind, "A", adapter=adapter)


def test_a_histogram_that_knows_other_units_is_seen(monkeypatch):
    honest = WordHistogram.contribute

    def shared(self, units, *more):
        other = WordHistogram(self.scales, self._clip * (1.0 - 1e-6 * len(units.ends)), self._power, self._long)
        honest(other, units, *more)

    monkeypatch.setattr(WordHistogram, "contribute", shared)
    assert failed(Words, "B")


def test_masses_from_a_histogram_without_noise_are_seen(monkeypatch):
    """Topics are read with exact masses, which the releases do not contain."""
    honest, mean, exact = WordHistogram.contribute, WordHistogram.mean, {}

    def kept(self, units, *rest):
        exact["sum"] = exact.get("sum", 0.0) + float(units.counts.sum())
        honest(self, units, *rest)

    def peeked(self):
        x, sd = mean(self)
        return x + exact.get("sum", 0.0), sd

    monkeypatch.setattr(WordHistogram, "contribute", kept)
    monkeypatch.setattr(WordHistogram, "mean", peeked)
    for kind in (Counting, Prior):
        assert failed(kind, "G", adapter=LdaAdapter)


def test_steps_of_each_kind_chosen_by_the_records_are_seen():
    """From the releases another process chooses other steps; if public numbers choose as many, it does not."""
    assert failed(Peeking, "G", adapter=LdaAdapter)
    passes(Fixed, "G", adapter=LdaAdapter)


def test_lengths_of_two_cells_are_seen(monkeypatch):
    honest = PublicTopicsModel.contribute

    def twice(self, block, words, out, scratch):
        for _ in range(1 + (self.kind == LENGTHS)):
            honest(self, block, words, out, scratch)

    monkeypatch.setattr(PublicTopicsModel, "contribute", twice)
    assert "distance of neighbors" in failed(Lengths, "A")


@relations
def test_lengths_beside_a_whole_share_of_words_outside_are_seen(monkeypatch, relation):
    """Both cells have the whole clip."""
    whole = property(lambda self: (int(self.clip / self._spacing),) * 2)
    monkeypatch.setattr(PublicTopicsModel, "_length_units", whole)
    assert "distance of neighbors" in failed(Lengths, "A", options={"relation": relation})


def test_a_score_beyond_its_bound_is_seen(monkeypatch):
    honest = score.HalfPrediction.contributions
    monkeypatch.setattr(score.HalfPrediction, "contributions", lambda self, *a: 2.0 * honest(self, *a))
    assert "distance of neighbors" in failed(Scores, "A")


@pytest.fixture
def nearly_all(monkeypatch):
    """The gain of exact frequencies has nearly all of a score, so that no other part has room for what is too much."""
    monkeypatch.setattr(public_topics, "_PARTS", (0.01, 0.98, 0.01))


@relations
def test_a_score_that_is_nearly_all_gain_keeps_to_the_bound(nearly_all, relation):
    passes(Scores, "A", options={"relation": relation})


@relations
def test_a_gain_of_frequencies_without_its_clip_is_seen(monkeypatch, relation, nearly_all):
    def unclipped(counts, expected):
        nats = counts * (np.log(np.maximum(counts - 1, 0) + public_topics._BEFORE) - np.log(expected))
        return int(nats.sum() * public_topics._NAT)

    monkeypatch.setattr(public_topics, "frequency_gain", unclipped)
    assert failed(Scores, "A", options={"relation": relation}) & {"distance of neighbors", "non-finite numbers"}


@relations
def test_a_gain_of_more_words_than_its_bound_is_for_is_seen(monkeypatch, relation, nearly_all):
    monkeypatch.setattr(public_topics, "kept_words", lambda units, words, most: np.ones(len(units.columns), bool))
    assert failed(Scores, "A", options={"relation": relation}) & {"distance of neighbors", "non-finite numbers"}


def test_words_kept_by_other_units_are_seen(monkeypatch):
    honest = public_topics.kept_words
    monkeypatch.setattr(
        public_topics, "kept_words", lambda units, words, most: honest(units, words + np.uint64(len(words)), most)
    )
    assert failed(Scores, "B")


def test_a_gain_read_from_exact_counts_is_seen(monkeypatch):
    """The verdict's second half, without noise."""
    honest, loss, exact = public_topics.frequency_gain, PublicTopicsModel.frequency_loss, {}

    def kept(counts, expected):
        exact["gain"] = honest(counts, expected)
        return exact["gain"]

    monkeypatch.setattr(public_topics, "frequency_gain", kept)
    monkeypatch.setattr(
        PublicTopicsModel,
        "frequency_loss",
        property(lambda self: (loss.fget(self)[0] + exact.get("gain", 0) * 1e-9, loss.fget(self)[1])),
    )
    assert failed(Prior, "G", adapter=LdaAdapter, n_steps=20)


@pytest.mark.parametrize("kind", [Prior, LatentDirichletAllocation])
def test_a_choice_by_exact_scores_is_seen(monkeypatch, kind):
    """A score without noise, which the releases do not contain."""
    honest, read, exact = score.HalfPrediction.contributions, gain.Score.read, {}

    def kept(self, *arguments):
        rows = honest(self, *arguments)
        exact["score"] = rows.mean(axis=0)
        return rows

    monkeypatch.setattr(score.HalfPrediction, "contributions", kept)
    monkeypatch.setattr(
        gain.Score, "read", classmethod(lambda cls, values, *more: read(exact.get("score", values), *more))
    )
    assert failed(kind, "G", adapter=LdaAdapter, n_steps=20)
