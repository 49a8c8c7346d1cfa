"""Audit tables of topics.

Honest ones pass all layers, and three mutants are seen.
"""

import faults
import numpy as np
import pytest

from vips_fast.audit import Part, Seams, Sizes, audit
from vips_fast.audit.adapters import TablesAdapter
from vips_fast.models.tables import model, records

# D: mu = sqrt(2) is seen to be above 1 with seven standard errors to spare.
SIZES = Sizes(pairs=40, records=12, draws=200_000, releases=1_800, runs=60, rows=2**13, canaries=1_000)


def report_of(layers, *, seams=None, settings=None, **how):
    found = audit(
        TablesAdapter(settings or {}), layers=layers, sizes=SIZES, random_state=0, seams=seams or Seams(), **how
    )
    print(found.text())
    return found


def failed(layers, **how):
    found = report_of(layers, **how)
    return {check.name for layer in found.layers for check in layer.checks if not check.passed}


@pytest.mark.parametrize("layer", "BCDEGH")
def test_tables_pass(layer):
    assert failed(layer) == set()


@pytest.mark.parametrize("settings", [{}, dict(relation="replace_one")], ids=["add_remove", "replace_one"])
@pytest.mark.parametrize("by", [{"ward": ["a", "b", "c"]}, None], ids=["one column", "two columns"])
def test_contributions_keep_to_the_bound(settings, by):
    assert failed("A", settings={**settings, **({"by": by} if by else {})}) == set()


def test_persons():
    assert failed("AB", rows_per_unit=5) == set()


def test_a_person_who_is_counted_by_row_is_seen(monkeypatch):
    monkeypatch.setattr(
        model, "_shortening", lambda of_unit, counts, n_units, n_tables: np.full(len(of_unit), 0.5**0.5)
    )
    assert any("distance of neighbo" in name for name in failed("A", rows_per_unit=5))


def test_groups_that_are_taken_from_the_records_are_seen(monkeypatch):
    def present(column, values):
        known = {value: place for place, value in enumerate(sorted(set(column.tolist()), key=str))}
        return np.array([known[entry] for entry in column.tolist()], np.int64)

    monkeypatch.setattr(records, "public_places", present)
    assert failed("AB")


class ExactCell(Part):
    """One cell is published without noise."""

    def round(self, fine, spacing):
        self.exact = float(fine[0, 0])
        return self.inner.round(fine, spacing)

    def result(self):
        arrays = self.inner.result()
        arrays["sums"][0, 0] = self.exact
        return arrays


@pytest.mark.parametrize(
    ("layer", "seen", "mutant"),
    [
        ("G", "rebuilt bit for bit", dict(model=ExactCell)),
        ("C", "standard deviation", dict(mechanism=faults.WeakNoise)),
        ("H", "mu of one fit", dict(mechanism=faults.FiftiethOfNoise)),
        ("D", "noise multiplier 1", dict(mechanism=faults.RootHalfOfNoise)),
    ],
)
def test_cells_with_too_little_noise_or_none_are_seen(layer, seen, mutant):
    assert seen in failed(layer, seams=Seams(**mutant))
