"""Hold a bench run's ratios to the in-process peers against a stored baseline.

    python bench/compare.py learn bench/baseline.json RUN.json …    # several runs of one commit on an idle machine
    python bench/compare.py record bench/results/latest.json        # a line of bench/history.jsonl
    python bench/compare.py check bench/baseline.json bench/results/latest.json   # --only lda for a part
    python bench/compare.py report                                  # bench/results/history.svg

Absolute times differ from machine to machine; the ratio of a kernel to its peer in one process hardly does. Each ratio
has a tolerance of its own, `WIDTH` standard deviations of its logarithm between the runs that the baseline was learned
from. A ratio that fell by more is measured again, and has fallen only if it does so every time. The
exit status is 1 then, and if a ratio of the baseline is missing; `--only` checks the ratios whose names contain a text.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

BENCH = Path(__file__).resolve().parent
HISTORY = BENCH / "history.jsonl"

#: Standard deviations that a ratio may fall.
WIDTH = 4.0
#: Every ratio may fall by as much.
LEAST_DROP = 0.05
#: Standard deviation of a ratio's logarithm where the baseline knows none, and how many runs the typical ratio's counts
#: for in that of each. With five runs to learn from and two repeats, fewer than 1 run in 50 has a false alarm
#: (tests/test_bench.py).
UNKNOWN, PRIOR_RUNS = 0.04, 3
#: Measurements after the first, before a ratio counts as fallen.
REPEATS = 2


def ratios(results: dict) -> dict[str, float]:
    """{"test: peer": ratio} of a pytest-benchmark result."""
    return {
        f"{bench['name']}: {peer}": ratio
        for bench in results["benchmarks"]
        for peer, ratio in bench["extra_info"].get("ratios", {}).items()
    }


def machine(results: dict) -> str:
    """Return the processor that a pytest-benchmark result is from."""
    return results["machine_info"].get("cpu", {}).get("brand_raw", "unknown")


def learned(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Median of each ratio that all runs have, and the standard deviation of its logarithm.

    A standard deviation of few runs is itself uncertain: each is drawn towards the typical one.
    """
    names = sorted(set.intersection(*map(set, runs)))
    n = len(runs)
    medians = {name: statistics.median(run[name] for run in runs) for name in names}
    if n < 2:
        return {name: {"ratio": round(medians[name], 3), "sd": UNKNOWN} for name in names}
    variances = {name: statistics.variance([math.log(run[name]) for run in runs]) for name in names}
    typical = statistics.median(variances.values())
    return {
        name: {
            "ratio": round(medians[name], 3),
            "sd": round(math.sqrt((PRIOR_RUNS * typical + (n - 1) * variances[name]) / (PRIOR_RUNS + n - 1)), 4),
        }
        for name in names
    }


def allowed_drop(sd: float) -> float:
    """Largest fall of a ratio, relative, that is taken for noise."""
    return max(LEAST_DROP, 1.0 - math.exp(-WIDTH * sd))


def fallen(baseline: dict[str, dict[str, float]], latest: dict[str, float]) -> list[str]:
    """Return the ratios that fell by more than their tolerance."""
    return [
        name
        for name, known in baseline.items()
        if name in latest and latest[name] < known["ratio"] * (1 - allowed_drop(known["sd"]))
    ]


def measured_again(results: dict, names: list[str]) -> dict[str, float]:
    """Return the ratios of the named benches' tests, run once more."""
    tests = {bench["fullname"] for bench in results["benchmarks"] if any(n in names for n in ratios_of(bench))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repeat.json"
        command = [sys.executable, "-m", "pytest", "-q", f"--benchmark-json={path}", *sorted(tests)]
        subprocess.run(command, cwd=BENCH.parent, check=True)
        return ratios(json.loads(path.read_text()))


def ratios_of(bench: dict) -> list[str]:
    """Names of one bench's ratios."""
    return [f"{bench['name']}: {peer}" for peer in bench["extra_info"].get("ratios", {})]


def check(baseline: dict, results: dict, again=measured_again, only: str = "") -> int:
    """Print every ratio beside the baseline's; 1 if one is missing, or fell in every measurement."""
    named = ({name: r for name, r in found.items() if only in name} for found in (baseline["ratios"], ratios(results)))
    known, latest = named
    if not known:
        print(f"--only {only}: no ratio of the baseline has this in its name", file=sys.stderr)
        return 1
    if baseline["machine"] != machine(results):
        print(f"the baseline is from another processor: {baseline['machine']}", file=sys.stderr)
    low = fallen(known, latest)
    for _ in range(REPEATS):
        if low:
            print(f"measuring again: {', '.join(low)}", flush=True)
            repeated = again(results, low)
            latest.update({name: max(latest[name], repeated.get(name, 0.0)) for name in low})
            low = fallen(known, latest)
    for name in sorted(known.keys() | latest.keys()):
        if name not in known or name not in latest:
            print(f"  {'new' if name in latest else 'missing':>8}  {name}")
            continue
        old, new, allowed = known[name]["ratio"], latest[name], allowed_drop(known[name]["sd"])
        print(f"{old:8.2f} -> {new:8.2f}  {new / old - 1:+7.1%} of -{allowed:.0%} {'FELL' * (name in low):4} {name}")
    if low:
        print(f"{len(low)} of {len(known)} ratios fell, {1 + REPEATS} times", file=sys.stderr)
    if missing := known.keys() - latest.keys():
        print(f"{len(missing)} of {len(known)} ratios are missing; run all benches, or use --only", file=sys.stderr)
    return 1 if low or missing else 0


def record(results: dict, history: Path = HISTORY) -> None:
    """Append a run to the history."""
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": results["commit_info"].get("id"),
        "machine": machine(results),
        "ratios": ratios(results),
    }
    with history.open("a") as file:
        file.write(json.dumps(line) + "\n")


def report(history: Path, out: Path) -> int:
    """Draw how the ratios went, a small panel for each bench; returns how many runs there are."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    lines = [json.loads(line) for line in history.read_text().splitlines()]
    tests: dict[str, list[str]] = {}
    for name in sorted({name for line in lines for name in line["ratios"]}):
        tests.setdefault(name.partition(": ")[0], []).append(name)
    columns = 3
    rows = math.ceil(len(tests) / columns)
    figure, panels = plt.subplots(rows, columns, figsize=(15, 2.6 * rows), squeeze=False, layout="constrained")
    for panel, (test, names) in zip(panels.flat, tests.items(), strict=False):
        for name, marker in zip(names, "osv^Dx*+" * len(names), strict=False):
            at = [i for i, line in enumerate(lines) if name in line["ratios"]]
            y = [lines[i]["ratios"][name] for i in at]
            panel.plot(at, y, marker=marker, markersize=3, label=name.partition(": ")[2])
        panel.set_title(test, fontsize=8)
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=6)
    for panel in panels.flat[len(tests) :]:
        panel.set_visible(False)
    figure.supxlabel("run")
    figure.supylabel("times as fast as the peer")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    plt.close(figure)
    return len(lines)


def main(argv=None) -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, nargs in (("learn", "+"), ("check", 1)):
        command = commands.add_parser(name)
        command.add_argument("baseline", type=Path)
        command.add_argument("results", type=Path, nargs=nargs)
        if name == "check":
            command.add_argument("--only", default="", metavar="TEXT", help="ratios whose names contain it")
    commands.add_parser("record").add_argument("results", type=Path, nargs=1)
    commands.add_parser("report").add_argument("--out", type=Path, default=BENCH / "results" / "history.svg")
    args = parser.parse_args(argv)
    if args.command == "report":
        print(f"{args.out}: {report(HISTORY, args.out)} runs")
        return 0
    results = [json.loads(path.read_text()) for path in args.results]
    if args.command == "record":
        record(results[0])
        return 0
    if args.command == "check":
        return check(json.loads(args.baseline.read_text()), results[0], only=args.only)
    known = learned([ratios(run) for run in results])
    args.baseline.write_text(
        json.dumps({"machine": machine(results[0]), "runs": len(results), "ratios": known}, indent=1) + "\n"
    )
    print(f"{args.baseline}: {len(known)} ratios of {len(results)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
