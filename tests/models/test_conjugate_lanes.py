"""Eight records side by side: the same statistics as one by one, and nothing of a neighbour."""

import math
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from ball_mean import variant

from vips_fast.audit import Sizes, audit, conjugate_adapter
from vips_fast.engine.result import Public
from vips_fast.models.conjugate import compiled
from vips_fast.models.conjugate.lanes import lanes_array, side_by_side
from vips_fast.models.examples import GaussianMixture

SPACING = 2.0**-20
SIZES = Sizes(pairs=20, records=20, draws=1_000, releases=100, runs=10, rows=2**12)


def wide(n):
    """Zeros (n, 8) that begin on a cache line."""
    raw = np.zeros(n * 64 + 64, dtype=np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + n * 64].view(np.float64).reshape(n, 8)


def tried(record, parameters, scratch, out):
    """Each operation that records may take part in."""
    n = len(record)
    total, top = 0.0, -math.inf
    for j in range(record.shape[0]):
        top = max(top, record[j])
    for j in range(record.size):
        scratch[j] = math.exp(record[j] - top)
        total += scratch[j]
    total *= 1.5
    total -= 0.25
    out[-1] = np.tanh(total) / (2 + abs(total)) + 0.5 ** min(n, 3)
    for j in range(n):
        out[j] = (scratch[j] / total) ** 2 * 0.1 + 0.01 * math.sqrt(np.fabs(-record[j])) * parameters[0][0]
        out[j] /= 1 + np.log1p(scratch[j])


Tried = variant(
    tried,
    n_statistics=lambda self, n: n + 1,
    n_scratch=lambda self, n: n,
    norm_bound=lambda self, n: 2.0,
    start=lambda self, n, rng: (np.full(n + 1, 0.5),),
)


def branching(record, parameters, scratch, out):
    if record[0] > 0:
        out[0] = 0.5


def model_of(estimator, n_columns, spacing=SPACING):
    model = estimator._model(Public(n_features=n_columns, n_columns=n_columns, n_records=10, seed=0))
    model.prepare(SimpleNamespace(spacing=spacing), None)
    return model


def sums(model, X, rows, starts=None):
    out, block = np.zeros(model.shape, dtype=np.int64), (X, np.asarray(rows))
    limit = math.floor(model.clip / SPACING)
    args = model.parameters, model._nonnegative, model.clip, model.norm_bound, 1 / SPACING, limit
    starts = np.arange(len(rows) + 1) if starts is None else np.asarray(starts)
    model._loops.add(*block, starts, *args, *model._nothing, *model._buffers(), out)
    return out


@pytest.fixture(scope="module")
def records():
    X = np.random.default_rng(0).normal(size=(23, 3)) * np.repeat([0.1, 1.0, 30.0], [8, 8, 7])[:, None]
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("estimator", [Tried(), GaussianMixture(3, radius=2.0), GaussianMixture(3, clip_norm=0.5)])
def test_a_record_adds_the_same_bits_in_any_company_and_in_persons(estimator, records):
    model = model_of(estimator, 3)
    function = compiled._function_of(type(estimator))
    assert model._loops is compiled._side_by_side(function, numba.typeof(model.parameters))
    alone = np.array([sums(model, records, [i]) for i in range(23)])
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 8, 9, 16, 23):
        rows = rng.permutation(23)[:size]
        np.testing.assert_array_equal(sums(model, records, rows), alone[rows].sum(axis=0))
    # Persons of 0, 1, 3, 1, 0, 9 and 2 rows, in one call and each in its own: lanes and units cross each other.
    rows, starts = rng.permutation(23)[:16], np.array([0, 0, 1, 4, 5, 5, 14, 16])
    persons = [sums(model, records, rows[a:b], [0, b - a]) for a, b in zip(starts, starts[1:], strict=False)]
    np.testing.assert_array_equal(sums(model, records, rows, starts), np.sum(persons, axis=0))
    np.testing.assert_array_equal(persons[1], alone[rows[0]])
    assert all(np.square(person).sum() <= (model.clip / SPACING) ** 2 for person in persons)


def test_statistics_are_those_of_one_by_one(records, monkeypatch):
    side = model_of(Tried(), 3)
    monkeypatch.setattr(compiled, "_LARGEST", 0)
    single = model_of(Tried(), 3)
    assert single._loops is compiled._one_by_one(tried)
    X = np.concatenate([records, [[math.nan, 0, 0], [math.inf, 0, 0], [1e200, 1e-200, 0]]])
    (values, good), (expected, good_too) = side.evaluate(X), single.evaluate(X)
    # Rounding: the exponential within 2 units in the last place, and eight operations more.
    np.testing.assert_allclose(values, expected, rtol=1e-14)
    np.testing.assert_array_equal(good, good_too)
    assert not good[23] and abs(sums(side, records, range(23)) - sums(single, records, range(23))).max() <= 23


def test_functions_that_branch_on_a_record_run_one_by_one():
    for function in (branching, lambda record, parameters, scratch, out: out.fill(record[0])):
        model = model_of(variant(function)(), 2)
        assert compiled._side_by_side(function, numba.typeof(model.parameters)) is None
        assert not model.misbehaves() or function is not branching


def test_the_exponential_is_within_two_units_in_the_last_place():
    @numba.njit
    def exponentials(x, out):
        for j in range(len(x)):
            out[j] = math.exp(x[j])

    @numba.njit
    def run(x, out):
        exponentials(side_by_side(x), side_by_side(out))

    rng, x, out = np.random.default_rng(0), wide(20_000), wide(20_000)
    x[:10_000], x[10_000:] = rng.uniform(-745, 709.7, (10_000, 8)), rng.normal(0, 1, (10_000, 8))
    x[0] = [math.nan, math.inf, -math.inf, 0.0, -0.0, 709.78, 1e308, -1e308]
    run(x, out)
    with np.errstate(over="ignore"):
        expected = np.exp(x)
    finite = np.isfinite(expected)
    # numpy's own is within one; 2^-1074 is the spacing below 2.2e-308.
    assert (abs(out[finite] - expected[finite]) <= 3 * np.spacing(expected[finite])).all()
    np.testing.assert_array_equal(out[0][~finite[0]], expected[0][~finite[0]])


@pytest.mark.parametrize("index", [3, -4, 10**12])
def test_a_wrong_index_is_an_exception_and_adds_nothing(index, records):
    def outside(record, parameters, scratch, out):
        out[0] = record[0] * 1e-3
        out[index] = record[0]

    model = model_of(variant(outside)(), 3)
    assert compiled._side_by_side(outside, numba.typeof(model.parameters)) is model._loops
    assert not sums(model, records, range(23)).any() and not model.evaluate(records)[1].any()


def test_vectors_of_lanes_have_no_other_door():
    """A view, a slice, a comparison or a number made of lanes would reach a neighbour; none compiles."""
    doors = [
        lambda x: x.view(np.float64),
        lambda x: x[0:1],
        lambda x: x[0] > 1.0,
        lambda x: x[0] == x[1],
        lambda x: float(x[0]),
        lambda x: int(x[0]),
        lambda x: bool(x[0]),
        lambda x: x[0] % 2,
        lambda x: x[0] // 2,
        lambda x: x[x[0]],
        lambda x: x.sum(),
        lambda x: np.sum(x),
        lambda x: not x[0],
        lambda x: np.asarray(x),
    ]
    for door in doors:
        with pytest.raises(numba.core.errors.NumbaError):
            numba.njit(door).compile((lanes_array,))


def test_an_audit_catches_a_lane_that_leaks(monkeypatch, records):
    """A fault in the loop: each record takes a thousandth of the first of its eight."""

    def half(record, parameters, scratch, out):
        for j in range(len(record)):
            out[j] = record[j] * 0.5 / max(1.0, abs(record[0]) + abs(record[1]))

    def failed(function):
        adapter = conjugate_adapter(variant(function)(), records[:16, :2])
        report = audit(adapter, layers="B", sizes=SIZES, random_state=0)
        return {check.name for layer in report.layers for check in layer.checks if not check.passed}

    assert failed(half) == set()
    load, *others = compiled._shared_side_by_side()

    @numba.njit(nogil=True)
    def leaking(records, rows, first, last, record, scratch, out):
        load(records, rows, first, last, record, scratch, out)
        for j in range(len(record)):
            for lane in range(1, 8):
                record[j, lane] += record[j, 0] * 1e-3

    compiled._side_by_side.cache_clear()
    monkeypatch.setattr(compiled, "_shared_side_by_side", lambda: (leaking, *others))
    try:
        assert "alone and together" in failed(half)
    finally:
        compiled._side_by_side.cache_clear()
