"""The named accountants, calibration, and the paper's table."""

import doctest
import math
import subprocess
import sys
from pathlib import Path

import epsilon_table
import numpy as np
import pytest
from events import fixed, poisson
from peers.attacks import epsilon_lower_bound
from peers.wang import WANG

from vips_fast import accounting as acc
from vips_fast.accounting import accountants, events, solver
from vips_fast.models.logistic.paper import replace_one_bound

LDA = fixed(20000, 400000, 1.24, 20)
EVENTS = {
    "poisson": poisson(0.05, 1.24, 20),
    "without replacement": LDA,
    "gaussian": acc.SelfComposedEvent(acc.GaussianEvent(10.0), 20),
    "laplace": acc.SelfComposedEvent(acc.LaplaceEvent(10.0), 20),
    "response": acc.SelfComposedEvent(acc.RandomizedResponseEvent(0.6, 3), 5),
    "sampled laplace": acc.SelfComposedEvent(acc.PoissonSampledEvent(0.1, acc.LaplaceEvent(2.0)), 30),
    "two fits": acc.ComposedEvent([LDA, fixed(4, 1000, 1.25, 100)]),
    "fit and release": acc.ComposedEvent([LDA, acc.GaussianEvent(5.0, "replace_one")]),
    "statement": acc.ComposedEvent([acc.ApproximateDPEvent(0.1, 1e-6), acc.ApproximateDPEvent(0.3, 0.0)]),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_every_accountant_is_above_the_attack(event):
    """Each says what it refuses, its delta inverts its epsilon, and the default is the best of all."""
    low, values = epsilon_lower_bound(event, 1e-4), {}
    for name in acc.ACCOUNTANTS:
        try:
            value = values[name] = acc.epsilon(event, 1e-4, name)
        except ValueError as error:
            assert "use accountant=" in str(error), name
            continue
        assert value >= low > 0, name
        # delta falls by about e^(-slope rtol eps) within epsilon's accuracy.
        assert value > 5 or 1e-4 * 0.9 <= acc.delta(event, value, name) <= 1e-4 * 1.05, name
    best = acc.epsilon(event, 1e-4)
    # The default is the best, up to its accuracy of 1e-4.
    assert best == values[acc.default_accountant(event)] <= min(values.values()) * (1 + 2e-4)


@pytest.mark.parametrize("name", acc.ACCOUNTANTS)
def test_every_accountant_states_a_published_value(name):
    """Its class holds an example, which comes out as stated."""
    kind = type(acc.ACCOUNTANTS[name])
    examples = doctest.DocTestFinder(recurse=False).find(kind, name, globs={})
    assert examples[0].examples
    for example in examples:
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("module", [solver, events])
def test_the_examples_of_a_module(module):
    assert doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted


def test_the_page_has_a_row_for_every_accountant():
    page = (Path(acc.__file__).resolve().parents[2] / "docs" / "accounting.md").read_text("utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set(acc.ACCOUNTANTS) <= set(rows)


OPEN = acc.ComposedEvent([acc.GaussianEvent(1.0), acc.NonPrivateEvent()])


@pytest.mark.parametrize(
    "event, epsilon, delta",
    [
        (acc.ComposedEvent([]), 0.0, 0.0),
        (acc.SelfComposedEvent(acc.GaussianEvent(1.0), 0), 0.0, 0.0),
        (acc.SelfComposedEvent(acc.ApproximateDPEvent(0.0, 0.0), 10), 0.0, 0.0),
        (poisson(0.0, 1.0, 5), 0.0, 0.0),
        (acc.ApproximateDPEvent(0.0, 1.0), math.inf, 1.0),
        (OPEN, math.inf, 1.0),
        (acc.PoissonSampledEvent(0.1, acc.NonPrivateEvent()), math.inf, 1.0),
    ],
)
def test_nothing_and_everything(event, epsilon, delta):
    assert acc.epsilon(event, 1e-5) == epsilon
    assert acc.delta(event, 5.0 * delta) == delta
    assert epsilon_lower_bound(event, 1e-5) == epsilon


def test_what_costs_nothing_or_has_a_form_of_its_own():
    assert acc.renyi_divergence(poisson(0.0, 1.0), 2.0) == 0.0
    whole, how = acc.GaussianEvent(2.0, "replace_one"), dict(orders=np.arange(2, 257), conversion="classical")
    assert acc.epsilon(fixed(7, 7, 2.0), 1e-5, WANG, **how) == acc.epsilon(whole, 1e-5, "rdp", **how)


@pytest.mark.parametrize("accountant", [None, "rdp", WANG])
def test_calibrated_noise_is_the_smallest(accountant):
    def make(z):
        return fixed(50, 1000, z, 20)

    z = acc.calibrate_noise_multiplier(make, 2.0, 1e-5, accountant)
    assert acc.epsilon(make(z), 1e-5, accountant) <= 2.0
    assert acc.epsilon(make(z * 0.998), 1e-5, accountant) > 2.0


@pytest.mark.parametrize("rtol", [1e-6, 1e-3, 1e-2])
def test_few_exact_answers_calibrate(rtol, monkeypatch):
    asked = []

    def counted(event, delta, accountant, **options):
        asked.append(options["rtol"])
        return acc.epsilon(event, delta, accountant, **options)

    monkeypatch.setattr("vips_fast.accounting.calibration.epsilon_of", counted)
    z = acc.calibrate_noise_multiplier(lambda z: poisson(0.01, z, 1000), 1.5, 1e-5, rtol=rtol)
    exact = min(asked)
    assert exact == min(1e-4, 0.1 * rtol)
    assert asked.count(exact) <= (3 if rtol >= 1e-3 else 6)
    assert acc.epsilon(poisson(0.01, z, 1000), 1e-5, rtol=exact) <= 1.5
    assert acc.epsilon(poisson(0.01, z * (1.0 - 1.01 * rtol), 1000), 1e-5, rtol=exact) > 1.5


def test_calibration_extremes():
    def gaussian(z):
        return acc.GaussianEvent(z)

    for eps in (1e-4, 200.0):
        z = acc.calibrate_noise_multiplier(gaussian, eps, 1e-6)
        exact = acc.gaussian_noise_multiplier(eps, 1e-6)
        assert exact <= z <= exact * (1 + 1.1e-3)
    with pytest.raises(ValueError, match="no noise multiplier"):
        acc.calibrate_noise_multiplier(lambda z: acc.ComposedEvent([gaussian(z), acc.NonPrivateEvent()]), 1.0, 1e-5)


def test_calibration_composes_the_run():
    """`count` events and the one before meet the target together; one that is spent already is refused."""
    assert acc.calibrate_noise_multiplier(acc.GaussianEvent, 1.0, 1e-5, count=9) == acc.calibrate_noise_multiplier(
        lambda z: acc.SelfComposedEvent(acc.GaussianEvent(z), 9), 1.0, 1e-5
    )
    before = acc.GaussianEvent(6.0)
    z = acc.calibrate_noise_multiplier(acc.GaussianEvent, 1.0, 1e-5, count=9, before=before)
    together = acc.ComposedEvent((before, acc.SelfComposedEvent(acc.GaussianEvent(z), 9)))
    assert 0.998 < acc.epsilon(together, 1e-5) <= 1.0
    with pytest.raises(ValueError, match=r"epsilon=0.5: expected more than 0\.[56]"):
        acc.calibrate_noise_multiplier(acc.GaussianEvent, 0.5, 1e-5, before=before)


#: For each printed epsilon: the paper's accountant, its tight conversion, Poisson sampling, ours, and the true one.
FIGURES = [
    (2.3826, 1.904, 0.932, 0.984, 2.1614),
    (1.345, 0.953, 0.392, 0.442, 0.37),
    (1.743, 1.313, 0.634, 0.692, 0.57),
    (2.448, 1.907, 1.009, 1.074, 0.89),
    (3.368, 2.743, 1.543, 1.614, 1.35),
    (0.816, 0.455, 0.108, 0.12913, 0.0794),
    (0.052, 0.042, 0.0046, 0.00509, 0.00317),
    (0.0258, 0.036, 0.0007, 0.00083, 0.000178),
]


@pytest.mark.parametrize(
    ("number", "figures"),
    [
        pytest.param(number, figures, marks=[] if number in (0, 1, 5) else [pytest.mark.slow])
        for number, figures in enumerate(FIGURES)
    ],
)
def test_paper_table(number, figures):
    row = epsilon_table.paper_row(epsilon_table.SETTINGS[number])
    got = (row.wang, row.wang_tight, row.poisson, row.tight)
    np.testing.assert_allclose(got[:3], figures[:3], atol=6e-4)
    np.testing.assert_allclose(got[3], figures[3], atol=1.2e-5 if number > 4 else 6e-4)
    np.testing.assert_allclose(row.true_high, figures[4], rtol=5e-3, atol=0 if number > 4 else 6e-3)
    if number == 0:
        assert row.wang == pytest.approx(2.3826, abs=5e-5) and row.true_high == pytest.approx(2.1614, abs=5e-4)
        assert row.true_low == pytest.approx(2.07, abs=0.012)
        assert (row.noise_ours, row.noise_theirs) == (pytest.approx(0.843, abs=1e-3), pytest.approx(1.241, abs=2e-3))
    # The printed digits are cut off, not rounded; only 3.34 differs from the accountant.
    agrees = epsilon_table.cut(row.wang, row.setting.printed) == f"{row.setting.printed:g}"
    assert agrees != (row.setting.printed == 3.34)
    assert row.true_low <= row.true_high and row.noise_ours < row.noise_theirs


@pytest.mark.parametrize("c1, c2", [(2.0, 0.5), (1.0, 0.5), (1.0, math.sqrt(2) / 4)])
def test_blr_joint_sensitivity_is_the_proven_one(c1, c2):
    """That of `audit/test_proofs.py`."""
    assert epsilon_table.blr_joint_sensitivity(c1, c2) == pytest.approx(replace_one_bound(0.5 / c1, 0.25 / c2))


def test_import_is_light():
    code = """
import pkgutil, sys, types
package = types.ModuleType("vips_fast")
package.__path__ = [sys.argv[1]]
sys.modules["vips_fast"] = package
import vips_fast.accounting as acc
for module in pkgutil.walk_packages(acc.__path__, "vips_fast.accounting."):
    __import__(module.name)
loaded = set(sys.modules)
heavy = {"scipy", "autodp", "dp_accounting", "matplotlib", "sklearn", "mpmath", "numba"} & loaded
other = {name for name in loaded if name.startswith("vips_fast.") and not name.startswith("vips_fast.accounting")}
other -= {"vips_fast.checks", "vips_fast.store", "vips_fast.store.words"}  # which import nothing of the package
assert not heavy | other, heavy | other
"""
    folder = Path(acc.__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_asking_again_costs_nothing():
    event = poisson(0.03, 1.1, 123)
    cache = accountants._answer
    first = acc.epsilon(event, 1e-5), acc.delta(event, 1.0), acc.epsilon(event, 1e-5, "rdp")
    before = cache.cache_info()
    again = poisson(0.03, 1.1, 123)
    assert (acc.epsilon(again, 1e-5), acc.delta(again, 1.0), acc.epsilon(again, 1e-5, "rdp")) == first
    after = cache.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (3, 0)
    # Each question is its own: neither the quantity, the accountant nor its options are mixed up.
    assert len({*first, acc.epsilon(event, 1.0 - 1e-5), acc.epsilon(event, 1e-5, "rdp", conversion="classical")}) == 5
    assert after.maxsize is not None and after.maxsize <= 1024
    # Arrays cannot be looked up and are answered all the same.
    assert acc.epsilon(event, 1e-5, "rdp", orders=np.array([8.0])) == acc.epsilon(event, 1e-5, "rdp", orders=(8.0,))
