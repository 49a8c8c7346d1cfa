"""ChaCha20 and rounded Gaussian noise. Vectors, bits, ranges, threads, keys and bad input."""

import math
import pickle

import numpy as np
import pytest

from vips_fast.kernels import add_rounded_gaussian, native, noise, rounded_gaussian

ISAS = native.isas_available()
KEY = bytes(range(100, 132))
MAX = 2**63 - 1

#: RFC 8439, appendix A.1 and section 2.3.2: key, nonce, counter, keystream.
BLOCKS = [
    (
        bytes(32),
        bytes(12),
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(range(32)),
        bytes.fromhex("000000090000004a00000000"),
        1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("key, nonce, counter, stream", BLOCKS)
def test_rfc8439_blocks(isa, key, nonce, counter, stream):
    out = np.empty(64, dtype=np.uint8)
    native.chacha20_fill(native.Key(key), nonce, counter, out, isa)
    assert out.tobytes().hex() == stream


def test_a_keystream_ends_with_its_last_block():
    native.chacha20_fill(native.Key(KEY), bytes(12), 2**32 - 1, np.empty(64, dtype=np.uint8))
    with pytest.raises(RuntimeError, match="size"):
        native.chacha20_fill(native.Key(KEY), bytes(12), 2**32 - 1, np.empty(65, dtype=np.uint8))


@pytest.mark.parametrize("scale", [1e-300, 0.004, 0.4, 1.0, 50.0, 3e5, 2.0**22, 2.0**23 - 1, 1e10, 2.0**35])
def test_same_bits_on_every_instruction_set(scale):
    # At 2^35 one draw in 64 takes the exact path, at 1e-300 none is not 0.
    n = 200_000 if scale < 1e8 else 20_000
    first = rounded_gaussian(scale, n, unsafe_test_key=KEY, isa=ISAS[0])
    for isa in ISAS[1:]:
        np.testing.assert_array_equal(rounded_gaussian(scale, n, unsafe_test_key=KEY, isa=isa), first)
    if scale < 0.005:
        assert not first.any()
    else:
        assert first.any()


@pytest.mark.parametrize("isa", ISAS)
def test_any_split_of_the_range_gives_the_same_draws(isa):
    n, scale = 1500, 2.0**22.5
    whole = rounded_gaussian(scale, n, unsafe_test_key=KEY, isa=isa)
    key = native.Key(KEY)
    rng = np.random.default_rng(1)
    for _ in range(40):
        a, b = sorted(rng.choice(n + 1, 2, replace=False).tolist())
        part = np.empty(b - a, dtype=np.int64)
        native.rounded_gaussian(key, a, scale, part, isa)
        np.testing.assert_array_equal(part, whole[a:b])
        part[:] = np.arange(a, b)
        native.add_rounded_gaussian(key, a, scale, part, isa)
        np.testing.assert_array_equal(part, whole[a:b] + np.arange(a, b))


def test_shapes_and_dtype():
    flat = rounded_gaussian(9.5, 60, unsafe_test_key=KEY)
    assert flat.dtype == np.int64 and flat.shape == (60,)
    np.testing.assert_array_equal(rounded_gaussian(9.5, (3, 4, 5), unsafe_test_key=KEY), flat.reshape(3, 4, 5))
    np.testing.assert_array_equal(rounded_gaussian(np.float64(9.5), np.int64(60), unsafe_test_key=bytearray(KEY)), flat)
    sums = np.ones((3, 20), dtype=np.int64)
    assert add_rounded_gaussian(sums, 9.5, unsafe_test_key=memoryview(KEY)) is None
    np.testing.assert_array_equal(sums, 1 + flat.reshape(3, 20))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_range_guard_of_sums(n_threads):
    scale = 2.0**30
    n = 3 * noise.BLOCK if n_threads > 1 else 300
    limit = MAX - int(noise.REACH * scale) - 1
    for sign in (1, -1):
        sums = np.zeros(n, dtype=np.int64)
        sums[-1] = sign * limit
        add_rounded_gaussian(sums, scale, unsafe_test_key=KEY, n_threads=n_threads)
        expected = rounded_gaussian(scale, n, unsafe_test_key=KEY)
        expected[-1] += sign * limit
        np.testing.assert_array_equal(sums, expected)

        before = np.zeros(n, dtype=np.int64)
        before[-1] = sign * (limit + 1)
        sums = before.copy()
        with pytest.raises(ValueError, match="sums: an entry is so large"):
            add_rounded_gaussian(sums, scale, unsafe_test_key=KEY, n_threads=n_threads)
        np.testing.assert_array_equal(sums, before)
    sums = np.full(1, -MAX - 1)
    with pytest.raises(ValueError, match="sums: an entry is so large"):
        add_rounded_gaussian(sums, 1.0)


def draw(scale=1.0, size=3, **options):
    return rounded_gaussian(scale, size, **options)


def add_to(sums, scale=1.0):
    add_rounded_gaussian(sums, scale)


SUMS = np.zeros((4, 4), dtype=np.int64)
READ, OFF = np.frombuffer(bytes(24), dtype=np.int64), np.frombuffer(bytearray(25), dtype=np.uint8)[1:].view(np.int64)
#: The call, the error and what its message names, and bad values of the argument.
BAD = [
    (lambda x: draw(scale=x), ValueError, "scale=", [0, -1.0, math.nan, math.inf, -math.inf, 2.0**50 * (1 + 2**-52)]),
    (lambda x: add_to(np.zeros(3, np.int64), x), ValueError, "scale=", [0, -1.0, math.nan, math.inf, 1e300]),
    (lambda x: draw(scale=x), OverflowError, "too large", [10**400]),
    (lambda x: draw(scale=x), TypeError, "scale=", ["1", None, 1j, True, np.array([1.0])]),
    (lambda x: draw(size=x), ValueError, "size=", [0, -1, (), (3, 0), 2**49, (2**40, 2**40)]),
    (lambda x: draw(size=x), TypeError, "size=", [1.5, "3", True, None]),
    (lambda x: draw(n_threads=x), ValueError, "n_threads=0", [0]),
    (add_to, TypeError, "got list|float64|int32|>i8", [[1, 2], *(np.zeros(3, dtype) for dtype in ("d", "i4", ">i8"))]),
    (add_to, ValueError, "at least one", [np.zeros(0, np.int64)]),
    (add_to, ValueError, "C-contiguous|writeable|aligned", [SUMS.T[::2], np.broadcast_to(SUMS[0], (3, 4)), READ, OFF]),
]


def test_bad_input_is_named_before_a_key_is_drawn(no_key):
    for call, error, match, values in BAD:
        for value in values:
            with pytest.raises(error, match=match):
                call(value)


@pytest.mark.parametrize(
    "key, error", [(b"short", ValueError), (bytes(33), ValueError), ("x" * 32, TypeError), (7, TypeError)]
)
def test_bad_test_key_is_refused_and_not_shown(key, error, no_key):
    with pytest.raises(error, match="unsafe_test_key: expected 32 bytes") as info:
        rounded_gaussian(1.0, 3, unsafe_test_key=key)
    assert "short" not in str(info.value) and "xxx" not in str(info.value)


def test_unknown_instruction_set():
    with pytest.raises(ValueError, match="isa='sse9'"):
        draw(isa="sse9")


def test_key_is_unusable_once_wiped_and_never_copied():
    out = np.empty(3, dtype=np.int64)
    with native.Key(KEY) as key:
        native.rounded_gaussian(key, 0, 1.0, out)
    with pytest.raises(RuntimeError, match="wiped"):
        native.rounded_gaussian(key, 0, 1.0, out)
    with pytest.raises(TypeError):
        pickle.dumps(native.Key())


def test_wipe_zeroes_the_key():
    """The key's 32 bytes in memory, before and after."""
    import ctypes

    key = native.Key(KEY)
    memory = (ctypes.c_char * key.__sizeof__()).from_address(id(key))
    assert KEY in memory.raw
    key.wipe()
    assert KEY not in memory.raw and bytes(32) in memory.raw


def test_every_call_takes_a_key_of_its_own():
    draws = [rounded_gaussian(2.0**40, 4).tobytes() for _ in range(200)]
    sums = [np.zeros(4, dtype=np.int64) for _ in range(200)]
    for s in sums:
        add_rounded_gaussian(s, 2.0**40)
    assert len(set(draws) | {s.tobytes() for s in sums}) == 400
