"""Tables of topics by public groups: error, forecast and coverage.

The table of docs/tabulate.md.

Accounting: adding or removing one person, delta = 10^-6. Sixteen topics of newsgroup posts at epsilon = 4, tables of
epsilon = .5 by themselves. Months are dealt at random; in each month a post is of the first topic with two points more.
The truth is the same weighted shares without noise. Groups have their public shares of the persons.
"""

from functools import lru_cache

import numpy as np
from common import markdown, newsgroup_posts

from vips_fast import LatentDirichletAllocation, TopicTables

TITLE = "Tables of topics by group and month"
NEEDS = ("people", "wordfreq")
DELTA, TOPICS, MONTHS, GROWTH = 1e-6, 16, 12, 0.02
RELEASED = (("hierarchy",), ("month",), ("hierarchy", "month"))


def cells(scale: int) -> list[dict]:
    return [dict(released=list(names), runs=40 if scale == 1 else 5, scale=scale) for names in RELEASED]


@lru_cache(1)
def material():
    """Proportions of topics, columns, persons, and each column's shares of persons."""
    from public_prior import corpus

    counts, person, _, _ = corpus("posts")
    model = LatentDirichletAllocation(TOPICS, doc_length=100, epsilon=4.0, delta=DELTA, random_state=0)
    shares = model.fit(counts, groups=person).transform(counts)
    rng = np.random.default_rng(0)
    month = rng.integers(0, MONTHS, len(person))
    shares[rng.random(len(person)) < GROWTH * month] = np.eye(TOPICS)[0]
    hierarchy = np.array([post["label"].partition(".")[0] for post in newsgroup_posts("train")])
    columns = {"hierarchy": hierarchy, "month": month.astype(str)}
    n = len(np.unique(person))
    by = {
        name: {str(v): len(np.unique(person[column == v])) / n for v in np.unique(column)}
        for name, column in columns.items()
    }
    return shares, columns, person, by


def run(cell: dict) -> dict:
    shares, columns, person, by = material()
    by = {name: by[name] for name in cell["released"]}
    tables = [(name,) for name in by] + ([tuple(by)] if len(by) > 1 else [])
    exact, told = TopicTables(by, private=False).fit(shares, columns, groups=person), []
    found: dict[str, list] = {}
    for _ in range(cell["runs"]):
        model = TopicTables(by, epsilon=0.5, delta=DELTA).fit(shares, columns, groups=person, on_forecast=told.append)
        for names in tables:
            table, truth = model.table(*names), exact.table(*names).shares
            inside = (table.low <= truth) & (truth <= table.high)
            readable = inside[table.readable].mean() if table.readable.any() else np.nan
            error = np.median(np.abs(table.shares - truth))
            row = [error, inside.mean(), readable, table.readable.mean()]
            found.setdefault(" x ".join(names), []).append(row)
        if "month" in by:
            trend, truth = model.trend("month"), exact.trend("month").estimate
            inside = (trend.low <= truth) & (truth <= trend.high)
            found.setdefault("trend", []).append([abs(trend.estimate[0] - truth[0]), inside.mean(), trend.low[0] > 0])
    said = told[0].text.partition(": by ")[2].removesuffix(".").split(", ")
    return dict(
        forecast=dict(zip((" x ".join(names) for names in tables), said, strict=True)),
        found={name: np.nanmean(rows, axis=0).tolist() for name, rows in found.items()},
    )


def report(rows: list[dict]) -> str:
    shown = [
        (
            " x ".join(row["released"]),
            name,
            row["forecast"][name].rpartition(" ")[2],
            100 * error,
            *(f"{share:.1%}" for share in rest),
        )
        for row in rows
        for name, (error, *rest) in row["found"].items()
        if name != "trend"
    ]
    columns = ("released", "table", "forecast", "median error", "coverage", "coverage of readable cells", "readable")
    return f"""Tables of 16 topics of newsgroup posts by the groups' hierarchy and by month, at ε = .5,
adding or removing a person. Errors and forecasts are in points of a cell's share; intervals are of 90 %. A cell is
readable if its interval leaves zero out. Neither article has this.

{markdown(columns, shown)}"""


def draw(rows: list[dict], folder) -> list:
    return []
