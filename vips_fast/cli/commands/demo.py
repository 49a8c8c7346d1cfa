"""Run ``demo``: topics of this machine's docstrings, with and without privacy."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from ... import demo, report
from ...accounting import rounded_up
from ...data import Analyzer
from ...data.vocabulary import count_matrix
from ...jobs import PrivateTopics, beside
from ...jobs.places import check_place
from ...models.lda import LatentDirichletAllocation
from ..arguments import Demo
from ..messages import say, width

#: Fewest source files for topics, and topics of the model without privacy.
_FEWEST_FILES, _FREE_TOPICS = 50, 20


def run(args: Demo) -> int:
    """Fit topics of docstrings, as README does, and compare; 1 if the private topics are useless.

    Source files stand for persons.
    """
    start, threads = time.perf_counter(), -1 if args.n_jobs is None else args.n_jobs
    if args.out is not None:
        check_place(Path(args.out), force=False)
    texts, files, packages = demo.source_files()
    n = int(files.max(initial=-1)) + 1
    if n < _FEWEST_FILES:
        raise ValueError(f"demo: docstrings of {n} source files of installed packages; expected {_FEWEST_FILES}")
    held_out = np.isin(files, np.random.default_rng(0).permutation(n)[: n // 10])
    public = demo.public_texts()
    prior = demo.public_topics(public, args.topics)
    _paragraph(
        f"Each source file of {', '.join(packages)} stands for a person, its docstrings for what the person wrote: "
        f"{n:,} persons, {n // 10} of them held out. Public are the docstrings of Python's own library and its "
        f"reference, {len(public):,} texts: {len(prior.words):,} words and {prior.n_topics} topics of them cost no "
        "privacy. This is the call:"
    )
    print()
    print(f"    found = PrivateTopics(epsilon={rounded_up(args.epsilon)}, public_prior=topics_of_public_texts)")
    print('    found.fit(table, text="docstring", person="file")\n')
    table = {"docstring": [texts[d] for d in np.flatnonzero(~held_out)], "file": files[~held_out]}
    found = PrivateTopics(
        args.epsilon, public_prior=prior, n_jobs=threads, random_state=0, progress=not args.quiet
    ).fit(table, text="docstring", person="file")
    print(beside.shown(found.model_))
    _paragraph(found.privacy_.statement())
    train, test = (_by_file(texts, files, part, prior.words) for part in (~held_out, held_out))
    free = LatentDirichletAllocation(_FREE_TOPICS, private=False, random_state=0, n_jobs=threads).fit(train)
    given, asked = report.split_words(test, random_state=0)
    ours, without = (
        report.predictive_perplexity(model.transform(given), model.components_, asked) for model in (found.model_, free)
    )
    counted = report.unigram_perplexity(train, asked)
    rows = [
        (f"private topics, epsilon = {rounded_up(args.epsilon)}", ours),
        ("counting words, without privacy", counted),
        (f"{_FREE_TOPICS} topics, without privacy", without),
    ]
    title = "held-out perplexity, lower is better"
    print("\n" + report.table([(name, f"{value:.0f}") for name, value in rows], (title, "")))
    _paragraph(
        "Half of a held-out file's words are told, the other half is predicted. Counting words knows the exact "
        "frequencies of all words. Held-out records and the models without privacy are for comparison only: the "
        "statement does not cover them."
    )
    out = Path(args.out) if args.out is not None else Path(tempfile.mkdtemp(prefix="vips-fast-demo-"))
    _write(out, found)
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if ours < counted:
        return 0
    say(
        f"error: the private topics (perplexity {ours:.0f}) are no better than counting words ({counted:.0f}): "
        f"epsilon = {rounded_up(args.epsilon)} is too little for {found.privacy_.n_records} records"
    )
    return 1


def _by_file(texts: list[str], files: np.ndarray, part: np.ndarray, words: Sequence[str]) -> sparse.csr_array:
    """Count the words of each source file of a part."""
    rows = np.flatnonzero(part)
    counts = count_matrix([[texts[d] for d in rows]], words, Analyzer())
    _, person = np.unique(files[rows], return_inverse=True)
    ones = np.ones(len(rows), np.int64)
    return sparse.csr_array(sparse.csr_array((ones, (person, np.arange(len(rows))))) @ counts)


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
    print(report.paragraph(text, width()))
