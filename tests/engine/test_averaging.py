"""A running average and its noise are those of the weights that its rates give."""

import numpy as np

from vips_fast.engine.model import Release, RunningAverage, Schedule, averaged_variance


def test_value_noise_and_start_have_the_weights_of_the_rates():
    rng, schedule, start = np.random.default_rng(0), Schedule(1.0, 0.7), np.array([5.0, -3.0])
    for added in (RunningAverage.add, lambda one, release, rate: one.add_values(release.values, release, rate)):
        average, weights, releases = RunningAverage(start), [1.0], []
        for step in range(1, 9):
            releases.append(Release(step, rng.integers(-9, 9, 2), 0.25, float(step)))
            rate = schedule.rate(step)
            added(average, releases[-1], rate)
            weights = [*((1 - rate) * weight for weight in weights), rate]
            values = [start, *(release.values for release in releases)]
            np.testing.assert_allclose(average.values, np.dot(weights, values), rtol=1e-12)
            noise = np.dot(weights[1:], [release.noise_sd for release in releases] * np.eye(step))
            np.testing.assert_allclose(average.noise_sd, np.linalg.norm(noise), rtol=1e-12)
            np.testing.assert_allclose(average.initial_weight, weights[0], rtol=1e-12)


def test_rates_are_at_most_one():
    assert [Schedule(0.0, 1.0).rate(t) for t in range(3)] == [1.0, 1.0, 0.5]
    assert Schedule(4.0, 0.5).rate(0) == 0.5


def test_the_planned_variance_is_the_averages():
    schedule, average = Schedule(0.0, 0.7), RunningAverage(np.zeros(1))
    for step in range(20):
        average.add(Release(step, np.zeros(1, np.int64), 1.0, 1.0), 1.0 if step == 0 else schedule.rate(step))
    np.testing.assert_allclose(averaged_variance(schedule, 20), average.noise_sd**2, rtol=1e-12)
