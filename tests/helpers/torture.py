"""Jobs that are killed at random moments, two at a time on one budget, with the books to compare with.

A job fits, saves and begins anew, until it is killed; the next one of its place resumes the run. It fits to
counts, rows, images or shards, by single calls of ``partial_fit``, or to texts whose words it purchases. Each process
notes its draws of noise keys in a file of its own (`runs.Witness`), and without a key there is no release. So a
process has noted at least all that can have reached any file or reader of it.
"""

import gc
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
import scipy.sparse as sp
from cases import CASES
from runs import Witnessed
from written import write_notes

from vips_fast.cli import main
from vips_fast.data import Batch, ShardedCorpus, write_shards
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.checkpoint import ledger_in
from vips_fast.jobs.folder import WORDS
from vips_fast.jobs.publication import verify
from vips_fast.models import estimator
from vips_fast.store.atomic import leftovers

KINDS = ("lda", "logistic", "network", "shards", "partial")
#: The cases of other kinds.
LIKE = {"shards": "lda", "partial": "lda", "purchase": "lda"}
#: Steps that a kill may cost, and those of a run.
LOST, N_STEPS = 1, 6
REFUSED, BROKEN = 4, 5
PARENT = os.getpid()
_DELTA = 1e-5
#: Name of a stage: epsilon of its budget, settings of its fits. Scarce ones run out, the last takes all that is left.
STAGES = {
    "ample": (100.0, dict(noise_multiplier=60.0)),
    "scarce": (0.25, dict(noise_multiplier=60.0)),
    "rest": (1.0, dict(noise_multiplier=None)),
    "words": (300.0, dict(noise_multiplier=None)),  # its jobs purchase them
}


def case(kind):
    """Make an estimator, and its records, of a kind."""
    return CASES[LIKE.get(kind, kind)]


def write_data(folder):
    """Write the records of each kind to a file. For the command line."""
    folder.mkdir(parents=True)
    write_notes(folder / "notes.csv")
    write_shards(folder / "shards", [Batch(CASES["lda"][1]()[0])])
    sp.save_npz(folder / "lda.npz", sp.csr_array(CASES["lda"][1]()[0]))
    for name, array in zip(("logistic", "labels"), CASES["logistic"][1]()):
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "network.npy", CASES["network"][1]()[0])


def done(place):
    """Count the runs that are done in a place. Each has a link that names its steps."""
    return next(number for number in itertools.count() if not os.path.lexists(place / f"done-{number}"))


def next_number(place):
    """Of the run that this job is to do."""
    if os.getppid() != PARENT:
        os._exit(BROKEN)  # its killer has ended
    return done(place)


def job(place, kind, stage):
    """Fit and save again and again; ends when the budget refuses."""
    epsilon, settings = STAGES[stage]
    make, records = case(kind)
    if kind == "shards":
        corpus = ShardedCorpus(place.parent.parent / "data" / "shards")

        def records():
            return (corpus,)

    while True:
        number, budget = next_number(place), place.parent / "budget"
        if not budget.exists():
            with suppress(FileExistsError):  # the other job was faster
                Budget.create(budget, epsilon, _DELTA, dataset="ward7", filter="renyi")
        estimator.SystemRandomness = lambda number=number: Witnessed(place / f"{number}-{os.getpid()}.drawn")
        model = make(n_steps=N_STEPS, n_records=200, n_jobs=1, **{**settings, "random_state": number})
        kept = dict(checkpoint=place / f"run-{number}", resume=True)
        try:
            if kind == "partial":
                step_by_step(make, settings, number, records, place, budget)
                continue
            model.fit(*records(), **kept, budget=budget)
        except ValueError as error:
            if too_little(stage, str(error), error):
                os._exit(REFUSED)
            raise
        model.save(place / "model")
        os.symlink(str(model.n_steps_), place / f"done-{number}")


def step_by_step(make, settings, number, records, place, budget):
    """Run calls of ``partial_fit``, and save after each. There is no checkpoint within a call."""
    model = make(
        n_records=200, batch_size=200, n_jobs=1, **{**settings, "noise_multiplier": 60.0, "random_state": number}
    )
    if (place / "model").exists():
        saved = type(model).load(place / "model")
        model = saved if saved.random_state == number else model
    transcript = place / f"releases-{number}"
    if not hasattr(model, "n_steps_"):
        shutil.rmtree(transcript, ignore_errors=True)  # a first call takes no folder that is in use
    while getattr(model, "n_steps_", 0) < N_STEPS:
        model.partial_fit(*records(), budget=budget, transcript=transcript)
        model.save(place / "model")
    assert verify(place / "model", transcript).ok
    os.symlink(str(model.n_steps_), place / f"done-{number}")


def too_little(stage, said, error=None):
    """Tell whether a fit was refused for lack of budget. It is used up, or too little is left for any noise."""
    return isinstance(error, BudgetExceededError) or (stage == "rest" and "noise" in said)


def command(data, kind, stage, out, budget, number):
    """Exit code of one fit on the command line."""
    noise = STAGES[stage][1]["noise_multiplier"]
    own = {
        "lda": f"lda {data}/lda.npz --topics 3 --doc-length 30 --anyway",
        "logistic": f"blr {data}/logistic.npy --label {data}/labels.npy --row-norm 2.0",
        "network": f"sbn {data}/network.npy --components 3 --anyway",
        "shards": f"lda {data}/shards --topics 3 --doc-length 30 --anyway",
        "purchase": f"lda {data}/notes.csv --text note --person patient --language en --topics 2 --max-share 1 "
        f"--anyway --epsilon 8 --delta {_DELTA}",
    }[kind]
    n_records = 400 if kind == "purchase" else 200
    kept = f"--out {out} --force --resume --jobs 1 --steps {N_STEPS} --records {n_records} --budget {budget}"
    more = "" if noise is None else f" --noise-multiplier {noise}"
    return main(f"fit {own} {kept} --seed {number} --quiet{more}".split())


def warm(folder):
    """Compilation and the loading of libraries happen here, not in each child."""
    for kind, stage in (*((kind, "ample") for kind in KINDS if kind != "partial"), ("purchase", "words")):
        unit = "person" if kind == "purchase" else "record"
        budget = Budget.create(folder / f"{kind}.budget", 100.0, _DELTA, dataset="ward7", unit=unit)
        assert command(folder, kind, stage, folder / f"{kind}-fitted", budget.path, 0) == 0
        type(case(kind)[0]()).load(folder / f"{kind}-fitted")
        fitted = case(kind)[0](n_jobs=1).fit(*case(kind)[1](), checkpoint=folder / f"{kind}-kept")
        fitted.save(folder / f"{kind}-again")


def command_job(place, kind, stage):
    """Run the same job by the command line. Its run folder is ``model.run``."""
    data, out = place.parent.parent / "data", place / "model"
    while True:
        number, budget = next_number(place), place.parent / "budget"
        if not budget.exists():
            about = f"--epsilon {STAGES[stage][0]} --delta {_DELTA} --dataset ward7 --filter renyi"
            about += " --unit person" if kind == "purchase" else ""
            assert main(f"budget create {budget} {about}".split()) == 0 or budget.exists()
        estimator.SystemRandomness = lambda number=number: Witnessed(place / f"{number}-{os.getpid()}.drawn")
        code = command(data, kind, stage, out, budget, number)
        if code:
            os._exit(REFUSED if code == 3 or too_little(stage, (place / "said").read_text()) else BROKEN)
        os.symlink(str(steps_of(type(case(kind)[0]()).load(out))), place / f"done-{number}")


def rounds_of(fitted):
    """Releases of a model's purchase."""
    prior = (fitted.ledger_.plan or {}).get("purchase")
    return 0 if prior is None else prior["event"]["count"]


def steps_of(fitted):
    """Steps of a model and releases of its purchase."""
    return fitted.n_steps_ + rounds_of(fitted)


def fresh(place, kind, stage, commands):
    """Return a process of a job whose interpreter starts from nothing."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent.parent)]
    program = f"import pathlib, torture as t; t.working(pathlib.Path({str(place)!r}), {kind!r}, {stage!r}, {commands})"
    paths = dict(os.environ, PYTHONPATH=os.pathsep.join(folders))
    return os.posix_spawn(sys.executable, [sys.executable, "-c", program], paths)


def working(place, kind, stage, commands, mutate=None):
    """Run a job whose unexpected end is written down."""
    global PARENT
    PARENT = os.getppid()
    try:
        sys.stdout = sys.stderr = open(place / "said", "w", buffering=1)
        if mutate is not None:
            mutate()
        (command_job if commands else job)(place, kind, stage)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(BROKEN)


class Stage:
    """Two places with a job each, on one budget. By the command line, or by only Python."""

    def __init__(self, folder, name, kinds, commands, counts):
        self.folder, self.name, self.kinds, self.commands, self.counts = folder, name, kinds, commands, counts
        self.places = [folder / str(slot) for slot in range(2)]
        for place in self.places:
            place.mkdir(parents=True)
        self.budget, self.over, self.kept, self.read = None, False, [0, 0], [False, False]

    def start(self, slot, new, mutate):
        where = self.places[slot], self.kinds[slot], self.name, self.commands[slot]
        if new:
            return fresh(*where)
        return os.fork() or working(*where, mutate)

    def end(self, slot, pid):
        """Kill a job, and look at all that it left."""
        os.kill(pid, signal.SIGKILL)
        status, counts = os.waitpid(pid, 0)[1], self.counts
        if status == signal.SIGKILL:
            counts["kills"] += 1
            counts[f"kills: {self.kinds[slot]}, {'shell' if self.commands[slot] else 'Python'}"] += 1
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
        # Charges of a process that no checkpoint or model has; a torn end's are another matter.
        number, place = done(self.places[slot]), self.places[slot]
        kept = sum(int(os.readlink(place / f"done-{before}")) for before in range(number))
        kept += self.look_at_run(slot, number)
        lost, self.kept[slot] = recorded - (kept - self.kept[slot]), kept
        counts["over-charged steps"] += lost
        counts["over-charged by torn ends"] += charged - recorded
        counts["over-charges beyond the declared"] += max(0, lost - LOST)

    def look_at_run(self, slot, number):
        """Steps that the run under way has kept. Its ledger holds the draws of all processes that worked on it."""
        place, counts = self.places[slot], self.counts
        drawn = sum(path.stat().st_size for path in place.glob(f"{number}-*.drawn"))
        run = place / ("model.run" if self.commands[slot] else f"run-{number}")
        (ledger, torn), (words, cut) = ledger_in(run), ledger_in(run / WORDS)
        # A torn end counts when it is read.
        counted, kept = len(ledger) + torn + len(words) + cut, len(words) + len(list(run.glob("releases/release-*")))
        if not counted and (fitted := self.look_at_model(slot)) is not None and fitted.random_state == number:
            # It is in its place, and its run removed.
            counted, kept = len(fitted.ledger_) + rounds_of(fitted), steps_of(fitted)
        if self.kinds[slot] == "partial":
            return kept  # a call that is killed leaves its release nowhere, and only the budget counts it
        counts["under-counts in a ledger"] += max(0, drawn - counted)
        return kept

    def look_at_model(self, slot):
        """Check that the model is whole, and its ledger has every release of its run, whose number is its seed."""
        place, kind = self.places[slot], case(self.kinds[slot])[0]
        model = place / "model"
        if not model.exists():
            self.counts["unreadable models"] += self.read[slot]  # it was there before
            return None
        self.read[slot] = True
        try:
            fitted = type(kind()).load(model)
        except (OSError, ValueError):
            self.counts["unreadable models"] += 1
            return None
        drawn = sum(path.stat().st_size for path in place.glob(f"{fitted.random_state}-*.drawn"))
        if self.kinds[slot] != "partial":
            self.counts["under-counts in a ledger"] += max(0, drawn - len(fitted.ledger_) - rounds_of(fitted))
        return fitted

    def charged(self, pid):
        """Count a process's releases by the budget and by its record."""
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
    "under-counts",
    "under-counts in a ledger",
    "unreadable models",
    "budgets overspent",
    "over-charges beyond the declared",
    "could not go on",
)


def torture(folder, kills, *, seed=0, share_fresh=0.0, share_commands=0.5, mutate=None):
    """Kill jobs that many times, or until a fault is found.

    Returns a Counter of all outcomes, `FAULTS` among them, and tracebacks of jobs that could not go on.
    """
    write_data(folder / "data")
    rng, counts = np.random.default_rng(seed), Counter(dict.fromkeys(FAULTS, 0))
    warm(folder / "data")
    gc.freeze()
    span = 0.1  # within which a job is killed: so long that a few steps are done, however busy the machine is
    for number in itertools.count():
        name = list(STAGES)[number % len(STAGES)]
        kinds = [KINDS[(number // len(STAGES) + slot) % len(KINDS)] for slot in range(2)]
        kinds = ["purchase"] * 2 if name == "words" else kinds
        chances = {"partial": 0.0, "purchase": 1.0}
        commands = [bool(rng.random() < chances.get(kind, share_commands)) for kind in kinds]
        stage = Stage(folder / f"stage-{number}", name, kinds, commands, counts)
        for _ in range(min(60, max(8, kills // 40))):
            new = rng.random() < share_fresh
            pids = [stage.start(slot, new, mutate) for slot in range(2)]
            counts["fresh interpreters"] += 2 * new
            moments, begun = rng.uniform(0, 5.0 if new else span, 2), time.perf_counter()
            for slot in np.argsort(moments):
                time.sleep(max(0.0, begun + moments[slot] - time.perf_counter()))
                stage.end(slot, pids[slot])
            span = min(1.0, span * (1.1 if counts["releases"] < 2 * counts["kills"] else 0.95))
            if any(counts[fault] for fault in FAULTS):
                return counts, [path.read_text() for path in stage.folder.glob("*/said")]
            if stage.over or counts["kills"] >= kills:
                break
        stage.close()
        if counts["kills"] >= kills:
            return counts, []
