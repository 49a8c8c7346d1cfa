"""Plain rivals of private topics, of a few lines each: what a mechanism has to beat.

All are for one release of the whole budget, by numpy's noise: for measuring only.
"""

import numpy as np
import scipy.sparse

from vips_fast.accounting import gaussian_noise_multiplier
from vips_fast.models.lda import PublicPrior


def exact_frequencies(counts: scipy.sparse.csr_matrix, before: float = 0.2) -> np.ndarray:
    """The records' own word frequencies, without privacy, (V,); each word occurred ``before`` times already."""
    sums = np.asarray(counts.sum(axis=0)).ravel() + before
    return np.asarray(sums / sums.sum())


def noised_histogram(
    counts: scipy.sparse.csr_matrix, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """One noised histogram of words, and its noise. The clip is from the exact median of words: an unfair fact."""
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    clip = 0.8 * max(float(np.median(lengths)), 1.0) ** 0.5
    norms = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    noise = gaussian_noise_multiplier(epsilon, delta) * clip
    return counts.T @ np.minimum(1.0, clip / np.maximum(norms, 1e-9)) + rng.normal(0.0, noise, counts.shape[1]), noise


def one_histogram(
    counts: scipy.sparse.csr_matrix, prior: PublicPrior, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Public topics times the masses of one noised histogram.

    The topic weights fit the histogram by least squares, with a ridge toward the public ones. Masses are shrunk to the
    mixture. Returns topics, (K, V), the prior of proportions by weight with a total of 4, (K,), and the masses, (V,).
    """
    x, noise = noised_histogram(counts, epsilon, delta, rng)
    topics, weights = prior.topics(), prior.weights
    total = max(float(x.sum()), noise * len(x) ** 0.5)
    ridge = np.diag(len(weights) * noise**2 / (weights * total**2))
    found = np.linalg.solve(topics @ topics.T + ridge, topics @ x + ridge @ (total * weights))
    found = np.maximum(found, 1e-3 * total * weights)
    base = found @ topics
    kept = 1.0 / (1.0 + (noise / base) ** 2)
    masses = np.maximum(base + kept * (x - base), 0.05 * base)
    fitted = topics * (masses / base)
    sums = fitted.sum(axis=1)
    shares = found * sums
    return fitted / sums[:, None], 4.0 * shares / shares.sum(), masses / masses.sum()
