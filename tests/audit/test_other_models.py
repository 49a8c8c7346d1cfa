"""Audits of clusters, tables, vocabularies and regressions of many columns.

Honest models pass the layers, and each fault is seen by a layer that the honest model passes.
"""

import math

import faults
import numpy as np
import pytest
from adapters import TablesAdapter, VocabularyAdapter
from mutation import mutated
from seams import failing_checks

from vips_fast import BayesianLogisticRegression, PrivateVocabulary, TopicTables
from vips_fast.audit import Part, Sizes
from vips_fast.engine.statement import Privacy
from vips_fast.models import tables

# D: mu = sqrt(2) is seen to be above 1 with seven standard errors to spare.
SIZES = Sizes(pairs=40, records=12, draws=200_000, releases=1_800, runs=60, rows=2**13, canaries=1_000)
#: E: 250 purchases a side bound the delta of a lone token to +- 0.05.
PURCHASES = Sizes(pairs=60, records=15, draws=200_000, releases=1_500, runs=250, rows=2**12, canaries=3_000)
#: D: mu = 1 is known to +- 0.2 from 1,200 releases a side.
COLUMNS = Sizes(pairs=60, records=20, draws=200_000, releases=1_200, runs=160, rows=2**17)


def spherical(settings, kind=BayesianLogisticRegression):
    return kind(covariance="spherical", **settings)


def vocabulary(settings, kind=PrivateVocabulary):
    return VocabularyAdapter(kind().get_params(), kind)


def failed(subject, layers, settings=None, rows=None, kind=None, **faulty):
    """Names of the checks that fail."""
    sizes = {vocabulary: PURCHASES, spherical: COLUMNS}.get(subject, SIZES)
    return failing_checks(subject(settings or {}, *([kind] if kind else [])), layers, sizes, rows, **faulty)


REPLACE = dict(options={"relation": "replace_one"})
#: Layers, settings and rows of a person, for each model.
HONEST = [
    *((TablesAdapter, layer, {}, None) for layer in "ABCDEGH"),
    (TablesAdapter, "A", REPLACE, None),
    (TablesAdapter, "A", dict(by={"ward": ["a", "b", "c"]}), None),
    (TablesAdapter, "A", dict(by={"ward": ["a", "b", "c"]}, **REPLACE), None),
    (TablesAdapter, "AB", {}, 5),
    *((vocabulary, layer, {}, None) for layer in "ABCDEGH"),
    (spherical, "AB", {}, None),
    (spherical, "AB", dict(REPLACE, sampling="full"), 7),
    (spherical, "AB", dict(fit_intercept=False, row_norm=3.0), None),
    (spherical, "DG", {}, None),
]


@pytest.mark.parametrize("subject, layers, settings, rows", HONEST, ids=lambda value: getattr(value, "__name__", None))
def test_models_pass(subject, layers, settings, rows):
    assert failed(subject, layers, settings, rows) == set()


# ---------------------------------------------------------------------------- faults in the code


def counted_by_row(patch):
    shortened = "(_BELOW / np.sqrt(np.maximum(squares, self.n_tables)))[of_unit]"
    patch.setattr(
        tables.TableModel, "contribute", mutated(tables.TableModel.contribute, shortened, "0.5**0.5 + 0 * of_unit")
    )


def taken_from_the_records(patch):
    """Groups that the records name."""

    def present(column, values):
        known = {value: place for place, value in enumerate(sorted(set(column.tolist()), key=str))}
        return np.array([known[entry] for entry in column.tolist()], np.int64)

    patch.setattr(tables, "public_places", present)


@pytest.mark.parametrize(
    "subject, layers, rows, fault",
    [(TablesAdapter, "A", 5, counted_by_row), (TablesAdapter, "AB", None, taken_from_the_records)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_clips_and_impure_contributions_are_seen(subject, layers, rows, fault, monkeypatch):
    fault(monkeypatch)
    found = failed(subject, layers, rows=rows)
    assert found and (layers != "A" or any("distance of neighbo" in name for name in found))


# ------------------------------------------------------------------------------- faults in a seam


class ExactEntry(Part):
    """One entry is published without noise."""

    def round(self, fine, spacing):
        self.exact = float(fine[0, 0])
        return self.inner.round(fine, spacing)

    def result(self):
        arrays = self.inner.result()
        sums = arrays["sums"]
        sums[(0,) * sums.ndim] = self.exact
        return arrays


class LongWeights(Part):
    """Weights of the first round pass the norm by a fifth."""

    def __init__(self, inner):
        super().__init__(inner)
        inner._first = inner._first * 6 // 5


class LowThreshold(Part):
    """The threshold leaves no space for a person's own token. That is, for the weight that a person adds to it."""

    def __init__(self, inner):
        super().__init__(inner)
        inner.threshold *= 0.1


class ExactShares(Part):
    """The shares of the first round are published without noise."""

    def round(self, fine, spacing):
        if self.inner._round == 0:
            self.exact = dict(zip(self.inner._names, np.clip(fine / max(fine[0], 1), 0, 1), strict=True))
        return self.inner.round(fine, spacing)

    def result(self):
        arrays = self.inner.result()
        return {**arrays, "shares": np.array([self.exact[name] for name in self.inner._names[1:]])}


class CountsTokens(Part):
    """Weights follow the private number of tokens. They change by a tenth of a percent if it is odd."""

    def __init__(self, inner):
        super().__init__(inner)
        self.odd = len(inner._names) % 2

    def result(self):
        arrays = self.inner.result()
        return {**arrays, "weights": arrays["weights"] * (1 + 0.001 * self.odd)}


class HalfStated(PrivateVocabulary):
    """Half of the epsilon of the purchase is stated."""

    @property
    def privacy_(self):
        said = Privacy.of(self.ledger_)
        object.__setattr__(said, "epsilon", said.epsilon / 2)
        return said


# Its purchase is written under the name of the honest class.
HalfStated.__name__ = "PrivateVocabulary"


@pytest.mark.parametrize(
    "subject, layer, seen, mutant",
    [
        *(
            (TablesAdapter, layer, seen, mutant)
            for layer, seen, mutant in [
                ("G", "rebuilt bit for bit", dict(model=ExactEntry)),
                ("C", "standard deviation", dict(mechanism=faults.WeakNoise)),
                ("D", "noise multiplier 1", dict(mechanism=faults.RootHalfOfNoise)),
            ]
        ),
        (TablesAdapter, "H", "mu of one fit", dict(mechanism=faults.FiftiethOfNoise)),
        (vocabulary, "A", "distance of neighbors", dict(model=LongWeights)),
        (vocabulary, "B", "alone and together", dict(model=faults.KnowsNeighbors)),
        (vocabulary, "C", "standard deviation", dict(mechanism=faults.WeakNoise)),
        (vocabulary, "C", "charged", dict(sampler=faults.Undercharged)),
        (vocabulary, "D", "noise multiplier 1", dict(mechanism=faults.RootHalfOfNoise)),
        (vocabulary, "E", "tokens of one person", dict(model=LowThreshold)),
        (vocabulary, "E", "delta at epsilon", dict(mechanism=faults.FiftiethOfNoise)),
        (vocabulary, "G", "rebuilt bit for bit, data set 1", dict(model=LowThreshold)),
        (vocabulary, "G", "rebuilt bit for bit, data set 1", dict(model=ExactShares)),
        (vocabulary, "G", "rebuilt bit for bit, data set 2", dict(model=CountsTokens)),
        (vocabulary, "G", "statement, data set 1", dict(kind=HalfStated)),
        (vocabulary, "H", "mu of one fit", dict(mechanism=faults.FiftiethOfNoise)),
        (spherical, "A", "distance of neighbors", dict(kind=faults.LongRows)),
        (spherical, "D", "noise multiplier 1", dict(kind=faults.LongRows)),
        (spherical, "A", "distance of neighbors", dict(kind=faults.UnclippedUnits, rows=7)),
        (spherical, "G", "rebuilt bit for bit", dict(kind=faults.ExactMean)),
    ],
    ids=lambda value: (
        "_".join(getattr(v, "__name__", str(v)) for v in value.values())
        if isinstance(value, dict)
        else getattr(value, "__name__", None)
    ),
)
def test_faults_in_a_seam_are_seen(subject, layer, seen, mutant):
    assert any(name.startswith(seen) for name in failed(subject, layer, **mutant))


# ------------------------------------------------------- tables: premises of the proof, in exact integers
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
