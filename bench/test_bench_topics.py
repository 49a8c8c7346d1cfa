"""Time the read-out of noised topics, beside its numpy twins.

There are 7,702 words and 50 topics in float64 sums.

One thread. The twins take fewer words, and their times are scaled to all.
"""

import itertools

import numpy as np
import pytest
from inputs import shrinking

from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.kernels import native, reference
from vips_fast.models.lda.model import LdaModel, LdaSettings

N_WORDS, N_TOPICS, N_FEWER = 7702, 50, 770
SCALE = {"numpy": N_FEWER / N_WORDS}


def noised():
    """Make statistics and expected ones, (V, K) float32, and their noise."""
    rng = np.random.default_rng(0)
    base = (3.0 * rng.gamma(1.0, 1.0, (N_WORDS, N_TOPICS)) + 1e-3).astype(np.float32)
    x = base * rng.gamma(1.0, 1.0, base.shape) + rng.normal(size=base.shape)
    return x.astype(np.float32), base, np.exp(rng.normal(size=base.shape))


@pytest.mark.parametrize("wants", ["means", "weights"])
def test_shrink_means(paired, wants):
    """Means of all entries, or a round's weights of EM.

    The twin gives both.
    """
    arguments = shrinking(np.random.default_rng(0), N_WORDS, N_TOPICS, 16, 9)
    rows, rest = arguments[:2], arguments[2:]
    fewer = [array[:: N_WORDS // N_FEWER][:N_FEWER] for array in rows]
    work = np.empty(4 * rows[0].size + 32, dtype=np.float32)
    means = np.empty(rows[0].shape, dtype=np.float32) if wants == "means" else None
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
    x, base, sd = noised()
    rng = np.random.default_rng(1)
    loadings, own, mass = rng.normal(size=(N_TOPICS, 16)), rng.uniform(0.05, 2.0, N_TOPICS), np.ones(N_WORDS)
    work, out = np.empty(8 * (4 * N_TOPICS + 30 + 16 * 18)), np.empty(x.shape, dtype=np.float32)
    fewer = [array[:N_FEWER] for array in (x, base, sd, mass)]
    paired(
        lambda: native.topic_ratios(x, base, sd, mass, loadings, own, work, out),
        {"numpy": lambda: reference.topic_ratios(*fewer, loadings, own)},
        f"ratios of {N_WORDS} x {N_TOPICS} entries from the other topics, 16 factors",
        scale=SCALE,
    )


def test_blend_release(paired):
    x, base, sd = noised()
    units, scale, table = (x * 2**20).astype(np.int64), np.ones(N_WORDS), base / base.sum(axis=1, keepdims=True)
    values, numbers = x.astype(np.float64), (0.1, 2.0**-20, 1.0, 0.02)
    paired(
        lambda: native.blend_release(*numbers, units, scale, table, values, sd),
        {"numpy": lambda: reference.blend_release(units, scale, table, values, sd, *numbers)},
        f"average of {N_WORDS} x {N_TOPICS} entries, with its noise",
    )


def test_noise_sums(paired):
    x, _, sd = noised()
    average, (word, sums), topics = x * sd, np.empty((2, N_WORDS)), np.zeros((2, N_TOPICS))
    paired(
        lambda: native.noise_sums(average, sd, word, sums, topics),
        {"numpy": lambda: reference.noise_sums(average, sd)},
        f"margins of {N_WORDS} x {N_TOPICS} noised entries",
    )


def test_noise_units(paired):
    x, base, sd = noised()
    average, mass, weight = x * sd, np.ones(N_WORDS), np.full(N_TOPICS, 1 / N_TOPICS)
    paired(
        lambda: native.noise_units(average, sd, mass, weight, x, base),
        {"numpy": lambda: reference.noise_units(average, sd, mass, weight)},
        f"{N_WORDS} x {N_TOPICS} entries in units of their noise",
    )


def test_table_parameters(paired):
    x, _, sd = noised()
    table, sums = np.empty((N_WORDS, 64), np.float32), np.zeros(N_TOPICS)
    paired(
        lambda: native.table_parameters(1e4, 0.02, x, sd, table, sums),
        {"numpy": lambda: reference.table_parameters(x, sd, 1e4, 0.02)},
        f"parameters of {N_WORDS} words, {N_TOPICS} topics, and their sums",
    )


@pytest.mark.parametrize("kernel", ["table_shares", "table_spread"])
def test_tables(paired, kernel):
    _, base, _ = noised()
    weight, out = np.full(N_TOPICS, 1 / N_TOPICS), np.empty(N_WORDS)
    last = () if kernel == "table_shares" else (out,)
    paired(
        lambda: getattr(native, kernel)(1e-6, weight, base, *last),
        {"numpy": lambda: getattr(reference, kernel)(base, weight, 1e-6)},
        f"{kernel} of {N_WORDS} words, {N_TOPICS} topics",
    )


def test_m_step(paired):
    """Time a step from release to table, beside its sum."""
    settings = LdaSettings(N_TOPICS, 0.02, 0.01, doc_length=500, clip=50.0, clips=True)
    model = LdaModel(settings, Public(N_WORDS, 40_000, seed=0))
    x, *_ = noised()
    units = np.rint(0.02 * x.astype(np.float64) * 2**30).astype(np.int64)
    steps = itertools.count()
    paired(
        lambda: model.update(Release(next(steps), units, 2.0**-30, 0.02)),
        {"numpy": lambda: units * 2.0**-30},
        f"M-step of {N_WORDS} words and {N_TOPICS} topics",
    )
