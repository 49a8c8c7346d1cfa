"""Count each kernel's instructions, and compare them with the baseline's.

    python bench/instructions.py store bench/baseline.json      # counts of this source tree, into the baseline
    python bench/instructions.py check bench/baseline.json      # --only lda for a part, --root FOLDER for another tree

A count moves with the code and the compiler, and not with the machine's load. The program that is counted is
tests/capi/consumers/digest.c, which calls every kernel on fixed input, in each instruction set that valgrind knows.
Instructions of the C library are left out, because it chooses its functions by the processor. So are other kernels that
a kernel calls.

The exit status is 1 if a count rose by more than `RISE` or is missing. It is 1, too, if the baseline is from another
compiler: then store the counts of the commit that you compare with.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: A kernel's instructions may rise by this share.
RISE = 0.02
#: Random bits of the operating system, which no count can repeat.
UNCOUNTED = {"os_random"}


def declared(root: Path = ROOT) -> set[str]:
    """Names of the kernels that compute something."""
    kernels = tomllib.loads((root / "csrc" / "kernels.toml").read_text())["kernel"]
    return {kernel["name"] for kernel in kernels if "returns" not in kernel} - UNCOUNTED


def kernel_of(symbol: str, names: set[str]) -> str | None:
    """Find the kernel whose name, the longest, begins a C function's."""
    fits = [name for name in names if symbol == f"vf_{name}" or symbol.startswith(f"vf_{name}_")]
    return max(fits, key=len, default=None)


def parse(text: str, program: str) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Read each function's own cost, and its calls' costs by callee. Functions of shared libraries do not count."""
    own: dict[str, int] = defaultdict(int)
    calls: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    names: dict[tuple[str, str], str] = {}
    place, called, is_call = {"ob": "", "fn": ""}, {"ob": "", "fn": ""}, False
    for line in text.splitlines():
        if found := re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line):
            prefix, kind, number, name = found.groups()
            names.setdefault((kind, number), name or "")
            if prefix:
                called[kind] = names[kind, number]
            else:
                place[kind] = names[kind, number]
                called["ob"] = place["ob"]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[\d+*-]", line):
            cost = int(line.split()[1])
            if place["ob"] == program and not is_call:
                own[place["fn"]] += cost
            elif place["ob"] == program == called["ob"]:
                calls[place["fn"]][called["fn"]] += cost
            if is_call:
                is_call, called["ob"] = False, place["ob"]
    return own, calls


def kernel_costs(own: dict[str, int], calls: dict[str, dict[str, int]], names: set[str]) -> dict[str, int]:
    """Count each kernel's instructions with its helpers', without other kernels'.

    A helper's instructions are shared among its callers in proportion to the cost of their calls.
    """
    received: dict[str, int] = defaultdict(int)
    for callees in calls.values():
        for callee, cost in callees.items():
            received[callee] += cost
    known: dict[str, float] = {}

    def cost(function: str) -> float:
        if function not in known:
            known[function] = 0.0  # for a function that calls itself
            total, kernel = float(own[function]), kernel_of(function, names)
            for callee, paid in calls.get(function, {}).items():
                if kernel_of(callee, names) in (None, kernel):
                    total += cost(callee) * paid / received[callee]
            known[function] = total
        return known[function]

    # The table's functions: a kernel's name, then perhaps its type, then its instruction set if it has several.
    entry = re.compile(rf"vf_({'|'.join(names)})(_f32|_f64)?(_portable|_baseline|_avx2|_avx512)?")
    return {name.removeprefix("vf_"): round(cost(name)) for name in sorted(own) if entry.fullmatch(name)}


def counts_of(command: list[str], program: str, names: set[str]) -> dict[str, int]:
    """Run a program under callgrind, and count the named kernels' instructions."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        grind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}"]
        subprocess.run([*grind, *command], check=True, stdout=subprocess.DEVNULL)
        return kernel_costs(*parse(out.read_text(), program), names)


def measured(root: Path = ROOT) -> dict:
    """Build a source tree's kernels, and count their instructions."""
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is missing: install it to count instructions")
    compiler = os.environ.get("CC") or "cc"
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    csrc, source = root / "csrc", root / "tests" / "capi" / "consumers" / "digest.c"
    with tempfile.TemporaryDirectory() as folder:
        program, library = Path(folder) / "digest", root / "build" / "c" / "libvips_fast.a"
        subprocess.run(["make", "-s", "-j", "2", "-C", csrc], check=True)
        subprocess.run([compiler, "-O1", f"-I{csrc / 'include'}", source, library, "-lm", "-o", program], check=True)
        counts = counts_of([str(program)], str(program), declared(root))
    return {"compiler": version, "kernels": counts}


def uncalled(counts: dict[str, int], names: set[str]) -> list[str]:
    """List the kernels that digest.c does not call."""
    return sorted(names - {kernel_of(f"vf_{name}", names) for name in counts})


def check(baseline: dict, now: dict, only: str = "") -> int:
    """Print each count that moved; 1 if one rose or is missing."""
    if baseline["compiler"] != now["compiler"]:
        print(f"the baseline's counts are from {baseline['compiler']}, these from {now['compiler']}", file=sys.stderr)
        print("store the counts of the commit that you compare with, by this compiler", file=sys.stderr)
        return 1
    old, new = ({name: n for name, n in found["kernels"].items() if only in name} for found in (baseline, now))
    if not old:
        print(f"--only {only}: no count of the baseline has this in its name", file=sys.stderr)
        return 1
    rose = [name for name in old.keys() & new.keys() if new[name] > old[name] * (1 + RISE)]
    missing = sorted(old.keys() - new.keys())
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            print(f"      new  {name}: {new[name]:,}")
        elif name in new and old[name] != new[name]:
            print(
                f"{new[name] / old[name] - 1:+9.2%} {'ROSE' * (name in rose):4} {name}: {old[name]:,} -> {new[name]:,}"
            )
    print(f"{len(old)} counts, {len(rose)} rose by more than {RISE:.0%}, {len(missing)} missing", flush=True)
    if missing:
        print(f"missing: {', '.join(missing)}", file=sys.stderr)
    return 1 if rose or missing else 0


def main(argv=None) -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["store", "check"])
    parser.add_argument("baseline", type=Path)
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree that is counted")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose names contain it")
    args = parser.parse_args(argv)
    stored = json.loads(args.baseline.read_text()) if args.baseline.exists() else {}
    if args.command == "check" and "instructions" not in stored:
        print(f"{args.baseline} has no instruction counts; store them first", file=sys.stderr)
        return 1
    root = args.root.resolve()
    now = measured(root)
    absent = uncalled(now["kernels"], declared(root))
    if absent:
        print(f"digest.c does not call {', '.join(absent)}; add the calls", file=sys.stderr)
    if args.command == "check":
        return max(check(stored["instructions"], now, args.only), bool(absent))
    stored["instructions"] = now
    args.baseline.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"{args.baseline}: instructions of {len(now['kernels'])} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
