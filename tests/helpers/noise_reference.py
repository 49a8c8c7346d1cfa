"""Rounded Gaussian draws in mpmath, from the same bits.

By the definition in csrc/noise/gaussian.h.

Nothing here is shared with the C code but the keystream's definition. U and t get
128 bits beyond their first 64 (62), so a draw is known to about 2^-180; the tests
look at draws no closer than 2^-60 to a half-integer, which `exact_draws` asserts.
"""

import numpy as np
from mpmath import MPContext

from vips_fast.kernels.reference.noise import chacha20_blocks, chacha20_words

mp = MPContext()
mp.prec = 256
MORE_BITS = 128


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
