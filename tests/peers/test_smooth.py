"""Medians by smooth sensitivity. The guarantee on every pair of small data sets, mutants, and accuracy."""

import math
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from peers import smooth
from peers.smooth import median_and_scale, sample_and_aggregate, scales, smooth_median

from vips_fast import accounting as acc

EPSILON, DELTA, TOP, LEAST = 1.0, 0.05, 400, 1


def hockey_stick(one, other, epsilon=EPSILON):
    """Compute the largest P(A) - e^epsilon Q(A) of two Laplace distributions.

    Each is (center, scale); by a fine grid.
    """
    reach = 25 * max(one[1], other[1])
    x = np.linspace(min(one[0], other[0]) - reach, max(one[0], other[0]) + reach, 6_001)
    p, q = (np.exp(-np.abs(x - center) / scale) / (2 * scale) for center, scale in (one, other))
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x))


def neighbors(n, places):
    """Pairs of sorted data sets that differ in one record."""
    for rest in combinations_with_replacement(places, n - 1):
        for a in places:
            for b in places:
                if a != b:
                    yield sorted((*rest, a)), sorted((*rest, b))


def worst(release, n=5, places=(0, 1, 30, 390, TOP)):
    """Largest delta at this epsilon over all pairs of neighbors."""
    return max(
        hockey_stick(release(x), release(y)) for x, y in set(map(lambda p: tuple(map(tuple, p)), neighbors(n, places)))
    )


def honest(units):
    return median_and_scale(list(units), TOP, EPSILON, scales(EPSILON, DELTA, TOP, LEAST))


def local(units):
    """Return a mutant. Noise for the local sensitivity, which is a secret itself."""
    known = scales(EPSILON, DELTA, TOP, LEAST)
    padded = [0, *sorted(units), TOP]
    place = 1 + (len(units) - 1) // 2
    change = max(padded[place + 1] - padded[place], padded[place] - padded[place - 1])
    return padded[place], next((s for s in known if EPSILON * s >= 2 * change), known[-1])


def steep(units):
    """Return a mutant: scales that grow by ten times as much."""
    known = [1]
    while EPSILON * known[-1] < 2 * TOP:
        known.append(known[-1] + math.ceil(10 * known[-1] * smooth.growth(EPSILON, DELTA)))
    return median_and_scale(list(units), TOP, EPSILON, known)


def quartered(units):
    """Return a mutant: a quarter of the noise."""
    middle, scale = honest(units)
    return middle, scale / 4


def test_no_pair_of_neighbors_passes_delta():
    assert worst(honest) <= DELTA * (1 + 1e-3)


@pytest.mark.parametrize("mutant", [local, steep, quartered])
def test_mutants_are_seen(mutant):
    assert worst(mutant) > DELTA * 1.05


def test_scales_grow_slowly_and_hide_the_range():
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-6), (8.0, 0.5)):
        known, b = scales(epsilon, delta, smooth._STEPS), smooth.growth(epsilon, delta)
        assert all(one < two <= one * (1 + b) for one, two in pairwise(known))
        assert epsilon * known[-1] >= 2 * smooth._STEPS
        assert 1 + b <= math.exp(epsilon / 2) and b * math.log(1 / delta) <= epsilon / 2


def test_the_change_at_a_distance_is_that_of_every_data_set_at_it():
    """A_k by definition. Over all data sets in at most k other records, and all their neighbors."""
    places, n, known = (0, 3, 7, 10), 3, list(range(1, 200))
    for x in combinations_with_replacement(places, n):
        near = {x}
        for k in range(3):
            change = 0
            for y in near:
                middles = [
                    median_and_scale([*y[:i], a, *y[i + 1 :]], 10, 1.0, known)[0] for i in range(n) for a in (0, 10)
                ]
                change = max(change, *(abs(m - sorted(y)[1]) for m in middles))
            # A scale that hides it at the distance k, at a growth of 1 a step.
            assert known[known.index(median_and_scale(list(x), 10, 1.0, known)[1]) + k] >= 2 * change
            near = {tuple(sorted((*y[:i], a, *y[i + 1 :]))) for y in near for i in range(n) for a in places}


def test_values_that_agree_take_little_noise():
    rng = np.random.default_rng(0)
    close, spread = rng.normal(3.0, 0.1, 2001), rng.choice([0.0, 10.0], 2001)
    errors = [abs(smooth_median(close, (0, 10), 1.0, 1e-6)[0] - 3.0) for _ in range(20)]
    assert np.median(errors) < 0.05
    scale = {name: honest_scale(x) for name, x in (("close", close), ("spread", spread))}
    assert scale["spread"] > 100 * scale["close"]
    released, event = smooth_median([np.nan, np.inf, 4.0], (0, 10), 1.0, 1e-6)
    assert event == acc.ApproximateDPEvent(1.0, 1e-6, "replace_one") and math.isfinite(released)


def honest_scale(values):
    units = [int(x) for x in np.clip(values / 10, 0, 1) * smooth._STEPS]
    return median_and_scale(units, smooth._STEPS, 1.0, scales(1.0, 1e-6, smooth._STEPS))[1]


def test_mean_and_covariance_of_blocks():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + [2.0, -1.0]
    upper = np.triu_indices(2)
    mean, event = sample_and_aggregate(X, lambda block: block.mean(axis=0), [(-10, 10), (-10, 10)], 400, 2.0, 1e-6)
    assert event == acc.ApproximateDPEvent(2.0, 1e-6, "replace_one")
    np.testing.assert_allclose(mean, [2.0, -1.0], atol=1.0)
    covariance, _ = sample_and_aggregate(
        X, lambda block: np.cov(block.T)[upper], [(0, 9), (-9, 9), (0, 9)], 400, 3.0, 1e-6
    )
    np.testing.assert_allclose(covariance, [1.0, 0.5, 1.25], atol=1.5)
