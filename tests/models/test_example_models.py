"""The example models: other people's results, textbook recursions, and private fits."""

from itertools import product

import numpy as np
import pytest
from binomial_regression import BinomialRegression
from factor_analysis import FactorAnalysis
from hidden_markov import HiddenMarkovModel
from linear_dynamics import LinearDynamicalSystem
from linear_regression import LinearRegression
from peers import dynamics
from probabilistic_pca import ProbabilisticPCA, ProbabilisticPCAOptions
from sklearn import decomposition, linear_model

FULL = dict(private=False, learning_decay=0)


def factors(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(8, 2)) * [1.5, 1.0]
    X = rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, 8)) * np.linspace(0.5, 2.0, 8)
    return np.vstack([X, -X])  # the mean is 0


def test_factor_analysis_is_scikit_learns():
    X = factors()
    theirs = decomposition.FactorAnalysis(2, tol=1e-9, max_iter=3000, svd_method="lapack").fit(X)
    options = ProbabilisticPCAOptions(latent_radius=30.0, ridge=1e-9)
    ours = FactorAnalysis(2, radius=40.0, options=options, n_steps=400, **FULL).fit(X)
    expected = theirs.get_covariance()
    np.testing.assert_allclose(ours.get_covariance(), expected, atol=2e-3 * expected.max())
    np.testing.assert_allclose(ours.variances_, theirs.noise_variance_, rtol=0.01)


def test_private_factor_analysis_comes_near():
    X = factors(20000)
    model = FactorAnalysis(2, radius=15.0, epsilon=4.0, delta=1e-6, n_steps=20, random_state=0).fit(X)
    wrong = np.abs(model.get_covariance() - np.cov(X.T)).max()
    assert wrong < 0.2 * np.cov(X.T).max()
    assert np.all(np.diff(model.variances_[[0, 3, 7]]) > 0)  # each column has its own
    assert model.noise_variance_ == model.variances_.mean()
    assert model.transform(X[:5]).shape == (5, 2)


def paths(model, row):
    first, moves, symbols = model.start_, model.transitions_, model.symbols_
    for path in product(range(len(first)), repeat=len(row)):
        chance = first[path[0]] * np.prod([symbols[state, x] for state, x in zip(path, row, strict=True)])
        yield path, chance * np.prod([moves[a, b] for a, b in zip(path, path[1:], strict=False)])


@pytest.fixture(scope="module")
def chain():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (400, 5))
    X[np.arange(5) >= rng.integers(1, 6, 400)[:, None]] = -1
    return HiddenMarkovModel(3, n_symbols=4, n_steps=5, random_state=0, **FULL).fit(X), X


def test_score_and_path_are_sums_and_maxima_over_all_paths(chain):
    model, X = chain
    logs, found = 0.0, model.predict(X[:20])
    for row, path in zip(X[:20], found, strict=True):
        known = row[row >= 0]
        every = dict(paths(model, known))
        logs += np.log(sum(every.values()))
        assert tuple(path[: len(known)]) == max(every, key=every.get)
        assert (path[len(known) :] == -1).all()
    assert model.score(X[:20]) == pytest.approx(logs / (X[:20] >= 0).sum(), rel=1e-12)


def test_statistics_are_expectations_over_all_paths(chain):
    model, X = chain
    first, moves, symbols = model.parameters_[:3]
    statistics = model.expected_statistics(X[:10])
    for row, found in zip(X[:10], statistics, strict=True):
        known = row[row >= 0]
        expected, total = np.zeros(3 + 9 + 12), 0.0
        for path in product(range(3), repeat=len(known)):
            chance = first[path[0]] * np.prod([symbols[s, x] for s, x in zip(path, known, strict=True)])
            chance *= np.prod([moves[a, b] for a, b in zip(path, path[1:], strict=False)])
            total += chance
            expected[path[0]] += chance
            for a, b in zip(path, path[1:], strict=False):
                expected[3 + 3 * a + b] += chance / 4  # T - 1
            for state, x in zip(path, known, strict=True):
                expected[12 + 4 * state + x] += chance / 5  # T
        np.testing.assert_allclose(found, expected / total, atol=1e-9)


def test_an_empty_sequence_contributes_nothing_and_symbols_end_at_the_first_unknown_one(chain):
    model, _ = chain
    rows = np.array([[-1, 2, 2, 2, 2], [1, 0, 9, 3, 3], [1, 0, -1, -1, -1]])
    statistics = model.expected_statistics(rows)
    assert not statistics[0].any()
    assert np.array_equal(statistics[1], statistics[2])


def test_a_private_fit_finds_the_states():
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random((6000, 12)) < 0.15, axis=1) % 2
    X = np.where(states == 1, rng.integers(0, 2, states.shape), rng.integers(1, 4, states.shape))
    X = np.where(rng.random(X.shape) < 0.05, rng.integers(0, 4, X.shape), X)
    plain = HiddenMarkovModel(2, n_symbols=4, n_steps=60, random_state=2, **FULL).fit(X)
    alone = HiddenMarkovModel(1, n_symbols=4, n_steps=2, random_state=2, **FULL).fit(X)
    assert alone.score(X) < plain.score(X)
    # A start may lie far from the states, with or without privacy; one of three does not.
    settings = dict(epsilon=2.0, delta=1e-6, n_steps=30)
    fits = [HiddenMarkovModel(2, n_symbols=4, random_state=k, **settings).fit(X) for k in range(3)]
    private = max(fits, key=lambda model: model.score(X))
    assert private.score(X) > plain.score(X) - 0.2 * (plain.score(X) - alone.score(X))
    agree = (private.predict(X[:500]) == states[:500]).mean()
    assert max(agree, 1 - agree) > 0.8


def turning(n=2000, length=8, seed=0):
    rng = np.random.default_rng(seed)
    turn, loadings = np.array([[0.9, 0.2], [-0.2, 0.8]]), rng.normal(size=(3, 2))
    state, outputs = rng.normal(size=(n, 2)), []
    for _ in range(length):
        outputs.append(state @ loadings.T + rng.normal(size=(n, 3)) * 0.5)
        state = state @ turn.T + rng.normal(size=(n, 2)) * 0.5
    return np.stack(outputs, axis=1)


def system_of(model):
    return (model.transitions_, model.state_noise_, model.loadings_, model.variances_, model.first_covariance_)


def fitted(Y, n_steps, **settings):
    settings = {"radius": 50.0, "latent_radius": 50.0, "random_state": 0, **FULL, **settings}
    return LinearDynamicalSystem(2, n_outputs=3, n_steps=n_steps, **settings).fit(Y.reshape(len(Y), -1))


def test_a_linear_dynamical_systems_steps_are_those_of_em():
    Y = turning(300)
    begin = fitted(Y, 1)
    for steps in (1, 2, 20):
        system = dynamics.em(Y, *system_of(begin), steps)
        model = fitted(Y, 1 + steps)
        expected = dynamics.log_density(Y, *system)
        assert model.score(Y.reshape(len(Y), -1)) == pytest.approx(expected, abs=1e-5)
        assert model.score(Y.reshape(len(Y), -1)) == pytest.approx(dynamics.log_density(Y, *system_of(model)), abs=1e-9)
        # The states are the same up to a change of their axes.
        ours, theirs = np.sort(np.linalg.eigvals(model.transitions_)), np.sort(np.linalg.eigvals(system[0]))
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_smoothed_states_are_conditional_means():
    Y = turning(50)
    model = fitted(Y, 5)
    covariance = dynamics.prior(*system_of(model)[:2], model.first_covariance_, 8)
    C = np.kron(np.eye(8), model.loadings_)
    spread = C @ covariance @ C.T + np.diag(np.tile(model.variances_, 8))
    means = Y.reshape(50, -1) @ np.linalg.solve(spread, C @ covariance)
    np.testing.assert_allclose(model.transform(Y.reshape(50, -1)), means.reshape(50, 8, 2), atol=1e-9)
    packed = model.expected_statistics(Y.reshape(50, -1))
    # The statistics are of the same means: y m^T over T R B first.
    products = np.einsum("ntd,ntk->ndk", Y, means.reshape(50, 8, 2)).reshape(50, -1)
    np.testing.assert_allclose(packed[:, :6], products / (8 * 50.0 * 50.0), atol=1e-9)


def test_a_private_linear_dynamical_system_comes_near():
    Y = turning(20_000)
    X = Y.reshape(len(Y), -1)
    plain, alone = fitted(Y, 40), fitted(Y, 1)
    private = fitted(Y, 25, radius=8.0, latent_radius=None, private=True, epsilon=2.0, delta=1e-6, learning_decay=0.7)
    gain = plain.score(X) - alone.score(X)
    assert gain > 0.2 and private.score(X) > plain.score(X) - 0.35 * gain
    assert np.abs(np.linalg.eigvals(private.transitions_)).max() < 1


def test_point_estimates_follow_from_the_same_releases():
    """EM is VB with q(parameters) a point (appendix 6). Baum and Welch's step, and never a lower likelihood."""
    rng = np.random.default_rng(1)
    X = np.where(
        np.cumsum(rng.random((300, 6)) < 0.2, axis=1) % 2, rng.integers(0, 2, (300, 6)), rng.integers(1, 3, (300, 6))
    )
    settings = dict(n_symbols=3, posterior="point", pseudocount=1e-9, random_state=0)
    scores = []
    for steps in (1, 2, 3, 10):
        model = HiddenMarkovModel(2, n_steps=steps, **settings, **FULL).fit(X)
        scores.append(model.score(X))
        np.testing.assert_array_equal(model.parameters_[0], model.start_)
        np.testing.assert_array_equal(model.parameters_[1], model.transitions_)
    assert np.all(np.diff(scores) > 0)
    # One step by sums over all paths.
    before = HiddenMarkovModel(2, n_steps=2, **settings, **FULL).fit(X)
    after = HiddenMarkovModel(2, n_steps=3, **settings, **FULL).fit(X)
    first, moves, symbols = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
    for row in X:
        every = list(paths(before, row))
        total = sum(chance for _, chance in every)
        for path, chance in every:
            first[path[0]] += chance / total
            np.add.at(moves, (path[:-1], path[1:]), chance / total)
            np.add.at(symbols, (path, row), chance / total)
    for found, expected in ((after.start_, first), (after.transitions_, moves), (after.symbols_, symbols)):
        np.testing.assert_allclose(found, expected / expected.sum(axis=-1, keepdims=True), atol=1e-6)
    # The plan, its noise and its sensitivity equal the Dirichlet posterior's.
    private = dict(n_symbols=3, epsilon=1.0, n_steps=5, random_state=0)
    fits = [HiddenMarkovModel(2, posterior=kind, **private).fit(X) for kind in ("dirichlet", "point")]
    assert fits[0].privacy_.statement() == fits[1].privacy_.statement()
    with pytest.raises(ValueError, match="posterior='maximum': expected"):
        HiddenMarkovModel(2, posterior="maximum").fit(X)


#: Least squares: one step without noise.
PLAIN = dict(private=False, learning_decay=0, n_steps=1)


def line(n=20_000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))) / d
    truth = np.array([2.0, -1.0, 0.5, 0.0])[:d]
    return X, X @ truth + 0.5 + 0.3 * rng.normal(size=n), truth


def test_linear_regression_is_least_squares_without_noise():
    """Scikit-learn's coefficients, and the textbook covariance s^2 (X^T X)^-1. Longer rows weigh less."""
    X, y, _ = line()
    ours = LinearRegression(radius=10.0, largest=10.0, precision=1e-9, **PLAIN).fit(X, y)
    theirs = linear_model.LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose([ours.intercept_], [theirs.intercept_], atol=2e-3)
    ones = np.column_stack([X, np.ones(len(X))])
    textbook = np.linalg.inv(ones.T @ ones) * (y - theirs.predict(X)).var()
    np.testing.assert_allclose(ours.covariance_, textbook, rtol=0.02, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X[:5]), theirs.predict(X[:5]), atol=2e-3)
    weights = np.minimum(1, 0.3 / np.linalg.norm(X, axis=1))
    short = LinearRegression(radius=0.3, largest=10.0, precision=1e-9, **PLAIN).fit(X, y)
    theirs = linear_model.LinearRegression().fit(X, y, sample_weight=weights**2)
    np.testing.assert_allclose(short.coef_, theirs.coef_, atol=5e-3)
    through = LinearRegression(radius=10.0, largest=10.0, fit_intercept=False, **PLAIN).fit(X, y)
    assert through.intercept_ == 0 and through.covariance_[-1].any() == 0
    for bad in (None, np.zeros((20_000, 2))):
        with pytest.raises(ValueError, match="expected numbers"):
            LinearRegression().fit(X, bad)
    with pytest.raises(ValueError, match="level=0"):
        ours.credible_interval(0)


def test_the_variance_of_linear_regression_is_of_rows():
    """Persons of several rows, and rows that are scaled down, have the same."""
    X, y, _ = line()
    for radius in (10.0, 0.3):
        for groups in (None, np.arange(len(X)) // 4):
            model = LinearRegression(radius=radius, largest=10.0, **PLAIN).fit(X, y, groups=groups)
            np.testing.assert_allclose(model.parameters_[3], 0.09, rtol=0.04)


def test_intervals_of_linear_regression_know_the_noise():
    """Fewer than 120 of 160 hold the truth with a probability below 1e-6; noise ignored, 30 do."""
    hits = plain = 0
    for seed in range(40):
        X, y, truth = line(4000, seed=seed)
        model = LinearRegression(largest=3.0, epsilon=1.0).set_unsafe(test_key=bytes([seed]) * 32).fit(X, y)
        low, high = model.credible_interval().T
        hits += ((low < truth) & (truth < high)).sum()
        ones = np.column_stack([X, np.ones(len(X))])
        half = 1.645 * 0.3 * np.sqrt(np.diag(np.linalg.inv(ones.T @ ones))[:-1])
        plain += (abs(model.coef_ - truth) < half).sum()
    assert hits >= 120 > 60 > plain, (hits, plain)


def test_probabilistic_pca_is_the_closed_form():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)) @ (rng.normal(size=(2, 6)) * [[2.0], [1.0]]) + rng.normal(size=(1000, 6))
    X = np.vstack([X, -X])  # the mean is 0
    options = ProbabilisticPCAOptions(latent_radius=30.0, ridge=1e-9)
    ours = ProbabilisticPCA(2, radius=20.0, options=options, n_steps=200, **FULL).fit(X)
    theirs = decomposition.PCA(2).fit(X)
    # scikit-learn divides by n - 1; EM gains a factor 1 - 2 s^2 / lambda a round or better.
    expected = theirs.get_covariance() * (1999 / 2000)
    np.testing.assert_allclose(ours.get_covariance(), expected, atol=1e-3 * abs(expected).max())
    private = ProbabilisticPCA(2, radius=15.0, n_steps=30, learning_decay=0.5, noise_multiplier=1.0).fit(X)
    assert np.isfinite(private.get_covariance()).all() and np.linalg.eigvalsh(private.get_covariance()).min() > 0
    assert ours.transform(X).shape == (2000, 2)


def test_binomial_regression_is_the_textbook_iteration_and_near_scikit_learns():
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
    single = np.concatenate([np.arange(t) < s for t, s in zip(trials, y, strict=True)])
    spread = BinomialRegression(1, radius=10.0, n_steps=20, **FULL).fit(X[rows], single)
    np.testing.assert_allclose(counted.coef_, spread.coef_, atol=1e-3)  # lattice steps, as above
    for bad in (None, np.zeros((2000, 3)), np.zeros(3)):
        with pytest.raises(ValueError, match="expected"):
            BinomialRegression(5).fit(X, bad)
