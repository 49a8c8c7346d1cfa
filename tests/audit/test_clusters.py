"""Clusters of documents, in each kind of their steps."""

import numpy as np
import pytest
from adapters import ClustersAdapter

from vips_fast.audit import Sizes, audit
from vips_fast.engine.model import Release
from vips_fast.models.clusters import knowledge, model
from vips_fast.models.clusters.model import ClusterSteps

SIZES = Sizes(pairs=40, records=12, draws=200_000, releases=1_200, runs=60, rows=2**13)


class Votes(ClustersAdapter):
    """A run whose next step releases votes."""

    done = 0

    def sharp(self, stage):
        stage.model._steps = ClusterSteps(1, 1, 1)
        for step in range(self.done):
            stage.model.update(Release(step, np.zeros(stage.model.shape, dtype=np.int64), 1e-3, 1e-3))


class Vectors(Votes):
    done = 1


class Words(Votes):
    done = 2


KINDS = Votes, Vectors, Words


def passes(kind, layers, **settings):
    report = audit(kind(settings), layers=layers, sizes=SIZES, random_state=0)
    assert report.passed, report.text()
    return report


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, dict(sampling="without_replacement")], ids=["add_remove", "replace_one"])
def test_contributions_keep_to_the_bound(kind, settings):
    passes(kind, "A", **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_purity(kind):
    passes(kind, "B")


def test_noise():
    passes(Votes, "C")


@pytest.mark.parametrize("kind", KINDS)
def test_mu(kind):
    for row in passes(kind, "D", sampling="full").layer("D").figures["mu"]:
        assert row["low"] <= row["claimed"]


def test_whole_runs():
    assert 0 < passes(ClustersAdapter, "E").claimed["delta"][0] < 1


def test_everything_public_follows_from_the_releases():
    passes(ClustersAdapter, "G")


@pytest.mark.parametrize("kind", KINDS)
def test_persons(kind):
    report = audit(kind({}), layers="AB", sizes=SIZES, random_state=0, rows_per_unit=5)
    assert report.passed, report.text()


# ----------------------------------------------------------------------------------------------------------- mutants


def failed(kind, layers, **how):
    report = audit(kind({}), layers=layers, sizes=SIZES, random_state=0, **how)
    return {check.name for layer in report.layers for check in layer.checks if not check.passed}


@pytest.mark.parametrize("kind", KINDS)
def test_documents_of_a_person_that_are_not_clipped_together_are_seen(kind, monkeypatch):
    monkeypatch.setattr(model, "_shortening", lambda of_unit, squares, n_units, least: np.ones(len(of_unit)))
    assert any("distance of neighbo" in name for name in failed(kind, "A", rows_per_unit=5))


def test_a_bound_that_leaves_out_the_counts_is_seen(monkeypatch):
    """Each vector brought to the bound, and its count beside it."""
    honest = model._shortening

    def vectors_only(of_unit, squares, n_units, least):
        return honest(of_unit, np.maximum(squares - model.COUNT**2, 0.0), n_units, least)

    monkeypatch.setattr(model, "_shortening", vectors_only)
    assert any("distance of neighbo" in name for name in failed(Vectors, "A"))


def test_a_projection_that_knows_other_documents_is_seen(monkeypatch):
    honest = knowledge.PublicVectors.project

    def centered(self, vectors):
        found = honest(self, vectors)
        return np.trunc(found - found.mean(axis=0))

    monkeypatch.setattr(knowledge.PublicVectors, "project", centered)
    assert failed(Vectors, "AB")
