"""Signals that end a run only while nothing is half done."""

import os
import signal
import time

import pytest
from runs import ALL, EndsInSum, bits, data, drawn, estimator, in_child, whole

from vips_fast.engine.interrupts import Stopped, stoppable, uninterrupted
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.sampling import KeyedRandomness


@pytest.fixture(autouse=True)
def _nothing_ignored():
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGHUP)}
    for signum, handler in zip(before, (signal.default_int_handler, signal.SIG_DFL), strict=True):
        signal.signal(signum, handler)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


SIGNALS = pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])


@SIGNALS
def test_a_signal_waits_for_the_end_of_a_block_that_is_uninterrupted(signum):
    done = []
    with pytest.raises(Stopped, match=signal.Signals(signum).name) as stopped, stoppable():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signum)
            done.append(1)
        done.append(2)
    assert done == [1] and stopped.value.signum == signum
    with pytest.raises(OSError), stoppable(), uninterrupted():
        signal.raise_signal(signum)
        raise OSError  # the message is about the first error
    before = signal.getsignal(signum)
    with pytest.raises(Stopped), stoppable():
        try:
            signal.raise_signal(signum)
        finally:
            with uninterrupted():  # cleaning up is not interrupted by the same signal
                done.append(3)
    assert done == [1, 3] and signal.getsignal(signum) is before


@SIGNALS
def test_a_second_signal_ends_the_process_and_an_ignored_one_does_nothing(signum):
    def twice():
        with stoppable(), uninterrupted():
            signal.raise_signal(signum)
            signal.raise_signal(signum)  # the same request, told twice
            time.sleep(0.15)
            signal.raise_signal(signum)
            os._exit(0)

    assert os.WTERMSIG(in_child(twice)) == signum

    def ignored():
        signal.signal(signum, signal.SIG_IGN)
        with stoppable():
            signal.raise_signal(signum)
            os._exit(0)

    assert in_child(ignored) == 0


@ALL
@pytest.mark.parametrize("place", ["update", "sum", "noise_key", "intend"])
def test_a_signal_anywhere_in_a_step_loses_no_step_that_was_done(name, place, tmp_path, monkeypatch):
    """A sum is given up and costs nothing. A step that is paid for is done first."""

    def send():
        signal.raise_signal(signal.SIGTERM)

    def at_second(function):
        calls = []

        def call(*args, **kwargs):
            calls.append(1)
            if len(calls) == 2:
                send()
            return function(*args, **kwargs)

        return call

    draws = tmp_path / "draws"
    model = estimator(name, draws)
    with monkeypatch.context() as patch:
        if place == "update":
            make = type(model)._model
            patch.setattr(type(model), "_model", lambda self, *how: updating(make(self, *how), at_second, patch))
        elif place == "sum":
            model._backend = lambda: EndsInSum(2, send)
        elif place == "noise_key":
            patch.setattr(KeyedRandomness, place, at_second(getattr(KeyedRandomness, place)))
        else:
            patch.setattr(Ledger, place, at_second(getattr(Ledger, place)))
        with pytest.raises(Stopped), stoppable():
            model.fit(*data(name), checkpoint=tmp_path / "r")
    done = estimator(name, draws).fit(*data(name), checkpoint=tmp_path / "r", resume=True)
    assert bits(done) == whole(name)
    assert drawn(draws) == len(done.ledger_) == done.n_steps_


def updating(model, wrap, patch):
    patch.setattr(model, "update", wrap(model.update))
    return model
