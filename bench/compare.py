"""Compare a bench run's ratios to in-process peers with a stored baseline.

    python bench/compare.py learn bench/baseline.json RUN.json …    # several runs of one commit on an idle machine
    python bench/compare.py check bench/baseline.json bench/results/latest.json   # --only lda for a part

Absolute times differ from machine to machine; the ratio of a kernel to its peer in one process hardly does. Each ratio
has a tolerance of its own, of 5 to 10 %, from `WIDTH` standard errors of the baseline and of `MOST` measurements. If
some move by more, `learn` fails and names them: then learn from more runs.

A ratio below its tolerance is measured again, up to `MOST` times in all, until the median of its measurements is within
it or far below. The exit status is 1 if a median stays below or a ratio of the baseline is missing. `--only` checks the
ratios whose names contain a text. bench/instructions.py has counts that do not move with the machine's load.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

#: Standard errors of a median that a ratio may fall, and the least and the most that it may, whatever they are.
WIDTH, LEAST_DROP, MOST_DROP = 4.0, 0.05, 0.10
#: Standard deviation of a ratio's logarithm if the baseline knows none, and how many runs the typical ratio's counts
#: for. Of runs as precise as `learn` wants them, fewer than 1 in 50 has a false alarm (tests/test_bench.py).
UNKNOWN, PRIOR_RUNS = 0.04, 3
#: Measurements before a ratio counts as fallen.
MOST = 9
#: Stands for a ratio that a repeat did not measure.
ABSENT = 1e-9


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
    """Compute each common ratio's median and the deviation of its logarithm.

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


def noise(sd: float, runs: float) -> float:
    """Return `WIDTH` standard errors of a logarithm's median over runs."""
    return WIDTH * sd * math.sqrt(math.pi / 2 / runs if runs > 2 else 1 / runs)


def own_drop(sd: float, runs: int) -> float:
    """Return the relative fall that noise does not explain."""
    return 1.0 - math.exp(-math.hypot(noise(sd, runs), noise(sd, MOST)))


def allowed_drop(sd: float, runs: int) -> float:
    """Return a ratio's tolerance, a relative fall."""
    return min(MOST_DROP, max(LEAST_DROP, own_drop(sd, runs)))


def noisy(known: dict[str, dict[str, float]], runs: int) -> list[str]:
    """Name the ratios that move by more than a tolerance may be."""
    return [name for name, ratio in known.items() if own_drop(ratio["sd"], runs) > MOST_DROP]


def verdicts(known: dict[str, dict[str, float]], runs: int, measured: dict[str, list[float]]) -> dict[str, str]:
    """Judge each measured ratio: "well", "low" or "fallen". Measure low ones again."""
    found = {}
    for name, ratio in known.items():
        if values := measured.get(name):
            below = math.log(ratio["ratio"] * (1 - allowed_drop(ratio["sd"], runs)) / statistics.median(values))
            certain = len(values) >= MOST or below > noise(ratio["sd"], len(values))
            found[name] = "well" if below <= 0 else "fallen" if certain else "low"
    return found


def measured_again(results: dict, names: list[str]) -> dict[str, float]:
    """Return the ratios of the named benches' tests, run once more."""
    tests = {bench["fullname"] for bench in results["benchmarks"] if any(n in names for n in ratios_of(bench))}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "repeat.json"
        command = [sys.executable, "-m", "pytest", "-q", f"--benchmark-json={path}", *sorted(tests)]
        subprocess.run(command, check=True)
        return ratios(json.loads(path.read_text()))


def ratios_of(bench: dict) -> list[str]:
    """Names of one bench's ratios."""
    return [f"{bench['name']}: {peer}" for peer in bench["extra_info"].get("ratios", {})]


def check(baseline: dict, results: dict, again=measured_again, only: str = "") -> int:
    """Print every ratio beside the baseline's. Returns 1 if one is missing or fell."""
    named = ({name: r for name, r in found.items() if only in name} for found in (baseline["ratios"], ratios(results)))
    known, latest = named
    runs = baseline.get("runs", 1)
    if not known:
        print(f"--only {only}: no ratio of the baseline has this in its name", file=sys.stderr)
        return 1
    if baseline["machine"] != machine(results):
        print(f"the baseline is from another processor: {baseline['machine']}", file=sys.stderr)
    if uncertain := noisy(known, runs):
        print(f"{len(uncertain)} ratios of the baseline move by more than {MOST_DROP:.0%}: learn them from more runs")
    measured = {name: [ratio] for name, ratio in latest.items()}
    found = verdicts(known, runs, measured)
    while low := [name for name, verdict in found.items() if verdict == "low"]:
        print(f"measuring again: {', '.join(low)}", flush=True)
        repeated = again(results, low)
        for name in low:
            measured[name].append(repeated.get(name, ABSENT))
        found = verdicts(known, runs, measured)
    for name in sorted(known.keys() | latest.keys()):
        if name not in known or name not in latest:
            print(f"  {'new' if name in latest else 'missing':>8}  {name}")
            continue
        old, new, allowed = (
            known[name]["ratio"],
            statistics.median(measured[name]),
            allowed_drop(known[name]["sd"], runs),
        )
        mark = "FELL" if found[name] == "fallen" else ""
        print(f"{old:8.2f} -> {new:8.2f}  {new / old - 1:+7.1%} of -{allowed:.0%} {mark:4} {name}")
    fell = [name for name, verdict in found.items() if verdict == "fallen"]
    if fell:
        print(f"{len(fell)} of {len(known)} ratios fell: {', '.join(sorted(fell))}", file=sys.stderr)
    if missing := sorted(known.keys() - latest.keys()):
        print(
            f"{len(missing)} of {len(known)} ratios are missing; run all benches, or use --only: {', '.join(missing)}",
            file=sys.stderr,
        )
    return 1 if fell or missing else 0


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
    args = parser.parse_args(argv)
    results = [json.loads(path.read_text()) for path in args.results]
    if args.command == "check":
        return check(json.loads(args.baseline.read_text()), results[0], only=args.only)
    known = learned([ratios(run) for run in results])
    stored = json.loads(args.baseline.read_text()) if args.baseline.exists() else {}
    stored |= {"machine": machine(results[0]), "runs": len(results), "ratios": known}  # beside the instruction counts
    args.baseline.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"{args.baseline}: {len(known)} ratios of {len(results)} runs")
    if uncertain := noisy(known, len(results)):
        print(f"{len(uncertain)} ratios move by more than {MOST_DROP:.0%}; learn from more runs, on an idle machine:")
        print("\n".join(f"  {name}: {own_drop(known[name]['sd'], len(results)):.0%}" for name in uncertain))
    return 1 if uncertain else 0


if __name__ == "__main__":
    sys.exit(main())
