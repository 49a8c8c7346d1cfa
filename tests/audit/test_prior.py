"""A run with a public prior, in each kind of its steps."""

import numpy as np
import pytest
from priors import Counting, Prior

from vips_fast.audit import Sizes, audit
from vips_fast.audit.adapters import LdaAdapter
from vips_fast.engine import gain
from vips_fast.engine.model import Release
from vips_fast.models.lda import masses, score

SIZES = Sizes(pairs=40, records=12, draws=200_000, releases=1_200, runs=60, rows=2**13)


class Stepped(LdaAdapter):
    """Runs after some steps.

    0 makes histograms, 1 a score, 2 topics of one's own.
    """

    done = 0

    def sharp(self, stage):
        model = stage.model
        for step in range(self.done):
            units = np.zeros(model.shape, dtype=np.int64)
            if step == 0:
                units.reshape(-1)[: len(units)] = 1000
            else:  # public topics lose more than any other could
                units.reshape(-1)[3:6] = 10**9
            model.update(Release(step, units, 1e-3, 1e-3))
        if self.done == 2:
            assert model._own is not None

    def tight(self, relation):
        return self.done == 0 and super().tight(relation)


class Scored(Stepped):
    done = 1


class Fitted(Stepped):
    done = 2


def passes(kind, layers, sizes=SIZES, **settings):
    report = audit(kind({"n_components": 4, **settings}, Prior), layers=layers, sizes=sizes, random_state=0)
    assert report.passed, report.text()
    return report


@pytest.mark.parametrize("kind", [Stepped, Scored, Fitted])
@pytest.mark.parametrize("settings", [{}, dict(sampling="without_replacement")], ids=["add_remove", "replace_one"])
def test_contributions_keep_to_the_bound(kind, settings):
    passes(kind, "A", **settings)


def counts_first(layers, relation="add_remove"):
    """Topics without a public prior, whose first steps release histograms."""
    settings = {"n_components": 4, "relation": relation}
    return audit(LdaAdapter(settings, Counting), layers=layers, sizes=SIZES, random_state=0)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_topics_that_begin_with_histograms(relation):
    report = counts_first("ABG", relation)
    assert report.passed, report.text()


@pytest.mark.parametrize("layer", "BC")
def test_purity_and_noise(layer):
    passes(Stepped, layer)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_mu_of_a_histogram(relation):
    report = passes(Stepped, "D", sampling="full", relation=relation)
    for row in report.layer("D").figures["mu"]:
        assert row["low"] <= row["claimed"] and (row["mu"] > 0.75 * row["claimed"] or row["claimed"] < 1)


def test_whole_runs():
    claimed = passes(Stepped, "E").claimed
    assert 0 < claimed["delta"][0] < 1


def test_everything_public_follows_from_the_releases():
    passes(Stepped, "G")


def test_persons():
    report = audit(Stepped({"n_components": 4}, Prior), layers="AB", sizes=SIZES, random_state=0, rows_per_unit=5)
    assert report.passed, report.text()


# ----------------------------------------------------------------------------------------------------------- mutants


def unbounded(units, scales, clip, power, long, spacing, out):
    """Add a histogram whose long units are not brought to the clip."""
    values = units.counts**power / scales[units.columns] * (clip / long)
    np.add.at(out, units.columns, (values / spacing).astype(np.int64))


def failed(kind, layers):
    report = audit(kind({"n_components": 4}, Prior), layers=layers, sizes=SIZES, random_state=0)
    return {check.name for layer in report.layers for check in layer.checks if not check.passed}


def test_a_histogram_without_a_clip_is_seen(monkeypatch):
    monkeypatch.setattr(masses, "add_histogram", unbounded)
    assert "distance of neighbors" in failed(Stepped, "A")
    assert not counts_first("A").passed


def test_a_histogram_that_knows_other_units_is_seen(monkeypatch):
    honest = masses.add_histogram

    def shared(units, scales, clip, *more):
        honest(units, scales, clip * (1.0 - 1e-6 * len(units.ends)), *more)

    monkeypatch.setattr(masses, "add_histogram", shared)
    assert failed(Stepped, "B")


def test_masses_from_a_histogram_without_noise_are_seen(monkeypatch):
    """Topics are read with exact masses, which the releases do not contain."""
    honest, exact = masses.add_histogram, {}

    def kept(units, *rest):
        exact["sum"] = exact.get("sum", 0.0) + float(units.counts.sum())
        honest(units, *rest)

    mean = masses.WordHistogram.mean

    def peeked(self):
        x, sd = mean(self)
        return x + exact.get("sum", 0.0), sd

    monkeypatch.setattr(masses, "add_histogram", kept)
    monkeypatch.setattr(masses.WordHistogram, "mean", peeked)
    assert not counts_first("G").passed


@pytest.mark.parametrize("factor", [1.5, 40.0])
def test_a_score_beyond_its_bound_is_seen(monkeypatch, factor):
    honest = score.HalfPrediction.contributions

    def longer(self, *arguments):
        return factor * honest(self, *arguments)

    monkeypatch.setattr(score.HalfPrediction, "contributions", longer)
    assert "distance of neighbors" in failed(Scored, "A")


def test_a_choice_by_exact_scores_is_seen(monkeypatch):
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
    assert failed(Stepped, "G")
