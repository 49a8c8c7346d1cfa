"""Runs that are interrupted, killed or damaged, for the tests of checkpoints."""

import copy
import os
import signal
import time
from contextlib import contextmanager

import pytest
from cases import CASES

from vips_fast.engine.backend import Threads
from vips_fast.engine.checkpoint import RunFolder, settle_ledger
from vips_fast.engine.sampling import KeyedRandomness, SystemRandomness
from vips_fast.store.log import Log, encode

ALL = pytest.mark.parametrize("name", CASES)
KEY = b"k" * 32
note, opened = os.pwrite, os.open  # not those that a test lets fail


class Stop(Exception):
    pass


class Unread:
    """Data that must not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(name)

    __array__ = __len__ = None


class Witness:
    """Notes each draw of a noise key in a file. Without a draw there is no release."""

    def __init__(self, path, *arguments):
        super().__init__(*arguments)
        self.descriptor = opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def noise_key(self, step):
        note(self.descriptor, b".", 0)
        return super().noise_key(step)

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class Drawing(Witness, KeyedRandomness):
    def __init__(self, path):
        super().__init__(path, KEY)


class Witnessed(Witness, SystemRandomness):
    """The same with real noise, so that a budget takes the run."""


class EndsInSum(Threads):
    """Calls a function instead of the sum of a given step of this process, of which nothing is spent."""

    def __init__(self, where, end):
        super().__init__(1)
        self.left, self.end = where, end

    def sum(self, *arguments):
        self.left -= 1
        if self.left == 0:
            self.end()
        return super().sum(*arguments)


class Ends:
    """Calls a function before the noise key of a given step. The step is spent, and nothing was released."""

    def __init__(self, inner, where, end):
        self.words, self.of_step, self.key = inner.words, inner.of_step, inner.key
        self.inner, self.left, self.end = inner, where, end

    def noise_key(self, step):
        self.left -= 1
        if self.left == 0:
            self.end()
        return self.inner.noise_key(step)


def ends(model, where, end):
    """Return the model, whose run ends within a paid step."""
    make = model._randomness
    model._randomness = lambda public: Ends(make(public), where, end)
    return model


def estimator(name, draws=None, **options):
    """Return an estimator with a test key. Its draws of noise keys are noted."""
    made = CASES[name][0](**options).set_unsafe(test_key=KEY)
    if draws is not None:
        made._randomness = lambda public: Drawing(draws)
    return made


def data(name):
    return CASES[name][1]()


def drawn(path):
    return path.stat().st_size if path.exists() else 0


def bits(fitted):
    result = fitted._result
    return {key: value.tobytes() for key, value in {**result.arrays, **result.state}.items()}


def fail():
    raise Stop


@contextmanager
def stopping_after(step):
    """Stop the run in the block when it has kept the release of this step."""
    keep = RunFolder.keep_release

    def stops(self, release):
        keep(self, release)
        if release.step == step:
            fail()

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(RunFolder, "keep_release", stops)
        yield


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(function):
    """Run a function in a forked process; gives how it ended."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(3)
    return os.waitpid(child, 0)[1]


@contextmanager
def holding(work):
    """Start a process whose ``work`` calls the function that it is given once it holds something, and wait for that."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda *_: (os.write(say, b"x"), time.sleep(60)))
        finally:
            os._exit(3)
    os.close(say)  # so that the end of a child that fails is seen
    try:
        assert os.read(hear, 1) == b"x"
        yield child
    finally:
        os.close(hear)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def read_ledger(path, plan):
    """Return the ledger in a file, as a resumed run reads it. A torn end is settled."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return settle_ledger(Log(path, "ledger"), descriptor, plan)
    finally:
        os.close(descriptor)


def edit_transcript(folder, edit):
    """Change a transcript's log, with a chain that holds again."""
    path = folder / "run.jsonl"
    first, *rest = copy.deepcopy(Log.of(path, "run").records)
    records = [record["ledger"] for record in rest]
    edit(first["run"], records)
    path.write_bytes(encode("run", [{"run": first["run"]}, *({"ledger": record} for record in records)]))


_whole = {}


def whole(name):
    if name not in _whole:
        _whole[name] = bits(estimator(name).fit(*data(name)))
    return _whole[name]


def begun(folder, name="own", steps=2, **options):
    """Return a run that was interrupted inside the step after ``steps``."""
    model = estimator(name, **options)
    ends(model, steps + 1, fail)
    with pytest.raises(Stop):
        model.fit(*data(name), checkpoint=folder)
    return model
