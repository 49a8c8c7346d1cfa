"""Time the read-out of noised topics, beside its numpy twins.

There are 7,702 words and 50 topics in float64 sums.

One thread. The twins take fewer words, and their times are scaled to all.
"""

import numpy as np
import pytest
from inputs import shrinking

from vips_fast.kernels import native, reference

N_WORDS, N_TOPICS, N_FEWER = 7702, 50, 770
SCALE = {"numpy": N_FEWER / N_WORDS}


@pytest.mark.parametrize("wants", ["means", "weights"])
def test_shrink_means(paired, wants):
    """Means of all entries, or a round's weights of EM.

    The twin gives both.
    """
    arguments = shrinking(np.random.default_rng(0), N_WORDS, N_TOPICS, 16, 9)
    rows, rest = arguments[:3], arguments[3:]
    fewer = [array[:: N_WORDS // N_FEWER][:N_FEWER] for array in rows]
    work = np.empty(3 * rows[0].size + 32, dtype=np.float32)
    means = np.empty(rows[0].shape) if wants == "means" else None
    weights = np.zeros(rest[1].shape) if wants == "weights" else None
    paired(
        lambda: native.shrink_means(*rows, *rest, work, means, weights),
        {"numpy": lambda: reference.shrink_means(*fewer, *rest)},
        f"posterior {wants} of {N_WORDS} x {N_TOPICS} entries in 9 bands, 16 grid points",
        scale=SCALE,
    )


def test_word_masses(paired):
    rng = np.random.default_rng(0)
    total = rng.gamma(0.3, 300.0, N_WORDS) + rng.normal(size=N_WORDS)
    grid = np.concatenate(([0.0], np.geomspace(0.02, 1.1 * total.max(), 60)))
    width = np.concatenate(([0.0], np.gradient(grid)[1:] / 2))
    weight, sums, mass = np.full(len(grid), 1 / len(grid)), np.zeros(len(grid)), np.empty(N_WORDS)
    likelihood = np.empty((N_WORDS, 64))
    paired(
        lambda: native.word_masses(total, grid, width, weight, False, 1.0, likelihood, sums, mass),
        {"numpy": lambda: reference.word_masses(total, grid, width, weight, 1.0)},
        f"a round of EM over the masses of {N_WORDS} words, 61 grid points",
        rounds=21,
    )


def test_topic_ratios(paired):
    rng = np.random.default_rng(0)
    base = 3.0 * rng.gamma(1.0, 1.0, (N_WORDS, N_TOPICS)) + 1e-3
    x = base * rng.gamma(1.0, 1.0, base.shape) + rng.normal(size=base.shape)
    loadings, own = rng.normal(size=(N_TOPICS, 16)), rng.uniform(0.05, 2.0, N_TOPICS)
    work, out = np.empty(8 * (3 * N_TOPICS + 16 * 18)), np.empty(x.shape)
    paired(
        lambda: native.topic_ratios(x, base, loadings, own, work, out),
        {"numpy": lambda: reference.topic_ratios(x[:N_FEWER], base[:N_FEWER], loadings, own)},
        f"ratios of {N_WORDS} x {N_TOPICS} entries from the other topics, 16 factors",
        scale=SCALE,
    )


def test_topic_moments(paired):
    rng = np.random.default_rng(0)
    base = 3.0 * rng.gamma(1.0, 1.0, (N_WORDS, N_TOPICS)) + 1e-3
    x = base * rng.gamma(1.0, 1.0, base.shape) + rng.normal(size=base.shape)
    work, out = np.empty((N_TOPICS + 7) * (3 * N_TOPICS + 28)), np.zeros((3, N_TOPICS, N_TOPICS))
    paired(
        lambda: native.topic_moments(0.3, x, base, work, out),
        {"numpy": lambda: reference.topic_moments(x[:N_FEWER], base[:N_FEWER], 0.3)},
        f"how {N_TOPICS} topics go together, from {N_WORDS} words",
        scale=SCALE,
    )
