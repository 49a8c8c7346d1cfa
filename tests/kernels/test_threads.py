"""Work that is handed out in chunks is done once, whole, and given back in order."""

import pytest

from vips_fast.kernels.threads import map_chunks, run_blocks


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
