"""Ratios of times that were measured side by side."""

import math
import statistics
import time
from collections.abc import Callable, Mapping

#: A ratio is measured until its median's standard error is this share of it, or these seconds are over.
PRECISION, SECONDS = 0.01, 6.0


def standard_error(ratios: list[float]) -> float:
    """Estimate the relative standard error of a median of ratios.

    Robust: from the median distance to the median. A median of n normal numbers varies 1.25 times as a mean.
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.median(logs)
    return 1.25 * 1.4826 * statistics.median(abs(x - middle) for x in logs) / math.sqrt(len(logs))


def paired_times(
    ours: Callable[[], object],
    peers: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 5,
    scale: Mapping[str, float] | None = None,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Time ours and its peers in turn, A B C A B C ….

    Each is called once before. ``rounds`` is the least number; more follow until every ratio is precise or the seconds
    are over. ``scale`` says how many times our work a peer's call does. Returns each round's seconds, by name.
    """
    calls, scale = {"ours": ours, **peers}, scale or {}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()  # warm-up: pages, caches, lazy imports
    begin = clock()
    while True:
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append((clock() - start) / scale.get(name, 1.0))
        n = len(times["ours"])
        if n >= rounds and (clock() - begin > seconds or precise(times)):
            return times


def precise(times: dict[str, list[float]]) -> bool:
    """Tell whether every ratio to ours is known to `PRECISION`."""
    return len(times["ours"]) >= 3 and all(
        standard_error([peer / own for peer, own in zip(theirs, times["ours"])]) <= PRECISION
        for name, theirs in times.items()
        if name != "ours"
    )


def median_ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Return the median over rounds of each ratio peer / ours. Machines drift; two neighbors in time do not."""
    return {
        name: statistics.median(peer / own for peer, own in zip(theirs, times["ours"]))
        for name, theirs in times.items()
        if name != "ours"
    }
