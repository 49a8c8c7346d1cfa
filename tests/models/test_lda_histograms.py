"""Histograms of words in a run without a public prior, before its topics."""

import numpy as np
import pytest
from priors import documents, prior_of

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.model import Release
from vips_fast.jobs import beside
from vips_fast.models.lda.model import ProductShrinkage, WordHistogram

V, K = 64, 4


def test_histograms_and_word_sums_are_averaged_by_their_noise():
    rng = np.random.default_rng(0)
    truth = np.exp(rng.normal(0.0, 1.0, 800))
    x, sums = truth + rng.normal(0.0, 0.3, 800), 50.0 * (truth + rng.normal(0.0, 0.3, 800))
    found = []
    for own, noise in ((0.3, 15.0), (0.3, 1e-3), (1e-6, 15.0), (1e9, 15.0)):
        read = ProductShrinkage(1, known=(x, np.full(800, own)))
        read.update(sums[:, None], np.full((1, 1), noise))
        found.append(np.abs(read.mass / read.mass.sum() - truth / truth.sum()).sum())
    both, by_sums, by_histogram, without = found
    # The better part decides; two that are as good are better than each.
    assert both < 0.85 * min(by_sums, by_histogram) and without == pytest.approx(by_sums, rel=0.1)


def counted(noise, **more):
    common = dict(noise_multiplier=noise, sampling="full", n_records=2000, random_state=0, n_jobs=1, n_steps=20)
    return LatentDirichletAllocation(**{"n_components": K, **common, **more})


def test_releases_are_weighted_by_their_precision_and_the_error_is_that_of_their_mean():
    rng, truth, sds = np.random.default_rng(0), np.array([3.0, 40.0]), (0.5, 2.0)
    scales, clip, long = np.array([1.0, 0.5]), 2.0, 8.0
    unit = scales * long / clip
    found = []
    for _ in range(4000):
        read = WordHistogram(scales, clip, 1.0, long)
        for step, sd in enumerate(sds):
            units = np.rint(2.0**20 * (truth / unit + sd * rng.normal(size=2))).astype(np.int64)
            read.add(Release(step, units, 2.0**-20, sd))
        mean, error = read.mean()
        found.append(mean)
    np.testing.assert_allclose(error, unit * (sds[0] ** -2 + sds[1] ** -2) ** -0.5, rtol=1e-6)
    # The standard deviation of 4,000 means is within 8 % but with probability 1e-11.
    np.testing.assert_allclose(np.std(found, axis=0), error, rtol=0.08)
    assert np.mean(found, axis=0) == pytest.approx(truth, rel=0.05)


def test_the_first_step_of_topics_after_histograms_is_a_first_step():
    """Nothing of the random start is left: the rate does not count the steps of histograms."""
    model, rng = counted(300.0, doc_length=40).prepare(documents(50, V)).model.model, np.random.default_rng(0)
    assert model._histograms > 0
    for step in range(model._histograms + 1):
        model.update(Release(step, rng.integers(0, 1000, model.shape), 1e-3, 1.0))
    assert model._left == 0.0


def test_masses_are_counted_first_where_topics_would_hide_them():
    many = counted(300.0).fit(documents(2000, V))
    assert many._result.state["histograms"][0] == 5 and many.n_steps_ == 20
    # Other runs count in fewer steps, because documents of one length do not have the masses of words.
    some, clear = (counted(noise).fit(documents(2000, V)) for noise in (40.0, 0.01))
    # Topics that stand far above the noise leave one step, with counts as they are.
    assert (some._result.state["histograms"][0], clear._result.state["histograms"][0]) == (3, 1)
    masses = np.asarray(documents(2000, V).sum(axis=0)).ravel()
    own = clear.components_.sum(axis=0)
    exact, known, own = (part / part.sum() for part in (masses, clear._restored()._shrinkage.known[0], own))
    assert exact @ np.log(exact / known) < 0.5 * exact @ np.log(exact / own)
    # Topics that noise hides have the masses of the histograms.
    stage = counted(300.0).prepare(documents(50, V))
    truth, rng = prior_of(V).frequencies, np.random.default_rng(0)
    for step in range(12):
        units = rng.integers(-1000, 1000, stage.model.shape)
        if step < 5:
            scales = stage.model.model._histogram.scales
            units.reshape(-1)[:V] = np.rint(1e6 * truth / scales)
            assert (np.ptp(scales) > 0) == (step > 0)  # the next scales follow the masses
        stage.model.update(Release(step, units, 1e-3, 1e-2 if step < 5 else 10.0))
    masses = stage.model.model._shrinkage.mass
    np.testing.assert_allclose(masses / masses.sum(), truth / truth.sum(), rtol=0.1)


def test_a_run_that_counts_first_resumes_with_the_same_bits():
    models = [counted(300.0, n_components=9).prepare(documents(50, V)).model for _ in range(2)]
    rng, (model, again) = np.random.default_rng(0), models
    for step in range(19):
        shape = model.shape
        model.update(Release(step, rng.integers(-1000, 3000, shape), 1e-3, 1.0))
        again.restore(model.state())
        for name, value in model.result().items():
            np.testing.assert_array_equal(value, again.result()[name])


def test_a_state_of_histograms_that_is_none_is_refused():
    model = counted(300.0).prepare(documents(50, V)).model
    for number in (-1.0, 0.5, 1.0):  # one histogram has some precision
        with pytest.raises(ValueError, match="'histograms' is out of its range"):
            model.restore({**model.state(), "histograms": np.array([number])})
    with pytest.raises(ValueError, match="'histogram_steps' is out of its range"):
        model.restore({**model.state(), "histogram_steps": np.array([-1.0])})


def test_a_terminal_has_at_most_a_page_of_own_topics():
    """The largest 20 of 100, with their numbers; the file keeps all."""
    model = LatentDirichletAllocation(100, private=False, n_steps=1).fit(documents(50, V))
    *rows, more = beside.shown(model).splitlines()[-21:]
    text = beside.texts(model)["topics.txt"]
    order = np.argsort(-model.components_.sum(axis=1), kind="stable")
    assert [int(row.split()[0]) - 1 for row in rows] == order[:20].tolist()
    assert set(rows) < set(text.splitlines()) and len(text.splitlines()) >= 100
    assert more.startswith("80 more topics hold ") and more.endswith("; topics.txt has all.")
    few = LatentDirichletAllocation(20, private=False, n_steps=1).fit(documents(50, V))
    assert beside.shown(few) == beside.texts(few)["topics.txt"]
