"""Blocks of records. The same statistics wherever a record lies, and nothing of its neighbors."""

import math

import numba
import numpy as np
import pytest
from ball_mean import model_of, sums_of, variant

from vips_fast.audit import Sizes, audit, conjugate_adapter
from vips_fast.models.conjugate import ConjugateModel, affine, block, exp, softmax
from vips_fast.models.conjugate.model import MIXING_WARNING
from vips_fast.models.mixture import GaussianMixture

SIZES = Sizes(pairs=20, records=20, draws=1_000, releases=100, runs=10, rows=2**12)
N, SPACING = 300, 2.0**-20


@pytest.fixture(scope="module")
def records():
    X = np.random.default_rng(0).normal(size=(N, 3)) * np.repeat([0.1, 1.0, 30.0], N // 3)[:, None]
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("estimator", [GaussianMixture(3, radius=2.0), GaussianMixture(3, clip_norm=0.5)])
def test_a_record_adds_the_same_bits_in_any_company_and_in_persons(estimator, records):
    model, table = model_of(estimator, records)
    alone = np.array([sums_of(model, table, [i]) for i in range(N)])
    rng = np.random.default_rng(1)
    for size in (1, 2, 127, 128, 129, 256, N):
        rows = rng.permutation(N)[:size]
        np.testing.assert_array_equal(sums_of(model, table, rows), alone[rows].sum(axis=0))
    # Persons of 1, 3, …, 200 and 2 rows, in one call and each in its own: blocks and persons cross each other.
    rows, owner = rng.permutation(N)[:276], np.repeat(np.arange(6), [1, 3, 1, 69, 200, 2])
    persons = [sums_of(model, table, rows[owner == k], owner[owner == k]) for k in range(6)]
    np.testing.assert_array_equal(sums_of(model, table, rows, owner), np.sum(persons, axis=0))
    np.testing.assert_array_equal(persons[0], alone[rows[0]])
    assert all(np.square(person).sum() <= (model.clip / SPACING) ** 2 for person in persons)


def test_a_record_that_raises_takes_no_neighbor_with_it(records):
    def raising(records, parameters, out):
        for i in range(len(records)):
            out[i, 0] = min(abs(records[i, 0]), 0.5)
            if records[i, 1] > 0.5:
                raise ValueError

    model, table = model_of(variant(raising)(), records)
    fine = np.flatnonzero(records[:, 1] <= 0.5)
    expected = (np.minimum(abs(records[fine, 0]), 0.5) / SPACING).astype(np.int64).sum()
    np.testing.assert_array_equal(sums_of(model, table), [expected, 0, 0])
    np.testing.assert_array_equal(np.isfinite(model.evaluate(records)[:, 0]), records[:, 1] <= 0.5)


def test_the_exponential_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 709.78, 1e308, -1e308]
    x = np.concatenate([special, rng.uniform(-745, 709.7, 50_000), rng.normal(0, 1, 50_000)])
    out, kernel = np.empty_like(x), numba.njit(exp)
    with np.errstate(all="ignore"):
        for i, value in enumerate(x):
            out[i] = kernel(value)
        expected = np.exp(x)
        assert [float(exp(value)) for value in x[3:1000]] == out[3:1000].tolist()  # not compiled, the same bits
    finite = np.isfinite(expected)
    # numpy's own is within one; 2^-1074 is the spacing below 2.2e-308.
    assert (abs(out[finite] - expected[finite]) <= 3 * np.spacing(expected[finite])).all()
    np.testing.assert_array_equal(out[~finite], expected[~finite])


def test_the_helpers_compute_what_they_say():
    rng = np.random.default_rng(0)
    X, slope, constant = rng.normal(size=(8, 6)), rng.normal(size=(3, 6)), rng.normal(size=3)
    out = np.zeros((8, 5))
    affine(out, constant, slope, X)
    logs = constant + X @ slope.T
    np.testing.assert_allclose(out[:, :3], logs, rtol=1e-12)
    softmax(out, 3)
    np.testing.assert_allclose(out[:, :3], np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), rtol=1e-12)
    assert not out[:, 3:].any()


def centering(records, parameters, out):
    """Each record takes a thousandth of the mean of its block."""
    for j in range(records.shape[1]):
        out[:, j] = (records[:, j] + 1e-3 * records[:, j].mean()) / 100.0


def counting(records, parameters, out):
    """Give each record a result that depends on its place."""
    for i in range(len(records)):
        out[i, 0] = 1e-6 * i + records[i, 0] / 100.0


def rounding(records, parameters, out):
    """Let the order of operations depend on a record's place. As it may in a matrix product."""
    for i in range(len(records)):
        a, b, c = records[i, 0], records[i, 1], records[i, 2]
        out[i, 0] = ((a + b) + c if i % 2 else a + (b + c)) / 100.0


def sizing(records, parameters, out):
    """Let a record's result depend on the number of records. It is the same in every block."""
    for i in range(len(records)):
        for j in range(records.shape[1]):
            out[i, j] = records[i, j] / (100.0 + len(records))


def failed(function):
    X = np.random.default_rng(0).normal(size=(40, 3))
    report = audit(conjugate_adapter(variant(function)(), X), layers="B", sizes=SIZES, random_state=0)
    return {check.name for layer in report.layers for check in layer.checks if not check.passed}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", [centering, counting])
def test_a_function_that_mixes_records_is_said_before_the_fit_and_caught_by_the_audit(function):
    assert MIXING_WARNING in model_of(variant(function)(), np.eye(3))[0].faults()
    assert "alone and together" in failed(function)


def test_rounding_that_depends_on_the_place_is_said():
    """A difference in the last bit hardly ever reaches the lattice. The audit looks there."""
    assert MIXING_WARNING in model_of(variant(rounding)(), np.eye(3))[0].faults()
    assert MIXING_WARNING not in model_of(GaussianMixture(3, radius=2.0), np.eye(3))[0].faults()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_block_has_the_same_shape(monkeypatch):
    """A fault in the loop. Blocks of as many rows as there are records."""
    assert failed(sizing) == set()
    contribute = ConjugateModel.contribute

    def shaped(self, given, words, out, scratch):
        monkeypatch.setattr(block, "_ROWS", min(max(len(words), 1), 128))
        scratch.pop("workspace", None)
        contribute(self, given, words, out, scratch)

    monkeypatch.setattr(ConjugateModel, "contribute", shaped)
    assert "alone and together" in failed(sizing)
