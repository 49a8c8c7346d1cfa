"""Jobs at the shell that meet a fault or a signal at one of their file calls, and the advice that they print.

A forked child runs a job on a disk that fails (`disk`), or signals itself before a call. Then the disk is well again,
and the job's own words are followed, as its user would: from what it printed to the next command, until there is a
result. Each draw of a noise key is noted first; the books have to hold it.
"""

import gc
import os
import re
import shlex
import signal
import sys
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas
import pytest
from disk import FaultyDisk
from runs import Witnessed, drawn
from vectors import Encoder

from vips_fast import PublicVectors
from vips_fast.cli import main
from vips_fast.engine.budget import Budget
from vips_fast.jobs import clusters
from vips_fast.jobs.folder import run_folder, spent, state
from vips_fast.jobs.places import kind_in
from vips_fast.jobs.publication import verify
from vips_fast.models import estimator
from vips_fast.store import atomic

DELTA, WORDS = 1e-5, ("cough", "fever", "rash", "rent", "debt", "form")
#: Commands that may follow one another until a job has a result.
MOST = 4
_TEXTS = "notes.csv --text note --person patient"
_MORE = "--set measure_gain=False --anyway"
_TOPICS = f"fit lda {_TEXTS} --topics 2 --records 400 --epsilon 8 --steps 3 --doc-length 10 {_MORE}"
_PARTS = f"{_TEXTS} --values values.toml --epsilon 4"
_CLUSTERS = "--vectors model --public-prior public.npz --components 2"
#: The command of each kind of job, and whether a budget pays for it.
JOBS = {
    "lda": (f"{_TOPICS} --vocab vocab.txt", True),
    "purchase": (f"{_TOPICS} --language en --vocab private --max-share 1", True),
    "blr": ("fit blr X.npy --label y.npy --row-norm 2 --epsilon 4 --steps 3", True),
    "tabulate": (f"tabulate topics {_PARTS} --by ward", False),
    "clusters": (f"fit clusters {_TEXTS} {_CLUSTERS} --epsilon 6 --steps 3", True),
}


class FullDisk(FaultyDisk):
    """A disk that is full from the target-th call on: no file grows, but into what was freed or reserved before."""

    free = 0

    def failing(self, original, name):
        def call(where, *more, **options):
            label = name if name != "flock" else "unlock"
            self.hit(label, options.get("dir_fd") or (more[0] if name == "link" else where))
            if self.ours(where):
                self.free -= self.growth(name, where, *more)
                if self.left <= 0 and self.free < 0:
                    self.failed, self.free = self.failed or name, 0
                    raise OSError(self.fault, os.strerror(self.fault))
                self.free = max(self.free, 0) if self.left <= 0 else 0
            return None if name == "fsync" else original(where, *more, **options)

        return call

    def ours(self, where):
        place = os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else os.path.abspath(where)
        return place.startswith(self.folder)

    @staticmethod
    def growth(name, where, *more):
        """Return the bytes that a call takes, or less than 0 if it frees some."""
        if name in ("mkdir", "link"):
            return 4096
        if name == "open":
            return 4096 * bool(more and more[0] & os.O_CREAT and not os.path.exists(where))
        if name == "unlink":
            return -os.stat(where).st_size if os.path.isfile(where) else 0
        if name not in ("write", "pwrite", "posix_fallocate", "ftruncate"):
            return 0
        size = os.fstat(where).st_size
        if name == "ftruncate":
            return more[0] - size
        begin = {"write": lambda: os.lseek(where, 0, os.SEEK_CUR), "pwrite": lambda: more[1]}
        end = more[0] + more[1] if name == "posix_fallocate" else begin[name]() + len(more[0])
        return max(0, end - size)


def prepare(folder):
    """Write the inputs of all jobs into a folder, which is then the working one."""
    os.chdir(folder)
    clusters.SentenceEncoder = Encoder
    rng = np.random.default_rng(0)
    ward, person = rng.integers(0, 2, 800), np.arange(800) // 2
    notes = [" ".join(rng.choice(WORDS[3 * w : 3 * w + 3], 10)) for w in ward]
    table = {"note": notes, "patient": person, "ward": np.array(["n", "s"])[ward], "month": rng.choice(["1", "2"], 800)}
    pandas.DataFrame(table).to_csv("notes.csv", index=False)
    Path("vocab.txt").write_text("\n".join(WORDS))
    Path("values.toml").write_text('ward = ["n", "s"]\nmonth = ["1", "2"]\n')
    X = rng.standard_normal((200, 3))
    np.save("X.npy", X)
    np.save("y.npy", (X[:, 0] > 0).astype(int))
    words = ["cough", "fever", "rent", "debt"]
    PublicVectors(np.eye(4), np.eye(4), np.ones(4), words, np.eye(4), "a test").save("public.npz")
    Path("model").mkdir()
    assert done(f"{_TOPICS} --vocab vocab.txt --out topics --delta {DELTA}".split()) == 0


def done(line):
    """Run a command in this process, silently; return its exit code."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return main([*line, "--quiet"])


class Signalled:
    """Counts the calls of this process on files below a folder; signals the process before the target-th.

    A SIGKILL finds the same files before all calls from one that changes them to the next, so it counts only these.
    """

    #: Events of `sys.addaudithook`, with the place of the path among their arguments; and functions that have none.
    EVENTS = dict.fromkeys(("open", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.rename"), 0)
    EVENTS |= {"os.link": 1, "fcntl.flock": 0}
    CALLS = ("write", "pwrite", "ftruncate", "posix_fallocate")
    #: Those that change no file.
    READING_EVENTS = dict.fromkeys(("os.listdir", "os.scandir"), 0)
    READING_CALLS = ("pread", "fsync", "close", "stat", "fstat")

    def __init__(self, folder, target, name):
        self.folder, self.left, self.signum, self.inside = f"{folder}/", target, getattr(signal, name), False
        kill = self.signum == signal.SIGKILL
        events = self.EVENTS | ({} if kill else self.READING_EVENTS)
        os.fsync = lambda descriptor: None  # a kill loses nothing that the system has
        for call in (*self.CALLS, *(() if kill else self.READING_CALLS)):
            setattr(os, call, self.wrapped(getattr(os, call)))
        exchange = atomic._exchange
        atomic._exchange = lambda *paths: self.hit(paths[0]) or exchange(*paths)
        sys.addaudithook(lambda event, args: self.hit(args[events[event]]) if event in events else None)

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
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), self.signum)
        return False


class Trial:
    """One job, in a folder of its own; with ``paid`` a budget pays for it. One that is not ``new`` is there already."""

    def __init__(self, folder, command, paid, new=True):
        self.folder, self.beside, self.followed = folder, folder.with_name(f"{folder.name}-beside"), []
        self.out, self.transcript = folder / "out", folder / "releases"
        self.line = f"{command} --out {self.out} --transcript {self.transcript} --quiet --delta {DELTA}".split()
        self.budget = None
        if new:
            folder.mkdir()
            self.beside.mkdir()
        if paid:
            unit, path = "person" if "--person" in self.line else "record", folder / "budget"
            made = dict(dataset="w", unit=unit, filter="renyi")
            self.budget = Budget.create(path, 200.0, DELTA, **made) if new else None
            self.line += ["--budget", str(path)]

    def run(self, line, target=0, fault="ENOSPC"):
        said = self.beside / f"said-{len(list(self.beside.iterdir()))}"
        child = os.fork()
        if child == 0:
            # A shell that runs tests in the background, or nohup, has them ignore these.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            code = 99
            try:
                sys.stdout = sys.stderr = open(said, "w", buffering=1)
                estimator.SystemRandomness = lambda: Witnessed(self.beside / f"{os.getpid()}.drawn")
                if fault.startswith("SIG"):
                    calls = Signalled(self.folder, target or -1, fault)
                else:
                    disk = FullDisk if fault == "full" and target else FaultyDisk  # undisturbed, it has room
                    calls = disk(pytest.MonkeyPatch(), self.folder, target or -1, fault)  # the child ends
                code = main(line)
                (self.beside / "calls").write_text(str(-1 - calls.left))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, said.read_text()

    def calls(self, fault):
        """Count the file calls of an undisturbed job that such a fault may meet."""
        code, said = self.run(self.line, fault=fault)
        assert code == 0, said
        return int((self.beside / "calls").read_text())

    def made(self):
        """Count the releases that were drawn."""
        return sum(drawn(path) for path in self.beside.glob("*.drawn"))

    def charged(self):
        """Count the releases that the budget counts."""
        return None if self.budget is None else sum(run["counted"] for run in self.budget.show()["runs"])

    def next_line(self, said):
        """Find the command that the last message advises; None if it advises none."""
        text = said.replace(str(self.folder), "@")
        if (found := re.search(r"expected --epsilon ([\d.]+) or more", text)) is not None:
            line = list(self.line)
            line[line.index("--epsilon") + 1] = found[1]
            return [*line, "--resume"]
        if "the same job with --resume" in text or "expected --resume" in text:
            return [*self.line, "--resume"]
        return None

    def follow(self, code, said):
        """Follow the advice until there is a result; name each fault."""
        made, charged, kept = self.made(), self.charged(), run_folder(self.out)
        if charged is not None and charged < made:
            yield f"{made} releases drawn, {charged} in the budget, before any advice is followed"
        if kept.exists() and state(kept) != "published" and said_spent(spent(kept)) < made:
            yield f"the run folder says {spent(kept)!r} for {made}"
        for _ in range(MOST):
            if "Traceback" in said or "internal error" in said:
                yield "an unforeseen error"
            if code == 0:
                return
            line = self.next_line(said)
            if line is None and self.out.exists() and "is not empty" in said:
                line = [*self.line, "--resume"]  # there is a result, and the job says so
            # Without advice nothing was spent, or the process was killed: its user starts it again.
            advised, line = line is not None, line or self.line
            if len(self.followed) and not advised:
                yield f"stuck: {said.strip().splitlines()[-1:]}"
                return
            self.followed.append(shlex.join(line))
            code, said = self.run(line)
        if code:
            yield f"stuck after {self.followed}: {said.strip().splitlines()[-1:]}"

    def counts(self):
        """Return releases that the results count, of them lost ones, and those that a further one was drawn for."""
        ledger = kind_in(self.out).load(self.out).ledger_
        purchase = (ledger.plan or {}).get("purchase") if "private" in self.line else None
        return len(ledger) + (purchase["event"]["count"] if purchase else 0), ledger.lost

    def faults(self, fault, whole):
        """Compare the result with the books; ``whole`` is the number of releases of an undisturbed job."""
        if not self.out.exists():
            yield f"no result {self.out.name}"
            return
        # One that could not be removed is removed by the next job.
        if run_folder(self.out).exists() and state(run_folder(self.out)) != "published":
            yield "the run folder stays"
        if not verify(self.out, self.transcript).ok:
            yield f"{self.out.name} does not verify"
        counted, lost = self.counts()
        made, charged = self.made(), self.charged()
        if made > counted or (charged is not None and counted > charged):
            yield f"{made} releases drawn, {counted} in the ledger, {charged} in the budget"
        # A kill between a record and its release loses one; an error of the disk loses none.
        allowed = fault in ("killed", "SIGKILL")
        if not whole <= counted <= whole + allowed or lost > allowed:
            if not (allowed and lost <= 1 and counted == whole):
                yield f"{counted} releases for {whole}, {lost} lost"
        # A disk that fills up between the budget's record and the ledger's takes no record of the return either. A kill
        # that tears the budget's last record counts all that was reserved.
        more = 1 + whole if allowed else fault == "full"
        if charged is not None and not counted <= charged <= counted + more:
            yield f"charged {charged} for {counted}"


def said_spent(text):
    """Count the releases that a text of `spent` names."""
    return sum(map(int, re.findall(r"(\d+) release", text))) + text.count("one that was cut short")


def advised(folder, kind, points, *, like="ENOSPC", until=None, sound=True):
    """Run a kind of job into faults, follow its advice, and count all outcomes.

    ``points`` gives pairs of a call and a fault for the number of calls that faults ``like`` this one may meet. Returns
    counts and the first fault's story, and stops at a story that has ``until``. ``sound`` says that an undisturbed job
    has to count everything.
    """
    command, paid = JOBS[kind]
    # Libraries are loaded and compiled here, and not in each child.
    assert done(f"{command} --out {folder}/{kind}-warm --delta {DELTA}".split()) == 0
    gc.freeze()
    whole = Trial(folder / f"{kind}-whole", command, paid)
    n_calls = whole.calls(like)
    n_releases = whole.counts()[0]
    assert not sound or not list(whole.faults("none", n_releases))
    counts, first = Counter(), ""
    for point, fault in points(n_calls):
        trial = Trial(folder / f"{kind}-{point}-{fault}", command, paid)
        code, said = trial.run(trial.line, point, fault)
        faults = [*trial.follow(code, said)]
        faults += [] if faults else trial.faults(fault, n_releases)
        counts["points"] += 1
        counts[f"{fault}: {len(trial.followed)} followed"] += 1
        for one in faults:
            counts["faults"] += 1
            story = f"{kind}, call {point} of {n_calls}, {fault}: {one}\n{trial.followed}\n{said}"
            if until is not None and until in story:
                return counts, story
            first = first or story
    return counts, first
