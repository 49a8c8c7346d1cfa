"""Shared by the benches: paired timing in one process, real data."""

import statistics
import sys

import pytest
from common import DATA
from timing import median_ratios, paired_times


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets (VIPS_FAST_DATA); skips if it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"real data not found: set VIPS_FAST_DATA (looked in {DATA.name}/)")
    return DATA


@pytest.fixture
def paired(benchmark):
    """Time ``ours`` and its peers in turn; record the ratios peer / ours.

    ``paired(ours, peers, work, rounds)``: ``peers`` maps a name to a callable, ``work`` describes each call in words,
    and ``rounds`` is the least number of them (`timing.paired_times`). The ratios go to ``extra_info["ratios"]``, which
    bench/compare.py holds against the baseline.
    """

    def run(ours, peers, work, rounds=5, scale=None):
        """scale: {peer: multiple of our work in the peer's call}, 1 if absent."""
        times = paired_times(ours, peers, rounds=rounds, scale=scale)
        benchmark.pedantic(ours, rounds=max(3, rounds), warmup_rounds=0)
        ratios = median_ratios(times)
        benchmark.extra_info.update(
            work=work, ratios=ratios, medians={name: statistics.median(t) for name, t in times.items()}
        )
        lines = [f"\n{work}: ours {statistics.median(times['ours']) * 1e3:.4g} ms"]
        lines += [f"    {ratio:8.2f} x {name}" for name, ratio in ratios.items()]
        print("\n".join(lines), file=sys.__stdout__, flush=True)
        return ratios

    return run
