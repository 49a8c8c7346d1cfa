"""Empirical-Bayes means in plain numpy."""

import numpy as np

__all__ = ["shrink_means"]


def shrink_means(
    average: np.ndarray,
    sd: float,
    word_mass: np.ndarray,
    topic_weight: np.ndarray,
    grid: np.ndarray,
    prior: np.ndarray,
    band: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of m given average = m + N(0, sd^2), (V, K); see the kernel of this name.

    m = word_mass * topic_weight * r, and r is drawn, with probability prior[band[v], g], from N(grid[g], h_g^2), where
    h_g is half the mean distance of grid[g] from its neighbors; h_0 = 0. The second result, (B, G), holds the posterior
    weights of the components, summed over the entries of each band.
    """
    grid = np.asarray(grid, dtype=np.float64)
    prior = np.asarray(prior, dtype=np.float64)
    width = np.zeros(len(grid))
    for g in range(1, len(grid)):
        sides = grid[max(g - 1, 0) : g + 2]
        width[g] = 0.5 * np.diff(sides).mean()
    scale = (np.outer(word_mass, topic_weight) / sd)[:, :, None]
    x = np.asarray(average)[:, :, None] / sd
    variance = 1.0 + (scale * width) ** 2
    distance = x - scale * grid
    exponent = -0.5 * distance**2 / variance
    weight = np.exp(exponent - exponent.max(axis=2, keepdims=True)) / np.sqrt(variance) * prior[band][:, None, :]
    weight /= weight.sum(axis=2, keepdims=True)
    centers = scale * grid + (1.0 - 1.0 / variance) * distance
    means = np.maximum((weight * centers).sum(axis=2), 0.0) * sd
    responsibility = np.zeros(prior.shape)
    np.add.at(responsibility, band, weight.sum(axis=1))
    return means, responsibility
