"""The read-out of noised topic statistics. On statistics whose true values are known."""

import numpy as np
import pytest

from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.models.lda.model import LdaModel, LdaSettings, ProductShrinkage, word_masses

V, K = 1500, 12


def statistics(level, seed=0):
    """Mostly small (V, K) statistics with noise of sd 1. ``level`` is their mean."""
    rng = np.random.default_rng(seed)
    mass = np.arange(1, V + 1) ** -1.0
    truth = np.outer(mass, rng.dirichlet(np.full(K, 10.0))) * rng.gamma(0.3, 1 / 0.3, (V, K))
    truth *= level / truth.mean()
    return truth, truth + rng.normal(size=truth.shape)


def read_out(noised, sd=1.0, steps=1):
    shrinkage = ProductShrinkage(K)
    for _ in range(steps):
        shrinkage.update(noised, np.full((1, 1), sd))
    return shrinkage.means(0, V)


@pytest.mark.parametrize("level", [0.3, 1.0, 10.0])
def test_means_are_closer_than_clipping_and_thresholds(level):
    truth, noised = statistics(level)
    ours = read_out(noised)
    assert ours.shape == truth.shape and (ours >= 0).all()
    for threshold in (0.0, 1.0, 2.0):
        other = np.maximum(noised - threshold, 0.0)
        # Posterior means are best in squares; here by 15 to 90 %, so 10 % leaves room for chance.
        assert ((ours - truth) ** 2).sum() < 0.9 * ((other - truth) ** 2).sum()
    # Mapping negative entries to 0 adds up to 0.4 sd an entry; a tenth of that is left.
    assert abs(ours.mean() - truth.mean()) < 0.04


def test_clear_statistics_are_kept():
    truth, _ = statistics(1.0)
    # Noise of a millionth: the nearest point of the prior's grid would be up to a quarter off.
    ours = read_out(truth, sd=1e-6)
    clear = truth > 1e-2
    np.testing.assert_allclose(ours[clear], truth[clear], rtol=1e-3)


def test_noise_that_differs_from_entry_to_entry():
    """Each is read by its own noise. Where all are alike, it is the same as one for all."""
    truth, _ = statistics(1.0)
    rng = np.random.default_rng(2)
    sd = np.exp(rng.normal(size=truth.shape))
    noised = truth + sd * rng.normal(size=truth.shape)
    shrinkage = ProductShrinkage(K)
    shrinkage.update(noised, sd)
    ours = shrinkage.means(0, V)

    def error(found):
        return (((found - truth) / sd) ** 2).sum()

    # Measured: a twelfth of the error of a read-out that takes them to be alike, .46 of cut statistics.
    assert error(ours) < 0.2 * error(read_out(noised, sd=np.sqrt((sd**2).mean())))
    assert error(ours) < 0.6 * error(np.maximum(noised, 0.0))
    _, noised = statistics(1.0)
    shrinkage.update(noised, np.ones((V, K)))
    fresh = ProductShrinkage(K)
    fresh.update(noised, np.ones((V, K)))
    assert fresh.means(0, V).tobytes() == read_out(noised).tobytes()


def test_later_steps_start_from_the_earlier_prior():
    truth, noised = statistics(1.0)
    errors = [((read_out(noised, steps=n) - truth) ** 2).sum() for n in (1, 10)]
    # More rounds of EM on the same statistics: the prior is estimated no worse (5 % for chance).
    assert errors[1] < 1.05 * errors[0]


def test_word_masses():
    rng = np.random.default_rng(1)
    truth = 300.0 / np.arange(1, 3001)
    noised = truth + rng.normal(size=truth.shape)
    mass, prior = word_masses(noised, np.ones(3000))
    assert (mass > 0).all() and prior.sum() == pytest.approx(1.0)
    # Most masses are below the noise: there the prior takes most of it off (measured: 65 %).
    assert ((mass - truth) ** 2).sum() < 0.5 * ((np.maximum(noised, 0) - truth) ** 2).sum()
    # Far above the noise nothing is rounded to the grid: 5 sds of the noise.
    assert np.abs(mass - noised)[truth > 30].max() < 5
    # Few more rounds from where EM ended: hardly a change against the noise's 1.
    assert np.abs(word_masses(noised, np.ones(3000), prior)[0] - mass).max() < 0.2
    np.testing.assert_allclose(word_masses(7 * noised, np.full(3000, 7.0))[0], 7 * mass, rtol=1e-5)


def test_threads_are_for_work_that_takes_long():
    settings = LdaSettings(K, 0.1, doc_length=50, clip=5.0, clips=True, n_threads=16)
    models = [LdaModel(settings, Public(words, 1000, seed=3)) for words in (9, 500_000 // K, 5_000_000 // K)]
    assert [model._n_threads for model in models] == [1, 2, 16]


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("vips_fast.models.lda.model._ENTRIES", 1)  # so little work would have one thread
    _, noised = statistics(1.0)

    def run(n_threads):
        settings = LdaSettings(K, 0.1, doc_length=50, clip=5.0, clips=True, n_threads=n_threads)
        model = LdaModel(settings, Public(V, 1000, seed=3))
        for step in range(2):
            model.update(Release(step, np.round(noised * 2**20).astype(np.int64), 2.0**-20, 1.0))
        return [array.tobytes() for array in (*model.state().values(), model.result()["components"], model._table)]

    alone = run(1)
    assert run(3) == alone and run(16) == alone
