"""Many at once. Never above the target, never an under-count."""

import json
import os
import threading
import time

import numpy as np
import pytest

from vips_fast.accounting import GaussianEvent
from vips_fast.engine.budget import Budget, BudgetExceededError


def forked(work, *given):
    """Return the number of a child process that works and ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*given)
            code = 0
        finally:
            os._exit(code)
    return child


def charge_at_random(path, seconds, seed, report):
    """Four threads that reserve, draw and give back at random.

    Accepted draws go to a file. A slow machine takes longer, until the budget has refused one.
    """
    stop, accepted, refused, shared = time.monotonic() + seconds, [], [], Budget(path)

    def work(number):
        rng = np.random.default_rng([seed, number])
        budget = shared if number % 2 else Budget(path)
        while time.monotonic() < stop or not refused:
            z = float(rng.choice([60.0, 90.0, 120.0]))
            event, count = GaussianEvent(z, "add_remove"), int(rng.integers(1, 9))
            try:
                held = budget.reserve(event, count)
            except BudgetExceededError:
                refused.append(z)
                time.sleep(0.01)
                continue
            for _ in range(int(rng.integers(0, count + 1))):
                held.release()
                accepted.append(z)
            held.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.write_text(json.dumps([accepted, len(refused)]))


@pytest.mark.parametrize("seconds, epsilon", [(5.0, 0.8), pytest.param(60.0, 3.0, marks=pytest.mark.slow)])
def test_sixteen_threads_in_four_processes(seconds, epsilon, tmp_path):
    path = tmp_path / "b"
    Budget.create(path, epsilon, 1e-6, dataset="ward7")
    reports = [tmp_path / f"report-{n}" for n in range(4)]
    children = [forked(charge_at_random, path, seconds, n, report) for n, report in enumerate(reports)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    found = [json.loads(report.read_text()) for report in reports]
    accepted = [z for one, _ in found for z in one]
    said = Budget(path).show()
    drawn = {}
    for run in said["runs"]:
        z = run["event"]["noise_multiplier"]
        drawn[z] = drawn.get(z, 0) + run["drawn"]
    assert {z: n for z, n in drawn.items() if n} == {z: accepted.count(z) for z in set(accepted)}
    assert 0.5 * epsilon < said["spent"] <= epsilon
    assert {run["state"] for run in said["runs"]} == {"closed"}
    assert said["left"] == pytest.approx(epsilon - said["spent"])
    assert sum(refused for _, refused in found) > 0
