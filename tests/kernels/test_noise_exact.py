"""Exact rounding: error bound of the fast path, and mpmath. Also draws forced onto rounding boundaries."""

import math
from fractions import Fraction

import noise_error_bound
import numpy as np
import pytest
from mpmath import MPContext

from vips_fast.kernels import native, rounded_gaussian
from vips_fast.kernels.reference.noise import chacha20_blocks, chacha20_words

#: The definition in csrc/noise/gaussian.h in mpmath, from the same bits: nothing is shared with the C code but the
#: keystream's definition. U and t get 128 bits beyond their first 64 (62), so a draw is known to 2^-180 or so; tests
#: look at draws no closer than 2^-60 to a half-integer, which `exact_draws` asserts.
mp, MORE_BITS = MPContext(), 128
mp.prec = 256
ISAS = native.isas_available()
KEY = bytes(range(32))
#: The lattice mechanism's scales are in [2^22, 2^23).
SCALE = 2.0**23 * (1 - 2.0**-30)


def pair_bits(key, indices):
    """(sine?, U, t, v) of each element. U and t as integers over 2^192 and 2^190, t signed."""
    indices = np.asarray(indices, dtype=np.int64)
    cosine = indices & ~8
    starts = np.unique(cosine // 128)
    shared = len(starts) < len(indices) / 16
    words = {int(g): chacha20_words(128, key, int(g) * 128) for g in starts} if shared else None
    tails = np.empty((len(indices), 4), dtype=np.uint32)
    tails[:, 0], tails[:, 3] = 0, 1
    tails[:, 1], tails[:, 2] = cosine & 0xFFFFFFFF, cosine >> 32
    more = chacha20_blocks(key, tails)
    for i, c, block in zip(indices.tolist(), cosine.tolist(), more, strict=True):
        group = words[c // 128] if words else chacha20_words(128, key, c // 128 * 128)
        u, v = int(group[c % 128]), int(group[c % 128 + 8])
        tail_u = int.from_bytes(block[:4].astype(">u4").tobytes(), "big")
        tail_t = int.from_bytes(block[8:12].astype(">u4").tobytes(), "big")
        t = (v & (2**62 - 1)) << MORE_BITS | tail_t
        if t >> (61 + MORE_BITS):
            t -= 1 << (62 + MORE_BITS)
        yield i != c, u << MORE_BITS | tail_u, t, v


def normal(sine, u, t, v):
    """Return the standard normal of one element."""
    radius = mp.sqrt(-2 * mp.log(mp.ldexp(2 * u + 1, -64 - MORE_BITS - 1)))
    angle = mp.pi / 4 + mp.pi / 2 * mp.ldexp(2 * t + 1, -62 - MORE_BITS - 1)
    x = radius * (mp.sin(angle) if sine else mp.cos(angle))
    return -x if v >> (62 if sine else 63) & 1 else x


def normals(key, indices):
    return [normal(*bits) for bits in pair_bits(key, indices)]


def round_exactly(y):
    """Nearest integer of a number that is surely not a tie."""
    n = int(mp.nint(y))
    assert abs(abs(y - n) - mp.mpf("0.5")) > mp.ldexp(1, -60)
    return n


def exact_draws(key, indices, scale):
    return [round_exactly(mp.mpf(scale) * x) for x in normals(key, indices)]


def flagged(key, first, n, scale, isa=None):
    room = np.empty(min(n, 10**6), dtype=np.int64)
    count = native.gaussian_flagged(native.Key(key), first, n, scale, room, isa)
    assert count <= room.size
    return room[:count].copy()


@pytest.mark.parametrize("fused", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_error_bound_of_the_fast_path(fused):
    """Interval evaluation over the whole domain. The guard is four times the bound."""
    k = noise_error_bound.constants()
    assert noise_error_bound.bound(fused, k) <= float(k["BOUND"])
    assert k["GUARD"] >= 4 * k["BOUND"]
    # At the mechanism's largest scale the error is far below 1/150,000 of a lattice step.
    assert float(k["BOUND"]) * 2**23 < 1 / 150_000 / 10


def test_error_bound_notices_a_worse_polynomial():
    """The evaluation reads the source. A coefficient off by 2^-40 breaks the bound."""
    text = noise_error_bound.SOURCE.read_text()
    k = noise_error_bound.constants(text)
    for name, place in (("LOG_POLY", 1), ("SIN_POLY", 0), ("COS_POLY", 0)):
        worse = dict(k)
        worse[name] = tuple(c + (Fraction(1, 2**40) if i == place else 0) for i, c in enumerate(k[name]))
        if name == "LOG_POLY":
            assert any(error.b > float(k["BOUND"]) for _, error in noise_error_bound.radius_errors(worse, True))
        else:
            assert noise_error_bound.angle_error(worse, True).b * 3.72 > float(k["BOUND"])


def test_fast_path_decides_half_of_all_draws_at_scale_2_40_and_rightly():
    n = 20_000
    k = noise_error_bound.constants()
    handed_on = set(flagged(KEY, 0, n, 2.0**40).tolist())
    draws = rounded_gaussian(2.0**40, n, unsafe_test_key=KEY)
    # Draws that are not flagged are the fast path's own, most of them as near to the guard as can be.
    indices = [i for i in range(n) if i not in handed_on][:2000]
    exact = exact_draws(KEY, indices, 2.0**40)
    assert draws[indices].tolist() == exact
    # The guard takes 2 * GUARD * 2^40 = 1/2 of all draws, give or take 5 standard deviations of a binomial.
    share = 2 * float(k["GUARD"]) * 2.0**40
    assert abs(len(handed_on) - share * n) < 5 * math.sqrt(n * share * (1 - share))


@pytest.mark.parametrize(
    "scale, n, first",
    [(SCALE, 8_000, 1000), (1.0, 2000, 1000), (0.7, 2000, 1000), (2.0**22, 2000, 1000), (1e-3, 500, 1000)]
    + [(2.0**33, 500, 1000), pytest.param(SCALE, 10**6, 10**9, marks=pytest.mark.slow)],
)
def test_ordinary_draws_agree_with_mpmath(scale, n, first):
    draws = np.empty(n, dtype=np.int64)
    native.rounded_gaussian(native.Key(KEY), first, scale, draws)
    for start in range(0, n, 20_000):
        indices = np.arange(first + start, first + min(n, start + 20_000))
        assert draws[start : start + 20_000].tolist() == exact_draws(KEY, indices, scale)


# 0.02 s of searching with AVX-512, 0.2 s in portable C, for 50 draws; the slow one is for 10,000.
@pytest.mark.parametrize(
    "isa, n_searched, at_least",
    [*((isa, 10**7, 30) for isa in ISAS), pytest.param(None, 22 * 10**8, 10_000, marks=pytest.mark.slow)],
)
def test_flagged_draws_agree_with_mpmath(isa, n_searched, at_least):
    """At the mechanism's scale, all are within 2 GUARD of a boundary or in a tail."""
    handed_on = flagged(KEY, 0, n_searched, SCALE, isa)
    assert len(handed_on) >= at_least
    # Expected: 2 GUARD SCALE and, for both of a pair, the two tails 2^-20 and 2^-36.
    share = 2 * 2.0**-42 * SCALE + 2.0**-20
    assert abs(len(handed_on) - share * n_searched) < 6 * math.sqrt(share * n_searched)
    key = native.Key(KEY)
    for i, exact in zip(handed_on.tolist(), exact_draws(KEY, handed_on, SCALE), strict=True):
        draw = np.empty(1, dtype=np.int64)
        native.rounded_gaussian(key, i, SCALE, draw, isa)
        assert draw[0] == exact


def boundary_scales(x, magnitude):
    """Return the doubles beside (m + 1/2)/|x|. Just below and above, for the half-integer next to magnitude |x|."""
    m = int(abs(x) * magnitude)
    exact = (m + mp.mpf("0.5")) / abs(x)
    scale = float(exact)
    low = scale if scale < exact else math.nextafter(scale, 0.0)
    return m, low, math.nextafter(low, math.inf)


@pytest.mark.parametrize("n, first, isas", [(300, 7, ISAS), pytest.param(10_000, 3, ISAS, marks=pytest.mark.slow)])
def test_draws_forced_onto_boundaries(n, first, isas):
    """Check that a draw steps from m to m + 1 between two neighboring scales, the closest that a double can come."""
    rng = np.random.default_rng(first)
    indices = np.unique(rng.integers(0, 2**44, n) + first)
    keys = {isa: native.Key(KEY) for isa in isas}
    draw = np.empty(1, dtype=np.int64)
    for i, x in zip(indices.tolist(), normals(KEY, indices), strict=True):
        magnitude = 2.0 ** rng.uniform(-3, 40) if i % 4 == 0 else 2.0 ** rng.uniform(22, 23)
        m, low, high = boundary_scales(x, magnitude)
        for scale, expected in ((low, m), (high, m + 1)):
            if not 0 < scale <= 2.0**50:
                continue
            for isa, key in keys.items():
                native.rounded_gaussian(key, i, scale, draw, isa)
                assert draw[0] == (expected if x > 0 else -expected), (i, scale, isa)


@pytest.mark.parametrize("isa", ISAS)
def test_tails_are_handed_on(isa):
    """Only the tails of U are flagged, those with few bits. At a scale whose draws stay far from 1/2."""
    n = 4 * 10**6
    words = np.empty(n, dtype=np.uint64)
    native.chacha20_words(native.Key(KEY), 0, words, isa)
    u = words.reshape(-1, 2, 8)[:, 0]
    tail = np.stack([(u < 2**44) | (u > 2**64 - 2**28)] * 2, axis=1).reshape(-1)
    assert tail.any()
    np.testing.assert_array_equal(flagged(KEY, 0, n, 0.01, isa), np.flatnonzero(tail))


def from_words(u, v, index, scale, limbs=7):
    return native.gaussian_exact(u, v, native.Key(KEY), index, scale, limbs)


def reference_from_words(u, v, index, scale):
    ((_, tail_u, tail_t, _),) = pair_bits(KEY, [index])
    more = MORE_BITS
    full_u = u << more | tail_u & (2**more - 1)
    t = (v & (2**62 - 1)) << more | tail_t & (2**more - 1)
    t -= (t >> (61 + more)) << (62 + more)
    return round_exactly(mp.mpf(scale) * normal(index & 8, full_u, t, v))


TOP = 2**64 - 1
EXTREME_U = [0, 1, 2, 2**20, 2**43, 2**44 - 1, 2**44, 2**62, 2**63 - 1, 2**63, 3 * 2**62 - 1, 3 * 2**62]
EXTREME_U += [TOP - 2**28, TOP - 1, TOP]
EXTREME_V = [0, 1, 2**61 - 1, 2**61, 2**61 + 1, 2**62 - 1, 2**62, 2**63, 2**63 + 2**61, TOP, 0x123456789ABCDEF0]


@pytest.mark.parametrize("index", [0, 2**40 + 11])  # both elements of a pair
def test_extreme_words(index):
    """U within 2^-64 of 0 and of 1, and extreme angles. On and beside the octants' edges, all signs."""
    for u in EXTREME_U:
        for v in EXTREME_V:
            assert from_words(u, v, index, 2.0**50) == reference_from_words(u, v, index, 2.0**50), (u, v)


def test_result_does_not_depend_on_the_precision_begun_with():
    """Draws undecided by 64 bits end like the others. At scale 2^50 they are about 1 in 100."""
    words = chacha20_words(3000, b"\5" * 32).tolist()
    for j, (u, v) in enumerate(zip(words[::2], words[1::2], strict=True)):
        results = {from_words(u, v, j, 2.0**50, limbs) for limbs in (3, 4, 7, 25)}
        assert len(results) == 1


def test_draws_that_the_head_words_leave_undecided():
    """The bits drawn after v decide: the draw crosses m + 1/2 inside v's cell of width 2^-62.

    At scale 2^50 a cell is at most 2^50 * 5 * 2^-62 < 2^-9 of a step wide, which is less than 64 fraction bits
    resolve (limbs = 3), so that a larger precision has to be gone to.
    """
    rng = np.random.default_rng(5)
    rounded_up = []
    for _ in range(25):
        u = int(rng.integers(2**60, 2**63))
        radius = mp.sqrt(-2 * mp.log(mp.ldexp(u, -64)))
        m = int(rng.integers(2**47, 2**49))
        # The cosine element with t > -1/2: scale radius cos(pi/4 + (pi/2) t) = m + 1/2.
        t = (mp.acos((m + mp.mpf("0.5")) / 2**50 / radius) - mp.pi / 4) * 2 / mp.pi
        v = int(mp.floor(mp.ldexp(t, 62))) % 2**62
        outcomes = set()
        for index in range(0, 1600, 16):
            truth = reference_from_words(u, v, index, 2.0**50)
            assert truth in (m, m + 1)
            outcomes.add(truth)
            assert {from_words(u, v, index, 2.0**50, limbs) for limbs in (3, 5, 7, 25)} == {truth}
            rounded_up.append(truth == m + 1)
            if len(outcomes) == 2:
                break
        # U's own bits beyond the 64th move the crossing by less than v's cell: both outcomes occur.
        assert outcomes == {m, m + 1}
    assert any(rounded_up) and not all(rounded_up)


def test_scales_too_small_for_anything_but_zero():
    for scale in (5e-324, 1e-300, 2.0**-7 * (1 - 2.0**-53)):
        assert from_words(0, 0, 0, scale) == 0
        assert not rounded_gaussian(scale, 1000, unsafe_test_key=KEY).any()


def test_largest_scale_is_exact_and_in_range():
    draws = rounded_gaussian(2.0**50, 300, unsafe_test_key=KEY)
    assert draws.tolist() == exact_draws(KEY, range(300), 2.0**50)
    assert np.abs(draws).max() < 64 * 2**50
