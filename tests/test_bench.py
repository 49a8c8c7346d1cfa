"""The comparison of bench runs: what it learns, what it takes for a fall, what it draws."""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

BENCH = Path(__file__).resolve().parent.parent / "bench"
spec = importlib.util.spec_from_file_location("bench_compare", BENCH / "compare.py")
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)


@pytest.fixture(scope="module")
def front():
    """The comparison of topic models."""
    spec = importlib.util.spec_from_file_location("bench_front", BENCH / "front.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Ratios of a bench run, and how much their logarithms move by themselves: some 1 %, some 10 %.
N_RATIOS, LEAST_SD, MOST_SD = 50, 0.01, 0.10


def results(ratios: dict[str, float]) -> dict:
    """A pytest-benchmark result with these ratios, one test each."""
    return {
        "machine_info": {"cpu": {"brand_raw": "a processor"}},
        "commit_info": {"id": "0" * 40},
        "benchmarks": [
            {
                "name": name.partition(": ")[0],
                "fullname": f"bench/test_toy.py::{name.partition(': ')[0]}",
                "extra_info": {"ratios": {name.partition(": ")[2]: ratio}},
            }
            for name, ratio in ratios.items()
        ],
    }


class Machine:
    """Gives ratios around a mean of 10, each with a spread of its own."""

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


def checked(machine: Machine, baseline: dict) -> int:
    return compare.check(baseline, results(machine.run()), machine.again)


def test_an_idle_machine_seldom_raises_a_false_alarm():
    alarms, n = 0, 300
    for seed in range(n // 10):
        machine = Machine(seed)
        baseline = {"machine": "a processor", "ratios": compare.learned([machine.run() for _ in range(5)])}
        alarms += sum(checked(machine, baseline) for _ in range(10))
    assert alarms / n < 1 / 50


def test_a_fall_beyond_the_tolerance_is_seen_every_time():
    seen = []
    for seed in range(30):
        machine = Machine(seed)
        baseline = {"machine": "a processor", "ratios": compare.learned([machine.run() for _ in range(5)])}
        quiet = int(np.argmin(machine.sds))
        machine.factors[quiet] = 0.85
        seen.append(checked(machine, baseline))
    assert seen == [1] * 30


def test_what_fell_once_is_measured_again_and_nothing_else(capsys):
    baseline = {"machine": "a processor", "ratios": {f"test_{i}: peer": {"ratio": 10.0, "sd": 0.01} for i in range(3)}}
    asked = []

    def again(latest, names):
        asked.append(names)
        return {"test_1: peer": 9.9}

    latest = results({"test_0: peer": 10.1, "test_1: peer": 8.0, "test_2: peer": 9.8})
    assert compare.check(baseline, latest, again) == 0
    assert asked == [["test_1: peer"]]
    assert compare.check(baseline, latest, lambda latest, names: {name: 8.0 for name in names}) == 1
    assert "test_1: peer" in [line for line in capsys.readouterr().out.splitlines() if "FELL" in line][0]


def test_missing_ratios_fail_unless_they_are_left_out(capsys):
    baseline = {"machine": "a processor", "ratios": {f"test_{i}: peer": {"ratio": 10.0, "sd": 0.01} for i in range(3)}}
    part = results({"test_1: peer": 10.0})
    assert compare.check(baseline, part, None) == 1 and "2 of 3 ratios are missing" in capsys.readouterr().err
    assert compare.check(baseline, results({}), None) == 1
    assert compare.check(baseline, part, None, only="test_1") == 0
    assert compare.check(baseline, part, None, only="test_9") == 1


def test_spreads_are_drawn_towards_the_typical_one_and_one_run_has_none():
    runs = [{"a: p": 10.0, "b: p": 10.0 + i, "c: p": 10.0 + 0.1 * i} for i in range(5)]
    spread = {name: known["sd"] for name, known in compare.learned(runs).items()}
    own = {name: np.std(np.log([run[name] for run in runs]), ddof=1) for name in runs[0]}
    assert own["a: p"] < spread["a: p"] < spread["c: p"] < spread["b: p"] < own["b: p"]
    assert {known["sd"] for known in compare.learned(runs[:1]).values()} == {compare.UNKNOWN}


def test_the_baseline_is_one_that_check_reads():
    baseline = json.loads((BENCH / "baseline.json").read_text())
    latest = {name: known["ratio"] for name, known in baseline["ratios"].items()}
    assert compare.fallen(baseline["ratios"], latest) == []
    assert compare.fallen(baseline["ratios"], {name: ratio / 2 for name, ratio in latest.items()}) == list(latest)


def test_the_history_is_a_line_a_run_and_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="the picture needs matplotlib (extra plot)")
    machine, history = Machine(0), tmp_path / "history.jsonl"
    for _ in range(3):
        compare.record(results(machine.run()), history)
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert [sorted(line) for line in lines] == [["at", "commit", "machine", "ratios"]] * 3
    assert compare.report(history, tmp_path / "history.svg") == 3
    assert "test_7" in (tmp_path / "history.svg").read_text()


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


def test_the_front_of_tools(front, monkeypatch, tmp_path, capsys):
    def absent(X, n_topics):
        raise ImportError("no such tool")
        yield

    def learning(X, n_topics):
        good = np.asarray(X.sum(axis=0), dtype=float) + 0.5
        for seconds, share in enumerate((0.0, 0.5, 1.0)):
            yield float(seconds), front.shares((1 - share + share * good)[None])

    monkeypatch.setattr(front, "TOOLS", {"absent": absent, "learning": learning})
    X = sp.csr_array((np.arange(1, 31)[None] ** 2 * np.ones((9, 1))).astype(np.int32))
    ways = front.measured(X, *front.halves(X), 1, ["absent", "learning"], 60.0)
    assert list(ways) == ["learning"] and "left out: no such tool" in capsys.readouterr().out
    # The machinery stops at a good perplexity, which 30 words give at once.
    assert ways["learning"] == [(0.0, pytest.approx(30.0))]
    way = [(1.0, 1950.0), (2.0, 1890.0), (3.0, 1760.0)]
    assert front.times_to(way) == [1.0, 2.0, 3.0, None]
    assert "| toy | 1.00 | 2.00 | 3.00 | – | 1760 after 3.0 s |" in front.table({"toy": way})
    front.draw({"toy": way}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"front.png"}
