"""Audit tables of topics. Honest ones pass all layers, and mutants are seen."""

import math

import faults
import numpy as np
import pytest
from adapters import TablesAdapter
from mutation import mutated

from vips_fast import TopicTables
from vips_fast.audit import Part, Seams, Sizes, audit
from vips_fast.models import tables

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


@pytest.mark.parametrize("settings", [{}, dict(options={"relation": "replace_one"})], ids=["add_remove", "replace_one"])
@pytest.mark.parametrize("by", [{"ward": ["a", "b", "c"]}, None], ids=["one column", "two columns"])
def test_contributions_keep_to_the_bound(settings, by):
    assert failed("A", settings={**settings, **({"by": by} if by else {})}) == set()


def test_persons():
    assert failed("AB", rows_per_unit=5) == set()


def test_a_person_who_is_counted_by_row_is_seen(monkeypatch):
    monkeypatch.setattr(
        tables, "_shortening", lambda of_unit, counts, n_units, n_tables: np.full(len(of_unit), 0.5**0.5)
    )
    assert any("distance of neighbo" in name for name in failed("A", rows_per_unit=5))


def test_groups_that_are_taken_from_the_records_are_seen(monkeypatch):
    def present(column, values):
        known = {value: place for place, value in enumerate(sorted(set(column.tolist()), key=str))}
        return np.array([known[entry] for entry in column.tolist()], np.int64)

    monkeypatch.setattr(tables, "public_places", present)
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


# ------------------------------------------------------- premises of the proof, in exact integers


def hostile(rng):
    """Proportions whose sums are 1 but for rounding, or a little above, and whose entries no lattice holds."""
    k = 8
    ones, tiny = np.eye(k)[rng.integers(0, k, 60)], rng.choice([1e-9, 1e-8, 2.0**-25, 3e-7], (60, k))
    spread = ones * (1 - tiny.sum(axis=1, keepdims=True)) + tiny
    equal = np.full((60, k), 1 / k)
    mixed = rng.dirichlet(np.full(k, 0.3), 60)
    rows = np.concatenate([ones, spread, equal, mixed])
    return np.concatenate([rows, rows * (1 + 9e-7)])


def check_premises():
    """No rounding raises a row's sum of proportions above 1, or the norm of a contribution above the clip."""
    rng = np.random.default_rng(0)
    X = np.repeat(hostile(rng), 3, axis=0)
    wards, months = (rng.integers(0, size, len(X)) for size in (3, 4))
    by = {"ward": [0, 1, 2], "month": [0, 1, 2, 3]}
    people = {"documents": None, "some": rng.integers(0, 200, len(X)), "many": rng.integers(0, 20, len(X))}
    for z, groups in [(z, groups) for z in (1.0, 2.9, 40.0) for groups in people.values()]:
        model = TopicTables(by, noise_multiplier=z, delta=1e-5)
        stage = model.prepare(X, np.column_stack([wards, months]), groups=groups)
        assert (model._read(X, np.column_stack([wards, months]))[0].proportions.sum(axis=1) <= tables.GRID).all()
        stage.model.prepare(stage.plan.mechanism, stage.plan.sampler)
        limit = math.floor((stage.model.clip / stage.plan.mechanism.spacing) ** 2)
        for unit in range(stage.records.n_rows):
            out = np.zeros(stage.model.shape, np.int64)
            stage.model.contribute(stage.records.block(np.array([unit])), np.zeros(1, np.uint64), out, {})
            assert sum(entry * entry for entry in out[out != 0].tolist()) <= limit


def test_no_rounding_raises_a_norm():
    check_premises()


#: The class that has the fault, its function, and what stands there in place of what.
ROUNDINGS = {
    "contributions rounded up": (tables.TableModel, "contribute", "np.trunc(values)", "np.ceil(values)"),
    "proportions rounded up": (tables.GroupedDocuments, "__init__", "np.trunc(rows * GRID)", "np.ceil(rows * GRID)"),
    "sums above 1 kept": (
        tables.GroupedDocuments,
        "__init__",
        " / np.maximum(np.where(fits, sums, 1.0), 1.0)[:, None]",
        "",
    ),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_rounding_that_raises_norms_is_seen(name, monkeypatch):
    kind, function, old, new = ROUNDINGS[name]
    monkeypatch.setattr(kind, function, mutated(getattr(kind, function), old, new))
    with pytest.raises(AssertionError):
        check_premises()
