"""Inputs of the kernels, at random."""

import numpy as np
from scipy.special import digamma

from vips_fast.kernels import native


def topics(rng, n_topics, n_words):
    """exp(E[log beta]) of random Dirichlet parameters, over many orders of magnitude."""
    lam = rng.gamma(0.3, 10.0, (n_topics, n_words)) + 0.05
    return np.exp(digamma(lam) - digamma(lam.sum(axis=1, keepdims=True)))


def documents(rng, sizes, n_words):
    """CSR counts of documents with the given numbers of distinct words."""
    words = [np.sort(rng.choice(n_words, size, replace=False)) for size in sizes]
    indices = np.concatenate([*words, np.zeros(0, dtype=int)])
    return np.concatenate([[0], np.cumsum(sizes)]), indices, rng.integers(1, 9, len(indices))


def network(rng, n, n_visible, n_hidden, scale=0.5):
    """Random records and parameters, with zeros, large biases and a posterior variance."""
    y = (rng.random((n, n_visible)) < rng.random(n_visible)).astype(np.uint8)
    w = scale * rng.standard_normal((n_visible, n_hidden)) / max(1.0, np.sqrt(n_hidden) / 3)
    w[:, 0] = 0.0
    return {
        "y": y,
        "w": w,
        "w2": w * w + 0.02 * rng.random(w.shape),
        "c": 3 * rng.standard_normal(n_visible),
        "c_var": 0.1 * rng.random(n_visible),
        "b": 2 * rng.standard_normal(n_hidden),
        "start": rng.random(n_hidden),
    }


def shrinking(rng, n_words, n_topics, n_grid, n_bands):
    """Arguments of shrink_means. Statistics from 1/30 of the noise to 300 times it."""
    grid = np.concatenate(([0.0], np.geomspace(0.05, max(2.0, n_topics), n_grid - 1)))[:n_grid].astype(np.float32)
    expected = np.outer(np.geomspace(0.03, 300, n_words) * n_topics, rng.dirichlet(np.full(n_topics, 20.0)))
    x = expected * rng.gamma(0.5, 2.0, expected.shape) + rng.normal(size=expected.shape)
    prior = rng.dirichlet(np.ones(n_grid), n_bands).astype(np.float32)
    return x.astype(np.float32), expected.astype(np.float32), grid, prior, np.geomspace(0.1, 100, n_bands)[1:]


def shrink_means(x, expected, grid, prior, edges, isa=None):
    """Return the unchecked entry, which the topic model calls, with its outputs."""
    x = np.asarray(x, dtype=np.float32)
    means, responsibility = np.empty(x.shape, dtype=np.float32), np.zeros(prior.shape)
    workspace = np.empty(4 * x.size + 32, dtype=np.float32)
    native.shrink_means(x, expected, grid, prior, edges, workspace, means, responsibility, isa)
    return means, responsibility


def clipping(rng, size):
    """(args, kwargs) of sbn_clip. With and without a clip norm, a record at the center, some factors 1."""
    x, center = rng.standard_normal((40, size)), 0.1 * rng.standard_normal(size)
    x[0] = center
    factor = np.where(np.arange(40) % 3 == 0, 1.0, rng.random(40) * 0.9 + 0.1)
    for clip, spacing in [(None, 2.0**-20), (0.5, 2.0**-20), (0.7 * np.sqrt(size), 2.0**-8), (3.0, 2.0**-29)]:
        yield (x, center, factor), {"clip_norm": clip, "spacing": spacing}
