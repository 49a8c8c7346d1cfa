"""Jobs that are killed at random moments, two at a time on one budget, and the books that this is held against.

A job fits, saves and begins anew, until it is killed; the next one of its place goes on where it stopped. Each process
notes its draws of noise keys in a file of its own (`runs.Witness`), and without a key there is no release. So what a
process has noted is at least what can have reached any file or reader of it.
"""

import itertools
import os
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from cases import CASES
from runs import Witnessed

from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.checkpoint import CHECKPOINT, Checkpoint
from vips_fast.engine.durable import leftovers
from vips_fast.engine.journal import LEDGER

KINDS = ("lda", "logistic", "network")
#: The declared number: steps that a kill may cost.
EVERY, N_STEPS = 2, 6
REFUSED, BROKEN = 4, 5
_DELTA = 1e-5
#: Name of a stage: epsilon of its budget, settings of its fits. Scarce ones run out, the last takes all that is left.
STAGES = {
    "ample": (100.0, dict(noise_multiplier=60.0)),
    "scarce": (0.25, dict(noise_multiplier=60.0)),
    "rest": (1.0, dict(noise_multiplier=None)),
}


def job(place, kind, stage):
    """Fit and save again and again; ends when the budget refuses."""
    epsilon, settings = STAGES[stage]
    make, records = CASES[kind]
    budget = place.parent / "budget"
    for number in itertools.count():
        if (place / f"done-{number}").exists():
            continue
        if not budget.exists():
            with suppress(FileExistsError):  # the other job was faster
                Budget.create(budget, epsilon, _DELTA, dataset="ward7", filter="renyi")
        model = make(n_steps=N_STEPS, n_records=200, n_jobs=1, **settings)
        model._randomness = lambda public, number=number: Witnessed(place / f"{number}-{os.getpid()}.drawn")
        try:
            kept = dict(checkpoint=place / f"run-{number}", resume=True, checkpoint_every=EVERY)
            model.fit(*records(), **kept, budget=budget)
        except BudgetExceededError:
            os._exit(REFUSED)
        model.save(place / "model")
        (place / f"done-{number}").mkdir()


def fresh(place, kind, stage):
    """The same in an interpreter that starts from nothing."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent.parent)]
    program = f"import pathlib, torture; torture.working(pathlib.Path({str(place)!r}), {kind!r}, {stage!r})"
    paths = dict(os.environ, PYTHONPATH=os.pathsep.join(folders))
    return os.posix_spawn(sys.executable, [sys.executable, "-c", program], paths)


def working(place, kind, stage, mutate=None):
    """A job whose unforeseen end is written down."""
    try:
        if mutate is not None:
            mutate()
        job(place, kind, stage)
    except BaseException:
        (place / "error").write_text(traceback.format_exc())
    finally:
        os._exit(BROKEN)


class Stage:
    """Two places with a job each, on one budget."""

    def __init__(self, folder, name, kinds, counts):
        self.folder, self.name, self.kinds, self.counts = folder, name, kinds, counts
        self.places = [folder / str(slot) for slot in range(2)]
        for place in self.places:
            place.mkdir(parents=True)
        self.budget, self.over, self.kept, self.read = None, False, [0, 0], [False, False]

    def start(self, slot, new, mutate):
        where = self.places[slot], self.kinds[slot], self.name
        if new:
            pid = fresh(*where)
        else:
            pid = os.fork()
            if pid == 0:
                working(*where, mutate)
        return pid

    def end(self, slot, pid):
        """Kill a job, and look at all that it left."""
        os.kill(pid, signal.SIGKILL)
        status, counts = os.waitpid(pid, 0)[1], self.counts
        if status == signal.SIGKILL:
            counts["kills"] += 1
        else:
            self.over = True
            refused = os.waitstatus_to_exitcode(status) == REFUSED
            counts["refused by the budget" if refused else "could not go on"] += 1
        for other in range(2):
            self.look_at_model(other)
        drawn = sum(path.stat().st_size for path in self.places[slot].glob(f"*-{pid}.drawn"))
        charged, recorded = self.charged(pid)
        counts["releases"] += drawn
        counts["releases charged"] += charged
        counts["under-counts"] += max(0, drawn - charged)
        # What a process was charged for and no checkpoint or model has; that of a torn end is another matter.
        kept = sum(self.look_at_run(slot, run) for run in self.places[slot].glob("run-*"))
        lost, self.kept[slot] = recorded - (kept - self.kept[slot]), kept
        counts["over-charged steps"] += lost
        counts["over-charged by torn ends"] += charged - recorded
        counts["over-charges beyond the declared"] += max(0, lost - EVERY)

    def look_at_run(self, slot, run):
        """Steps that a run has kept; its ledger holds what all the processes drew that worked on it."""
        number, ledger, checkpoint = run.name.removeprefix("run-"), run / LEDGER, run / CHECKPOINT
        drawn = sum(path.stat().st_size for path in self.places[slot].glob(f"{number}-*.drawn"))
        lines = ledger.read_bytes() if ledger.exists() else b""
        # A torn line counts when it is read.
        counted = lines.count(b'"kind":"release"') + bool(lines and not lines.endswith(b"\n"))
        self.counts["under-counts in a ledger"] += max(0, drawn - counted)
        try:
            return Checkpoint.read(checkpoint).step if checkpoint.exists() else 0
        except ValueError:
            self.counts["unreadable checkpoints"] += 1
            return 0

    def look_at_model(self, slot):
        """It is whole, and its own ledger holds every release that went into it."""
        model, kind = self.places[slot] / "model", CASES[self.kinds[slot]][0]
        if not model.exists():
            self.counts["unreadable models"] += self.read[slot]  # it was there before
            return
        self.read[slot] = True
        try:
            fitted = type(kind()).load(model)
            self.counts["under-counts in a ledger"] += max(0, fitted.n_steps_ - len(fitted.ledger_))
        except (OSError, ValueError):
            self.counts["unreadable models"] += 1

    def charged(self, pid):
        """Releases of a process, as the budget counts them, and those that it has a record of."""
        path = self.folder / "budget"
        if not path.exists():
            return 0, 0
        self.budget = self.budget or Budget(path)
        with self.budget._reading() as state:
            self.counts["budgets overspent"] += state.total(reserved=False) > state.epsilon
            own = [run for run in state.runs.values() if run.holder["pid"] == pid]
            return sum(run.spent for run in own), sum(run.drawn for run in own)

    def close(self):
        for place in self.places:
            self.counts["runs finished"] += sum(1 for _ in place.glob("done-*"))
        self.counts["left behind"] += sum(len(leftovers(place)) for place in [self.folder, *self.places])
        shutil.rmtree(self.folder)


#: What has to be nothing.
FAULTS = (
    "under-counts", "under-counts in a ledger", "unreadable models", "unreadable checkpoints", "budgets overspent",
    "over-charges beyond the declared", "could not go on",
)  # fmt: skip


def torture(folder, kills, *, seed=0, share_fresh=0.0, mutate=None):
    """Kill jobs that many times, or until a fault is found.

    Returns
    -------
    counts : Counter
        Of what happened; `FAULTS` are among it.
    errors : list of str
        Tracebacks of jobs that could not go on.
    """
    rng, counts = np.random.default_rng(seed), Counter(dict.fromkeys(FAULTS, 0))
    for kind in KINDS:  # compilation and the loading of libraries happen here, not in each child
        CASES[kind][0](n_jobs=1).fit(*CASES[kind][1]())
    span = 0.1  # within which a job is killed: so long that a few steps are done, however busy the machine is
    for number in itertools.count():
        kinds = [KINDS[(number // len(STAGES) + slot) % 3] for slot in range(2)]
        stage = Stage(folder / f"stage-{number}", list(STAGES)[number % len(STAGES)], kinds, counts)
        for _ in range(60):
            new = rng.random() < share_fresh
            pids = [stage.start(slot, new, mutate) for slot in range(2)]
            counts["fresh interpreters"] += 2 * new
            moments, begun = rng.uniform(0, 5.0 if new else span, 2), time.perf_counter()
            for slot in np.argsort(moments):
                time.sleep(max(0.0, begun + moments[slot] - time.perf_counter()))
                stage.end(slot, pids[slot])
            span = min(1.0, span * (1.1 if counts["releases"] < 3 * counts["kills"] else 0.95))
            if any(counts[fault] for fault in FAULTS):
                return counts, [path.read_text() for path in stage.folder.glob("*/error")]
            if stage.over or counts["kills"] >= kills:
                break
        stage.close()
        if counts["kills"] >= kills:
            return counts, []
