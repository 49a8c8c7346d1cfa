"""Integers below a bound are drawn without a bias: each check is shown to fail with the fault in it.

By chance they fail with probability below 1e-11.
"""

import math

import numpy as np
import pytest
from mutation import mutated

from vips_fast.data import shards
from vips_fast.engine.sampling import RandomAllocationSampler, SystemRandomness

# 2^64 is not a multiple of 3 2^61 or 3 2^62: numbers below a third of them would be 12 % or 50 % too frequent.


def fair(numbers, bound):
    """Test that a third of many numbers below a bound is below a third of it; 7 standard errors."""
    share = float(np.mean(np.asarray(numbers, dtype=np.uint64) < np.uint64(bound // 3)))
    assert abs(share - 1 / 3) < 7 * math.sqrt(2 / 9 / len(numbers))


def check_shards():
    fair(shards.draw_bins(20_000, 3 * 2**61), 3 * 2**61)


def check_minibatches():
    bound = 3 * 2**62
    fair(RandomAllocationSampler(20_000, bound)._allocate(20_000, SystemRandomness().of_step(0), 0), bound)


@pytest.mark.parametrize(
    ("check", "owner", "name", "old", "new"),
    [
        (check_shards, shards, "draw_bins", "open_[words[open_] > limit]", "open_[:0]"),
        (
            check_minibatches,
            RandomAllocationSampler,
            "_allocate",
            "(beyond := words > last).any()",
            "(beyond := words > last).any() and False",
        ),
    ],
)
def test_mutants_are_seen(check, owner, name, old, new, monkeypatch):
    check()
    monkeypatch.setattr(owner, name, mutated(getattr(owner, name), old, new))
    with pytest.raises(AssertionError):
        check()
