"""The read-out of noised topic statistics.

On statistics whose true values are known.
"""

import numpy as np
import pytest

from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.models.lda.model import LdaModel, LdaSettings
from vips_fast.models.lda.shrinkage import ProductShrinkage, mean_one, word_masses

V, K = 1500, 12


def statistics(level, seed=0):
    """Mostly small (V, K) statistics with noise of sd 1.

    ``level`` is their mean.
    """
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
    """Each is read by its own noise.

    Where all are alike, it is the same as one for all.
    """
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


def test_parts_are_the_whole():
    _, noised = statistics(1.0)
    shrinkage = ProductShrinkage(K)
    shrinkage.update(noised, np.ones((1, 1)))
    whole = shrinkage.means(0, V)
    parts = [shrinkage.means(first, first + 700) for first in (0, 700, 1400)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_later_steps_start_from_the_earlier_prior():
    truth, noised = statistics(1.0)
    errors = [((read_out(noised, steps=n) - truth) ** 2).sum() for n in (1, 10)]
    # More rounds of EM on the same statistics: the prior is estimated no worse (5 % for chance).
    assert errors[1] < 1.05 * errors[0]


def test_word_masses():
    rng = np.random.default_rng(1)
    truth = 300.0 / np.arange(1, 3001)
    noised = truth + rng.normal(size=truth.shape)
    mass, prior = word_masses(noised, 1.0)
    assert (mass > 0).all() and prior.sum() == pytest.approx(1.0)
    # Most masses are below the noise: there the prior takes most of it off (measured: 65 %).
    assert ((mass - truth) ** 2).sum() < 0.5 * ((np.maximum(noised, 0) - truth) ** 2).sum()
    # Far above the noise nothing is rounded to the grid: 5 sds of the noise.
    assert np.abs(mass - noised)[truth > 30].max() < 5
    again, _ = word_masses(noised, 1.0, prior)
    # Few more rounds from where EM ended: hardly a change against the noise's 1.
    assert np.abs(again - mass).max() < 0.2


@pytest.mark.parametrize("n_topics", [1, 2, 4, 50, 1000])
def test_first_prior_says_that_topics_use_words_alike_on_the_average(n_topics):
    grid = np.concatenate(([0.0], np.geomspace(0.05, max(2.0, n_topics), 15)))
    weight = mean_one(grid)
    assert (weight >= 0).all() and weight.sum() == pytest.approx(1.0)
    assert weight @ grid == pytest.approx(1.0)


def test_threads_change_no_bit():
    _, noised = statistics(1.0)

    def run(n_threads):
        settings = LdaSettings(K, 0.1, 0.1, doc_length=50, clip=5.0, clips=True, n_threads=n_threads)
        model = LdaModel(settings, Public(V, 1000, seed=3))
        for step in range(2):
            model.update(Release(step, np.round(noised * 2**20).astype(np.int64), 2.0**-20, 1.0))
        return [array.tobytes() for array in (*model.state().values(), model.result()["components"], model._table)]

    alone = run(1)
    assert run(3) == alone and run(16) == alone


@pytest.mark.parametrize("sd", [0.003, 0.02, 0.1])
def test_the_standard_errors_are_the_errors(sd):
    """Of known statistics seen through noise.

    Errors of all entries, and of the first words of each topic.
    """
    from vips_fast import LatentDirichletAllocation
    from vips_fast.engine.model import Release
    from vips_fast.engine.result import Public

    rng, n = np.random.default_rng(0), 10_000
    share = 1 / np.arange(1, 801)
    truth = (share / share.sum())[:, None] * rng.gamma(0.3, 1 / 0.3, (800, 6)) * 500 / 6
    model = LatentDirichletAllocation(6, noise_multiplier=1.0, n_steps=1, delta=1e-5)._model(Public(800, n, 0))
    scale = sd / 2**20
    units = np.rint((truth + rng.normal(0, sd, truth.shape)) / scale).astype(np.int64)
    model.update(Release(0, units, scale, sd))
    found, errors = model.result()["components"] - 1 / 6, model.standard_errors()
    assert errors.shape == (6, 800) and errors.max() <= 2 * n * sd
    wrong = found - n * truth.T
    # Priors and word masses count as known, which takes a little off where the noise is large.
    assert 0.8 < np.sqrt((errors**2).mean() / (wrong**2).mean()) < 1.1
    first = np.argsort(-found, axis=1)[:, :10]
    z = np.take_along_axis(wrong, first, 1) / np.take_along_axis(errors, first, 1)
    # 60 words of fixed draws.
    assert 0.7 < (z**2).mean() < 1.5


@pytest.mark.parametrize("sd, first", [(0.003, 0.8), (0.02, 0.8), (0.1, 0.75)])
def test_intervals_cover_what_the_noise_hides(sd, first):
    """Intervals cover all entries and each topic's first words.

    The statistics are known and seen through noise. Twice the noise breaks the coverage.
    """
    rng, n = np.random.default_rng(0), 10_000
    share = 1 / np.arange(1, 801)
    truth = (share / share.sum())[:, None] * rng.gamma(0.3, 1 / 0.3, (800, 6)) * 500 / 6
    covered = []
    for factor in (1, 2):
        settings = LdaSettings(6, 0.1, 0.1, doc_length=500, clip=5.0, clips=True)
        model = LdaModel(settings, Public(800, n, seed=3))
        scale = sd / 2**20
        units = np.rint((truth + factor * rng.normal(0, sd, truth.shape)) / scale).astype(np.int64)
        model.update(Release(0, units, scale, sd))
        low, high = np.moveaxis((model.intervals(0.9) - 0.1) / n, 2, 0)
        inside = (low <= truth.T + 1e-9) & (truth.T <= high + 1e-9)
        ranked = np.argsort(-model.result()["components"], axis=1)[:, :10]
        covered.append((inside.mean(), np.take_along_axis(inside, ranked, 1).mean()))
        narrow = np.moveaxis((model.intervals(0.5) - 0.1) / n, 2, 0)
        assert (narrow[0] >= low - 1e-6).all() and (narrow[1] <= high + 1e-6).all() and (low >= -1e-12).all()
    assert 0.83 < covered[0][0] < 0.95 and first < covered[0][1] < 0.97
    assert covered[1][0] < covered[0][0] - 0.1


def test_no_noise_no_width():
    from cases import CASES

    make, data = CASES["lda"]
    free = make(noise_multiplier=None, private=False).fit(*data())
    found = free.components_interval(0.8)
    np.testing.assert_allclose(found[:, :, 0], free.components_)
    np.testing.assert_allclose(found[:, :, 1], free.components_)
    with pytest.raises(ValueError, match="level=1"):
        free.components_interval(1)


def test_no_noise_no_errors():
    from cases import CASES

    make, data = CASES["lda"]
    free = make(noise_multiplier=None, private=False).fit(*data())
    assert not free.components_sd_.any()
    noisy = make().fit(*data())
    assert (noisy.components_sd_ > 0).any() and not noisy.components_sd_.flags.writeable
    paper = CASES["lda-paper"][0]().fit(*data())
    # Read as they are: n times the noise of the average.
    assert np.ptp(paper.components_sd_) == 0 and paper.components_sd_.min() > 0
