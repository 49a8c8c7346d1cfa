"""The read-out of topics in plain numpy."""

import numpy as np

__all__ = ["shrink_means", "topic_ratios", "word_masses"]


def shrink_means(
    average: np.ndarray, sd: np.ndarray, expected: np.ndarray, grid: np.ndarray, prior: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute posterior means; see the kernel.

    The first result, (V, K), holds the means of sd * expected * r given average = sd * (expected * r + N(0, 1)). With
    probability prior[band, g], r is drawn from N(grid[g], h_g^2). Here h_0 = 0, and h_g is half the mean distance of
    grid[g] from its neighbors. An entry's band is the number of ``edges`` that ``expected`` reaches. The second result,
    (B, G), holds the posterior weights of the components, summed over the entries of each band.
    """
    grid = np.asarray(grid, dtype=np.float64)
    prior = np.asarray(prior, dtype=np.float64)
    width = np.zeros(len(grid))
    for g in range(1, len(grid)):
        sides = grid[max(g - 1, 0) : g + 2]
        width[g] = 0.5 * np.diff(sides).mean()
    scale = np.asarray(expected, dtype=np.float64)[:, :, None]
    x = (np.asarray(average) / sd)[:, :, None]
    variance = 1.0 + (scale * width) ** 2
    distance = x - scale * grid
    band = (scale >= np.asarray(edges)).sum(axis=2)
    exponent = -0.5 * distance**2 / variance
    weight = np.exp(exponent - exponent.max(axis=2, keepdims=True)) / np.sqrt(variance) * prior[band]
    weight /= weight.sum(axis=2, keepdims=True)
    centers = scale * grid + (1.0 - 1.0 / variance) * distance
    means = np.maximum((weight * centers).sum(axis=2), 0.0) * sd
    responsibility = np.zeros(prior.shape)
    np.add.at(responsibility, band, weight)
    return means, responsibility


def word_masses(
    total: np.ndarray, grid: np.ndarray, width: np.ndarray, weight: np.ndarray, sd: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run one EM round of a prior of masses; see the kernel.

    A word's mass m is drawn, with probability weight[g], from N(grid[g], width[g]^2), and total = m + N(0, sd^2). The
    results are the posterior means, (V,), the next weights over ``weight``, times V, (G,), and the likelihoods, (V, G).
    """
    variance = sd**2 + width**2
    exponent = -0.5 * (total[:, None] - grid) ** 2 / variance
    likelihood = np.exp(exponent - exponent.max(axis=1, keepdims=True)) / np.sqrt(variance)
    share = 1.0 / (likelihood * weight).sum(axis=1)
    center = grid + width**2 / variance * (total[:, None] - grid)
    means = share * (likelihood * weight * center).sum(axis=1)
    return np.maximum(means, 1e-6 * sd), (share[:, None] * likelihood).sum(axis=0), likelihood


def topic_ratios(x: np.ndarray, base: np.ndarray, loadings: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Predict ratios r, at least .1, from a word's other entries.

    x = base * r + N(0, 1), and the ratios of a word have mean 1 and covariance loadings loadings' + diag(own).
    """
    covariance = loadings @ loadings.T + np.diag(own)
    deviation = x - base
    inverse = np.linalg.inv(base[:, :, None] * covariance * base[:, None, :] + np.eye(len(own)))
    rest = np.einsum("vkl,vl->vk", inverse, deviation) / np.einsum("vkk->vk", inverse)
    return np.asarray(np.maximum(1.0 + (deviation - rest) / base, 0.1))
