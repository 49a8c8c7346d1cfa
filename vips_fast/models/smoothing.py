"""Smooth noised values over periods by a random walk: post-processing."""

import numpy as np

#: Rounds of EM for a common prior.
_ROUNDS = 30


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
