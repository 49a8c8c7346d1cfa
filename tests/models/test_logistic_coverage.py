"""Coverage of the logistic regression's intervals over sizes, noise, correlations and bounds: bench/intervals.py."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench" / "intervals.py"
spec = importlib.util.spec_from_file_location("bench_intervals", PATH)
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)


@pytest.mark.parametrize(
    ("n", "epsilon", "columns", "rho", "row_norm", "steps"),
    [
        (22_500, 1.0, 25, 0.3, 1.5, 0),  # the noise of the second moments is of their own size
        (22_500, 1.0, 25, 0.3, 1.5, 40),
        (22_500, 0.3, 25, 0.3, 1.5, 0),
        (10_000, 1.0, 15, 0.8, 1.0, 0),
        (4_000, 10.0, 15, 0.0, 2.0, 10),
        (2_000, 1.0, 25, 0.0, 1.0, 0),  # .99 if the first steps count as much as later ones
    ],
)
def test_coverage_where_noise_is_of_the_curvatures_size(n, epsilon, columns, rho, row_norm, steps):
    """Count 180 to 300 intervals of twelve data sets, with fixed noise."""
    found = coverage.run_cell(12, n, epsilon, columns, rho, row_norm, steps)
    assert found["known"] == 1
    assert 0.82 < found["coverage"] < 0.98
    assert 0.9 < found["slope"] < 1.1
