"""Smooth noised values over periods by a random walk: post-processing."""

import numpy as np

#: Variances of a step of the walk that are tried, as shares of the mean variance of the noise, and their number.
_LEAST, _MOST, _TRIED = 1e-4, 1e3, 29
#: Rounds of EM for a common prior of the variances.
_ROUNDS = 30


def smoothed(values: np.ndarray, noise: np.ndarray, *, pooled: bool = False) -> np.ndarray:
    """Smooth rows of values (E, P) with noise covariances (E, P, P).

    The model is a random walk with a flat start and steps of variance q (Durbin & Koopman 2012, chapter 2, for
    independent noise). Given q, the posterior is normal. It is solved here as a whole, since the noise of periods may
    be correlated. The prior of q is flat on a grid of its logarithm. With ``pooled`` the rows have a common prior, and
    EM learns it from all of them. The result averages the posterior means over the grid by the values' likelihood.
    """
    scale = np.trace(noise, axis1=1, axis2=2) / values.shape[1]
    found = [_posterior(values, noise, scale * share) for share in np.geomspace(_LEAST, _MOST, _TRIED)]
    logs = np.stack([log for log, _ in found], axis=1)
    likelihood, prior = np.exp(logs - logs.max(axis=1, keepdims=True)), np.full(_TRIED, 1.0 / _TRIED)
    for _ in range(_ROUNDS if pooled else 0):
        joint = likelihood * prior
        prior = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    weights = likelihood * prior
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(sum(weights[:, [g]] * mean for g, (_, mean) in enumerate(found)))


def _posterior(values: np.ndarray, noise: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute log likelihoods (E,) and means (E, P) for variances q."""
    n = values.shape[1]
    walk = np.minimum.outer(np.arange(n), np.arange(n)).astype(np.float64)
    whole = q[:, None, None] * walk + noise
    both = np.linalg.solve(whole, np.stack([np.ones(values.shape), values], axis=2))
    of_ones, of_values = both[:, :, 0], both[:, :, 1]
    total = of_ones.sum(axis=1)
    start = of_values.sum(axis=1) / total
    rest = of_values - start[:, None] * of_ones
    square = ((values - start[:, None]) * rest).sum(axis=1)
    log = -0.5 * (np.linalg.slogdet(whole)[1] + np.log(total) + square)
    return log, start[:, None] + q[:, None] * np.einsum("ij,ej->ei", walk, rest)


def shrink(deviations: np.ndarray, noise: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Shrink deviations (P, E) from 0 with noise variances (P,).

    The model is a random walk at ``times``, (P,), with a start N(0, a) and steps of variance q, both in units of the
    mean noise. Deviations of all E have a common prior of (a, q) on a grid with 0, which EM learns. The result averages
    the posterior means over the grid.
    """
    walk = np.minimum.outer(times, times) - times[0] + 0.0
    starts, steps = ((0.0, *np.geomspace(low, 10.0, 7)) for low in (1e-2, 1e-3))
    logs, gains = [], []
    for prior in (a * np.ones_like(walk) + q * walk for a in starts for q in steps):
        prior *= noise.mean()
        whole = prior + np.diag(noise)
        inverse = np.linalg.inv(whole)
        gains.append(prior @ inverse)
        square = (deviations * (inverse @ deviations)).sum(axis=0)
        logs.append(-0.5 * (np.linalg.slogdet(whole)[1] + square))
    table = np.array(logs)
    likelihood = np.exp(table - table.max(axis=0))
    prior = np.full(len(gains), 1.0 / len(gains))
    for _ in range(_ROUNDS):
        joint = likelihood * prior[:, None]
        prior = (joint / joint.sum(axis=0)).mean(axis=1)
    weights = likelihood * prior[:, None]
    weights /= weights.sum(axis=0)
    found = np.zeros_like(deviations)
    for weight, gain in zip(weights, gains, strict=True):
        found += weight * (gain @ deviations)
    return found
