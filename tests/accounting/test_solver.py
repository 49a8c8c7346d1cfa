"""The solvers of monotone functions. Every answer is on the safe side, and close to the other one."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from vips_fast.accounting import solver


@pytest.mark.parametrize("largest", [0, 1, 2, 6, 7])
def test_the_largest_integer_is_found_with_few_questions(largest):
    asked = []

    def holds(n):
        asked.append(n)
        return n <= largest

    assert solver.find_integer(holds, 0, 7) == largest
    assert asked[0] == 7 and len(asked) <= 4
    assert 0 not in asked and len(set(asked)) == len(asked)


@pytest.mark.parametrize(("unsafe", "safe"), [(0.0, 10.0), (10.0, 0.0)])
@pytest.mark.parametrize("root", [1e-12, 0.3, 7.5, 10.0])
def test_a_threshold_is_safe_and_close_from_either_side(unsafe, safe, root):
    def holds(x):
        return x >= root if safe > unsafe else x < root

    found = solver.find_threshold(holds, unsafe, safe, rtol=1e-9)
    assert holds(found) or found == safe
    assert abs(found - root) <= 1.01e-9 * root


def test_a_threshold_without_tolerance_ends_at_the_next_double():
    root = math.pi
    found = solver.find_threshold(lambda x: x >= root, 0.0, 4.0)
    assert found == root
    assert solver.find_threshold(lambda x: x > root, 0.0, 4.0) == math.nextafter(root, 4.0)


@pytest.mark.parametrize("seed", range(20))
def test_a_condition_that_is_not_quite_monotone_still_ends_on_its_safe_side(seed):
    """As an accountant's rounding makes it near the threshold. The answer has been tried, and held."""
    noise = np.random.default_rng(seed)
    held = set()

    def holds(x):
        true = x + noise.normal(0, 1e-3) >= 1.0
        if true:
            held.add(x)
        return true

    assert solver.find_threshold(holds, 0.0, 8.0, rtol=1e-9) in held
    held.clear()
    assert solver.find_integer(lambda n: not holds(n / 1000), 0, 8000) / 1000 not in held


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize(
    "f", [lambda x: 2.0 - x, lambda x: math.exp(-x) - math.exp(-2.0), lambda x: math.inf if x < 1.0 else 2.0 - x]
)
def test_a_root_is_left_on_the_right(f, tol):
    low, found, at_low, at_found = solver.close_bracket(f, 0.0, 50.0, f(0.0), f(50.0), tol)
    assert at_found == f(found) <= 0.0 and f(found - 1.001 * tol) > 0.0
    assert at_low == f(low) > 0.0 and found - low <= tol


def test_brackets_are_halved_together():
    roots = np.array([[0.1, 0.5], [2.0, 3.999]])
    low, high = solver.halve_brackets(lambda x: x < roots, np.zeros((2, 2)), np.full((2, 2), 4.0), 30)
    assert np.all((low < roots) & (roots <= high))
    np.testing.assert_array_equal(high - low, 4.0 * 2.0**-30)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2.0 - x * x * x,
        lambda x: math.exp(-3.0 * x) - 0.3,
        lambda x: math.tanh(9.0 * (1.5 - x)) + 0.1,
        lambda x: 1.0 if x < 1.2345 else -1e-9,
        lambda x: float(round(4.0 * (1.7 - x))),
    ],
)
@pytest.mark.parametrize("ends", [(0.0, 4.0), (4.0, -1.0), (1e-3, 1e3)])
def test_brents_method_takes_the_steps_of_scipy(f, ends):
    here, there = ([], [])
    found = solver.brent_root(lambda x: here.append(x) or f(x), *ends, 1e-15 * ends[1] ** 2, 1e-14)
    assert found == brentq(lambda x: there.append(x) or f(x), *ends, xtol=1e-15 * ends[1] ** 2, rtol=1e-14, maxiter=300)
    assert here[: len(there)] == there


def test_brents_method_ends_without_a_root():
    asked = []
    solver.brent_root(lambda x: asked.append(x) or math.nan, 0.0, 1.0, 1e-15, 1e-14)
    assert len(asked) <= 302
