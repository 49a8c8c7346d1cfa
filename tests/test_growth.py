"""Counted work grows as docs/growth.md says: calls and memory, which do not depend on the machine."""

import json
import sys
import tracemalloc
import warnings

import growth
import pytest

ROWS = json.loads(growth.PATH.read_text())


def counted(fit):
    fit()
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        fit()
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize(
    "make, sizes",
    [
        (lambda n: growth.topics(n, 500, 5), (2000, 16_000)),
        (lambda n: growth.topics(500, 500, n), (16, 128)),
        (lambda n: growth.topics(500, n, 5), (5000, 40_000)),
        (lambda n: growth.topics(2 * n, 500, 5, persons=n), (1000, 8000)),
        (lambda n: growth.topics(500, 500, 5, n_steps=n), (12, 96)),
        (lambda n: growth.regression(n, 5), (2000, 16_000)),
        (lambda n: growth.regression(2000, n), (5, 40)),
    ],
    ids=["documents", "topics", "words", "persons", "steps", "rows", "columns"],
)
def test_calls_and_memory_grow_at_most_linearly(make, sizes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, large = (counted(make(size)) for size in sizes)
    for few, many in zip(small, large, strict=True):
        assert many <= 1.1 * few * sizes[1] / sizes[0]


def test_the_page_has_the_stored_rows():
    page = (growth.PATH.parent.parent / "docs" / "growth.md").read_text(encoding="utf-8")
    assert growth.table(ROWS) in page
    assert {row["grows"] for row in ROWS} == set(growth.SIZES)
    slopes = {row["grows"]: growth.exponent(row["seconds"], row["sizes"]) for row in ROWS}
    assert all(slope < (1.5 if grows == "columns" else 1.15) for grows, slope in slopes.items()), slopes
