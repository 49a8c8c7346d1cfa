"""Properties of mechanisms that faults once survived: each is shown to fail with the fault in it.

Checks that draw noise fail by chance with probability below 1e-8.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from mutation import mutated
from peers import textbook

from vips_fast.data import shards
from vips_fast.engine.randomness import SystemRandomness
from vips_fast.engine.sampling import RandomAllocationSampler
from vips_fast.mechanisms.gaussian import GaussianMechanism

# ------------------------------------------- truncation to the lattice is charged


def moved(mechanism, patch, value, other, sensitivity, z):
    """Lattice places of two neighbors, and the scale of the noise in places."""
    scales = []

    def laplace(scale):
        scales.append(scale)
        return 0

    def gaussian(self, sums, key, n_threads=1):
        scales.append(Fraction(self.noise_sd) / Fraction(self.spacing))
        spacings.append(self.spacing)

    spacings: list = []
    with patch.context() as inner:
        inner.setattr(textbook, "rounded_laplace", laplace)
        inner.setattr(GaussianMechanism, "add_noise", gaussian)
        released = [mechanism(x, sensitivity, z)[0] for x in (value, other)]
    spacing = spacings[0] if spacings else math.ldexp(1.0, math.frexp(z * sensitivity)[1] - 28)
    return (released[1] - released[0]) / spacing, spacing, min(scales)


def neighbors(d, sensitivity, spacing, order):
    """Two values at a distance of the sensitivity, the worst for truncation: each coordinate crosses a place."""
    value = np.full(d, np.nextafter(spacing, 0.0))
    other = np.full(d, spacing)
    # The rest of the distance is in one coordinate, or spread over all.
    rest = sensitivity if order == 1 else sensitivity / math.sqrt(d)
    places = math.floor(rest * (1 - 1e-12) / spacing)
    other[: 1 if order == 1 else d] += spacing * places
    return value, other


def check_truncation(patch, name, order):
    mechanism = getattr(textbook, name)
    for d in (1, 20, 3_000):
        for z, sensitivity in ((1.0, 1.0), (3.7, 0.3), (0.2, 1e6)):
            spacing = moved(mechanism, patch, np.zeros(d), np.zeros(d), sensitivity, z)[1]
            value, other = neighbors(d, sensitivity, spacing, order)
            distance = np.linalg.norm((other - value).astype(np.longdouble), order)
            assert distance <= sensitivity
            places, _, scale = moved(mechanism, patch, value, other, sensitivity, z)
            assert np.all(places >= 1)
            # Places are whole numbers: exact.
            total = sum(Fraction(int(p)) ** order for p in places)
            assert total * Fraction(z) ** order <= Fraction(scale) ** order * Fraction(1 + 1e-15)


def check_laplace_truncation(patch):
    check_truncation(patch, "laplace_mechanism", 1)


def check_gaussian_truncation(patch):
    check_truncation(patch, "gaussian_mechanism", 2)


def free_laplace_truncation(patch):
    fault = mutated(textbook.laplace_mechanism, " + value.size * Fraction(spacing)", "")
    patch.setattr(textbook, "laplace_mechanism", fault)


def free_gaussian_truncation(patch):
    fault = mutated(textbook.gaussian_mechanism, " + math.sqrt(value.size) * coarse * (1.0 + 1e-15)", "")
    patch.setattr(textbook, "gaussian_mechanism", fault)


# ---------------------------------------------- bounded integers without a bias

# 2^64 is not a multiple of 3 2^61 or 3 2^62: numbers below a third of them would be 12 % or 50 % too frequent.


def fair(numbers, bound):
    """Test that a third of many numbers below a bound is below a third of it; 7 standard errors."""
    share = float(np.mean(np.asarray(numbers, dtype=np.uint64) < np.uint64(bound // 3)))
    assert abs(share - 1 / 3) < 7 * math.sqrt(2 / 9 / len(numbers))


def check_answers(patch):
    """Of the 2^64 words those are kept that leave equally many for each answer."""
    for k in (4, 1_001, 2**53):
        limit = 2**64 - 2**64 % (k - 1)
        words = [limit - 1, *(w for w in (limit, limit + 1, 2**64 - 1) if w < 2**64)]
        # All lie; then the words at the border; words that are drawn again are 0.
        streams = iter([[2**64 - 1] * len(words), words])
        with patch.context() as inner:
            inner.setattr(textbook, "_words", lambda n, rest=streams: np.array(next(rest, [0] * n), dtype=np.uint64))
            reported, _ = textbook.randomized_response(np.zeros(len(words), dtype=np.int64), 0.5, k)
        assert reported.tolist() == [k - 1] + [1] * (len(words) - 1)


def check_shards(patch):
    bound = 3 * 2**61
    fair(shards.draw_bins(20_000, bound), bound)


def check_minibatches(patch):
    bound = 3 * 2**62
    fair(RandomAllocationSampler(20_000, bound)._allocate(20_000, SystemRandomness().of_step(0), 0), bound)


def check_laplace_magnitudes(patch):
    # P(|x| < t ln 3 / 2) of a large scale t, whose uniform part is below t.
    bound = 3 * 2**62
    draws = [abs(textbook.rounded_laplace(bound)) / bound for _ in range(4_000)]
    for share in (0.25, 0.5, 0.75):
        found = float(np.mean(np.array(draws) < -math.log1p(-share)))
        assert abs(found - share) < 7 * math.sqrt(share * (1 - share) / len(draws))


def biased_answers(patch):
    fault = mutated(textbook.randomized_response, "if limit < 2**64:", "if False:")
    patch.setattr(textbook, "randomized_response", fault)


def biased_bins(patch):
    fault = mutated(shards.draw_bins, "open_[words[open_] > limit]", "open_[:0]")
    patch.setattr(shards, "draw_bins", fault)


def biased_minibatches(patch):
    old = "while (beyond := words > last).any():"
    patch.setattr(
        RandomAllocationSampler,
        "_allocate",
        mutated(RandomAllocationSampler._allocate, old, "while (beyond := words > last).any() and False:"),
    )


def biased_magnitudes(patch):
    import secrets

    patch.setattr(secrets, "randbelow", lambda n: secrets.randbits(64) % n)


@pytest.mark.parametrize(
    ("check", "mutant"),
    [
        (check_laplace_truncation, free_laplace_truncation),
        (check_gaussian_truncation, free_gaussian_truncation),
        (check_answers, biased_answers),
        (check_shards, biased_bins),
        (check_minibatches, biased_minibatches),
        (check_laplace_magnitudes, biased_magnitudes),
    ],
)
def test_mutants_are_seen(check, mutant, monkeypatch):
    check(monkeypatch)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check(monkeypatch)
