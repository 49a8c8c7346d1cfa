"""Factor analysis and hidden Markov models: other people's results, textbook recursions, and private fits."""

from itertools import product

import numpy as np
import pytest
from sklearn import decomposition

from vips_fast.models.examples import FactorAnalysis, HiddenMarkovModel, ProbabilisticPCAOptions

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
    """Every path of states and its probability with the row's symbols."""
    first, moves, symbols = model.start_, model.transitions_, model.symbols_
    for path in product(range(len(first)), repeat=len(row)):
        chance = first[path[0]] * np.prod([symbols[state, x] for state, x in zip(path, row, strict=True)])
        yield path, chance * np.prod([moves[a, b] for a, b in zip(path, path[1:], strict=False)])


@pytest.fixture(scope="module")
def chain():
    """A fitted model of three states, and sequences of unequal lengths."""
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_symbols": 0}, "n_symbols=0: expected"),
        ({"n_components": 0}, "n_components=0: expected"),
        ({"staying": 1}, "staying=1: expected"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        HiddenMarkovModel(**settings).fit(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="expected at least one symbol"):
        HiddenMarkovModel(1, n_steps=1, **FULL).fit(np.zeros((5, 3))).score(np.full((2, 3), -1))
