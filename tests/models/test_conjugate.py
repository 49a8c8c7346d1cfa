"""Models of the user's own: the shared engine, and the four examples beside other people's results."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from ball_mean import Mean, variant

from vips_fast.models.conjugate import MESSAGE, _ConjugateModel
from vips_fast.models.examples import BernoulliMixture, BinomialRegression, GaussianMixture, ProbabilisticPCA

FULL = dict(private=False, learning_decay=0)  # plain variational Bayes: each step's statistics alone


def quietly(call):
    """The call's result and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in seen]


# ------------------------------------------------------- other people's results


def blobs(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    return np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, -2.0]])[z] + rng.normal(0, 0.4, (n, 2)), z


def by_first(estimator, *arrays):
    order = np.argsort(estimator.means_[:, 0])
    return [array[order] for array in arrays]


def test_gaussian_mixture_in_one_dimension_is_scikit_learns():
    mixture = pytest.importorskip("sklearn.mixture", reason="needs scikit-learn")
    x = blobs()[0][:, :1]
    # In one dimension its Wishart with nu degrees of freedom is a gamma of shape nu / 2.
    theirs = mixture.BayesianGaussianMixture(
        n_components=2, covariance_type="diag", weight_concentration_prior_type="dirichlet_distribution", weight_concentration_prior=1.0,
        mean_precision_prior=0.1, mean_prior=[0.0], degrees_of_freedom_prior=2.0, covariance_prior=[0.5], tol=1e-12,
        max_iter=3000, reg_covar=0.0, random_state=0,
    ).fit(x)
    ours = GaussianMixture(
        2, radius=10.0, weight_prior=1.0, mean_prior=0.1, shape_prior=1.0, rate_prior=0.25, means_init=theirs.means_ + 0.1,
        n_steps=400, **FULL,
    ).fit(x)
    theirs_variance = theirs.covariances_ if theirs.covariances_.ndim == 2 else theirs.covariances_[:, None]
    for a, b in zip(
        by_first(ours, ours.weights_, ours.means_, ours.variances_), by_first(theirs, theirs.weights_, theirs.means_, theirs_variance)
    ):
        # The same fixed point, reached from two sides: 400 rounds leave less than this.
        np.testing.assert_allclose(a, b, rtol=2e-5)


def test_gaussian_mixture_scores_as_scikit_learns_and_privately_nearly():
    mixture = pytest.importorskip("sklearn.mixture", reason="needs scikit-learn")
    X, z = blobs(6000)
    test, _ = blobs(2000, seed=1)
    theirs = mixture.GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    options = dict(radius=4.0, means_init=[[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
    ours = GaussianMixture(3, n_steps=60, **options, **FULL).fit(X)
    # Priors worth about one record of 6000 move the log-density by less than 10^-3.
    assert abs(ours.score(test) - theirs.score(test)) < 1e-3
    private = GaussianMixture(3, n_steps=20, target_epsilon=4.0, **options).fit(X)
    # Noise of 0.3 % of a component's weight on each statistic; 0.1 nats is five times what it costs.
    assert private.score(test) > theirs.score(test) - 0.1
    assert 3.9 < private.privacy_.epsilon <= 4.0
    np.testing.assert_allclose(ours.predict_proba(test).sum(axis=1), 1.0, rtol=1e-12)


def test_bernoulli_mixture_of_one_component_is_the_beta_posterior():
    naive_bayes = pytest.importorskip("sklearn.naive_bayes", reason="needs scikit-learn")
    X = (np.random.default_rng(0).uniform(size=(500, 12)) < 0.3).astype(np.uint8)
    ours = BernoulliMixture(1, one_prior=2.0, zero_prior=2.0, n_steps=2, **FULL).fit(X)
    theirs = naive_bayes.BernoulliNB(alpha=2.0).fit(X, np.zeros(500))
    # 500 contributions, each cut by less than 2^-29 of the bound.
    np.testing.assert_allclose(ours.probabilities_, np.exp(theirs.feature_log_prob_), rtol=1e-7)


def test_bernoulli_mixture_finds_the_classes():
    naive_bayes = pytest.importorskip("sklearn.naive_bayes", reason="needs scikit-learn")
    rng = np.random.default_rng(0)
    p = np.where(rng.uniform(size=(2, 30)) < 0.5, 0.1, 0.9)
    z = rng.integers(0, 2, 4000)
    X = rng.uniform(size=(4000, 30)) < p[z]
    ours = BernoulliMixture(2, n_steps=40, random_state=0, **FULL).fit(X)
    theirs = np.exp(naive_bayes.BernoulliNB(alpha=1.0).fit(X, z).feature_log_prob_)
    order = [0, 1] if abs(ours.probabilities_ - theirs).max() < 0.3 else [1, 0]
    # With 30 columns this far apart, nearly every responsibility is 0 or 1: as with known classes.
    np.testing.assert_allclose(ours.probabilities_[order], theirs, atol=2e-3)
    private = BernoulliMixture(2, n_steps=15, target_epsilon=5.0, random_state=0).fit(X)
    assert min(abs(private.probabilities_[o] - theirs).mean() for o in ([0, 1], [1, 0])) < 0.05


def test_probabilistic_pca_is_the_closed_form():
    decomposition = pytest.importorskip("sklearn.decomposition", reason="needs scikit-learn")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)) @ (rng.normal(size=(2, 6)) * [[2.0], [1.0]]) + rng.normal(size=(1000, 6))
    X = np.vstack([X, -X])  # the mean is 0
    ours = ProbabilisticPCA(2, radius=20.0, latent_radius=30.0, ridge=1e-9, n_steps=200, **FULL).fit(X)
    theirs = decomposition.PCA(2).fit(X)
    # scikit-learn divides by n - 1; EM gains a factor 1 - 2 s^2 / lambda a round or better.
    expected = theirs.get_covariance() * (1999 / 2000)
    np.testing.assert_allclose(ours.get_covariance(), expected, atol=1e-3 * abs(expected).max())
    private = ProbabilisticPCA(2, radius=15.0, n_steps=30, learning_decay=0.5, noise_multiplier=1.0).fit(X)
    assert np.isfinite(private.get_covariance()).all() and np.linalg.eigvalsh(private.get_covariance()).min() > 0
    assert ours.transform(X).shape == (2000, 2)


def test_binomial_regression_is_the_textbook_iteration_and_near_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model", reason="needs scikit-learn")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) / 2
    y = rng.uniform(size=3000) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5, 0.0]))
    ours = BinomialRegression(1, radius=10.0, n_steps=30, **FULL).fit(X, y)
    moment = np.eye(4)
    for _ in range(30):  # Jaakkola & Jordan (2000), in numpy
        c = np.sqrt(np.einsum("ni,ij,nj->n", X, moment, X))
        xi = np.tanh(c / 2) / (2 * c)
        covariance = np.linalg.inv(np.eye(4) + X.T @ (xi[:, None] * X))
        mean = covariance @ (X.T @ (y - 0.5))
        moment = np.outer(mean, mean) + covariance
    # 3000 contributions, each cut by less than 2^-29 of the bound, R^2 = 100 times that in these units.
    np.testing.assert_allclose(ours.coef_, mean, atol=3e-4)
    np.testing.assert_allclose(ours.covariance_, covariance, atol=1e-6)
    theirs = linear_model.LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(X, y)
    # The mode and the variational mean differ by far less than a posterior sd, 0.09.
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=0.03)


def test_binomial_regression_takes_trials():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) / 2
    trials = rng.integers(1, 6, 2000)
    y = rng.binomial(trials, 1 / (1 + np.exp(-X @ [1.0, -1.0])))
    counted = BinomialRegression(5, radius=10.0, n_steps=20, **FULL).fit(X, np.column_stack([y, trials]))
    # The same as one record for each trial.
    rows = np.repeat(np.arange(2000), trials)
    single = np.concatenate([np.arange(t) < s for t, s in zip(trials, y)])
    spread = BinomialRegression(1, radius=10.0, n_steps=20, **FULL).fit(X[rows], single)
    np.testing.assert_allclose(counted.coef_, spread.coef_, atol=1e-3)  # lattice steps, as above
    for bad in (None, np.zeros((2000, 3)), np.zeros(3)):
        with pytest.raises(ValueError, match="expected"):
            BinomialRegression(5).fit(X, bad)


# ------------------------------------------------------------------- privacy


def example_of(kind, n=40, seed=0):
    """An estimator and its records, some of them outside of what the model declares."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * rng.choice([0.1, 1.0, 30.0], size=(n, 1))
    if kind is BernoulliMixture:
        X = (X > 0).astype(float)
    if kind is BinomialRegression:
        X = np.column_stack([X, rng.integers(0, 4, n), np.full(n, 3)])
    options = {"n_trials": 3} if kind is BinomialRegression else {}
    estimator = kind(random_state=seed, **options)
    estimator.n_columns_, estimator.n_records_ = X.shape[1], n
    return estimator, X


def sums_of(model, rows, spacing=2.0**-20, n_threads=1):
    sums = np.zeros(model.statistics_shape, dtype=np.int64)
    model.estep(np.asarray(rows, dtype=np.int64), np.zeros(len(rows), dtype=np.uint64), spacing, sums, n_threads)
    return sums


#: Records whose contributions are longest, and the other one of a replaced pair.
WORST = {
    GaussianMixture: ([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]),
    BernoulliMixture: ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    ProbabilisticPCA: ([1e3, 0.0, 0.0], [-1e3, 0.0, 0.0]),
    BinomialRegression: ([1.0, 0.0, 0.0, 3.0, 3.0], [1.0, 0.0, 0.0, 0.0, 3.0]),
}
EXAMPLES = list(WORST)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_neighbours_stay_within_the_declared_sensitivity(kind):
    estimator, X = example_of(kind, 300)
    model = _ConjugateModel(estimator, np.vstack([X, *np.atleast_2d(WORST[kind])]))
    spacing = 2.0**-20
    parts = [sums_of(model, [i], spacing).astype(object) for i in range(302)]  # Python integers: exact
    one = max(int((q * q).sum()) for q in parts)
    two = max(int(((a - b) ** 2).sum()) for a in parts[-30:] for b in parts)
    assert one <= int(model.sensitivity("add_remove") / spacing) ** 2
    assert two <= int(model.sensitivity("replace_one") / spacing) ** 2
    assert one > 0


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_bound_is_reached_by_the_worst_record(kind):
    """The bound in each docstring is no larger than it must be."""
    estimator, X = example_of(kind)
    longest = np.vstack([WORST[kind][0]] * 2)
    parameters = None
    if kind is BinomialRegression:
        parameters = estimator._parameters(np.zeros(3), np.eye(3) * 1e-10)
    if kind is ProbabilisticPCA:
        # Loadings that carry a record of norm R to a latent mean of norm above B.
        estimator.latent_radius = 0.1
        parameters = estimator._parameters(np.eye(3, 2), 0.01)
    if kind in (GaussianMixture, BernoulliMixture):
        estimator.n_components = 1
    model = _ConjugateModel(estimator, longest, None if parameters is None else tuple(np.asarray(p, dtype=float) for p in parameters))
    norm = np.linalg.norm(model.evaluate(longest)[0][0])
    assert model.clip_norm * (1 - 1e-6) < norm <= model.clip_norm


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_contribution_is_the_same_bits_wherever_it_is_computed(kind):
    estimator, X = example_of(kind, 5000)
    model = _ConjugateModel(estimator, X)
    whole = sums_of(model, np.arange(5000))
    for n_threads in (2, 3, 7):
        np.testing.assert_array_equal(whole, sums_of(model, np.arange(5000), n_threads=n_threads))
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(whole, sums_of(model, rng.permutation(5000), n_threads=2))
    alone = [sums_of(model, [i]) for i in (0, 17, 4999)]
    reversed_model = _ConjugateModel(estimator, np.asarray(X[::-1], order="F"))
    for i, q in zip((0, 17, 4999), alone):
        rest = sums_of(model, np.delete(np.arange(5000), i))
        np.testing.assert_array_equal(whole - rest, q)
        np.testing.assert_array_equal(sums_of(reversed_model, [4999 - i]), q)


@pytest.mark.parametrize("kind", [Mean, *EXAMPLES])
def test_audit_of_releases(kind):
    """Gaussian-DP mu measured on released sums, with and without the worst record: the claimed 1/z is not passed."""
    z, runs = 2.0, 1500
    if kind is Mean:
        estimator, X, worst = Mean(), np.zeros((20, 2)), [5.0, 0.0]
        estimator.n_columns_, estimator.n_records_ = 2, 21
    else:
        (estimator, X), worst = example_of(kind, 20), WORST[kind][0]
    X = np.vstack([X, worst])
    estimator.set_params(n_steps=1, sampling="full", noise_multiplier=z)
    model = _ConjugateModel(estimator, X)
    _, mechanism, _ = estimator._set_up(model, len(X), 1)
    contribution = model.evaluate(X[-1:])[0][0]
    direction = contribution / np.linalg.norm(contribution)
    released = []
    for rows in (np.arange(len(X)), np.arange(len(X) - 1)):
        sums = sums_of(model, rows, mechanism.spacing)
        draws = np.empty(runs)
        for i in range(runs):
            noised = sums.copy()
            mechanism.add_noise(noised, None)
            draws[i] = noised @ direction * mechanism.spacing
        released.append(draws)
    mu = (released[0].mean() - released[1].mean()) / math.sqrt((released[0].var() + released[1].var()) / 2)
    error = 5 * math.sqrt(2 / runs)  # five standard errors of mu
    assert mu - error <= 1 / z
    # And the noise is no larger than it is said to be.
    assert mu + error >= min(np.linalg.norm(contribution) / model.clip_norm, 1.0) / z


@pytest.mark.parametrize("options", [{}, {"batch_size": 60}, {"batch_size": 60, "sampling": "without_replacement"}, {"sampling": "full"}])
def test_budget_is_met_whatever_the_sampling(options):
    X, _ = blobs(600)
    model = GaussianMixture(2, n_steps=4, target_epsilon=1.0, **options).fit(X)
    assert 0.98 < model.privacy_.epsilon <= 1.0 and len(model.ledger_) == 4 and model.privacy_.private
    assert model.noise_sd_ > 0


@pytest.mark.parametrize("kind", EXAMPLES)
def test_parameters_stay_finite_where_noise_is_all_there_is(kind):
    """Twenty records and a multiplier of 5: the M-step gets noise, and a spent budget must not end in an error."""
    for seed in range(20):
        estimator, X = example_of(kind, 20, seed)
        estimator.set_params(noise_multiplier=5.0, n_steps=10, learning_decay=(0.0, 0.7)[seed % 2])
        X, y = (X[:, :-2], X[:, -2:]) if kind is BinomialRegression else (X, None)
        assert all(np.isfinite(p).all() for p in estimator.fit(X, y).parameters_)


def test_the_clip_norm_option_lowers_the_sensitivity():
    X, _ = blobs(200)
    model = _ConjugateModel(Mean(clip_norm=0.25), X)
    assert model.sensitivity("add_remove") == 0.25 and model.sensitivity("replace_one") == 0.5
    assert _ConjugateModel(Mean(clip_norm=9.0), X).clip_norm == Mean().norm_bound(2)
    q = sums_of(model, [0], 2.0**-20)
    assert 0.2499 < np.linalg.norm(q * 2.0**-20) <= 0.25
    _, said = quietly(lambda: Mean(clip_norm=0.25, private=False, n_steps=1).fit(X))
    assert said == [MESSAGE]  # without privacy; nothing where it is private, below
    _, said = quietly(lambda: Mean(clip_norm=0.25, n_steps=1).fit(X))
    assert said == []


# --------------------------------------------------- functions that misbehave


def raising(record, parameters, scratch, out):
    out[0] = 1.0
    if record[0] > 0.5:
        raise ValueError("private")


def not_finite(record, parameters, scratch, out):
    out[0] = record[0]
    if record[0] > 0.5:
        out[1] = math.nan


def infinite(record, parameters, scratch, out):
    out[0] = -math.inf if record[0] > 0.5 else 0.25


def too_long(record, parameters, scratch, out):
    out[0] = 1e200 if record[0] > 0.5 else 0.5


def outside(record, parameters, scratch, out):
    out[int(record[0] > 0.5) * 10**6] = 0.5


def dividing(record, parameters, scratch, out):
    out[0] = 0.5 / (0.0 if record[0] > 0.5 else 1.0)


@pytest.mark.parametrize("function", [raising, not_finite, infinite, too_long, outside, dividing])
def test_what_a_bad_function_does_stays_inside_the_bound_and_is_said(function):
    X = np.array([[1.0, 0.0], [0.25, 0.0], [0.5, 0.0]])
    kind = variant(function)
    model = _ConjugateModel(kind(), X)
    good, bad = sums_of(model, [1]), sums_of(model, [0])
    assert good[0] > 0
    if function is too_long:
        assert (1 - 1e-5) * 2**20 < bad[0] <= 2**20 * (1 + 1e-12)
    else:
        assert not bad.any()
    np.testing.assert_array_equal(sums_of(model, [0, 1, 2]), bad + good + sums_of(model, [2]))
    # The public test records reach the fault, before and after: the text is constant.
    fitted, said = quietly(lambda: kind(n_steps=2, noise_multiplier=1.0).fit(X))
    assert said == [MESSAGE, MESSAGE] and fitted.privacy_.private
    assert np.isfinite(fitted.average_).all()


def test_a_private_fit_does_not_say_what_training_records_did():
    def secret(record, parameters, scratch, out):
        out[0] = 0.5
        if record[0] == 0.123:
            raise ValueError

    kind = variant(secret)
    assert quietly(lambda: kind(n_steps=1).fit([[0.123], [0.0]]))[1] == []
    assert quietly(lambda: kind(n_steps=1, private=False).fit([[0.123], [0.0]]))[1] == [MESSAGE]
    assert quietly(lambda: kind(n_steps=1, private=False).fit([[0.1], [0.0]]))[1] == []


def test_records_that_are_not_finite_contribute_zero():
    X = np.array([[np.nan, 0.0], [0.5, np.inf], [0.5, 0.25]])
    model = _ConjugateModel(Mean(), X)
    assert not sums_of(model, [0]).any() and not sums_of(model, [1])[0].any()
    np.testing.assert_array_equal(sums_of(model, [2]), [2**19, 2**18])


def test_nothing_is_carried_from_one_record_to_the_next():
    def remembering(record, parameters, scratch, out):
        out[0] += 0.125 + scratch[0]
        scratch[0] += 1.0

    kind = variant(remembering, n_scratch=lambda self, n: 1)
    model = _ConjugateModel(kind(), np.zeros((3, 1)))
    np.testing.assert_array_equal(sums_of(model, [0, 1, 2]), [3 * 2**17])


@pytest.mark.parametrize(
    ("kind", "error", "match"),
    [
        (variant(lambda record, parameters, scratch, out: record.no_such_attribute), TypeError, "cannot compile"),
        (variant(lambda record, parameters, scratch, out: parameters[0].fill(1.0)), TypeError, "cannot compile"),
        (variant(raising, norm_bound=lambda self, n: math.inf), ValueError, "norm_bound=inf"),
        (variant(raising, n_statistics=lambda self, n: 0), ValueError, "n_statistics=0"),
        (variant(raising, start=lambda self, n, rng: None), TypeError, "expected a tuple of arrays"),
        (variant(raising, start=lambda self, n, rng: ([math.nan],)), ValueError, "not finite"),
    ],
)
def test_a_model_that_cannot_be_run_is_refused_before_anything_is_spent(kind, error, match):
    estimator = kind(n_steps=1)
    with pytest.raises(error, match=match):
        estimator.fit([[0.0], [1.0]])
    assert not hasattr(estimator, "ledger_")


@pytest.mark.parametrize("option", ["fastmath", "parallel"])
def test_compiler_options_that_break_purity_are_refused(option):
    import numba

    kind = variant(numba.njit(**{option: True})(Mean.statistics))
    with pytest.raises(ValueError, match=f"{option}=True"):
        kind(n_steps=1).fit([[0.0], [1.0]])
    kept = variant(numba.njit(Mean.statistics))(n_steps=1, private=False).fit([[0.0], [1.0]])
    assert kept.average_[0] == 0.5


def test_an_m_step_that_is_not_finite_is_an_error_and_stays_charged():
    estimator = variant(Mean.statistics, mstep=lambda self, mean, noise_sd, parameters: (mean / 0 * 0,))(n_steps=3)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="not finite"):
        estimator.fit([[0.0], [1.0]])
    assert len(estimator.ledger_) == 1 and not hasattr(estimator, "parameters_")


@pytest.mark.parametrize(
    ("options", "X", "match"),
    [
        ({"clip_norm": 0.0}, [[1.0]], "clip_norm"),
        ({"clip_norm": math.nan}, [[1.0]], "clip_norm"),
        ({"n_steps": 0}, [[1.0]], "n_steps"),
        ({"batch_size": 9}, [[1.0]], "batch_size"),
        ({"target_epsilon": -1.0}, [[1.0]], "target_epsilon"),
        ({}, [1.0], "shape"),
        ({}, np.zeros((0, 2)), "shape"),
        ({}, [["a"]], "dtype"),
        ({}, [[1j]], "dtype"),
    ],
)
def test_bad_input_is_named(options, X, match):
    with pytest.raises(ValueError, match=match):
        Mean(**options).fit(X)


def test_every_dtype_of_records_gives_the_same_model():
    X = np.random.default_rng(0).integers(0, 2, (50, 3))
    fits = [Mean(private=False, n_steps=1).fit(X.astype(t)).average_ for t in (np.bool_, np.uint8, np.int64, np.float16, np.float32, float)]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0], other)


# --------------------------------------------------------- as an estimator


def test_the_first_average_is_forgotten_exactly():
    """Statistics that never change have a mean that no step size changes."""
    X = np.array([[0.5, 0.25], [0.25, -0.5]])
    for options in ({"learning_offset": 5.0}, {"learning_offset": 1.0}, {"learning_decay": 0.0}):
        fitted = Mean(private=False, n_steps=4, **options).fit(X)
        np.testing.assert_allclose(fitted.average_, X.mean(axis=0), rtol=1e-12)


def test_parameters_are_shown_cloned_and_set():
    model = GaussianMixture(3, radius=2.0, n_steps=7)
    assert repr(model) == "GaussianMixture(n_components=3, n_steps=7, radius=2.0)"
    params = model.get_params()
    assert params["n_steps"] == 7 and params["weight_prior"] == 1.0 and "options" not in params
    assert model.set_params(target_epsilon=2.0).target_epsilon == 2.0
    with pytest.raises(ValueError, match="not a parameter"):
        model.set_params(nothing=1)
    with pytest.raises(TypeError):
        GaussianMixture(3, nothing=1)
    base = pytest.importorskip("sklearn.base", reason="needs scikit-learn")
    assert base.clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_saved_models_come_back(kind, tmp_path):
    estimator, X = example_of(kind, 200)
    fitted = estimator.set_params(n_steps=2, noise_multiplier=1.0)
    args = (X[:, :3], X[:, 3:]) if kind is BinomialRegression else (X,)
    fitted.fit(*args)
    fitted.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model")
    for a, b in zip(fitted.parameters_, loaded.parameters_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(fitted.expected_statistics(*args), loaded.expected_statistics(*args))
    assert loaded.privacy_ == fitted.privacy_ and loaded.ledger_.head == fitted.ledger_.head


def test_an_array_among_the_arguments_is_kept(tmp_path):
    X, _ = blobs(200)
    means = np.array([[-1.0, 0.5], [1.0, 0.0]])
    GaussianMixture(2, means_init=means, radius=3.0, n_steps=2).fit(X).save(tmp_path / "model")
    np.testing.assert_array_equal(GaussianMixture.load(tmp_path / "model").means_init, means)


def test_read_outs_before_fit_and_of_other_widths():
    with pytest.raises(ValueError, match="not fitted"):
        Mean().expected_statistics([[1.0]])
    fitted = Mean(private=False, n_steps=1).fit([[1.0, 0.0]])
    with pytest.raises(ValueError, match="expected 2"):
        fitted.expected_statistics([[1.0]])


def test_import_without_numba():
    code = "import vips_fast.models.examples, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
