"""Signals at every file call of a job.

The job's state is compared with books.

A job at the shell reads texts, may purchase words, fits with budget and transcript, and writes its model. A forked
child runs it, counts its calls on files below one folder, and signals itself before one of them. As in `torture`, each
draw of a noise key is noted first. Then a second child resumes the job without a signal.
"""

import os
import re
import signal
import sys
import traceback
from collections import Counter

import numpy as np
from runs import Witnessed, drawn

from vips_fast.cli import main
from vips_fast.engine.budget import Budget
from vips_fast.jobs import folder as folders
from vips_fast.models import estimator
from vips_fast.models.lda import LatentDirichletAllocation
from vips_fast.models.rebuild import verify
from vips_fast.store import atomic

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
#: Events of `sys.addaudithook`, with the place of the path among their arguments; and functions that have none.
EVENTS = dict.fromkeys(("open", "os.mkdir", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "os.truncate"), 0)
EVENTS |= {"os.rename": 0, "os.link": 1, "fcntl.flock": 0}
CALLS = ("write", "pwrite", "pread", "fsync", "ftruncate", "posix_fallocate", "close", "stat", "fstat")
DELTA, WORDS = 1e-5, ("cough", "fever", "rash", "sleep", "work", "rent", "letter", "form")


class Counting:
    """Counts the calls of this process below a folder. Signals the process before the one with a number."""

    def __init__(self, folder, target=0, signum=None):
        self.folder, self.target, self.signum, self.count, self.inside = f"{folder}/", target, signum, 0, False
        os.fsync = lambda descriptor: None  # a kill loses nothing that the system has
        for name in CALLS:
            setattr(os, name, self.wrapped(getattr(os, name)))
        exchange = atomic._exchange
        atomic._exchange = lambda *paths: self.hit(paths[0]) or exchange(*paths)
        sys.addaudithook(lambda event, args: self.hit(args[EVENTS[event]]) if event in EVENTS else None)

    def wrapped(self, call):
        def counted(where, *more, **options):
            self.hit(where)
            return call(where, *more, **options)

        return counted

    def hit(self, where):
        """Count a call; False."""
        if self.inside:
            return False
        self.inside = True
        try:
            where = os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else os.fspath(where)
            below = f"{os.fsdecode(where)}/".startswith(self.folder)
        except (OSError, TypeError):
            below = False
        finally:
            self.inside = False
        if below:
            self.count += 1
            if self.count == self.target:
                os.kill(os.getpid(), self.signum)
        return False


def write_notes(path, n_persons=400):
    """Write a table of texts, two for each person."""
    rng = np.random.default_rng(0)
    rows = [f"p{i // 2},{' '.join(rng.choice(WORDS[: 4 + 4 * (i % 2)], 12))}" for i in range(2 * n_persons)]
    path.write_text("\n".join(["patient,note", *rows, ""]))


class Stage:
    """A place for one job. Its budget, model, transcript, and notes of draws."""

    def __init__(self, folder, notes, vocab):
        folder.mkdir()
        self.folder, self.vocab, self.notes = folder, vocab, notes
        # What a witness notes and a child says is not a call of the job.
        self.beside = folder.with_name(f"{folder.name}-beside")
        self.beside.mkdir()
        self.budget = Budget.create(folder / "budget", 100.0, DELTA, dataset="ward7", unit="person", filter="renyi")
        self.out = folder / "model"

    def line(self):
        line = f"fit lda {self.notes} --text note --person patient --topics 2 --records 400 --epsilon 8 --delta {DELTA}"
        line += f" --steps 3 --anyway --quiet --jobs 1 --checkpoint-every 1 --resume --vocab {self.vocab}"
        line += f" --out {self.out} --budget {self.budget.path} --transcript {self.folder / 'releases'}"
        return (line + " --max-share 1" * (self.vocab == "private")).split()

    def run(self, target=0, signum=None):
        """Run the job in a child, which says its calls. Return how it ended, as `os.waitstatus_to_exitcode`."""
        child = os.fork()
        if child == 0:
            code = 99
            try:
                sys.stdout = sys.stderr = open(self.beside / "said", "a", buffering=1)
                witness = self.beside / f"{os.getpid()}.drawn"
                estimator.SystemRandomness = lambda: Witnessed(witness)
                calls = Counting(self.folder, target, signum)
                code = main(self.line())
                (self.beside / "calls").write_text(str(calls.count))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def said(self):
        return (self.beside / "said").read_text()

    def drawn(self):
        return sum(drawn(path) for path in self.beside.glob("*.drawn"))

    def charged(self):
        """Return the releases that the budget counts."""
        return sum(run["counted"] for run in Budget(self.budget.path).show()["runs"])

    def recorded(self):
        """Return the releases that the job's ledgers count."""
        run = folders.run_folder(self.out)
        if run.exists():
            return sum(len(ledger) + torn for ledger, torn, _ in folders._ledgers(run))
        if self.out.exists():
            return self.published()
        return 0

    def published(self):
        ledger = LatentDirichletAllocation.load(self.out).ledger_
        # The purchase is one event of its own, of a number of rounds.
        purchase = ledger.plan.get("purchase")
        return len(ledger) + (0 if purchase is None else purchase["event"]["count"])


def drill(folder, vocab, points, *, sound=True, until=None):
    """Signal a job before some of its file calls, and resume it.

    ``points`` maps the number of calls of an undisturbed job to the calls to try; ``until`` is a fault to find. Returns
    the counts of all outcomes, with the faults among them, and the text of the first fault. ``sound`` says that an
    undisturbed job has to count everything.
    """
    folder.mkdir(exist_ok=True)
    notes, counts, first = folder / "notes.csv", Counter(), ""
    write_notes(notes)
    assert main(Stage(folder / "warm", notes, vocab).line()) == 0  # load late modules once, and not in each child
    whole = Stage(folder / "whole", notes, vocab)
    assert whole.run() == 0, whole.said()
    assert whole.drawn() and (not sound or whole.drawn() <= min(whole.recorded(), whole.charged()))
    n_calls = int((whole.beside / "calls").read_text())
    for point in points(n_calls):
        for signum in SIGNALS:
            stage = Stage(folder / f"{point}-{signum.name}", notes, vocab)
            faults = list(at(stage, point, signum, counts))
            counts["points"] += 1
            for fault in faults:
                counts[f"fault: {fault}"] += 1
            if faults and not first:
                first = f"call {point}, {signum.name}: {faults}\n{stage.said()}"
            if not faults:
                atomic.delete(stage.folder)
                atomic.delete(stage.beside)
            if until in faults:
                return counts, first
    return counts, first


def said_spent(text):
    """Releases that a text of `folders.spent` names."""
    return sum(map(int, re.findall(r"(\d+) release", text))) + text.count("one that was cut short")


def at(stage, point, signum, counts):
    """Signal a job once, resume it, and name each fault."""
    code = stage.run(point, signum)
    counts["ended by the signal" if code in (-signum, 128 + signum) else f"ended with {code}"] += 1
    if "Traceback" in stage.said() or "internal error" in stage.said():
        yield "an unforeseen error"
    made = stage.drawn()
    counts["releases"] += made
    if stage.charged() < made:
        yield "the budget under-counts"
    if stage.recorded() < made:
        yield "the ledger under-counts"
    run = folders.run_folder(stage.out)
    if run.exists() and said_spent(folders.spent(run)) < made:
        yield f"the run folder says {folders.spent(run)!r} for {made}"
    code = stage.run()
    if code:
        yield f"stuck: the resume ends with {code}"
        return
    if stage.charged() < stage.drawn():
        yield "the budget under-counts after the resume"
    if stage.published() < stage.drawn():
        yield "the ledger under-counts after the resume"
    if not verify(stage.out, stage.folder / "releases").ok:
        yield "the model does not verify"
    if folders.run_folder(stage.out).exists():
        yield "the run folder stays"
