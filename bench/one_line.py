"""Time the one line from a CSV file to topics, here and in another checkout.

    python bench/one_line.py ../other/.venv/bin/python
    python bench/one_line.py ../other/.venv/bin/python --megabytes 200 --pairs 3 --table bench/one_line.json

The line is ``vips-fast fit lda notes.csv --person person``, whose words are purchased, or with ``--public-prior
public:en``. The notes are parts of the posts of ``people`` (VIPS_FAST_DATA) by random persons, 337,000 notes of 60,000
persons in 200 MB. Both interpreters run it in turn, A B A B …, each in a process of its own. Ratios are medians of
ours / theirs: of processor seconds, and of seconds on the clock, which other work on the machine spoils.
"""

import argparse
import csv
import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "paper"))

from common import DATA

#: Arguments of the line, by the origin of its words.
LINES = {"purchased": ["--topics", "20", "--epsilon", "2"], "public": ["--public-prior", "public:en", "--epsilon", "2"]}
NOTES, PERSONS = 1.685e-3, 3e-4  # for each byte
PROGRAM = "import sys; from vips_fast.cli.main import main; sys.exit(main())"


def write_notes(path: Path, n_bytes: float) -> None:
    """Write notes of random persons: parts of posts, 60 to a few thousand characters."""
    with gzip.open(DATA / "people" / "train.csv.gz", "rt", newline="") as file:
        csv.field_size_limit(1 << 28)
        posts = [row["text"] for row in csv.DictReader(file)]
    drawn, persons = random.Random(0), round(PERSONS * n_bytes)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "person"])
        for _ in range(round(NOTES * n_bytes)):
            text, length = drawn.choice(posts), 60 + round(drawn.lognormvariate(6.72, 0.8))
            first = drawn.randrange(max(1, len(text) - length))
            rows.writerow([text[first : first + length], f"p{drawn.randrange(persons)}"])


def run(python: str, arguments: list[str], folder: Path, own: bool) -> tuple[float, float]:
    """Run the line; return processor seconds and seconds on the clock."""
    # The other interpreter imports its own installation.
    settings = {name: value for name, value in os.environ.items() if own or name != "PYTHONPATH"}
    settings |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([python, "-c", PROGRAM, *arguments], cwd=folder, env=settings, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - start


def measure(other: str, megabytes: float, pairs: int, jobs: int, words: str) -> dict[str, float | str]:
    """Run pairs of one kind of line; return medians."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder / "notes.csv", 1e6 * megabytes)
        times = []
        for pair in range(pairs):
            each = []
            for k, python in enumerate((sys.executable, other)):
                out = ["--out", f"{pair}-{k}", "--jobs", str(jobs), "--quiet"]
                line = ["fit", "lda", "notes.csv", "--person", "person", *LINES[words], *out]
                each.append(run(python, line, folder, own=not k))
            times.append(each)
        size = (folder / "notes.csv").stat().st_size / 1e6
    row: dict[str, float | str] = {"words": words, "megabytes": round(size), "jobs": jobs, "pairs": pairs}
    for k, what in enumerate(("processor", "clock")):
        for side, who in enumerate(("ours", "other")):
            row[f"{what}_{who}"] = round(statistics.median(both[side][k] for both in times), 2)
        row[f"{what}_ratio"] = round(statistics.median(both[0][k] / both[1][k] for both in times), 3)
    return row


def table(rows: list[dict[str, float | str]]) -> str:
    """Print rows as Markdown."""
    head = (
        "| words | MB | threads | pairs | processor seconds, before, now | ratio | on the clock, before, now | ratio |"
    )
    lines = [head, "|" + " --- |" * 8]
    for row in rows:
        sides = [f"{row[f'{what}_other']:.1f}, {row[f'{what}_ours']:.1f}" for what in ("processor", "clock")]
        lines.append(
            f"| {row['words']} | {row['megabytes']} | {row['jobs']} | {row['pairs']} | {sides[0]} "
            f"| {row['processor_ratio']:.2f} | {sides[1]} | {row['clock_ratio']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="an interpreter of another checkout")
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--words", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--table", type=Path, help="JSON file of rows, which the rows replace or join")
    args = parser.parse_args()
    rows = []
    for words in args.words:
        rows.append(measure(args.other, args.megabytes, args.pairs, args.jobs, words))
        print(table(rows[-1:]), flush=True)
        if args.table is not None:
            stored = json.loads(args.table.read_text()) if args.table.exists() else []
            same = [rows[-1][name] for name in ("words", "megabytes", "jobs")]
            stored = [row for row in stored if [row[name] for name in ("words", "megabytes", "jobs")] != same]
            text = ",\n".join(json.dumps(row) for row in [*stored, rows[-1]])
            args.table.write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
