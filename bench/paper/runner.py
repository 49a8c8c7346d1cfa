"""Every figure and table of the papers, and their page.

    python -m bench.paper                          # the printed ranges and numbers of runs
    python -m bench.paper --scale 10 --only fig2   # the quick form of the figures that have fig2 in their name

A figure is a module of this folder with TITLE, NEEDS, cells(scale), run(cell), report(rows) and draw(rows, folder); one
with printed orders has orders(rows). Each finished cell is a line of results/<scale>/<name>.jsonl, which is committed,
and is not run again: delete the file to run its figure anew. From these lines come docs/papers.md, its pictures and
out/<scale>/<name>.csv. A figure that was not asked for keeps the section and the pictures that the page has of it.
"""

import argparse
import csv
import importlib
import importlib.util
import json
import os
import queue
import re
import shutil
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from common import DATA, ROOT, wrapped

FIGURES = (
    "lda_fig2",
    "lda_fig3",
    "lda_table3",
    "lda_table",
    "public_prior",
    "public_clusters",
    "topic_tables",
    "pg_fig4",
    "stroke_fig5",
    "adult_fig6",
    "text_logistic",
    "latent_models",
    "mnist_fig8",
    "mnist_downstream",
    "epsilon_table",
    "acc_fig1",
    "acc_fig2",
    "acc_fig3",
    "acc_fig4",
    "acc_fig5",
    "acc_table1",
    "slides_table",
)
#: Tables of no paper, which stand on the page of their model.
OURS = frozenset(("lda_table", "public_prior", "public_clusters", "topic_tables", "text_logistic", "mnist_downstream"))
OUT = ROOT / "bench" / "paper" / "out"
RESULTS = ROOT / "bench" / "paper" / "results"
PAGE = ROOT / "docs" / "papers.md"
HEAD = """# The papers, figure by figure

Each figure and table of the papers beside ours, with two baselines a model: the algorithm *as printed*, and as *the
authors' code* runs it (`bench/peers/vips.py`). Models that trust the article's sensitivity and accountant are **NOT
PRIVATE** if that sensitivity does not hold; [errata](errata.md) has each error of the papers. Compare curves of one
neighboring relation only; legends name it. *Strong composition* is shown with a step's exact (ε, δ) ("tight step"),
with the classical σ of a step (theorem 3.20 of Dwork & Roth), and with the constants of the authors' code.

`make paper` makes this page from `bench/paper/results`, and writes the numbers of its pictures to `bench/paper/out`.
Scale 1 has the printed ranges and numbers of runs, scale 10 about a tenth of them. A printed order of two methods
*holds* if it does at every setting that was run.
"""


def missing(needs) -> list[str]:
    """List missing folders of VIPS_FAST_DATA, variables of the environment and modules."""
    return [n for n in needs if not ((DATA / n).is_dir() or os.environ.get(n) or importlib.util.find_spec(n))]


def key(cell) -> str:
    return json.dumps(cell, sort_keys=True)


def store(name, scale) -> Path:
    return RESULTS / str(scale) / f"{name}.jsonl"


def whole_lines(path) -> list[str]:
    """Read the lines of a file, without an unfinished last one."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def rows_of(name, scale) -> list[dict]:
    """Read the finished cells of a figure, in its cells' order. cell | result | seconds."""
    done = {key(line["cell"]): line for line in map(json.loads, whole_lines(store(name, scale)))}
    cells = map(key, importlib.import_module(name).cells(scale))
    return [done[k]["cell"] | done[k]["result"] | {"seconds": done[k]["seconds"]} for k in cells if k in done]


def _one_thread() -> None:
    for library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = "1"


def _timed(name, cell) -> tuple[dict, float]:
    module = importlib.import_module(name)
    start = _processor_time()
    result = module.run(cell)
    return result, round(_processor_time() - start, 2)


def _processor_time() -> float:
    """Read the seconds of this process and of finished subprocesses."""
    return sum(os.times()[:4])


def tell_failure(what, error) -> None:
    print(f"FAILED {what}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def run(names, scale, jobs=2) -> list[str]:
    """Run the cells that are not done, `jobs` at once. Each in a process. Returns the figures of those that failed."""
    todo, failed, lock = queue.SimpleQueue(), [], threading.Lock()
    (RESULTS / str(scale)).mkdir(parents=True, exist_ok=True)
    for name in names:
        lines = whole_lines(store(name, scale))
        store(name, scale).write_text("".join(f"{line}\n" for line in lines))
        done = {key(json.loads(line)["cell"]) for line in lines}
        for cell in importlib.import_module(name).cells(scale):
            if key(cell) not in done:
                todo.put((name, cell))
    total = todo.qsize()

    def work():
        pool = None
        while True:
            try:
                name, cell = todo.get_nowait()
            except queue.Empty:
                break
            pool = pool or ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_one_thread)
            try:
                result, seconds = pool.submit(_timed, name, cell).result()
                line = json.dumps({"cell": cell, "result": result, "seconds": seconds})
            except Exception as error:
                pool.shutdown()
                pool = None
                with lock:
                    failed.append(name)
                    tell_failure(f"{name} {key(cell)}", error)
                continue
            with lock:
                with open(store(name, scale), "a") as file:
                    file.write(line + "\n")
                print(f"{total - todo.qsize()}/{total} {name} {key(cell)} {seconds:.1f} s", file=sys.stderr, flush=True)
        if pool:
            pool.shutdown()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return failed


def fullest(name, scale) -> int:
    """Find the fullest scale with all cells, else return this one."""
    module = importlib.import_module(name)
    scales = sorted({scale, *(int(folder.name) for folder in RESULTS.glob("*") if folder.is_dir())})
    return next((s for s in scales if len(rows_of(name, s)) == len(module.cells(s))), scale)


def pictures(name) -> list[str]:
    """List the file names of a figure's pictures on the page."""
    folder = PAGE.parent / "papers"
    return sorted(path.name for path in folder.glob(f"{name}*.png") if re.fullmatch(rf"{name}(_\w+)?", path.stem))


def section(name, scale) -> str | None:
    """Write the Markdown of a figure from its rows and pictures. None without a row."""
    module = importlib.import_module(name)
    rows, cells = rows_of(name, scale), len(module.cells(scale))
    if not rows:
        return None
    orders = printed_orders(name)
    first = f"Scale {scale}" + (f", {len(rows)} of {cells} cells run" if len(rows) < cells else "")
    first += f"; {orders} printed orders hold." if orders else "."
    try:
        report = wrapped(module.report(rows).strip())
    except Exception as error:
        # Some of the cells may not be enough for a table; all of them have to be.
        if len(rows) == cells:
            raise
        return f"{first}\n\nToo few for the table yet ({type(error).__name__})."
    shown = [f"![{module.TITLE.partition(':')[0]}](papers/{picture})" for picture in pictures(name)]
    return "\n\n".join([first, *shortened(report.split("\n\n"), bool(shown)), *shown])


def shortened(blocks, drawn) -> list[str]:
    """Keep a report's words and its first table, or the picture in its place; the module's `report` has all."""
    words = [block for block in blocks if not block.startswith(("|", "-", "Holds at every"))]
    return words if drawn else [*words, *[block for block in blocks if block.startswith("|")][:1]]


def render(name, scale) -> None:
    """Write a figure's CSV and pictures. If its rows suffice and matplotlib is there."""
    rows, folder = rows_of(name, scale), OUT / str(scale)
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(c for row in rows for c, v in row.items() if not isinstance(v, (list, dict))))
    with open(folder / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    module = importlib.import_module(name)
    try:
        drawn = module.draw(rows, folder)
    except Exception as error:
        if len(rows) == len(module.cells(scale)) and not isinstance(error, ModuleNotFoundError):
            raise
        print(f"no picture of {name}: {type(error).__name__}: {error}", file=sys.stderr)
        return
    (PAGE.parent / "papers").mkdir(exist_ok=True)
    for path in drawn:
        shutil.copyfile(path, PAGE.parent / "papers" / path.name)


def printed_orders(name) -> str | None:
    """Count the orders of a figure that hold at every setting, from its stored results."""
    module = importlib.import_module(name)
    rows = rows_of(name, fullest(name, 10)) if hasattr(module, "orders") else []
    found = module.orders(rows) if rows else []
    return f"{sum(not o.fails for o in found)} of {len(found)}" if found else None


def page(scale, names) -> tuple[str, list[str]]:
    """Make docs/papers.md anew.

    Returns the figures whose part could not be made.

    Figures that are not in ``names`` keep their part, whatever this machine lacks.
    """
    mark = re.compile(r"<!-- (\w+) -->\n(.*?)\s*<!-- end -->", re.S)
    kept = dict(mark.findall(PAGE.read_text())) if PAGE.exists() else {}
    parts, failed = [], []
    for name in (one for one in FIGURES if one not in OURS):
        module, at = importlib.import_module(name), fullest(name, scale)
        body = kept.get(name, "Not run")
        if name in names or name not in kept:
            lacking = missing(module.NEEDS)
            why = f": missing {', '.join(lacking)} (a folder of VIPS_FAST_DATA, or a module)." if lacking else " yet."
            try:
                if name in names:
                    render(name, at)
                body = section(name, at) or (f"Not run{why}" if body.startswith("Not run") else body)
            except Exception as error:
                body = kept.get(name) or f"This part could not be made ({type(error).__name__})."
                failed.append(name)
                tell_failure(f"the page's part of {name}", error)
        parts.append(f"## {module.TITLE}\n\n<!-- {name} -->\n{body}\n<!-- end -->\n")
    return "\n".join([HEAD, *parts]), failed


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=1, help="1, the printed sizes, or 10, the quick form")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the figures' names")
    parser.add_argument("--jobs", type=int, default=2, help="cells at once")
    parser.add_argument("--page", action="store_true", help="write the page from what there is, run nothing")
    arguments = parser.parse_args(argv)
    if arguments.scale < 1:
        parser.error(f"--scale {arguments.scale}: a whole number of at least 1 was expected")
    unknown = [part for part in arguments.only if not any(part in name for name in FIGURES)]
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: a part of one of {', '.join(FIGURES)} was expected")
    # A whole name means only that figure.
    names = [n for n in FIGURES if any(part == n or (part in n and part not in FIGURES) for part in arguments.only)]
    able = [] if arguments.page else list(names)
    for name in list(able):
        if lacking := missing(importlib.import_module(name).NEEDS):
            print(f"left out: {name}, missing {', '.join(lacking)}", file=sys.stderr)
            able.remove(name)
    failed = run(able, arguments.scale, arguments.jobs) if able else []
    text, unmade = page(arguments.scale, names)
    PAGE.write_text(text)
    return bool(failed or unmade)
