"""The exact profile of two equal rows of one person. In two minibatches of one epoch."""

import math

import numpy as np


def exact_group_profile(z, epsilon):
    """Return delta, the larger of both directions. As sums over a grid of both outputs."""
    mu, (x, h) = 1.0 / z, np.linspace(-9.0, 9.0, 1801, retstep=True)
    weight = np.exp(-0.5 * x * x) * h / math.sqrt(2 * math.pi)
    same, apart = np.exp(2 * mu * x - 2 * mu * mu), np.exp(mu * x - 0.5 * mu * mu)
    ratio = 0.25 * (same[:, None] + same) + 0.5 * apart[:, None] * apart
    both = np.outer(weight, weight)
    assert abs(np.sum(both * ratio) - 1.0) < 1e-9
    gains = (ratio - math.exp(epsilon), 1.0 - math.exp(epsilon) * ratio)
    return max(float(np.sum(both * np.maximum(gain, 0.0))) for gain in gains)
