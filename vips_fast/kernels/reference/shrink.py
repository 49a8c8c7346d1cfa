"""The read-out of topics in plain numpy."""

import numpy as np

__all__ = [
    "blend_release",
    "noise_sums",
    "noise_units",
    "shrink_means",
    "table_parameters",
    "table_shares",
    "table_spread",
    "topic_ratios",
    "word_masses",
]


def blend_release(
    units: np.ndarray,
    word_scale: np.ndarray,
    table: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
    rate: float,
    scale: float,
    noise_sd: float,
    floor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Average a release and its noise; see the kernel.

    Entry (v, k) of the release ``units``, (V, K), was divided by word_scale[v] * sqrt(table[v, k] + floor). ``values``
    and ``noise``, (V, K), are the average before and the standard deviations of its noise.
    """
    entry = word_scale[:, None] * np.sqrt(table[:, : units.shape[1]].astype(np.float64) + floor)
    mean = (1.0 - rate) * values + rate * scale * entry * units
    return mean, np.hypot((1.0 - rate) * noise, rate * noise_sd * entry)


def noise_sums(average: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute words' noise and sums, (V,), and topics' sums, (2, K); see the kernel."""
    word_sd = np.sqrt((sd**2).mean(axis=1))
    relative = sd / word_sd[:, None]
    return word_sd, average.sum(axis=1), np.stack([(average / word_sd[:, None]).sum(axis=0), (relative**2).sum(axis=0)])


def noise_units(
    average: np.ndarray, sd: np.ndarray, mass: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute a matrix and its expectation in units of noise.

    They are average / sd and mass[v] weight[k] / sd, (V, K).
    """
    return average / sd, np.multiply.outer(mass, weight) / sd


def shrink_means(
    x: np.ndarray, expected: np.ndarray, grid: np.ndarray, prior: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute posterior means; see the kernel.

    The first result, (V, K), holds the means of expected * r given x = expected * r + N(0, 1). With
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
    x = np.asarray(x, dtype=np.float64)[:, :, None]
    variance = 1.0 + (scale * width) ** 2
    distance = x - scale * grid
    band = (scale >= np.asarray(edges)).sum(axis=2)
    exponent = -0.5 * distance**2 / variance
    weight = np.exp(exponent - exponent.max(axis=2, keepdims=True)) / np.sqrt(variance) * prior[band]
    weight /= weight.sum(axis=2, keepdims=True)
    centers = scale * grid + (1.0 - 1.0 / variance) * distance
    means = np.maximum((weight * centers).sum(axis=2), 0.0)
    responsibility = np.zeros(prior.shape)
    np.add.at(responsibility, band, weight)
    return means, responsibility


def word_masses(
    total: np.ndarray, grid: np.ndarray, width: np.ndarray, weight: np.ndarray, sd: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run one EM round of a prior of masses; see the kernel.

    A word's mass m is drawn, with probability weight[g], from N(grid[g], width[g]^2), and total = m + N(0, sd^2). The
    results are the posterior means, (V,), the next weights over ``weight``, times V, (G,), and the likelihoods
    times ``sd``, (V, G).
    """
    variance = sd**2 + width**2
    exponent = -0.5 * (total[:, None] - grid) ** 2 / variance
    likelihood = np.exp(exponent - exponent.max(axis=1, keepdims=True)) / np.sqrt(variance)
    share = 1.0 / (likelihood * weight).sum(axis=1)
    center = grid + width**2 / variance * (total[:, None] - grid)
    means = share * (likelihood * weight * center).sum(axis=1)
    return np.maximum(means, 1e-6 * sd), (share[:, None] * likelihood).sum(axis=0), sd * likelihood


def topic_ratios(
    x: np.ndarray, base: np.ndarray, sd: np.ndarray, mass: np.ndarray, loadings: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """Predict an entry from a word's other entries.

    It is base times a ratio r, at least .1.

    x = base * r + N(0, 1), and the ratios of a word have mean 1 and covariance loadings loadings' + diag(own). The
    predictions are scaled, so that their sum times ``sd`` is ``mass``, (V,).
    """
    x, base = x.astype(np.float64), base.astype(np.float64)
    covariance = loadings @ loadings.T + np.diag(own)
    deviation = x - base
    inverse = np.linalg.inv(base[:, :, None] * covariance * base[:, None, :] + np.eye(len(own)))
    rest = np.einsum("vkl,vl->vk", inverse, deviation) / np.einsum("vkk->vk", inverse)
    expected = base * np.maximum(1.0 + (deviation - rest) / base, 0.1)
    return np.asarray(expected * (mass / (expected * sd).sum(axis=1))[:, None])


def table_parameters(units: np.ndarray, sd: np.ndarray, factor: float, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute topics' Dirichlet parameters, (V, K), and their sums over words, (K,)."""
    table = factor * units.astype(np.float64) * sd + eta
    return table, table.sum(axis=0)


def table_shares(table: np.ndarray, weight: np.ndarray, least: float) -> np.ndarray:
    """Scale columns by ``weight``, and rows to sums of 1.

    Shares below ``least`` become 0, and so do entries from column K on.
    """
    share, out = table[:, : len(weight)] * weight, np.zeros(table.shape)
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    out[:, : len(weight)] = np.where(share < least, 0.0, share)
    return out


def table_spread(table: np.ndarray, weight: np.ndarray, least: float) -> np.ndarray:
    """Compute how a word's topics share its noise, (V,); see the kernel."""
    share = table[:, : len(weight)].astype(np.float64)
    used, held = share @ weight, (share / (share + least)) @ weight
    return np.asarray(np.sqrt(np.divide(held, used, out=np.ones(len(used)), where=used > 0)))
