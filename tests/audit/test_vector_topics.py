"""Topics of words and vectors.

Both blocks of a release under one clip.
"""

import numpy as np
import pytest
from priors import prior_of

from vips_fast import VectorTopics
from vips_fast.audit import Sizes, audit
from vips_fast.audit.adapters import VectorTopicsAdapter
from vips_fast.engine.model import Release
from vips_fast.models.clusters import knowledge
from vips_fast.models.vector_topics import model

SIZES = Sizes(pairs=20, records=12, draws=200_000, releases=1_200, runs=60, rows=2**13)


class Prior(VectorTopics):
    """Topics with a public prior."""

    def _prior(self, n_words):
        return prior_of(n_words, int(self.n_components))


class Own(VectorTopicsAdapter):
    """Topics without a prior."""

    of = VectorTopics

    @classmethod
    def made(cls, **settings):
        return cls({"n_components": 4, "clip": 0.25, **settings}, cls.of)


class Histograms(Own):
    """A run with a prior, whose next step releases a histogram."""

    of, done = Prior, 0

    def sharp(self, stage):
        for step in range(self.done):
            units = np.zeros(stage.model.shape, dtype=np.int64)
            if step == 0:
                units[: self.small] = 1000
            else:  # public topics lose more than any other could
                units[3:6] = 10**9
            stage.model.update(Release(step, units, 1e-3, 1e-3))

    def tight(self, relation):
        return self.done == 0 and super().tight(relation)


class Scored(Histograms):
    done = 1


class Fitted(Histograms):
    done = 2


#: The words' other kinds of steps have quick tests of their own (`test_prior.py`), and are slow to read out.
SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in (Histograms, Scored, Fitted)]
KINDS = [Own, *SLOW]


def passes(kind, layers, more=None, **settings):
    report = audit(kind.made(**settings), layers=layers, sizes=SIZES, random_state=0, **(more or {}))
    assert report.passed, report.text()
    return report


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, dict(sampling="without_replacement")], ids=["add_remove", "replace_one"])
def test_contributions_keep_to_the_bound(kind, settings):
    passes(kind, "A", **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_purity(kind):
    passes(kind, "B")


@pytest.mark.slow
def test_noise():
    passes(Own, "C")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Own, Histograms])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_mu(kind, relation):
    for row in passes(kind, "D", sampling="full", relation=relation).layer("D").figures["mu"]:
        assert row["low"] <= row["claimed"]


@pytest.mark.slow
def test_whole_runs():
    assert 0 < passes(Own, "E").claimed["delta"][0] < 1


@pytest.mark.parametrize("kind", KINDS[:2])
def test_everything_public_follows_from_the_releases(kind):
    passes(kind, "G")


@pytest.mark.parametrize("kind", KINDS)
def test_persons(kind):
    passes(kind, "AB", dict(rows_per_unit=5))


# ----------------------------------------------------------------------------------------------------------- mutants


def failed(kind, layers, **how):
    report = audit(kind.made(), layers=layers, sizes=SIZES, random_state=0, **how)
    return {check.name for layer in report.layers for check in layer.checks if not check.passed}


@pytest.mark.parametrize("kind", KINDS[:2])
def test_vectors_outside_the_clip_are_seen(kind, monkeypatch):
    """Both blocks with the whole clip each."""
    honest = model.VectorTopicModel.__init__

    def beside(self, words, public, share):
        honest(self, words, public, share)
        self.clip, self._bound = words.clip, words.clip * model._BELOW

    monkeypatch.setattr(model.VectorTopicModel, "__init__", beside)
    assert "distance of neighbors" in failed(kind, "A")


def test_a_replacement_that_forgets_the_signs_is_seen(monkeypatch):
    """The bound of nonnegative entries, for opposite vectors of one topic."""
    monkeypatch.setattr(
        model.VectorTopicModel, "sensitivity", lambda self, r: self.clip * (1.0 if r == "add_remove" else 2**0.5)
    )
    settings = dict(sampling="without_replacement", n_components=1)
    report = audit(Own.made(**settings), layers="A", sizes=SIZES, random_state=0)
    assert not report.passed


@pytest.mark.parametrize("kind", KINDS[:2])
def test_vectors_of_a_person_that_are_not_clipped_together_are_seen(kind, monkeypatch):
    honest = model.vector_sums

    def apart(unit, topic, coordinates, n_units, n_topics):
        return honest(np.arange(len(unit)), topic, coordinates, len(unit), n_topics)

    monkeypatch.setattr(model, "vector_sums", apart)
    assert any("distance of neighbo" in name for name in failed(kind, "A", rows_per_unit=5))


def test_a_projection_that_knows_other_documents_is_seen(monkeypatch):
    honest = knowledge.PublicVectors.project

    def centered(self, vectors):
        found = honest(self, vectors)
        return np.trunc(found - found.mean(axis=0))

    monkeypatch.setattr(knowledge.PublicVectors, "project", centered)
    assert failed(Own, "A")


def test_centers_from_sums_without_noise_are_seen(monkeypatch):
    honest, update, exact = model.vector_sums, model.VectorTopicModel.update, {}

    def kept(*arguments):
        cells, values = honest(*arguments)
        exact["sum"] = exact.get("sum", 0.0) + float(np.abs(values).sum())
        return cells, values

    def peeked(self, release):
        update(self, release)
        self._sums = self._sums + exact.get("sum", 0.0)
        self._begin()

    monkeypatch.setattr(model, "vector_sums", kept)
    monkeypatch.setattr(model.VectorTopicModel, "update", peeked)
    assert failed(Own, "G")
