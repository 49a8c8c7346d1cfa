"""Audit topics that drift. Honest ones pass all layers, and mutants are seen."""

import faults
import numpy as np
import pytest
from adapters import DriftAdapter

from vips_fast.audit import Part, Seams, Sizes, audit
from vips_fast.engine.units import unpack_block
from vips_fast.models.lda import drift
from vips_fast.models.lda.drift import DriftModel
from vips_fast.models.lda.records import DocumentBlock

# D: mu = sqrt(2) is seen to be above 1 with seven standard errors to spare.
SIZES = Sizes(pairs=40, records=12, draws=100_000, releases=1_800, runs=60, rows=2**13, canaries=1_000)


def failed(layers, settings=None, **how):
    found = audit(DriftAdapter(settings or {}), layers=layers, sizes=SIZES, random_state=0, **how)
    print(found.text())
    return {check.name for layer in found.layers for check in layer.checks if not check.passed}


@pytest.mark.parametrize("layer", "BCDEG")
def test_topics_that_drift_pass(layer):
    assert failed(layer) == set()


@pytest.mark.parametrize("settings", [{}, dict(options={"relation": "replace_one"})], ids=["add_remove", "replace_one"])
def test_contributions_keep_to_the_bound(settings):
    assert failed("A", settings) == set()


def test_a_person_in_several_periods_keeps_to_the_bound_of_one_document():
    assert failed("AB", rows_per_unit=5) == set()


def test_a_person_who_is_clipped_in_each_period_is_seen(monkeypatch):
    def each_alone(self, block, words, out, scratch):
        (documents, rows), words, _ = unpack_block(block, words)
        super(DriftModel, self).contribute(DocumentBlock(documents, rows), words, out, scratch)

    monkeypatch.setattr(DriftModel, "contribute", each_alone, raising=False)
    assert any("distance of neighbo" in name for name in failed("A", rows_per_unit=5))


def test_periods_that_are_taken_from_the_records_are_seen(monkeypatch):
    def present(column, values):
        known = {value: place for place, value in enumerate(sorted(set(column.tolist()), key=str))}
        return np.array([known[entry] for entry in column.tolist()], np.int64)

    monkeypatch.setattr(drift, "public_places", present)
    assert failed("AB")


class ExactEntry(Part):
    """One entry is published without noise."""

    def round(self, fine, spacing):
        self.exact = float(fine[0, 0])
        return self.inner.round(fine, spacing)

    def result(self):
        arrays = self.inner.result()
        arrays["sums"][0, 0, 0] = self.exact
        return arrays


@pytest.mark.parametrize(
    ("layer", "seen", "mutant"),
    [
        ("G", "rebuilt bit for bit", dict(model=ExactEntry)),
        ("C", "standard deviation", dict(mechanism=faults.WeakNoise)),
        ("D", "noise multiplier 1", dict(mechanism=faults.RootHalfOfNoise)),
    ],
)
def test_sums_with_too_little_noise_or_none_are_seen(layer, seen, mutant):
    assert seen in failed(layer, seams=Seams(**mutant))
