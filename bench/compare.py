"""Hold a bench run's ratios to the in-process peer against a stored baseline.

    python bench/compare.py bench/baseline.json bench/results/latest.json

Absolute times differ from machine to machine; the ratio of a kernel to its peer
in one process hardly does. Exit status 1 if a ratio fell by more than 15 %.
``--update`` writes the baseline from the latest results instead.
"""

import argparse
import json
import sys
from pathlib import Path

#: Largest fall of a ratio that is taken for noise.
ALLOWED_DROP = 0.15


def ratios(path: Path) -> dict[str, float]:
    """{"test: peer": ratio} of a pytest-benchmark JSON file or of a baseline."""
    data = json.loads(path.read_text())
    if "ratios" in data:
        return data["ratios"]
    return {
        f"{bench['name']}: {peer}": ratio
        for bench in data["benchmarks"]
        for peer, ratio in bench["extra_info"].get("ratios", {}).items()
    }


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("baseline", type=Path)
    parser.add_argument("latest", type=Path)
    parser.add_argument("--update", action="store_true", help="write the baseline from the latest results")
    arguments = parser.parse_args(argv)
    latest = ratios(arguments.latest)
    if arguments.update:
        machine = json.loads(arguments.latest.read_text())["machine_info"].get("cpu", {}).get("brand_raw", "unknown")
        text = {"machine": machine, "ratios": {name: round(ratio, 3) for name, ratio in sorted(latest.items())}}
        arguments.baseline.write_text(json.dumps(text, indent=1) + "\n")
        print(f"{arguments.baseline}: {len(latest)} ratios")
        return 0
    baseline = ratios(arguments.baseline)
    failed = []
    for name in sorted(baseline.keys() | latest.keys()):
        old, new = baseline.get(name), latest.get(name)
        if old is None or new is None:
            print(f"  {'new' if old is None else 'missing':>8}  {name}")
            continue
        change = new / old - 1
        mark = "FELL" if change < -ALLOWED_DROP else ""
        failed += [name] * bool(mark)
        print(f"{old:8.2f} -> {new:8.2f}  {change:+7.1%} {mark:4} {name}")
    if failed:
        print(f"{len(failed)} of {len(baseline)} ratios fell by more than {ALLOWED_DROP:.0%}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
