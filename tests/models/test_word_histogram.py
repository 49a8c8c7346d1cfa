"""Histograms of words: several releases are averaged by their noise."""

import numpy as np
import pytest
from priors import documents

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.model import Release
from vips_fast.models.lda.masses import WordHistogram


def test_releases_are_weighted_by_their_precision_and_the_error_is_that_of_their_mean():
    rng, truth, sds = np.random.default_rng(0), np.array([3.0, 40.0]), (0.5, 2.0)
    scales, clip, long = np.array([1.0, 0.5]), 2.0, 8.0
    unit = scales * long / clip
    found = []
    for _ in range(4000):
        counted = WordHistogram(scales, clip, 1.0, long)
        for step, sd in enumerate(sds):
            units = np.rint(2.0**20 * (truth / unit + sd * rng.normal(size=2))).astype(np.int64)
            counted.add(Release(step, units, 2.0**-20, sd))
        mean, error = counted.mean()
        found.append(mean)
    np.testing.assert_allclose(error, unit * (sds[0] ** -2 + sds[1] ** -2) ** -0.5, rtol=1e-6)
    # The standard deviation of 4,000 means is within 8 % but with probability 1e-11.
    np.testing.assert_allclose(np.std(found, axis=0), error, rtol=0.08)
    assert np.mean(found, axis=0) == pytest.approx(truth, rel=0.05)


def test_the_first_step_of_topics_after_histograms_is_a_first_step():
    """Nothing of the random start is left: the rate does not count the steps of histograms."""
    options = dict(noise_multiplier=300.0, n_steps=20, sampling="full", n_records=2000, doc_length=40)
    model = LatentDirichletAllocation(4, random_state=0, **options).prepare(documents(50, 64)).model.model
    rng, counted = np.random.default_rng(0), model._histograms
    assert counted > 0
    for step in range(counted + 1):
        model.update(Release(step, rng.integers(0, 1000, model.shape), 1e-3, 1.0))
    assert model._average.initial_weight == 0.0
