"""Other methods' private clusters. They find clusters that are there, and a person has a bound."""

import numpy as np
import pytest
from peers.clusters import WITH_CANDIDATES, lsh_clusters, person_weights


def planted(n=6000, k=4, d=8):
    rng = np.random.default_rng(0)
    subject = rng.integers(0, k, n)
    return 0.8 * np.eye(k, d)[subject] + 0.05 * rng.normal(size=(n, d)), subject


@pytest.mark.parametrize("name", ["tree", *WITH_CANDIDATES])
def test_clusters_that_are_there_are_found(name):
    rows, subject = planted()
    rng, weights = np.random.default_rng(1), person_weights(np.arange(len(rows)))
    if name == "tree":
        centers = lsh_clusters(rows, weights, 8, 8.0, 1e-6, rng)
    else:
        candidates = 0.8 * np.vstack([np.eye(8), -np.eye(8)])
        centers = WITH_CANDIDATES[name](rows, weights, candidates, 4, 8.0, 1e-6, rng)
    found = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    purity = sum(np.bincount(subject[found == one], minlength=4).max() for one in np.unique(found)) / len(rows)
    assert purity > 0.9


def test_a_person_moves_a_histogram_by_one_at_most():
    persons = np.repeat(np.arange(50), np.arange(50) + 1)
    weights = person_weights(persons)
    np.testing.assert_allclose(np.bincount(persons, weights), 1.0)
