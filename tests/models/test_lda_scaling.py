"""Scales of words and of their topics, bounds of words. The rule, and its use in a fit."""

import numpy as np
import pytest

from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.kernels import native
from vips_fast.models.lda.model import LdaModel, LdaSettings, entry_scales, word_scales
from vips_fast.models.lda.planning import LdaOptions

V, K = 300, 5


def model(**options):
    numerics = LdaOptions(topic_word_prior=0.1, **options)
    settings = LdaSettings(K, 0.1, doc_length=50, clip=5.0, clips=True, options=numerics)
    return LdaModel(settings, Public(V, 1000, seed=3))


def test_topics_are_soft_after_the_first_noised_steps_alone():
    """In these the table has the roots of the shares that a state gives; scales follow the table."""
    numerics = LdaOptions(topic_word_prior=0.1)
    settings = LdaSettings(K, 0.1, doc_length=50, clip=5.0, clips=True, options=numerics, soft_steps=2)
    for sd, soft in ((0.01, (True, True, False)), (0.0, (False,) * 3)):
        first, again = (LdaModel(settings, Public(V, 1000, seed=3)) for _ in range(2))
        for step in range(3):
            values = np.random.default_rng(step).gamma(0.5, 2**20, (V, K))
            first.update(Release(step, np.rint(values).astype(np.int64), 2.0**-20, sd))
            again.restore({name: value for name, value in first.state().items() if name != "soft"})
            shares, table = again._table[:, :K], first._table[:, :K]
            assert np.ptp(shares) > 0.1
            roots = np.sqrt(shares) / np.sqrt(shares).sum(axis=1, keepdims=True)
            np.testing.assert_allclose(table, roots if soft[step] else shares, rtol=1e-5)
            np.testing.assert_array_equal(first.result()["components"], again.result()["components"])
            again.restore(first.state())
            np.testing.assert_array_equal(again._table, first._table)
            if sd:
                used = table.astype(np.float64) * first._shrinkage.weight
                used /= used.sum(axis=1, keepdims=True)
                words = word_scales(first._shrinkage.mass, 0.25)
                held = (used / scale_of(first._scales, table) ** 2).sum(axis=1)
                np.testing.assert_allclose(held, words**-2.0, rtol=1e-4)


def release(step, sd=0.01):
    rng = np.random.default_rng(step)
    values = np.outer(1 / np.arange(1, V + 1), np.full(K, 1.0)) + sd * rng.normal(size=(V, K))
    return Release(step, np.rint(values * 2**20).astype(np.int64), 2.0**-20, sd)


@pytest.mark.parametrize("exponent", [0.1, 0.25, 0.5])
def test_the_rule(exponent):
    mass = np.random.default_rng(0).gamma(0.3, 1.0, V) + 1e-9
    scale, share = word_scales(mass, exponent), mass / mass.sum()
    # A document of words drawn from the shares keeps its norm; a word's scale is a power of its share.
    assert share @ scale**-2.0 == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(scale / scale[0], (share / share[0]) ** exponent, rtol=1e-12)
    assert word_scales(7 * mass, exponent) == pytest.approx(scale, rel=1e-12)


def test_scales_stay_within_what_the_kernel_takes():
    scale = word_scales(np.array([1e-300, 1.0, 1e300]), 0.5)
    assert np.ptp(scale) > 0
    assert scale.min() >= 1 / native.LDA_MAX_WEIGHT and scale.max() <= 1 / native.LDA_MIN_WEIGHT


def scale_of(scales, table):
    return np.sqrt(table + scales[1]) * scales[0][:, None]


@pytest.mark.parametrize("noise", [0.0, 0.1, 7.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rule_among_the_topics_of_a_word(dtype, noise):
    rng = np.random.default_rng(0)
    table, words, topics = rng.dirichlet(np.full(K, 0.3), V).astype(dtype), np.exp(rng.normal(size=V)), np.arange(1, 6)
    scales = entry_scales(words, table, topics / topics.sum(), noise)
    rows = scale_of(scales, table)
    # Tokens of a word, drawn from the topics' shares of it, keep the norm that they have by only its own scale.
    used = table * topics / (table @ topics)[:, None]
    np.testing.assert_allclose((used / rows**2).sum(axis=1), words**-2.0, rtol=1e-5)
    root = np.sqrt(table + min(1 / K + 2 * noise, 1))
    np.testing.assert_allclose(rows / rows[:, :1], root / root[:, :1], rtol=1e-5)
    # Where topics are alike, nothing is changed; a word that no topic has keeps its own scale, too.
    table = np.full((V, K), 1 / K, dtype=dtype)
    even = scale_of(entry_scales(words, table, np.full(K, 1 / K), noise), table)
    np.testing.assert_allclose(even, np.tile(words[:, None], (1, K)), rtol=1e-6)
    assert np.isfinite(entry_scales(words, np.zeros((V, K), dtype=dtype), np.full(K, 1 / K), noise)[0]).all()


def test_scales_follow_the_releases_and_the_noise_follows_them():
    ours = model()
    assert ours._weight is None and ours._floor == 0
    ours.update(release(0))
    first, weight, scale = ours.state(), ours._weight, scale_of(ours._scales, ours._table[:, :K])
    # The first step knows no words; from then on the frequent ones have the larger scales, and topics that use a word.
    assert first["average_noise"].shape == (1, 1) and weight[200:].min() > 2 * weight[:3].max()
    table = ours._table[:, :K]
    assert (np.argsort(scale, axis=1) == np.argsort(table, axis=1)).all()
    # The noise of the average over a word's mass is the known error of a share.
    assert ours._floor == pytest.approx(1 / K + 2 * V * first["average_noise"][0, 0] / ours._shrinkage.mass.sum())
    ours.update(release(1))
    rate = 2.0**-ours._schedule.decay
    np.testing.assert_allclose(
        ours.state()["average_noise"], np.hypot((1 - rate) * 0.01, rate * 0.01 * scale), rtol=1e-12
    )
    values = (1 - rate) * first["average"] + rate * release(1).values * scale
    np.testing.assert_allclose(ours.state()["average"], values, rtol=1e-9, atol=1e-15)
