"""Time the way from a CSV file to topics, beside another checkout's.

    python bench/one_line.py ../other/.venv/bin/python
    python bench/one_line.py ../other/.venv/bin/python --megabytes 200 --pairs 3 --table bench/one_line.json
    python bench/one_line.py ../other/.venv/bin/python --parts

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
#: Prints the processor seconds of each part before the fit.
PARTS = """
import json, time
from vips_fast.data import Analyzer, count_matrix, public_vocabulary, stop_words
from vips_fast.data.records import Records
from vips_fast.models.vocabulary import TokenRows

def timed(name, work):
    start = time.process_time()
    found = work()
    seconds[name] = time.process_time() - start
    return found

def read():
    return [texts for texts, _ in Records("notes.csv", "text", "person").batches()]

def number():
    rows = TokenRows(analyzer)
    for texts in batches:
        rows.extend(texts)
    return rows

def count():
    return rows.counts(words) if hasattr(rows, "counts") else count_matrix(read(), words, analyzer)

seconds, analyzer = {}, Analyzer(numbers="mixed", stop_words=stop_words("public:en"))
words = public_vocabulary("public:en", analyzer, size=3000)
batches = timed("reading", read)
rows = timed("numbers of all words", number)
timed("counts of purchased words", count)
timed("counts of public words", lambda: count_matrix(batches, words, analyzer))
print(json.dumps(seconds))
"""


def write_notes(path: Path, n_bytes: float) -> None:
    """Write notes of random persons, which are parts of posts.

    They have 60 to a few thousand characters.
    """
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


def call(python: str, program: str, arguments: list[str], folder: Path, own: bool) -> str:
    """Run a program in an interpreter; return its output."""
    # The other interpreter imports its own installation.
    settings = {name: value for name, value in os.environ.items() if own or name != "PYTHONPATH"}
    settings |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [python, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, env=settings, check=True, capture_output=True, text=True).stdout


def run(python: str, arguments: list[str], folder: Path, own: bool) -> tuple[float, float]:
    """Run the line; return processor seconds and seconds on the clock."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    call(python, PROGRAM, arguments, folder, own)
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


def measure_parts(other: str, megabytes: float, pairs: int) -> list[dict[str, float | str]]:
    """Run pairs of the parts before the fit; return medians of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_notes(folder / "notes.csv", 1e6 * megabytes)
        times = []
        for _ in range(pairs):
            both = (call(python, PARTS, [], folder, own=not k) for k, python in enumerate((sys.executable, other)))
            times.append([json.loads(text) for text in both])
        size = (folder / "notes.csv").stat().st_size / 1e6
    return [
        {
            "part": part,
            "megabytes": round(size),
            "pairs": pairs,
            "other": round(statistics.median(theirs[part] for _, theirs in times), 3),
            "ours": round(statistics.median(ours[part] for ours, _ in times), 3),
            "ratio": round(statistics.median(ours[part] / theirs[part] for ours, theirs in times), 3),
        }
        for part in times[0][0]
    ]


def parts_table(rows: list[dict[str, float | str]]) -> str:
    """Print rows of parts as Markdown."""
    lines = ["| part | MB | pairs | processor seconds, before, now | ratio |", "|" + " --- |" * 5]
    for row in rows:
        both = f"{row['other']:.2f}, {row['ours']:.2f}"
        lines.append(f"| {row['part']} | {row['megabytes']} | {row['pairs']} | {both} | {row['ratio']:.2f} |")
    return "\n".join(lines)


def store(path: Path, rows: list[dict[str, float | str]], names: tuple[str, ...]) -> None:
    """Put rows into a JSON file.

    They replace rows with the same values of ``names``.
    """
    stored = json.loads(path.read_text()) if path.exists() else []
    new = [[row.get(name) for name in names] for row in rows]
    stored = [row for row in stored if [row.get(name) for name in names] not in new]
    text = ",\n".join(json.dumps(row) for row in [*stored, *rows])
    path.write_text(f"[\n{text}\n]\n")


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
    parser.add_argument("--parts", action="store_true", help="time the parts before the fit, on one thread")
    parser.add_argument("--table", type=Path, help="JSON file of rows, which the rows replace or join")
    args = parser.parse_args()
    if args.parts:
        rows = measure_parts(args.other, args.megabytes, args.pairs)
        print(parts_table(rows))
        if args.table is not None:
            store(args.table, rows, ("part", "megabytes"))
        return
    for words in args.words:
        row = measure(args.other, args.megabytes, args.pairs, args.jobs, words)
        print(table([row]), flush=True)
        if args.table is not None:
            store(args.table, [row], ("words", "megabytes", "jobs"))


if __name__ == "__main__":
    main()
