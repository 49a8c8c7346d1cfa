"""Work that is handed out in chunks is done once, whole and in order; no bit depends on the number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from inputs import network, topics
from threadpoolctl import threadpool_info, threadpool_limits

from vips_fast.kernels import (
    add_rounded_gaussian,
    lda_estep,
    pg_mean,
    rounded_gaussian,
    sbn_pg,
    sbn_quadratic,
    symmetric_gaussian,
)
from vips_fast.kernels.logistic import PG_CHUNK
from vips_fast.kernels.noise import BLOCK
from vips_fast.kernels.threads import map_chunks, one_blas_thread, run_blocks


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_chunks_cover_everything_once_and_in_order(n_threads):
    for n in (0, 1, 511, 512, 513, 1700):
        found = map_chunks(n, 512, n_threads, lambda first, last, worker: range(first, last))
        assert [place for part in found for place in part] == list(range(n))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_block_is_raised_and_ends_the_work(n_threads):
    done = []

    def work(block, worker):
        if block == 5:
            raise ZeroDivisionError
        done.append(block)

    with pytest.raises(ZeroDivisionError):
        run_blocks(1000, n_threads, work)
    assert len(done) < 1000


rng, KEY = np.random.default_rng(4), bytes(range(100, 132))
P, SYMMETRIC = network(rng, 1400, 23, 9), rng.integers(0, 2**40, (333, 333))
GRAM = 0.25 * P["w"].T @ P["w"]
C = rng.normal(0, 20, 3 * PG_CHUNK + 5)
COUNTS, BETA = sp.csr_array(rng.poisson(0.3, (400, 300))), topics(rng, 12, 300)


def in_place(c, n_threads):
    """An output that overlaps its input."""
    shifted = np.append(0.0, c)
    pg_mean(shifted[1:], out=shifted[:-1], b=3.0, n_threads=n_threads)
    return shifted[:-1]


def added(add, sums, scale, **options):
    add(out := sums.copy(), scale, **options)
    return out


#: Every entry that takes a number of threads.
ENTRIES = {
    "lda_estep": lambda n: lda_estep(COUNTS.indptr, COUNTS.indices, COUNTS.data, BETA, 0.1, clip_norm=9.0, n_threads=n),
    "sbn_pg": lambda n: sbn_pg(**P, n_threads=n),
    "sbn_quadratic": lambda n: sbn_quadratic(P["y"], P["w"], GRAM, P["b"], P["start"], n_threads=n),
    "pg_mean": lambda n: pg_mean(C, b=3.0, n_threads=n),
    "pg_mean, float32": lambda n: pg_mean(C.astype(np.float32), b=3.0, n_threads=n),
    "pg_mean, in place": lambda n: in_place(C, n),
    "rounded_gaussian": lambda n: rounded_gaussian(2.0**23, 5 * BLOCK + 77, unsafe_test_key=KEY, n_threads=n),
    "add_rounded_gaussian": lambda n: added(
        add_rounded_gaussian, np.arange(5 * BLOCK + 77), 2.0**23, unsafe_test_key=KEY, n_threads=n
    ),
    "symmetric_gaussian": lambda n: added(
        symmetric_gaussian, SYMMETRIC + SYMMETRIC.T, 2.0**22.3, unsafe_test_key=KEY, n_threads=n
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_same_bits_for_every_number_of_threads(name):
    one, *others = (ENTRIES[name](n_threads) for n_threads in (1, 2, 3, 7, 16, -1))
    for other in others:
        for a, b in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
            np.testing.assert_array_equal(a, b)


def test_blas_has_one_thread_until_the_last_of_two_fits_needs_it_no_more():
    """The number of BLAS threads is the process's: of two fits in two threads, either may end first."""

    def threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = one_blas_thread(8), one_blas_thread(8, scipy=False)
        first.__enter__()
        second.__enter__()
        assert threads() == {1}
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before
