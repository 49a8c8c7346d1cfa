"""Coverage of the logistic regression's intervals over sizes, noise, correlations and bounds: bench/intervals.py."""

import importlib.util
import warnings
from pathlib import Path

import pytest

from vips_fast import BayesianLogisticRegression

PATH = Path(__file__).resolve().parents[2] / "bench" / "intervals.py"
spec = importlib.util.spec_from_file_location("bench_intervals", PATH)
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)

pytestmark = pytest.mark.filterwarnings("ignore:(effects|row_norm)")


@pytest.mark.parametrize(
    ("n", "epsilon", "columns", "rho", "row_norm", "steps"),
    [
        (22_500, 1.0, 25, 0.3, 1.5, 20),  # the noise of the second moments is of their own size
        (10_000, 1.0, 15, 0.8, 1.0, 20),
        (4_000, 10.0, 15, 0.0, 2.0, 10),
        (2_000, 3.0, 12, 0.3, 1.0, 20),
        (50_000, 3.0, 5, 0.0, 2.0, 5),  # .92 and a slope of .92 if the gradient is taken for linear
        (50_000, 10.0, 12, 0.8, 1.0, 5),
    ],
)
def test_coverage_where_effects_are_known(n, epsilon, columns, rho, row_norm, steps):
    """Count 40 to 200 intervals of eight data sets, with fixed noise."""
    found = coverage.run_cell(8, n, epsilon, columns, rho, row_norm, steps)
    assert found["known"] > 0.97
    assert 0.82 < found["coverage"] < 0.98
    assert 0.9 < found["slope"] < 1.1


def test_small_data_that_say_nothing_say_so():
    """Intervals are wide, few effects are called known, and the fit names the others."""
    found = coverage.run_cell(8, 2_000, 0.1, 12, 0.8, 1.0, 5)
    assert found["known"] < 0.2 and found["all"] > 0.82
    X, y, _ = coverage.simulate(0, 2_000, 12, 0.8, 1.0)
    model = BayesianLogisticRegression(epsilon=0.1, delta=1e-6, n_steps=5, n_jobs=1).set_unsafe(test_key=b"n" * 32)
    with pytest.warns(UserWarning, match="effects: the data say nothing about .* of 12 at this epsilon"):
        model.fit(X, y)


def test_rows_that_may_be_clipped_are_never_silent():
    """Find long rows in the releases, or say that the noise hides them; say nothing of short ones."""
    X, y, _ = coverage.simulate(0, 4_000, 5, 0.0, 1.0)
    for scale, epsilon, said in ((3, 10.0, "were scaled down"), (3, 0.05, "the noise hides"), (0.5, 10.0, "")):
        model = BayesianLogisticRegression(epsilon=epsilon, delta=1e-6, n_jobs=1).set_unsafe(test_key=b"r" * 32)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(scale * X, y)
        texts = [str(one.message) for one in found if "row_norm=1" in str(one.message)]
        assert len(texts) == bool(said) and all(said in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell", list(coverage.cells(coverage.GRID)), ids=lambda cell: "-".join(map(str, cell.values()))
)
def test_coverage_over_the_grid(cell):
    """Hold known effects to .86 to .94, give or take three standard errors; and all to no less."""
    found = coverage.run_cell(40, **cell)
    if found["known"] > 0.9:
        assert 0.86 - 3 * found["se"] < found["coverage"] < 0.94 + 3 * found["se"]
        assert 0.9 < found["slope"] < 1.1
    assert found["all"] > 0.78
