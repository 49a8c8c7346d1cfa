"""The comparison of bench runs: its learned tolerances and its verdicts."""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

BENCH = Path(__file__).resolve().parent.parent / "bench"


def load(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compare, instructions = load("compare"), load("instructions")


@pytest.fixture(scope="module")
def front():
    return load("front")


#: Ratios of a bench run, and how much their logarithms move by themselves: some 1 %, some 4 %; runs to learn them from.
N_RATIOS, LEAST_SD, MOST_SD, RUNS = 50, 0.01, 0.04, 9


def results(ratios: dict[str, float]) -> dict:
    benchmarks = []
    for name, ratio in ratios.items():
        test, _, peer = name.partition(": ")
        benchmarks.append(
            {"name": test, "fullname": f"bench/test_toy.py::{test}", "extra_info": {"ratios": {peer: ratio}}}
        )
    machine = {"machine_info": {"cpu": {"brand_raw": "a processor"}}, "commit_info": {"id": "0" * 40}}
    return {**machine, "benchmarks": benchmarks}


class Machine:
    """Gives ratios around a mean of 10, each with its spread."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.sds = np.exp(self.rng.uniform(math.log(LEAST_SD), math.log(MOST_SD), N_RATIOS))
        self.factors = np.ones(N_RATIOS)

    def run(self) -> dict[str, float]:
        values = 10 * self.factors * np.exp(self.sds * self.rng.normal(size=N_RATIOS))
        return {f"test_{i}: peer": float(value) for i, value in enumerate(values)}

    def again(self, latest: dict, names: list[str]) -> dict[str, float]:
        run = self.run()
        return {name: run[name] for name in names}


def learned(machine: Machine) -> dict:
    return {"machine": "a processor", "runs": RUNS, "ratios": compare.learned([machine.run() for _ in range(RUNS)])}


def checked(machine: Machine, baseline: dict) -> int:
    return compare.check(baseline, results(machine.run()), machine.again)


def test_an_idle_machine_seldom_raises_a_false_alarm():
    alarms, n = 0, 600
    for seed in range(n // 10):
        machine = Machine(seed)
        baseline = learned(machine)
        alarms += sum(checked(machine, baseline) for _ in range(10))
    assert alarms / n < 1 / 50


@pytest.mark.parametrize(("place", "fall"), [(np.argmin, 0.1), (np.argmax, 0.25)])
def test_a_fall_beyond_the_tolerance_is_seen_every_time(place, fall):
    """Twice the tolerance of the quietest ratio, a quarter of the noisiest."""
    seen = []
    for seed in range(30):
        machine = Machine(seed)
        baseline = learned(machine)
        machine.factors[place(machine.sds)] = 1 - fall
        seen.append(checked(machine, baseline))
    assert seen == [1] * 30


def test_what_is_low_is_measured_again_and_nothing_else(capsys):
    known = {f"test_{i}: peer": {"ratio": 10.0, "sd": 0.01} for i in range(3)}
    baseline = {"machine": "a processor", "runs": RUNS, "ratios": known}
    asked = []

    def again(latest, names):
        asked.append(names)
        return {"test_1: peer": 9.9}

    latest = results({"test_0: peer": 10.1, "test_1: peer": 9.4, "test_2: peer": 9.8})
    assert compare.check(baseline, latest, again) == 0
    assert asked == [["test_1: peer"]]
    # The median decides, of at most `MOST` measurements.
    low = []
    assert compare.check(baseline, latest, lambda latest, names: low.append(names) or {"test_1: peer": 9.45}) == 1
    assert len(low) == compare.MOST - 1
    assert "test_1: peer" in [line for line in capsys.readouterr().out.splitlines() if "FELL" in line][0]
    # Far below is certain at once; a repeat without the ratio does not raise it.
    assert compare.check(baseline, results({name: 5.0 for name in known}), None) == 1
    assert compare.check(baseline, latest, lambda latest, names: {}) == 1


def test_missing_ratios_fail_unless_they_are_left_out(capsys):
    baseline = {"machine": "a processor", "ratios": {f"test_{i}: peer": {"ratio": 10.0, "sd": 0.01} for i in range(3)}}
    part = results({"test_1: peer": 10.0})
    assert compare.check(baseline, part, None) == 1
    said = capsys.readouterr().err
    assert "2 of 3 ratios are missing" in said and "test_0: peer, test_2: peer" in said
    assert compare.check(baseline, results({}), None) == 1
    assert compare.check(baseline, part, None, only="test_1") == 0
    assert compare.check(baseline, part, None, only="test_9") == 1


#: A callgrind file: a line `calls=` and then its cost are inclusive.
CALLGRIND = """positions: line
events: Ir
ob=(1) /program
fl=(1) a.c
fn=(1) main
0 5
cfn=(2) vf_sum_portable
calls=2 0
0 1300
fn=(2)
0 100
+3 50
cob=(2) /lib/libc.so
cfi=(9) m.c
cfn=(3) memset
calls=1 0
0 50
cfn=(4) helper
calls=4 0
* 100
cfn=(5) vf_draw_exact
calls=1 0
0 1000
fn=(4)
0 130
fn=(6) vf_draw
0 7
cfn=(4)
calls=1 0
0 30
cfn=(5)
calls=1 0
0 500
fn=(5)
0 1500

ob=(2)
fn=(3)
0 50
fn=(7) vf_sum_portable
0 999
"""


def test_a_kernel_counts_its_helpers_and_neither_the_library_nor_other_kernels():
    own, calls = instructions.parse(CALLGRIND, "/program")
    assert own == {"main": 5, "vf_sum_portable": 150, "helper": 130, "vf_draw": 7, "vf_draw_exact": 1500}
    assert calls["vf_sum_portable"] == {"helper": 100, "vf_draw_exact": 1000}
    # The helper's 130 are paid by both; the exact draw belongs to the kernel whose name it begins with.
    assert instructions.kernel_costs(own, calls, {"sum", "draw"}) == {"sum_portable": 250, "draw": 537}


def test_counts_that_rise_or_are_missing_fail(capsys):
    stored = {"compiler": "cc 1", "kernels": {"sum_avx2": 1000, "draw": 500, "fill_avx2": 10}}

    def checked(only="", compiler="cc 1", **changes):
        kernels = {name: n for name, n in (stored["kernels"] | changes).items() if n is not None}
        return instructions.check(stored, {"compiler": compiler, "kernels": kernels}, only)

    assert checked() == 0 and checked(sum_avx2=1019, draw=100, new=7) == 0
    assert checked(sum_avx2=1021) == 1 and checked(draw=None) == 1
    said = capsys.readouterr()
    assert "+2.10% ROSE sum_avx2" in said.out and "missing: draw" in said.err
    assert checked("sum", draw=None) == 0 and checked("sum", sum_avx2=1100) == 1 and checked("none") == 1
    assert checked(compiler="cc 2") == 1 and "store the counts" in capsys.readouterr().err


def test_the_stored_counts_are_of_every_kernel():
    """Kernels that came later are new to `check`, which shows them."""
    counts = json.loads((BENCH / "baseline.json").read_text())["instructions"]["kernels"]
    assert len(counts) > 100 and min(counts.values()) > 0
    assert len(instructions.uncalled(counts, instructions.declared())) < 5
    assert instructions.uncalled({"a_f32_avx2": 1, "b": 2}, {"a", "b", "b_more"}) == ["b_more"]


def test_topics_are_judged_by_words_that_they_have_not_seen(front):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.integers(0, 4, (40, 30)).astype(np.int32))
    seen, unseen = front.halves(X)
    assert (seen + unseen - X).nnz == 0 and 0.4 < seen.sum() / X.sum() < 0.6
    one = rng.dirichlet(np.ones(30))[None]
    counts = np.asarray(unseen.sum(axis=0)).ravel()
    assert front.perplexity(one, seen, unseen) == pytest.approx(math.exp(-counts @ np.log(one[0]) / counts.sum()))
    # Two topics of disjoint words, and documents of one of them each: the fold-in finds which.
    topics = np.kron(np.eye(2), np.full((1, 15), 1 / 15))
    X = sp.csr_array(np.repeat(20 * (topics > 0), 10, axis=0))
    theta = front.fold_in(topics, X)
    np.testing.assert_allclose(theta[:10], np.tile([300.5 / 301, 0.5 / 301], (10, 1)), atol=1e-9)
