"""Every golden value, of two independent implementations or more, within its file's rtol |value| + atol."""

import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from events import poisson
from peers import theorems
from peers.wang import WANG, wang_rdp

from vips_fast import accounting as acc
from vips_fast.accounting.rdp import epsilon_of_curve


@pytest.fixture(scope="module")
def golden():
    default = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
    path = Path(os.environ.get("VIPS_FAST_DATA", default)).parent / "golden_accounting.json"
    if not path.is_file():
        pytest.skip("golden_accounting.json is not beside the data folder")
    kinds = {}
    for case in json.loads(path.read_text())["cases"]:
        kinds.setdefault(case["kind"], []).append(case)
    return kinds


def without_replacement(q, z, steps=1):
    rate = Fraction(q).limit_denominator(10**6)
    event = acc.WithoutReplacementEvent(rate.numerator, rate.denominator, acc.GaussianEvent(z))
    return acc.SelfComposedEvent(event, steps)


def _steps(make, p):
    return acc.ComposedEvent([make(s["q"], s["sigma"], s["T"]) for s in p["steps"]])


def _conversion(p):
    return "tight" if p["conversion"] == "improved" else "classical"


def _orders(p):
    low, high = map(int, p["orders"].split(".."))
    return np.arange(low, high + 1)


def _gaussians(p):
    return acc.ComposedEvent([acc.SelfComposedEvent(acc.GaussianEvent(z), n) for z, n in p["steps"]])


def _laplace(p):
    return acc.LaplaceEvent(p["scale"] / p["sensitivity"])


def _wang(p, bound):
    return wang_rdp(without_replacement(p["q"], p["sigma"]).event, [p["alpha"]], bound)


def _optimal(epsilons, delta):
    return acc.epsilon(acc.ComposedEvent([acc.ApproximateDPEvent(e) for e in epsilons]), delta, rtol=1e-7)


def _slack(p):
    # 1 - (1 - delta)^k (1 - slack) = delta_total (Kairouz, Oh & Viswanath 2015, theorem 3.3)
    return 1.0 - (1.0 - p["delta_total"]) / (1.0 - p["delta"]) ** p["k"]


def _of(p, names):
    return (p[name] for name in names.split())


COMPUTE = {
    "gaussian_delta": lambda p: acc.gaussian_delta(p["sensitivity"] / p["sigma"], p["eps"]),
    "gaussian_eps": lambda p: acc.gaussian_epsilon(p["sensitivity"] / p["sigma"], p["delta"]),
    "gaussian_sigma": lambda p: p["sensitivity"] * acc.gaussian_noise_multiplier(p["eps"], p["delta"]),
    "gaussian_composition_eps": lambda p: acc.epsilon(_gaussians(p), p["delta"]),
    "zcdp_rho_gaussian": lambda p: theorems.zcdp_rho_gaussian(p["sensitivity"], p["sigma"]),
    "zcdp_eps_simple": lambda p: theorems.zcdp_epsilon(p["rho"], p["delta"], "simple"),
    "zcdp_eps_optimal_alpha": lambda p: theorems.zcdp_epsilon(p["rho"], p["delta"]),
    "zcdp_rho_from_eps": lambda p: theorems.zcdp_rho_for_target(p["eps"], p["delta"]),
    "basic_composition": lambda p: theorems.basic_composition(p["parts"]),
    "strong_composition_DR320": lambda p: theorems.strong_composition(*_of(p, "eps delta k delta_slack")),
    "strong_composition_KOV_simple": lambda p: theorems.kairouz_composition(*_of(p, "eps delta k delta_slack")),
    "kairouz_optimal_homogeneous": lambda p: _optimal([p["eps"]] * p["k"], _slack(p)),
    "optimal_heterogeneous_pure": lambda p: _optimal(*_of(p, "eps_list delta_total")),
    "abadi_script_eps": lambda p: theorems.moments_accountant_epsilon(*_of(p, "q sigma T delta")),
    "subsample_epsdelta": lambda p: theorems.amplify_epsilon_delta(*_of(p, "eps delta q")),
    "group_addremove_to_replace": lambda p: theorems.add_remove_to_replace_one(*_of(p, "eps delta")),
    "laplace_rdp": lambda p: acc.renyi_divergence(_laplace(p), p["alpha"]),
    "laplace_delta": lambda p: acc.delta(_laplace(p), p["eps"], rtol=1e-7),
    "laplace_composition_eps": lambda p: acc.epsilon(acc.SelfComposedEvent(_laplace(p), p["T"]), p["delta"]),
    "rr_rdp": lambda p: acc.renyi_divergence(acc.RandomizedResponseEvent(p["p"]), p["alpha"]),
    "rr_delta": lambda p: acc.delta(acc.RandomizedResponseEvent(p["p"]), p["eps"], rtol=1e-7),
    "rr_kary_eps": lambda p: acc.RandomizedResponseEvent(p["p_true"], p["K"]).epsilon,
    "rr_composition_eps": lambda p: acc.epsilon(
        acc.SelfComposedEvent(acc.RandomizedResponseEvent(p["p"]), p["T"]), p["delta"]
    ),
    "poisson_rdp": lambda p: acc.renyi_divergence(poisson(p["q"], p["sigma"]), p["alpha"]),
    "wor_rdp_profile": lambda p: acc.renyi_divergence(without_replacement(p["q"], p["sigma"]), p["alpha"]),
    "wor_rdp_wang_thm9": lambda p: _wang(p, "thm9"),
    "wor_rdp_wang_thm27": lambda p: _wang(p, "thm27"),
    "poisson_rdp_eps": lambda p: acc.epsilon(
        _steps(poisson, p), p["delta"], "rdp", conversion=_conversion(p), orders=_orders(p)
    ),
    "wor_rdp_eps": lambda p: acc.epsilon(
        _steps(without_replacement, p), p["delta"], WANG, bound=p["bound"], conversion=_conversion(p), orders=_orders(p)
    ),
    "rdp_curve_to_eps": lambda p: epsilon_of_curve(
        np.array(p["orders"]), np.array(p["rdp"]), p["delta"], _conversion(p)
    ),
    "poisson_pld_eps": lambda p: acc.epsilon(_steps(poisson, p), p["delta"]),
    "poisson_pld_delta": lambda p: acc.delta(_steps(poisson, p), p["eps"]),
    "wor_pld_eps": lambda p: acc.epsilon(_steps(without_replacement, p), p["delta"]),
    "wor_pld_delta": lambda p: acc.delta(_steps(without_replacement, p), p["eps"]),
}


def test_every_kind_is_computed(golden):
    assert set(golden) == set(COMPUTE)


@pytest.mark.parametrize("kind", sorted(COMPUTE))
def test_golden(kind, golden):
    assert kind in golden
    for case in golden[kind]:
        computed = np.atleast_1d(COMPUTE[kind](case["params"]))
        wanted = np.atleast_1d(case["value"])
        assert computed.shape == wanted.shape, case["id"]
        error = np.abs(computed - wanted)
        assert np.all(error <= case["rtol"] * np.abs(wanted) + case["atol"]), (case["id"], computed, wanted)


@pytest.mark.parametrize("kind", ["poisson_pld_eps", "wor_pld_eps"])
def test_golden_never_below(kind, golden):
    """At rtol 1e-6 the bound lies in [exact, exact (1 + 1.5e-6)]. References err by 2e-8."""
    for case in golden[kind]:
        make = poisson if kind.startswith("poisson") else without_replacement
        got = acc.epsilon(_steps(make, case["params"]), case["params"]["delta"], rtol=1e-6)
        assert case["value"] * (1 - 2e-8) <= got <= case["value"] * (1 + 1.5e-6), case["id"]
