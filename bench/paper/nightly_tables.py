"""Running tables of topics over nights, beside nights as parts.

Accounting: adding or removing one person, delta = 10^-6. Sixteen topics of newsgroup posts at epsilon = 4, tables of
epsilon = .5 by themselves. Persons are dealt to nights, so that each is in one. The first topic has two points more in
each of twelve periods. "Parts" releases a table of each night with noise of its own, for the same epsilon in parallel,
and adds the tables up. The truth is the same weighted shares without noise.
"""

from functools import lru_cache
from tempfile import TemporaryDirectory

import numpy as np
from common import markdown

from vips_fast import NightlyTables, TopicTables
from vips_fast.models.tables.readout import Estimate, share_contrast, share_covariance

TITLE = "Running tables of topics over nights"
NEEDS = ("people", "wordfreq")
EPSILON, DELTA, PERIODS = 0.5, 1e-6, 12


def cells(scale: int) -> list[dict]:
    return [
        dict(nights=nights, way=way, seed=seed, scale=scale)
        for nights in (30, 365)
        for way in ("running", "parts")
        for seed in range(1 if scale > 1 else 5 if nights == 30 else 2)
    ]


@lru_cache(2)
def material(nights: int):
    """Simulate documents and hierarchies of each night, and persons.

    Also the values of the column, and the nights of each period.
    """
    from topic_tables import GROWTH, TOPICS
    from topic_tables import material as posts

    shares, columns, person, by = posts()
    rng, labels = np.random.default_rng(1), np.unique(person)
    night = rng.integers(0, nights, person.max() + 1)[person]
    period = night * PERIODS // nights
    shares = shares.copy()
    shares[rng.random(len(person)) < GROWTH * period] = np.eye(TOPICS)[0]
    documents = [
        (shares[night == t], {"hierarchy": columns["hierarchy"][night == t]}, person[night == t]) for t in range(nights)
    ]
    of_night = np.arange(nights) * PERIODS // nights
    values, number = list(by["hierarchy"]), len(labels) // nights
    exact = np.array([sums(one, values, private=False)[0] for one in documents])
    return documents, values, number, (of_night == np.arange(PERIODS)[:, None]).astype(float), exact


def sums(night, values, **how):
    """Release sums of a night by itself, with their noise's deviation."""
    model = TopicTables({"hierarchy": values}, n_records=100, **how).fit(*night[:2], groups=night[2])
    arrays = model._fitted().arrays
    return 100 * arrays["sums"], 100 * float(arrays["noise_sd"][0])


def run(cell: dict) -> dict:
    documents, values, number, periods, exact = material(cell["nights"])
    nights = len(documents)
    halves = np.tril(np.ones((nights, nights)))[np.linspace(1, nights, PERIODS + 1).astype(int)[1:] - 1]
    weights = np.vstack([halves, periods])
    if cell["way"] == "parts":
        released = [sums(one, values, epsilon=EPSILON, delta=DELTA) for one in documents]
        found = np.tensordot(weights, np.array([one for one, _ in released]), axes=1)
        covariance = released[0][1] ** 2 * weights @ weights.T
        spent = EPSILON
    else:
        model = NightlyTables({"hierarchy": values}, nights=nights, epsilon=EPSILON, delta=DELTA, n_records=number)
        with TemporaryDirectory() as folder:
            for t, (shares, column, person) in enumerate(documents):
                model.add_night(f"night {t}", shares, column, groups=person, state=f"{folder}/state")
        found, covariance = model._sums(weights)
        spent = model.privacy_.epsilon
    truth, n = np.tensordot(weights, exact, axes=1), PERIODS
    running = [error(found[i], truth[i], covariance[i, i]) for i in range(n)]
    each, exactly = found[n:].sum(axis=1), truth[n:].sum(axis=1)
    noise = covariance[n:, n:] * len(values)
    steps = np.arange(n) - (n - 1) / 2
    trend, low, high = share_contrast(each, noise, steps / (steps @ steps), 0.9)
    right = steps @ (exactly / exactly.sum(axis=1, keepdims=True)) / (steps @ steps)
    months = np.abs(share_covariance(each, noise)[0] - exactly / exactly.sum(axis=1, keepdims=True))
    return dict(
        sd=float(covariance[n - 1, n - 1] ** 0.5),
        running=[float(np.mean([one[0] for one in running])), float(running[-1][0])],
        coverage=float(np.mean([one[1] for one in running])),
        period=float(np.median(months)),
        trend=[float(abs(trend[0] - right[0])), bool(low[0] > 0), float(np.mean((low <= right) & (right <= high)))],
        epsilon=spent,
    )


def error(found, truth, variance):
    """Median error of shares by hierarchy, and the coverage of their intervals."""
    estimate = Estimate((len(found),), found, variance**0.5)
    _, shares, low, high = estimate.table(np.eye(len(found)), 0.9)
    exactly = truth / truth.sum(axis=1, keepdims=True)
    return np.median(np.abs(shares - exactly)), np.mean((low <= exactly) & (exactly <= high))


def report(rows: list[dict]) -> str:
    shown = []
    for nights in (30, 365):
        for way in ("running", "parts"):
            some = [row for row in rows if (row["nights"], row["way"]) == (nights, way)]
            if some:
                mean = {name: np.mean([row[name] for row in some], axis=0) for name in some[0] if name not in ("way",)}
                trend = mean["trend"]
                shown.append(
                    (
                        nights,
                        way,
                        float(mean["sd"]),
                        *(float(100 * x) for x in (*mean["running"], mean["period"], trend[0])),
                        f"{mean['coverage']:.1%}",
                        f"{trend[2]:.1%}",
                        f"{sum(row['trend'][1] for row in some)} of {len(some)}",
                    )
                )
    columns = ("nights", "way", "noise sd of the sum", "error by hierarchy, mean over the year", "at the end")
    columns += ("by period", "trend", "coverage", "of trends", "trend found")
    return f"""Persons are dealt to nights; errors are in points of a share, at ε = {EPSILON:g}, adding or removing a
person. *Running* is a running sum with correlated noise. *Parts* releases each night by itself and adds up; each part
costs the same ε, in parallel. Intervals are of 90 %. Neither article has this.

{markdown(columns, shown)}"""


def draw(rows: list[dict], folder) -> list:
    return []
