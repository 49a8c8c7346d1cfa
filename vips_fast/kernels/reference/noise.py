"""Noise in plain numpy: the same bits, float64 arithmetic.

`rounded_gaussian` here rounds a float64 value. So it can differ by one from the kernel if the value is within about
1e-15 scales of a half-integer.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "add_rounded_gaussian",
    "chacha20_fill",
    "chacha20_words",
    "gaussian_exact",
    "gaussian_flagged",
    "int64_check",
    "rounded_gaussian",
    "symmetric_check",
    "symmetric_gaussian",
]

#: Draws nearer to a half-integer than this many scales go to the exact path. So does a U of few known bits: its word is
#: below the first number or above the second.
GUARD, FEW_BITS = 2.0**-42, (2**44, 2**64 - 2**28)

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")


def chacha20_blocks(key: bytes, tails: ArrayLike) -> np.ndarray:
    """Compute ChaCha20 blocks as (n, 16) uint32; ``tails`` (n, 4) ends the states."""
    tails = np.asarray(tails, dtype=np.uint32)
    start = np.empty((16, len(tails)), dtype=np.uint32)
    start[:4] = _CONSTANTS[:, None]
    start[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    start[12:] = tails.T
    x = start.copy()

    def step(a: int, b: int, d: int, n: int) -> None:
        x[a] += x[b]
        turned = x[d] ^ x[a]
        x[d] = turned << np.uint32(n) | turned >> np.uint32(32 - n)

    def quarter_round(a: int, b: int, c: int, d: int) -> None:
        step(a, b, d, 16)
        step(c, d, b, 12)
        step(a, b, d, 8)
        step(c, d, b, 7)

    for _ in range(10):
        for i in range(4):
            quarter_round(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter_round(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return (x + start).T


def chacha20_fill(n_bytes: int, key: bytes, *, nonce: bytes = bytes(12), counter: int = 0) -> np.ndarray:
    """RFC 8439 keystream (section 2.4); see csrc/kernels.toml."""
    n_blocks = -(-n_bytes // 64)
    tails = np.empty((n_blocks, 4), dtype=np.uint32)
    tails[:, 0] = counter + np.arange(n_blocks)
    tails[:, 1:] = np.frombuffer(nonce, dtype="<u4")
    return np.frombuffer(chacha20_blocks(key, tails).astype("<u4").tobytes(), dtype=np.uint8)[:n_bytes]


def chacha20_words(n: int, key: bytes, first: int = 0) -> np.ndarray:
    """Element words first .. first + n - 1 as uint64 (csrc/noise/chacha20.h)."""
    groups = np.arange(first // 128, -(-(first + n) // 128))
    blocks = (groups[:, None] * 16 + np.arange(16)).reshape(-1).astype(np.uint64)
    tails = np.zeros((len(blocks), 4), dtype=np.uint32)
    tails[:, 0] = blocks & np.uint64(0xFFFFFFFF)
    tails[:, 1] = blocks >> np.uint64(32)
    # (group, block, state word) -> (group, state word, block): pairs of blocks make 64 bits.
    words = chacha20_blocks(key, tails).reshape(len(groups), 16, 16).transpose(0, 2, 1).astype(np.uint64)
    pairs = (words[:, :, 0::2] | words[:, :, 1::2] << np.uint64(32)).reshape(-1)
    return pairs[first % 128 : first % 128 + n]


def box_muller(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the two standard normals of each pair of words, float64."""
    upper = u >> np.uint64(63) == 1
    # 1 - U is exact where U is near 1; the half stands for the bits not drawn.
    gap = (~u).astype(np.float64) + 0.5
    minus_log = np.where(upper, -np.log1p(-np.where(upper, gap, 0.0) * 2.0**-64), -np.log((u + 0.5) * 2.0**-64))
    angle = np.pi / 4 + np.pi / 2 * ((v << np.uint64(2)).view(np.int64) * 2.0**-64)
    radius = np.sqrt(2 * minus_log)
    cosine = np.where(v >> np.uint64(63) & np.uint64(1), -radius, radius) * np.cos(angle)
    sine = np.where(v >> np.uint64(62) & np.uint64(1), -radius, radius) * np.sin(angle)
    return cosine, sine


def _pairs(n: int, key: bytes, first: int) -> tuple[np.ndarray, np.ndarray, slice]:
    """Return whole groups' words, and the elements' place among them.

    The words u and v are (m, 8) each; the slice has elements first .. first + n - 1.
    """
    start = first // 128 * 128
    words = chacha20_words(-(-(first + n) // 128) * 128 - start, key, start).reshape(-1, 2, 8)
    return words[:, 0], words[:, 1], slice(first - start, first - start + n)


def gaussian_elements(n: int, key: bytes, first: int = 0) -> np.ndarray:
    """Compute n standard normals of a key from element ``first``, float64."""
    u, v, part = _pairs(n, key, first)
    return np.stack(box_muller(u, v), axis=1).reshape(-1)[part]


def gaussian_exact(u: int, v: int, index: int, scale: float) -> int:
    """Round one element, from the head words of its pair.

    Within 2^-46 scales of the truth: only the head words count here, and the kernel draws more bits if it must.
    """
    normals = box_muller(np.array([u], dtype=np.uint64), np.array([v], dtype=np.uint64))
    return int(np.rint(scale * normals[index >> 3 & 1][0]))


def gaussian_flagged(n: int, key: bytes, scale: float, first: int = 0) -> np.ndarray:
    """List the elements that the fast path hands on, int64."""
    u, v, part = _pairs(n, key, first)
    tail = (u < FEW_BITS[0]) | (u > FEW_BITS[1])
    x = scale * np.stack(box_muller(u, v), axis=1)
    flags = tail[:, None] | (np.abs(x - np.rint(x)) > 0.5 - scale * GUARD)
    return first + np.flatnonzero(flags.reshape(-1)[part])


def int64_check(limit: int, x: np.ndarray) -> None:
    """Raise OverflowError if an entry is beyond +-limit."""
    if any(abs(int(entry)) > limit for entry in x):
        raise OverflowError("an entry is beyond the limit")


def rounded_gaussian(
    scale: float, size: int | tuple[int, ...], *, unsafe_test_key: bytes, n_threads: int = 1
) -> np.ndarray:
    """See `vips_fast.kernels.rounded_gaussian`; a key must be given."""
    n = math.prod(size) if isinstance(size, tuple) else size
    return np.rint(scale * gaussian_elements(n, unsafe_test_key)).astype(np.int64).reshape(size)


def add_rounded_gaussian(sums: np.ndarray, scale: float, *, unsafe_test_key: bytes, n_threads: int = 1) -> None:
    """See `vips_fast.kernels.add_rounded_gaussian`; a key must be given."""
    sums += rounded_gaussian(scale, sums.shape, unsafe_test_key=unsafe_test_key)


def symmetric_gaussian(
    matrix: np.ndarray, scale: float, *, form: str = "orthonormal", unsafe_test_key: bytes, n_threads: int = 1
) -> None:
    """See `vips_fast.kernels.symmetric_gaussian`; a key must be given."""
    d = len(matrix)
    rows, columns = np.triu_indices(d)
    scales = np.where((rows == columns) | (form == "analyze_gauss"), scale, scale * math.sqrt(0.5))
    noise = np.zeros((d, d), dtype=np.int64)
    noise[rows, columns] = np.rint(scales * gaussian_elements(len(rows), unsafe_test_key)).astype(np.int64)
    noise += np.triu(noise, 1).T
    matrix += noise


def symmetric_check(row_begin: int, row_end: int, limit: int, matrix: np.ndarray) -> bool:
    """Tell whether rows of the upper triangle equal their mirror images.

    Raises OverflowError if an entry of these is beyond +-limit.
    """
    upper, lower = np.triu(matrix)[row_begin:row_end], np.tril(matrix).T[row_begin:row_end]
    if not (upper == lower).all():
        return False
    int64_check(limit, upper.reshape(-1))
    return True
