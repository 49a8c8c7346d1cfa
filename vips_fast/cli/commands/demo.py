"""Run ``demo``: private topics of this machine's docstrings."""

import tempfile
import time
from pathlib import Path

from ... import demo
from ...accounting import rounded_up
from ...jobs import PrivateTopics, beside
from ...jobs.places import check_place
from ...report import paragraph
from ..arguments import Demo
from ..messages import say, width

#: Fewest source files for topics.
_FEWEST_FILES = 50


def run(args: Demo) -> int:
    """Fit topics of docstrings, as README does; 1 if they are no better than counting words.

    Source files stand for persons.
    """
    start, threads = time.perf_counter(), -1 if args.n_jobs is None else args.n_jobs
    if args.out is not None:
        check_place(Path(args.out), force=False)
    texts, files, packages = demo.source_files()
    n = int(files.max(initial=-1)) + 1
    if n < _FEWEST_FILES:
        raise ValueError(f"demo: docstrings of {n} source files of installed packages; expected {_FEWEST_FILES}")
    public = demo.public_texts()
    prior = demo.public_topics(public, args.topics)
    _paragraph(
        f"Each source file of {', '.join(packages)} stands for a person, its docstrings for what the person wrote: "
        f"{n:,} persons. Public are the docstrings of Python's own library and its reference, {len(public):,} texts: "
        f"{len(prior.words):,} words and {prior.n_topics} topics of them cost no privacy. This is the call:"
    )
    print()
    print(f"    found = PrivateTopics(epsilon={rounded_up(args.epsilon)}, public_prior=topics_of_public_texts)")
    print('    found.fit(table, text="docstring", person="file")\n')
    found = PrivateTopics(
        args.epsilon, public_prior=prior, n_jobs=threads, random_state=0, progress=not args.quiet
    ).fit({"docstring": texts, "file": files}, text="docstring", person="file")
    print(beside.shown(found.model_))
    _paragraph(found.privacy_.statement())
    out = Path(args.out) if args.out is not None else Path(tempfile.mkdtemp(prefix="vips-fast-demo-"))
    _write(out, found)
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if found.model_.verdict_.worth != "no better":
        return 0
    epsilon = f"epsilon = {rounded_up(args.epsilon)}"
    say(f"error: the private topics are no better than counting words: {epsilon} is too little for {n} persons")
    return 1


def _write(out: Path, found: PrivateTopics) -> None:
    """Write the private model's folder, with its report if possible."""
    found.save(out)
    try:
        found.report(out / beside.REPORT)
        print(f"The report, a page for a browser: {(out / beside.REPORT).resolve().as_uri()}")
    except ImportError as error:
        say(f"left out: {error}")
    print(f"The private model: vips-fast show {out}")
    print(f"Made again from its releases, without the docstrings: vips-fast verify {out}")


def _paragraph(text: str) -> None:
    print(paragraph(text, width()))
