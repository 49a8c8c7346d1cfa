"""Sums on their way from workers: each part of the data set is counted once."""

import numpy as np
import pytest

from vips_fast.engine.cluster import PartialSum, add
from vips_fast.engine.sampling import (
    FixedSizeSampler,
    FullSampler,
    KeyedRandomness,
    PoissonSampler,
    RandomAllocationSampler,
    SystemRandomness,
    minibatch,
)


def sums(*numbers):
    return [PartialSum(1 << i, 1, np.array([n, -n]), {"n": 1.0}) for i, n in enumerate(numbers)]


def test_sums_add_and_stay_as_they_were():
    """A task that runs again finds the same input. Nothing is added in place."""
    parts = sums(3, 5, 1000)
    whole, again = add(parts, 99), add(parts, 99)
    for one in (whole, again):
        assert one.total.tolist() == [1008, -1008]
        assert (one.parts, one.n_units, one.diagnostics) == (0b111, 3, {"n": 3.0})


def test_a_part_that_is_computed_again_counts_once():
    first, second, third = sums(1, 2, 3)
    two = add([first, second], 9)
    for twice in ([first, first], [two, second], [two, add([second, third], 9)]):
        with pytest.raises(RuntimeError, match="twice"):
            add(twice, 9)


def test_more_units_than_int64_holds():
    large = [PartialSum(1 << i, 2, np.array([2**62, 1])) for i in range(4)]
    whole = add([add(large[:2], 3), add(large[2:], 3)], 3).total
    assert whole.dtype == object and whole.tolist() == [4 * 2**62, 4]


SAMPLERS = [
    PoissonSampler(1000, 130),
    FixedSizeSampler(1000, 130),
    FullSampler(1000),
    PoissonSampler(1000, 1000),
    RandomAllocationSampler(1000, 3),
]


def drawn(sampler, randomness, usable, cuts):
    parts = [(a, *minibatch(sampler, 1000, usable[a:b], randomness, 4, range(a, b))) for a, b in zip(cuts, cuts[1:])]
    return np.concatenate([rows + a for a, rows, _ in parts]).tolist(), np.concatenate([w for *_, w in parts]).tolist()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: f"{s.name}-{s.expected_batch_size:g}")
@pytest.mark.parametrize("randomness", [KeyedRandomness(b"k" * 32), SystemRandomness()], ids=["keyed", "system"])
def test_parts_draw_what_the_whole_draws(sampler, randomness):
    """Record by record, with the same words, whatever the parts are. Another step draws others."""
    usable, rng = np.random.default_rng(1).random(1000) < 0.9, np.random.default_rng(2)
    of_step = randomness.of_step(4)
    rows, words = minibatch(sampler, 1000, usable, of_step, 4)
    assert len(set(words.tolist())) == len(rows) and usable[rows].all()
    for n in (1, 2, 16):
        cuts = [0, *np.sort(rng.choice(999, n - 1, replace=False) + 1).tolist(), 1000]
        assert drawn(sampler, of_step, usable, cuts) == (rows.tolist(), words.tolist())
    other, others = minibatch(sampler, 1000, usable, randomness.of_step(5), 5)
    assert not set(others.tolist()) & set(words.tolist())
    assert sampler.expected_batch_size == 1000 or other.tolist() != rows.tolist()


@pytest.mark.parametrize("sampler", [s for s in SAMPLERS if s.expected_batch_size == 1000], ids=lambda s: s.name)
def test_a_pass_over_all_makes_no_index(sampler):
    """Regressions read its blocks in place."""
    rows, words = minibatch(sampler, 1000, None, SystemRandomness().of_step(4), 4)
    assert rows == range(1000) and len(words) == 1000
    part = minibatch(sampler, 1000, None, SystemRandomness().of_step(4), 4, range(300, 500))
    assert part[0] == range(200)
