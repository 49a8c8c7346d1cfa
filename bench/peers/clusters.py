"""Private clusters of vectors by other papers' methods.

All release Gaussian sums of documents with a public weight, 1 over the number of the person's documents. So adding
or removing a person moves a histogram or a sum of vectors of norm at most 1 by at most 1. Their noise is for one
(epsilon, delta) of all releases: the squares of mu = 1 / (noise multiplier) add up. Noise is numpy's, for comparisons.
"""

from collections.abc import Callable

import numpy as np

from vips_fast.accounting import gaussian_noise_multiplier
from vips_fast.data.types import Matrix, Vector
from vips_fast.models.clusters.knowledge import weighted_centers

#: Levels of the tree, and the noise multiples that a node needs to be divided.
_LEVELS, _BRANCH = 12, 3.0
#: What of mu^2 is for counts of the tree.
_COUNTS = 0.2
#: Rounds of votes of an evolution, candidates, and the largest first step.
_ROUNDS, _STEP = 5, 0.6


def person_weights(persons: np.ndarray) -> Vector:
    """Weigh each document by 1 over the number of its person's documents."""
    _, place, counts = np.unique(persons, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[place], np.float64)


def _nearest(rows: Matrix, points: Matrix) -> np.ndarray:
    return np.asarray((2.0 * rows @ points.T - (points * points).sum(axis=1)).argmax(axis=1))


def lsh_clusters(
    rows: Matrix, weights: Vector, n_clusters: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Matrix:
    """Find centers, (K, d), by hashing and a private coreset.

    Chang, Ghazi, Kumar & Manurangsi 2021.

    A level divides each node whose noised count is large, by the side of a random hyperplane. The mean of a leaf, with
    noise, is a point of the coreset. K-means without privacy finds its centers. A vector's norm is at most 1.
    """
    noise = gaussian_noise_multiplier(epsilon, delta)
    counting, summing = noise * (_LEVELS / _COUNTS) ** 0.5, noise * (1.0 - _COUNTS) ** -0.5
    bits = rows @ rng.normal(size=(rows.shape[1], _LEVELS)) > 0
    node, open_nodes = np.zeros(len(rows), np.int64), [0]
    for level in range(_LEVELS):
        divided = []
        at = node >= 0
        counts = np.bincount(node[at], weights[at], max(open_nodes) + 1)
        for one in open_nodes:
            if counts[one] + rng.normal(0.0, counting) > _BRANCH * max(counting, summing):
                divided.append(one)
        inside = np.isin(node, divided)
        # Leaves keep numbers below 0, which no later level divides.
        leaves = ~inside & (node >= 0)
        node[leaves] = -1 - (node[leaves] * (_LEVELS + 1) + level)
        node[inside] = 2 * node[inside] + bits[inside, level]
        open_nodes = [2 * one + side for one in divided for side in (0, 1)]
        if not divided:
            break
    leaf_names, leaf = np.unique(node, return_inverse=True)
    sums = np.zeros((len(leaf_names), rows.shape[1]))
    np.add.at(sums, leaf, rows * weights[:, None])
    sums += rng.normal(0.0, summing, sums.shape)
    noised = np.bincount(leaf, weights) + rng.normal(0.0, counting, len(leaf_names))
    sizes: Vector = np.maximum(noised, 1.0).astype(np.float64)
    points = sums / sizes[:, None]
    points /= np.maximum(np.sqrt((points * points).sum(axis=1, keepdims=True)), 1.0)
    if len(points) < n_clusters:
        points = np.vstack([points, 0.1 * rng.normal(size=(n_clusters - len(points), rows.shape[1]))])
        sizes = np.append(sizes, np.ones(len(points) - len(sizes)))
    return weighted_centers(points, sizes, n_clusters, rng)[0]


def evolved_clusters(
    rows: Matrix,
    weights: Vector,
    candidates: Matrix,
    n_clusters: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Matrix:
    """Find centers by evolution of candidates with private votes, after PE-means (arXiv:2606.00342).

    Each round has a noised histogram of the documents nearest to each candidate. Candidates with few votes die, and
    the others have children nearer to the origin, in steps that halve. On newsgroup posts this was far better than
    children in random directions or between parents. The last votes weigh the candidates, of which k-means without
    privacy finds the centers. Candidates begin as public prototypes. Only the paper's abstract was at hand.
    """
    noise, living = gaussian_noise_multiplier(epsilon, delta) * _ROUNDS**0.5, candidates
    for round_ in range(_ROUNDS):
        votes = np.bincount(_nearest(rows, living), weights, len(living)) + rng.normal(0.0, noise, len(living))
        votes = np.where(votes > noise, votes, 0.0)
        votes = votes if votes.sum() > 0 else np.ones(len(living))
        if round_ < _ROUNDS - 1:
            parents = living[rng.choice(len(living), len(candidates), p=votes / votes.sum())]
            step = _STEP * 0.5**round_ * rng.random((len(parents), 1))
            living = parents * (1.0 - step)
    return weighted_centers(living, votes + 1e-9, n_clusters, rng)[0]


def voted_clusters(
    rows: Matrix,
    weights: Vector,
    candidates: Matrix,
    n_clusters: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Matrix:
    """Find centers of public candidates, weighted by one noised histogram of votes."""
    noise = gaussian_noise_multiplier(epsilon, delta)
    votes = np.bincount(_nearest(rows, candidates), weights, len(candidates)) + rng.normal(0, noise, len(candidates))
    return weighted_centers(candidates, np.maximum(votes, 1e-3), n_clusters, rng)[0]


#: Methods that begin with public candidates.
WITH_CANDIDATES: dict[str, Callable[..., Matrix]] = {"evolution": evolved_clusters, "votes": voted_clusters}
