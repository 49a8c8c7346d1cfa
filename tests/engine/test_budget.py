"""The budget of a data set: its sums, its refusals, its charges, from many at once."""

import copy
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cases import CASES
from runs import Unread, in_child

from vips_fast import accounting as acc
from vips_fast.engine import filters
from vips_fast.engine.budget import Budget, BudgetExceededError, BudgetInUseError
from vips_fast.jobs.publication import verify
from vips_fast.store import lock
from vips_fast.store.process import is_dead, this_process

ALL = pytest.mark.parametrize("name", sorted(CASES))


def whole(z):
    return acc.GaussianEvent(z, "add_remove")


def poisson(q, z):
    return acc.PoissonSampledEvent(q, whole(z))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ward7.budget"


@pytest.fixture
def budget(path):
    return Budget.create(path, 3.0, 1e-6, dataset="ward7")


def draw(budget, event, count, drawn=None):
    with budget.reserve(event, count) as held:
        for _ in range(count if drawn is None else drawn):
            held.release()


# ---------------------------------------------------------------- filters


@pytest.mark.parametrize(
    "event", [poisson(0.05, 1.2), poisson(0.25, 3.8), whole(12.0), acc.LaplaceEvent(20.0, "add_remove")]
)
@pytest.mark.parametrize("count", [1, 20])
def test_renyi_filter_is_the_rdp_accountant_order_by_order(event, count):
    run = acc.SelfComposedEvent(event, count)
    for alpha in (1.5, 9.0, 64.0):
        one = filters.renyi_filter_epsilon({event: count}, 1e-6, ((alpha, 1.0),))
        assert one == pytest.approx(acc.epsilon(run, 1e-6, "rdp", orders=[alpha]), rel=1e-9)
    orders = filters.renyi_orders(3.0, 1e-6)
    best = min(acc.epsilon(run, 1e-6 * share, "rdp", orders=[alpha]) for alpha, share in orders)
    assert filters.renyi_filter_epsilon({event: count}, 1e-6, orders) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("target", [(0.1, 1e-9), (1.0, 1e-4), (3.0, 1e-6), (10.0, 1e-2)])
def test_orders_share_delta(target):
    orders = filters.renyi_orders(*target)
    assert sum(share for _, share in orders) <= 1.0 and all(alpha > 1.0 for alpha, _ in orders)
    assert max(share for _, share in orders) == 0.5


def test_a_filter_is_never_below_what_is_exact():
    rng = np.random.default_rng(0)
    orders = filters.renyi_orders(3.0, 1e-6)
    for _ in range(10):
        counts = {poisson(rng.uniform(0.01, 0.3), rng.uniform(1, 5)): int(rng.integers(1, 20)) for _ in "ab"}
        counts[whole(float(rng.uniform(5, 20)))] = 1
        tight = acc.epsilon(acc.ComposedEvent([acc.SelfComposedEvent(*one) for one in counts.items()]), 1e-6)
        assert tight <= filters.renyi_filter_epsilon(counts, 1e-6, orders)
        assert tight <= filters.gaussian_filter_epsilon(counts, 1e-6) * (1 + 1e-4)


# ------------------------------------------------------------- one budget


def test_reserve_release_give_back(budget, path, monkeypatch):
    event = poisson(0.05, 2.0)
    held = budget.reserve(event, 20, what="topics")
    assert budget.spent == 0.0 and budget.left < 3.0
    before = budget.left
    for _ in range(5):
        held.release()
    assert 0.0 < budget.spent and budget.left == before
    held.close()
    held.close()
    said = budget.show()
    assert budget.left == pytest.approx(3.0 - budget.spent)
    (run,) = said["runs"]
    assert (run["what"], run["reserved"], run["drawn"], run["state"]) == ("topics", 20, 5, "closed")
    assert budget.spent == filters.renyi_filter_epsilon({event: 5}, 1e-6, filters.renyi_orders(3.0, 1e-6))
    with pytest.raises(BudgetExceededError, match="was given back"):
        held.release()
    assert "ward7" in repr(budget)
    monkeypatch.setattr(filters, "renyi_orders", None)  # the filter is fixed in the file
    assert Budget(path).show() == said


def test_what_does_not_fit_is_refused(budget):
    draw(budget, poisson(0.25, 3.0), 20)
    spent, records = budget.spent, budget.show()["records"]
    with pytest.raises(
        BudgetExceededError, match=r"ward7.*20 releases more.*limit is 3 at .*is spent, [\d.]+ is left"
    ) as error:
        budget.reserve(poisson(0.25, 2.0), 20)
    assert isinstance(error.value, ValueError)
    assert budget.spent == spent and budget.show()["records"] == records


def test_the_first_run_decides_the_filter(tmp_path):
    first = Budget.create(tmp_path / "a", 3.0, 1e-6, dataset="a")
    draw(first, whole(10.0), 3)
    assert first.show()["filter"] == "gaussian"
    assert first.spent == pytest.approx(acc.epsilon(acc.SelfComposedEvent(whole(10.0), 3), 1e-6), rel=1e-12)
    draw(first, poisson(0.01, 10.0), 1)  # counts as if it were the whole
    assert first.spent == pytest.approx(acc.epsilon(acc.SelfComposedEvent(whole(10.0), 4), 1e-6), rel=1e-12)
    second = Budget.create(tmp_path / "b", 3.0, 1e-6, dataset="b")
    draw(second, poisson(0.01, 10.0), 1)
    draw(second, whole(10.0), 3)
    assert second.show()["filter"] == "renyi"


@pytest.mark.parametrize("make", [whole, lambda z: poisson(0.02, z)])
def test_calibration_takes_what_is_left(budget, make):
    draw(budget, make(4.0), 2)
    z = budget.noise_multiplier(make, 30)
    draw(budget, make(z), 30)
    assert 2.97 < budget.spent <= 3.0
    with pytest.raises(BudgetExceededError):
        budget.reserve(make(z), 1)


@pytest.mark.parametrize(
    "name, value",
    [("epsilon", 0.0), ("epsilon", math.inf), ("delta", 1.0), ("relation", "swap")]
    + [("unit", ""), ("dataset", "a\nb"), ("filter", "best")],
)
def test_bad_budget(path, name, value):
    with pytest.raises(ValueError, match=name):
        Budget.create(path, **{**dict(epsilon=1.0, delta=1e-6, dataset="d"), name: value})
    assert list(path.parent.iterdir()) == []


def test_a_budget_is_never_replaced(budget, path):
    held = path.read_bytes()
    with pytest.raises(FileExistsError):
        Budget.create(path, 9.0, 1e-6, dataset="other")
    assert path.read_bytes() == held
    with pytest.raises(FileNotFoundError):
        Budget(path.with_name("none"))


def test_what_is_no_event_of_this_budget(budget):
    with pytest.raises(ValueError, match="replace_one.*add_remove"):
        budget.reserve(acc.GaussianEvent(3.0, "replace_one"), 1)
    with pytest.raises(ValueError):
        budget.reserve(acc.NonPrivateEvent("add_remove"), 1)
    with pytest.raises(ValueError, match="count"):
        budget.reserve(whole(3.0), 0)
    assert budget.show()["records"] == 1


# ------------------------------------------------------- copies and holders


def test_every_copy_charges_the_same_file(budget, path):
    others = [Budget(path), copy.copy(budget), copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))]
    with budget.reserve(whole(20.0), 1) as held:
        for one in others:
            draw(one, whole(20.0), 1)
        held.release()  # its process lives, so none of the others gave it back
    assert {b.spent for b in (budget, *others)} == {filters.gaussian_filter_epsilon({whole(20.0): 5}, 1e-6)}


def test_a_forked_child_charges_and_gives_nothing_back(budget):
    held = budget.reserve(whole(20.0), 3)
    held.release()
    assert in_child(lambda: (held.release(), held.close(), os._exit(0))) == 0
    assert budget.show()["runs"][0]["drawn"] == 2
    held.release()  # the child's draws are gone from the reservation
    with pytest.raises(BudgetExceededError, match="drawn in full"):
        held.release()
    assert budget.show()["runs"][0]["drawn"] == 3


@pytest.mark.parametrize("own", [True, False], ids=["own thread", "another thread"])
def test_a_child_that_is_forked_during_a_charge_reads_the_file(budget, own):
    """It has neither the lock of a thread that it lacks, nor what this thread had changed in memory only."""
    changed, over = threading.Event(), threading.Event()

    def charge():
        with budget._locked(write=True) as state:
            state.epsilon = 99.0
            changed.set()
            yield
            over.wait()

    def child():
        signal.alarm(30)
        status = 1
        try:
            status = budget.show()["epsilon"] != 3.0
        finally:
            os._exit(status)

    if own:
        for _ in charge():
            over.set()
            if (forked := os.fork()) == 0:
                child()
    else:
        other = threading.Thread(target=list, args=[charge()])
        other.start()
        changed.wait()
        if (forked := os.fork()) == 0:
            child()
        over.set()
        other.join()
    assert os.waitpid(forked, 0)[1] == 0


def test_after_an_error_the_file_decides(budget):
    with pytest.raises(ZeroDivisionError), budget._locked(write=True) as state:
        state.epsilon = 99.0
        _ = 1 / 0
    assert budget.show()["epsilon"] == 3.0


@pytest.mark.parametrize("stored, drawn", [(True, 0), (False, 1)])
def test_a_charge_is_given_back_only_if_the_ledger_surely_lacks_it(budget, stored, drawn):
    held = budget.reserve(whole(20.0), 3)
    with pytest.raises(OSError, match="full"), held.charge(SimpleNamespace(stored=stored)):
        raise OSError("full")
    assert budget.show()["runs"][0]["drawn"] == drawn


def test_a_dead_holder_keeps_what_it_drew(budget, path):
    assert in_child(lambda: (budget.reserve(poisson(0.05, 1.5), 20).release(), os._exit(0))) == 0
    assert budget.show()["runs"][0]["state"] == "abandoned"
    reserved = budget.left
    draw(budget, poisson(0.05, 2.0), 1)
    first = budget.show()["runs"][0]
    assert (first["state"], first["drawn"]) == ("closed", 1) and budget.left > reserved
    z = budget.noise_multiplier(lambda z: poisson(0.05, z), 5)
    draw(budget, poisson(0.05, z), 5)


def test_who_is_dead():
    own = this_process()
    assert not is_dead(own)
    assert is_dead({**own, "start": "1"}) and is_dead({**own, "boot": "another"})
    for unknown in ({"host": "elsewhere"}, {"space": "pid:[1]"}):
        assert not is_dead({**own, "pid": 2**22 + 1, **unknown})
    assert is_dead({**own, "pid": 2**22 + 1})


def test_given_back_by_hand(budget):
    held = budget.reserve(whole(20.0), 3)
    held.release()
    budget.give_back(held.run)
    assert budget.left == pytest.approx(3.0 - budget.spent)
    with pytest.raises(BudgetExceededError, match="was given back"):
        held.release()
    with pytest.raises(ValueError, match="no open reservation"):
        budget.give_back(held.run)
    held.close()


def test_a_charge_is_given_back_once(budget):
    with budget.reserve(whole(40.0), 4) as held:
        held.release()
        spent = budget.spent
        held.release()
        for _ in range(3):
            held.undo()
            held.release()
        assert budget.show()["runs"][0]["drawn"] == 2
        held.undo()
        assert budget.spent == spent
        for _ in range(3):
            held.undo()
    assert budget.spent == 0.0


@pytest.mark.parametrize("name, event", [("gaussian", whole(40.0)), ("renyi", poisson(0.1, 5.0))])
def test_a_reservation_may_take_what_fits(name, event, path):
    budget = Budget.create(path, 1.0, 1e-6, dataset="d", filter=name)
    with budget.reserve(event, 10**4, least=1) as held:
        most = held.count
    for least, count in ((1, 3), (most, most + 1)):
        with budget.reserve(event, count, least=least) as held:
            assert held.count == min(count, most)
    with pytest.raises(BudgetExceededError, match=f"{most + 1} releases more"):
        budget.reserve(event, most + 5, least=most + 1)
    assert all(run["state"] == "closed" for run in budget.show()["runs"])
    draw(budget, event, most)
    assert 0.99 < budget.spent <= budget.epsilon
    with pytest.raises(BudgetExceededError):
        budget.reserve(event, 1)


# ------------------------------------------------------------------- fits


@ALL
def test_a_fit_charges_and_is_rebuilt(name, tmp_path):
    make, data = CASES[name]
    relation = make().fit(*data()).privacy_.relation
    budget = Budget.create(tmp_path / "b", 12.0, 1e-5, dataset="ward7", relation=relation, filter="renyi")
    if not make().fit(*data()).privacy_.private:
        with pytest.raises(ValueError, match="does not cover"):
            make().fit(*data(), budget=budget)
        assert budget.spent == 0.0 and budget.left == 12.0
        return
    fitted = make().fit(*data(), budget=budget, transcript=tmp_path / "t")
    steps = fitted.n_steps_
    assert [run["drawn"] for run in budget.show()["runs"]] == [steps]
    said = fitted.ledger_.budget
    assert said["dataset"] == "ward7" and budget.knows(said["head"])
    # Neither a target nor a multiplier: all that is left, at the budget's delta.
    rest = make(noise_multiplier=None, delta=None)
    rest.fit(*data(), budget=tmp_path / "b", transcript=tmp_path / "t2")
    assert 11.9 < budget.spent <= 12.0 and rest.privacy_.delta == 1e-5
    with pytest.raises(BudgetExceededError):
        make().fit(*data(), budget=budget)
    for one, transcript in ((fitted, "t"), (rest, "t2")):
        one.save(tmp_path / "m")
        again = type(one).load(tmp_path / "m")
        assert again.ledger_.budget == one.ledger_.budget
        assert verify(tmp_path / "m", tmp_path / transcript, cls=type(one)).ok
    assert rest.get_params()["noise_multiplier"] is None


@pytest.mark.parametrize("now", [-1e10, 1e14])
def test_a_wrong_clock_damages_no_budget(budget, path, monkeypatch, now):
    """It wrote a time that its own reader refused, for good."""
    monkeypatch.setattr(time, "time", lambda: now)
    draw(budget, whole(20.0), 1)
    assert 0 < Budget(path).spent == budget.spent


def test_a_spent_budget_advises_no_more_noise(budget):
    """Nor did it say epsilon = inf of a run that asked for all that is left."""
    with pytest.raises(BudgetExceededError, match="has nothing left for this run: .* expected no further run"):
        for _ in range(20):
            draw(budget, whole(budget.noise_multiplier(whole, 1)), 1)
    assert budget.spent <= budget.epsilon < 1.001 * budget.spent


def test_a_refusal_comes_before_the_data_are_read_and_costs_nothing(tmp_path):
    make, (X, y) = CASES["logistic"][0], CASES["logistic"][1]()
    budget = Budget.create(tmp_path / "b", 0.5, 1e-5, dataset="ward7")
    with pytest.raises(BudgetExceededError):
        make(n_records=200).fit(Unread(), Unread(), budget=budget)
    with pytest.raises(ValueError, match="'replace_one'.*'add_remove'"):
        make(n_records=200, sampling="full", options={"relation": "replace_one"}).fit(Unread(), Unread(), budget=budget)
    with pytest.raises(ValueError, match="delta=1e-06, the budget of ward7 is for 1e-05; expected that, or"):
        make(n_records=200, delta=1e-6).fit(Unread(), Unread(), budget=budget)
    person = Budget.create(tmp_path / "p", 9.0, 1e-5, dataset="ward7", unit="person")
    Budget.create(tmp_path / "r", 9.0, 1e-5, dataset="ward7")
    with pytest.raises(ValueError, match="unit='record'.*'person'"):
        make(n_records=200).fit(Unread(), Unread(), budget=person)
    for settings in (dict(private=False), dict(noise_multiplier=0.0)):
        with pytest.raises(ValueError, match="does not cover"):
            make(n_records=200, **settings).fit(Unread(), Unread(), budget=budget)
    keyed = make(n_records=200).set_unsafe(test_key=bytes(32))
    with pytest.raises(ValueError, match="test_key"):
        keyed.fit(Unread(), Unread(), budget=budget)
    with pytest.raises(ValueError, match="finite"):
        make(n_records=200).fit(np.full_like(X, np.nan), y, budget=tmp_path / "r")
    for one, limit in ((budget, 0.5), (person, 9.0), (Budget(tmp_path / "r"), 9.0)):
        assert one.left == limit and one.show()["runs"] == []
    with pytest.raises(ZeroDivisionError):  # a forecast that the caller does not like: what was reserved is given back
        CASES["lda"][0]().fit(*CASES["lda"][1](), budget=person.path.with_name("r"), on_forecast=lambda _: 1 / 0)
    assert [run["state"] for run in Budget(tmp_path / "r").show()["runs"]] == ["closed"]


def test_the_lock_is_not_inherited(budget, path):
    """No child has the lock after a charge is decided. A process may be started, or forked, meanwhile."""
    with budget._locked(write=True):
        child = os.fork()
        if child == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(20)"])
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], close_fds=False)
    try:
        code = f"from vips_fast.engine.budget import Budget; b = Budget({str(path)!r}); b.spent"
        assert not any(one.held for one in lock._held)
        draw(budget, whole(20.0), 1)
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("caught", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_a_signal_handler_is_refused_and_does_not_wait(budget, path, monkeypatch, other, caught):
    """It interrupts a charge of its own thread, which holds the lock."""
    held, original, refused = budget.reserve(whole(20.0), 3), os.fsync, []

    def fsync(descriptor):
        monkeypatch.setattr(os, "fsync", original)
        original(descriptor)
        os.kill(os.getpid(), signal.SIGUSR1)

    def handler(number, frame):
        try:
            held.release() if not other else Budget(path)
        except BudgetInUseError as error:
            refused.append(error)
            if not caught:
                raise

    before = signal.signal(signal.SIGUSR1, handler)
    monkeypatch.setattr(os, "fsync", fsync)
    signal.alarm(20)  # ends the process, should it wait for itself
    try:
        with nullcontext() if caught else pytest.raises(BudgetInUseError, match="signal handler"):
            held.release()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 1
    held.release()
    # A charge whose end was not seen is taken back or counts; it is never lost once it has returned.
    assert Budget(path).show()["runs"][0]["drawn"] == 1 + caught


# ----------------------------------------------------------- many at once


def charge_at_random(path, seconds, seed, report):
    """Four threads that reserve, draw and give back at random.

    Accepted draws go to a file. A slow machine takes longer, until the budget has refused one.
    """
    stop, accepted, refused, shared = time.monotonic() + seconds, [], [], Budget(path)

    def work(number):
        rng = np.random.default_rng([seed, number])
        budget = shared if number % 2 else Budget(path)
        while time.monotonic() < stop or not refused:
            z, count = float(rng.choice([60.0, 90.0, 120.0])), int(rng.integers(1, 9))
            try:
                held = budget.reserve(whole(z), count)
            except BudgetExceededError:
                refused.append(z)
                time.sleep(0.01)
                continue
            for _ in range(int(rng.integers(0, count + 1))):
                held.release()
                accepted.append(z)
            held.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    report.write_text(json.dumps([accepted, len(refused)]))


@pytest.mark.parametrize("seconds, epsilon", [(1.0, 0.8), pytest.param(60.0, 3.0, marks=pytest.mark.slow)])
def test_sixteen_threads_in_four_processes(seconds, epsilon, tmp_path, path):
    """Never above the target, never an under-count."""
    Budget.create(path, epsilon, 1e-6, dataset="ward7")
    reports, children = [tmp_path / f"report-{n}" for n in range(4)], []
    for n, report in enumerate(reports):
        if (child := os.fork()) == 0:
            try:
                charge_at_random(path, seconds, n, report)
            finally:
                os._exit(not report.exists())
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    accepted, refused = zip(*(json.loads(report.read_text()) for report in reports))
    said, drawn = Budget(path).show(), Counter()
    for run in said["runs"]:
        drawn[run["event"]["noise_multiplier"]] += run["drawn"]
    assert +drawn == sum(map(Counter, accepted), Counter())
    assert 0.5 * epsilon < said["spent"] <= epsilon
    assert {run["state"] for run in said["runs"]} == {"closed"}
    assert said["left"] == pytest.approx(epsilon - said["spent"])
    assert sum(refused) > 0
