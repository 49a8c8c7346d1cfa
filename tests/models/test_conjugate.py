"""Models of the user's own: the shared engine, and the bounds of the examples."""

import math
import subprocess
import sys
import warnings
from pathlib import Path

import ball_mean
import numpy as np
import pytest
from ball_mean import Mean, model_of, sums_of, variant
from binomial_regression import BinomialRegression
from factor_analysis import FactorAnalysis
from hidden_markov import HiddenMarkovModel
from linear_dynamics import LinearDynamicalSystem
from linear_regression import LinearRegression
from probabilistic_pca import ProbabilisticPCA, ProbabilisticPCAOptions

from vips_fast.models.conjugate.model import RECORDS_WARNING, STATISTICS_WARNING, checked_parameters
from vips_fast.models.mixture import GaussianMixture


def quietly(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in seen]


def blobs(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    return np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, -2.0]])[z] + rng.normal(0, 0.4, (n, 2)), z


def example_of(kind, n=40, seed=0, **options):
    """Return an estimator and its records. Some are outside of the declared domain."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * rng.choice([0.1, 1.0, 30.0], size=(n, 1))
    if kind is HiddenMarkovModel:
        X = np.clip(np.rint(X), -1, 2)
        options["n_symbols"] = 3
    if kind is BinomialRegression:
        X = np.column_stack([X, rng.integers(0, 4, n), np.full(n, 3)])
        options["n_trials"] = 3
    return kind(random_state=seed, **options), X


NARROW = {"options": ProbabilisticPCAOptions(latent_radius=0.1)}
#: A record whose contribution is longest, the settings that it takes, and the parameters if not those of the start.
WORST = {
    GaussianMixture: ([1.0, 0.0, 0.0], {"n_components": 1}, None),
    # Loadings that carry a record of norm R to a latent mean of norm above B.
    ProbabilisticPCA: ([1e3, 0.0, 0.0], NARROW, lambda own: own._parameters(np.eye(3, 2), 0.01)),
    FactorAnalysis: ([1e3, 0.0, 0.0], NARROW, lambda own: own._factors(np.eye(3, 2), np.full(3, 0.01))),
    HiddenMarkovModel: ([0.0, 0.0, 0.0], {"n_components": 1}, None),
    LinearDynamicalSystem: ([1e3, 1e3, 1e3], {"latent_radius": 1e-3}, None),
    BinomialRegression: ([1.0, 0.0, 0.0, 3.0, 3.0], {}, lambda own: own._parameters(np.zeros(3), np.eye(3) * 1e-10)),
    LinearRegression: ([1.0, 0.0, 1.0], {}, None),
}
EXAMPLES = list(WORST)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_bound_is_reached_by_the_worst_record(kind):
    longest, options, parameters = WORST[kind]
    model, table = model_of(example_of(kind, **options)[0], [longest])
    if parameters is not None:
        model.parameters = checked_parameters(parameters(model.functions))
    norm = np.linalg.norm(model.evaluate(table.array)[0])
    assert model.clip * (1 - 1e-6) < norm <= model.clip


@pytest.mark.parametrize("kind", EXAMPLES)
def test_parameters_stay_finite_where_noise_is_all_there_is(kind):
    """Twenty records and a multiplier of 5. The M-step gets noise, and a spent budget must not end in an error."""
    for seed in range(20):
        options = dict(noise_multiplier=5.0, n_steps=10, learning_decay=(0.0, 0.7)[seed % 2])
        estimator, X = example_of(kind, 20, seed, **options)
        y_columns = {BinomialRegression: 2, LinearRegression: 1}.get(kind, 0)
        X, y = (X[:, :-y_columns], X[:, -y_columns:].squeeze()) if y_columns else (X, None)
        assert all(np.isfinite(p).all() for p in estimator.fit(X, y).parameters_)


def test_the_clip_norm_option_lowers_the_sensitivity():
    X = blobs(200)[0]
    model, table = model_of(Mean(clip_norm=0.25), X)
    assert model.sensitivity("add_remove") == 0.25 and model.sensitivity("replace_one") == 0.5
    assert model_of(Mean(clip_norm=9.0), X)[0].clip == Mean().norm_bound(2)
    assert 0.2499 < np.linalg.norm(sums_of(model, table, [0]) * 2.0**-20) <= 0.25
    fitted, said = quietly(lambda: Mean(clip_norm=0.25, private=False, n_steps=1).fit(X))
    assert said == []  # no fault, but counted where nothing is private
    assert fitted.diagnostics_ == [{"records": 200.0, "clipped": 200.0, "broken": 0.0}]


@pytest.mark.parametrize("bound", [1e-175, 1e-101, 1e101, math.inf, 0.0, -1.0])
def test_bounds_whose_squares_leave_the_doubles_are_refused(bound):
    """A bound of 1e-175 is refused, since its square is 0. It once let a record add 1e10 times the bound."""
    X = np.full((3, 1), bound * 1e10 if 0 < bound < 1 else 1.0)
    copying = variant(lambda records, parameters, out: None, norm_bound=lambda self, n: bound)
    with pytest.raises(ValueError, match="norm_bound=.*expected a number in .1e-100, 1e"):
        copying(n_steps=1).fit(X)
    refused = [Mean(clip_norm=bound), GaussianMixture(radius=bound), BinomialRegression(precision=bound)]
    refused.append(ProbabilisticPCA(options=ProbabilisticPCAOptions(latent_radius=bound)))
    for estimator in [*refused, BinomialRegression(2**54)]:
        with pytest.raises(ValueError, match="expected a"):
            estimator.fit(X, None)
        assert not hasattr(estimator, "ledger_")


def copying(records, parameters, out):
    for i in range(len(records)):
        for j in range(records.shape[1]):
            out[i, j] = records[i, j]


@pytest.mark.parametrize("bound", [1e-100, 0.7, 1e100])
def test_the_bound_holds_in_integers_at_both_ends_of_what_is_allowed(bound):
    scales = bound * np.array([1e-80, 0.5, 1.0, 1 + 1e-12, 1 + 5e-7, 1e10, 1e200 / max(bound, 1.0)])
    directions = np.random.default_rng(0).normal(size=(len(scales), 2))
    X = scales[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    X[2] = bound / math.sqrt(2)
    kind = variant(copying, norm_bound=lambda self, n: bound)
    for bits in (30, 2):  # a fine lattice, and one so coarse that a vector truncated to it is too long
        spacing = math.ldexp(1.0, math.frexp(bound)[1] - bits)
        model, table = model_of(kind(), X, spacing)
        squares = [sum(int(x) ** 2 for x in sums_of(model, table, [i])) for i in range(len(X))]
        limit = math.floor(bound / spacing) ** 2
        assert max(squares) <= limit and (bits == 2 or min(squares[2:]) >= 0.999 * limit)


def raising(records, parameters, out):
    for i in range(len(records)):
        out[i, 0] = 1.0
        if records[i, 0] > 0.5:
            raise ValueError("private")


def not_finite(records, parameters, out):
    for i in range(len(records)):
        out[i, 0] = records[i, 0]
        if records[i, 0] > 0.5:
            out[i, 1] = math.nan


def too_long(records, parameters, out):
    for i in range(len(records)):
        out[i, 0] = 1e200 if records[i, 0] > 0.5 else 0.5


def outside(records, parameters, out):
    for i in range(len(records)):
        out[i, int(records[i, 0] > 0.5) * 10**6] = 0.5


@pytest.mark.parametrize("function", [raising, not_finite, too_long, outside])
def test_what_a_bad_function_does_stays_inside_the_bound_and_is_said(function):
    X = np.array([[1.0, 0.0], [0.25, 0.0], [0.5, 0.0]])
    kind = variant(function)
    model, table = model_of(kind(), X)
    bad, good, other = (sums_of(model, table, [i]) for i in range(3))
    assert good[0] > 0
    if function is too_long:
        assert (1 - 1e-5) * 2**20 < bad[0] <= 2**20 * (1 + 1e-12)
    else:
        assert not bad.any()
    np.testing.assert_array_equal(sums_of(model, table), bad + good + other)
    # The public test records reach the fault, before and after: the text is constant.
    fitted, said = quietly(lambda: kind(n_steps=2, noise_multiplier=1.0).fit(X))
    assert said == [STATISTICS_WARNING, STATISTICS_WARNING] and fitted.privacy_.private
    assert np.isfinite(fitted.average_).all()


def test_a_private_fit_does_not_say_what_training_records_did():
    def secret(records, parameters, out):
        for i in range(len(records)):
            out[i, 0] = 0.5
            if records[i, 0] == 0.123:
                raise ValueError

    kind = variant(secret)
    assert quietly(lambda: kind(n_steps=1).fit([[0.123], [0.0]]))[1] == []
    fitted, said = quietly(lambda: kind(n_steps=1, private=False).fit([[0.123], [0.0]]))
    assert said == [STATISTICS_WARNING] and fitted.diagnostics_[0]["broken"] == 1
    assert quietly(lambda: kind(n_steps=1, private=False).fit([[0.1], [0.0]]))[1] == []


def test_records_that_are_not_finite_end_the_fit_or_contribute_zero():
    X = np.array([[np.nan, 0.0], [0.5, np.inf], [0.5, 0.25]])
    with pytest.raises(ValueError, match="X, y: expected finite numbers, found .*invalid.: .drop"):
        Mean().fit(X)
    table, _ = Mean(options={"invalid": "drop"})._read(X)
    np.testing.assert_array_equal(table.usable, [False, False, True])
    fitted = Mean(options={"invalid": "drop"}, private=False, n_steps=1, n_records=3).fit(X)
    np.testing.assert_allclose(fitted.average_, X[2] / 3, rtol=1e-7)  # the public number of records counts them
    np.testing.assert_array_equal(fitted.expected_statistics(X)[2], X[2])
    model, table = model_of(Mean(), X)
    assert not sums_of(model, table, [0]).any() and not sums_of(model, table, [1])[0].any()


def test_nothing_is_carried_from_one_record_to_the_next():
    def remembering(records, parameters, out):
        for i in range(len(records)):
            out[i, 0] += 0.125 + records[i, 0]
            records[i, 0] += 1.0

    model, table = model_of(variant(remembering)(), np.zeros((1000, 1)))
    np.testing.assert_array_equal(sums_of(model, table), [1000 * 2**17])


@pytest.mark.parametrize(
    "records",
    [
        lambda self, X, y=None: (X - X.mean(axis=0)) / (1 + X.std(axis=0)),
        lambda self, X, y=None: X - X[0],
        lambda self, X, y=None: X / max(1, abs(X).max()),
        lambda self, X, y=None: X + np.arange(len(X))[:, None],
        lambda self, X, y=None: X + np.random.default_rng().normal(size=X.shape),
    ],
)
@pytest.mark.parametrize("dtype", [float, np.float32, np.int64, np.uint8])
def test_records_that_mix_rows_are_said_from_invented_rows_alone(records, dtype):
    kind = variant(Mean.statistics, records=records)
    fitted, said = quietly(lambda: kind(n_steps=1).fit(np.zeros((4, 3), dtype=dtype)))
    assert said == [RECORDS_WARNING] and fitted.privacy_.private


def test_records_that_act_on_each_row_alone_are_not_blamed():
    def with_label(self, X, y=None):
        return np.column_stack([X, (np.asarray(y) == "a") * 1.0])

    clipping = variant(Mean.statistics, records=lambda self, X, y=None: np.clip(X, -1, 1) * 0.5)
    labels = variant(Mean.statistics, records=with_label)
    for estimator, y in ((clipping(), None), (labels(), ["a", "b", "a"]), (BinomialRegression(), [0, 1, 1])):
        assert quietly(lambda e=estimator, y=y: e.set_params(n_steps=1).fit([[1.0], [0.5], [0.0]], y))[1] == []
    shorter = variant(Mean.statistics, records=lambda self, X, y=None: X[1:])
    with pytest.raises(ValueError, match="one record for each row of X"):
        shorter().fit([[1.0], [0.5]])
    with pytest.raises(ValueError, match="X is not a rectangular array of numbers"):
        BinomialRegression(n_steps=1, options={"invalid": "drop"}).fit([[1.0], [0.5, 2.0]], [0, 1])


def summing(mstep):
    return variant(Mean.statistics, mstep=mstep)


@pytest.mark.parametrize(
    ("kind", "error", "match"),
    [
        (variant(lambda records, parameters, out: records.no_such_attribute), TypeError, "cannot compile"),
        (variant(lambda records, parameters, out: parameters[0].fill(1.0)), TypeError, "cannot compile"),
        (variant(raising, n_statistics=lambda self, n: 0), ValueError, "n_statistics=0"),
        (variant(raising, start=lambda self, n, rng: None), TypeError, "start: expected a tuple of arrays"),
        (variant(raising, start=lambda self, n, rng: ([math.nan],)), ValueError, "not finite"),
        (summing(lambda self, mean, *_: (mean * math.nan,)), ValueError, "Variant.mstep: array 0 is not finite"),
        (summing(lambda self, mean, *_: (mean, mean)), ValueError, r"shapes \[\(1,\), \(1,\)\]: expected \[\(1,\)\]"),
        (summing(lambda self, mean, *_: mean), TypeError, "mstep: expected a tuple"),
    ],
)
def test_a_model_that_breaks_its_contract_ends_the_fit_and_leaves_the_estimator(kind, error, match, tmp_path):
    """Before anything is spent, but for an M-step, which is called after that."""
    estimator = kind(n_steps=3)
    before = dict(vars(estimator))
    with pytest.raises(error, match=match):
        estimator.fit([[0.0], [1.0]], transcript=tmp_path / "releases")
    own = {k: v for k, v in vars(estimator).items() if k not in ("_lock",)}
    assert not hasattr(estimator, "ledger_") and own == before
    assert "mstep" in vars(kind) or not (tmp_path / "releases").exists()


@pytest.mark.parametrize("option", ["fastmath", "parallel"])
def test_compiler_options_that_break_purity_are_refused(option):
    import numba

    kind = variant(numba.njit(**{option: True})(Mean.statistics))
    with pytest.raises(ValueError, match=f"{option}=True"):
        kind(n_steps=1).fit([[0.0], [1.0]])
    kept = variant(numba.njit(Mean.statistics))(n_steps=1, private=False).fit([[0.0], [1.0]])
    assert kept.average_[0] == 0.5


def test_a_refusal_does_not_tell_the_number_of_rows_when_another_is_public():
    for X, y in ((np.zeros((1234, 2)), np.zeros(999)), (np.zeros((1234, 2, 2)), None)):
        with pytest.raises(ValueError) as refusal:
            Mean(n_records=100, n_steps=1, noise_multiplier=1.0).fit(X, y)
        assert "1234" not in str(refusal.value) and "999" not in str(refusal.value)


def test_the_start_of_the_average_is_forgotten_exactly():
    """Statistics that never change have a mean that no step size changes."""
    X = np.array([[0.5, 0.25], [0.25, -0.5]])
    for decay in (0.7, 0.0):
        fitted = Mean(private=False, n_steps=4, learning_decay=decay).fit(X)
        np.testing.assert_allclose(fitted.average_, X.mean(axis=0), rtol=1e-12)


def test_the_users_functions_see_a_copy_with_public_facts():
    def mstep(self, mean, noise_sd, parameters):
        assert (self.n_records_, self.n_columns_) == (30, 2) and not hasattr(self, "parameters_")
        assert not hasattr(self, "kept")
        self.kept = mean
        return (mean,)

    estimator = variant(Mean.statistics, mstep=mstep)(n_steps=3, noise_multiplier=1.0, n_records=30)
    for _ in range(2):
        estimator.fit(np.zeros((20, 1)), np.zeros(20))
    assert not hasattr(estimator, "kept") and (estimator.n_records_, estimator.n_columns_) == (30, 2)
    assert estimator.n_features_in_ == 1
    with pytest.raises(ValueError, match="read-only"):
        estimator.parameters_[0][0] = 1.0


def test_arrays_and_options_among_the_arguments_are_kept(tmp_path):
    frame, options = np.array([[-1.0, 0.5], [1.0, 0.0]]), ProbabilisticPCAOptions(latent_radius=0.5)
    GaussianMixture(2, projection=frame, radius=3.0, n_steps=2).fit(blobs(200)[0]).save(tmp_path / "m")
    np.testing.assert_array_equal(GaussianMixture.load(tmp_path / "m").projection, frame)
    ProbabilisticPCA(1, options=options, n_steps=2).fit(blobs(200)[0]).save(tmp_path / "p")
    assert ProbabilisticPCA.load(tmp_path / "p").options == options
    for wrong in (ProbabilisticPCA(1, options=3), GaussianMixture(2, projection=frame[:1])):
        with pytest.raises(ValueError, match="expected"):
            wrong.fit(blobs(20)[0])


def test_import_load_and_rebuild_without_numba(tmp_path):
    Mean(n_steps=1, noise_multiplier=1.0).fit(blobs(50)[0], transcript=tmp_path / "t").save(tmp_path / "m")
    code = (
        f"import sys; sys.path.append({str(Path(ball_mean.__file__).parent)!r}); "
        "from vips_fast import verify; from ball_mean import Mean; "
        f"m, t = {str(tmp_path / 'm')!r}, {str(tmp_path / 't')!r}; Mean.load(m).average_; "
        "sys.exit(2 * (not verify(m, t, cls=Mean).ok) + ('numba' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
