"""Sweep the coverage of regressions' 90 % intervals over rates of outcomes and kinds of columns.

    python bench/rates.py --out bench/rates.json     # 25 minutes of one core; cells that are stored are not run again
    python bench/rates.py --table bench/rates.json   # the tables of docs/logistic.md

Counts are negative binomial of dispersion 1, and their rate is the mean; none is above ``largest``.
Columns are in their own units, ``row_norm`` is the longest row, delta = 10^-6. Known effects count, of all columns.
``spread`` is the root mean square of their errors in the stated standard deviations. The rule of known effects was
chosen on data sets of other seeds.

Persons of several rows have normal columns, of which one has missing values and the last one tells them. Their rows are
equal, outcomes and all; or every second column and the outcome are the row's, beside an effect that is the person's.
The truth is the likelihood's maximum for 60,000 persons who count once each, as they do in shares and gains.
"""

import argparse
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, ndtri, softmax
from sklearn.metrics import roc_auc_score

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.models.logistic.effects import reading
from vips_fast.models.logistic.score import nats_of_mean

#: Kinds of columns, with their number and the size of the largest coefficient.
KINDS = {
    "normal": (6, 1.5),
    "skewed": (6, 0.7),
    "binary": (10, 1.0),
    "binary, correlated": (10, 1.0),
    "interactions": (12, 1.0),
    "mixed": (6, 1.0),
    "60 columns": (60, 0.4),
    "separated": (6, 1.0),
    "separated, numbers": (5, 1.0),
    "one of 3": (1, 1.0),
    "nearly one thing": (11, 1.0),
}
#: Weights of the kinds of strong effects. The records of the first value of a separated kind have one class.
STRONG = {
    "separated": (50.0, 3.0, 2.5, -2.0, 0.5, 0.0),
    "separated, numbers": (50.0, 1.5, -1.0, 0.5, 0.0),
    "one of 3": (3.0,),
    "nearly one thing": (10.0, -6.0, -4.0, 0.5, -0.4, 0.3, -0.2, 0.2, 0.1, 0.0, 0.0),
}
#: The first seed.
FIRST = 100
RATES, MEANS = (0.01, 0.05, 0.16, 0.5), (0.1, 1.0, 5.0, 20.0)
KINDS_AND_RATES = [(kind, rate) for kind, rate in product(KINDS, RATES) if kind not in STRONG or rate > 0.1]
#: Records and epsilon, with the number of runs of a cell.
SIZES = {(30_000, 1.0): 20, (30_000, 4.0): 20, (3_000, 4.0): 20}
OF_COUNTS = {(30_000, 1.0): 20, (30_000, 4.0): 20, (3_000, 4.0): 20}
#: Rows of a person; of the last kind a few have many.
ROWS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "1": lambda n, rng: np.ones(n, int),
    "2": lambda n, rng: np.full(n, 2),
    "4": lambda n, rng: np.full(n, 4),
    "1 to 5": lambda n, rng: rng.integers(1, 6, n),
    "1 to 200": lambda n, rng: np.minimum(np.ceil(rng.pareto(1.2, n) + 1e-9), 200).astype(int),
}
#: Outcomes of persons, with the share of the last class or the mean count; persons, epsilons and runs of a cell.
OUTCOMES = {"two classes": 0.05, "three classes": 0.16, "counts": 1.0, "exposure": 1.0, "many columns": 0.05}
PERSONS, OF_PERSONS, RUNS = 6_000, (1.0, 8.0, 1000.0), 6


def rows_of(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows of one kind; some columns are skewed, rare, or go with others."""
    if kind == "correlated":
        return math.sqrt(0.2) * rng.normal(size=(n, d)) + math.sqrt(0.8) * rng.normal(size=(n, 1))
    if kind == "skewed":
        return np.minimum(rng.exponential(size=(n, d)), 8.0)
    if kind == "binary":
        return (rng.random((n, d)) < np.geomspace(0.01, 0.5, d)).astype(float)
    if kind == "binary, correlated":
        score = math.sqrt(0.5) * (rng.normal(size=(n, d)) + rng.normal(size=(n, 1)))
        return (score < np.linspace(-1.3, 0.0, d)).astype(float)
    X = rng.normal(size=(n, d))
    if kind == "separated":
        X[:, :-1], X[:, -1] = rng.random((n, d - 1)) < [0.1, 0.05, 0.1, 0.2, 0.3], rng.uniform(-1, 1, n)
    if kind == "separated, numbers":
        X = np.clip(X, -3, 3)
        X[:, 0] = rng.random(n) < 0.1
    if kind == "nearly one thing":
        X[:, :3] = math.sqrt(0.97) * rng.normal(size=(n, 1)) + math.sqrt(0.03) * X[:, :3]
    if kind == "mixed":
        half = d // 2
        X[:, :half] = X[:, :half] < np.linspace(-1.6, 0.0, half)
        X[:, half : half + half // 2] = np.exp(0.7 * X[:, half : half + half // 2])
    if kind == "interactions":
        third = d // 3
        X[:, :third] = X[:, :third] < -0.5
        X[:, 2 * third : 3 * third] = X[:, :third] * X[:, third : 2 * third]
    return X


def draw(
    kind: str, n: int, d: int, rate: float, size: float = 1.0, seed: int = 0
) -> tuple[np.random.Generator, np.ndarray, float, np.ndarray, np.ndarray]:
    """Draw rows, their bound, logits with outcomes of this rate, and weights."""
    rng = np.random.default_rng([n, d, round(1000 * rate), seed])
    X = rows_of(kind, n, d, rng)
    weights = size * np.linspace(-1, 1, d) * np.where(np.arange(d) % 2, 1, -0.7)
    weights = np.array(STRONG.get(kind, weights))
    logits = X @ weights
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logits + middle).mean() < rate else (low, middle)
    return rng, X, 1.0001 * float(np.linalg.norm(X, axis=1).max()), logits + low, weights


def regression(kind: str, rate: float, n: int, epsilon: float, seed: int) -> tuple[Any, np.ndarray]:
    """Fit one data set; give the model and the true weights."""
    common: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "n_jobs": 1}
    key = seed.to_bytes(32, "big")
    if kind == "counts":
        rng = np.random.default_rng([n, round(1000 * rate), seed])
        X, weights = rng.uniform(-1, 1, (n, 4)), np.array([0.5, -0.4, 0.3, 0.0])
        means = np.exp(X @ weights)
        means *= rate / means.mean()
        y = rng.negative_binomial(1.0, 1 / (1 + means)).astype(float)
        counts = CountRegression(row_norm=2.0, largest=float(y.max()), **common)
        return counts.set_unsafe(test_key=key).fit(X, y), weights
    (d, size) = KINDS[kind]
    rng, X, bound, logits, weights = draw(kind, n, d, rate, size, seed)
    y = (rng.random(n) < expit(logits)).astype(int)
    model = BayesianLogisticRegression(row_norm=bound, classes=[0, 1], **common)
    return model.set_unsafe(test_key=key).fit(X, y), weights


def run_cell(kind: str, rate: float, n: int, epsilon: float, runs: int) -> dict[str, Any]:
    """Fit the data sets of a cell."""
    fits = [regression(kind, rate, n, epsilon, seed) for seed in range(FIRST, FIRST + runs)]
    z = np.array([(m.coef_[0] - w) / np.sqrt(m.covariance_.diagonal()[: len(w)]) for m, w in fits])
    known = np.array([reading(m).known[0] for m, _ in fits])
    found = {"kind": kind, "rate": rate, "n": n, "epsilon": epsilon, "runs": runs, "known": float(known.mean())}
    count, hits = int(known.sum()), np.abs(z) <= ndtri(0.95)
    found["count"] = count
    found["coverage"] = float((hits * known).sum() / count) if count else math.nan
    found["spread"] = float(math.sqrt((known * z**2).sum() / count)) if count else math.nan
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}


@cache
def persons(outcome: str, rows: str, equal: bool, n: int, seed: int) -> tuple[np.ndarray, ...]:
    """Draw rows, outcomes, exposures and who each is of."""
    rng, rate, (d, size) = np.random.default_rng([n, seed]), OUTCOMES[outcome], KINDS["normal"]
    who = np.repeat(np.arange(n), ROWS[rows](n, rng))
    of = np.arange(n) if equal else who
    X, own = rng.normal(size=(n, d))[of], (not equal) * rng.normal(size=n)[of]
    X[:, ::2] = rng.normal(size=X[:, ::2].shape)
    logits = size * X @ (np.linspace(-1, 1, d) * np.where(np.arange(d) % 2, 1, -0.7)) + own
    other, gone, exposure = X[:, 1] - X[:, 2], rng.random(len(of)) < 0.2, rng.uniform(0.5, 4.0, len(of))
    X[gone, 0] = 0.0
    X = np.column_stack([X, gone])
    if outcome in ("counts", "exposure"):
        exposure = exposure / 4 if outcome == "exposure" else np.ones(len(of))
        means = exposure * np.exp(0.4 * logits - 0.08 * logits.var()) * rate
        y = np.minimum(rng.negative_binomial(1.0, 1 / (1 + means)), 20).astype(float)
    else:
        scores = np.column_stack(
            [np.zeros(len(of)), other, logits] if outcome == "three classes" else [0 * own, logits]
        )
        low, high = -40.0, 40.0
        for _ in range(50):
            scores[:, -1] = logits + (low + high) / 2
            law = softmax(scores, axis=1)
            low, high = ((low + high) / 2, high) if law[:, -1].mean() < rate else (low, (low + high) / 2)
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    chosen = who if equal else np.arange(len(who))
    return X[chosen], y[chosen], exposure[chosen], who


@cache
def population(outcome: str, rows: str, equal: bool) -> tuple[np.ndarray, ...]:
    """Find the true coefficients, (K, d), and the weights of rows where each person counts once."""
    X, y, exposure, who = persons(outcome, rows, equal, 10 * PERSONS, FIRST - 1)
    weight, Z, truth = 1 / np.bincount(who)[who], np.column_stack([X, np.ones(len(X))]), []
    counts = outcome in ("counts", "exposure")
    for k in range(3) if outcome == "three classes" else [1]:
        won, lost = (y, exposure) if counts else (1.0 * (y == k), 1.0 * (y != k))
        w = np.zeros(Z.shape[1])
        for _ in range(30):
            p = expit(Z @ w)
            slope = weight * (exposure * p if counts else p * (1 - p))
            w += np.linalg.solve((Z * slope[:, None]).T @ Z, Z.T @ (weight * (won * (1 - p) - lost * p)))
        truth.append(w[:-1])
    return np.array(truth), weight / weight.sum()


def run_persons(outcome: str, rows: str, equal: bool, epsilon: float, stated: float) -> dict[str, Any]:
    """Fit the data sets of persons of a cell: predicted over true share, known effects, told and true gains, AUC."""
    found: dict[str, list[float]] = {name: [] for name in ("share", "known", "hits", "gain", "true", "held", "auc")}
    truth, weight = population(outcome, rows, equal)
    other, z, size, _ = persons(outcome, rows, equal, 10 * PERSONS, FIRST - 1)
    for seed in range(FIRST, FIRST + RUNS):
        X, y, exposure, who = persons(outcome, rows, equal, PERSONS, seed)
        bound = 1.0001 * float(np.linalg.norm(X, axis=1).max())
        common: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "n_jobs": 1, "row_norm": bound}
        common["n_records"], more = round(stated * PERSONS), {} if rows == "1" else {"groups": who}
        model: Any
        if outcome in ("counts", "exposure"):
            exposed = [exposure] if outcome == "exposure" else []
            model = CountRegression(largest=20.0, largest_exposure=1.0 if exposed else None, **common)
            model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y, *exposed, **more)
            means = model.predict(other, *([size] if exposed else []))
            base, mean = math.log((weight @ z) / (weight @ size)), float(weight @ z)
            odds, share = np.log(means / size), float(weight @ means) / mean
            saved = weight @ (z * (log_expit(odds) - log_expit(base)) + size * (log_expit(-odds) - log_expit(-base)))
            true = -math.expm1(-float(saved) / nats_of_mean(mean))
        else:
            how = {"covariance": "spherical", "n_steps": 50} if outcome == "many columns" else {}
            model = BayesianLogisticRegression(classes=range(int(y.max()) + 1), **how, **common)
            model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y, **more)
            p, law = model.predict_proba(other), np.bincount(z, weight)
            share, loss = float(weight @ p[:, -1] / law[-1]), -float(weight @ np.log(p[np.arange(len(z)), z]))
            true = 1 - loss / -float(law @ np.log(law))
            if len(law) == 2:
                found["auc"].append(roc_auc_score(z, p[:, 1], sample_weight=weight))
        found["share"].append(share)
        found["true"].append(true)
        if outcome != "many columns":
            low, high = np.moveaxis(np.reshape(model.credible_interval(), (*truth.shape, 2)), -1, 0)
            known, gain = np.isfinite(high - low), model.found_gain_
            found["known"].append(float(known.sum()))
            found["hits"].append(float((known & (low <= truth) & (truth <= high)).sum()))
            found["gain"].append(gain.gain)
            found["held"].append(float(gain.low <= max(true, -1.0) <= gain.high))
    cell = {"outcome": outcome, "rows": rows, "equal": equal, "epsilon": epsilon, "stated": stated, "runs": RUNS}
    return cell | {name: round(float(np.mean(values)), 3) for name, values in found.items() if values}


def persons_cells() -> list[tuple[str, str, bool, float, float]]:
    """List outcomes, rows, whether they are equal, epsilons, and stated over true persons."""
    first = product(OUTCOMES, ROWS, (False, True), OF_PERSONS, (1.0,))
    return [*first, *product(OUTCOMES, ("4",), (False, True), (8.0,), (0.5, 2.0, 0.1))]


def cells() -> list[tuple[str, float, int, float, int]]:
    """List kinds, rates, records, epsilons and runs, the most wanted first."""
    first = [
        (kind, rate, *size, runs)
        for size, runs in SIZES.items()
        for kind, rate in KINDS_AND_RATES
        if kind != "60 columns" or size == (30_000, 4.0)
    ]
    return first + [("counts", mean, *size, runs) for size, runs in OF_COUNTS.items() for mean in MEANS]


def table(rows: list[dict[str, Any]]) -> str:
    """Write the tables of stored cells: known effects, and their coverage."""
    rows = [row for row in rows if "kind" in row]
    found = {(row["kind"], row["rate"], row["n"], row["epsilon"]): row for row in rows}

    def lines(head: str, kinds: list[tuple[str, float]], sizes: list[tuple[int, float]]) -> list[str]:
        made = [f"| {head} | {' | '.join(f'{n:,}, ε = {epsilon:g}' for n, epsilon in sizes)} |"]
        made.append("| --- " * (len(sizes) + 1) + "|")
        for kind, rate in kinds:
            shown = []
            for size in sizes:
                one = found.get((kind, rate, *size))
                sure = one is not None and one["count"] >= 10
                shown.append(f"{one['coverage']:.2f} ({one['known']:.2f})" if one is not None and sure else "–")
            made.append(f"| {kind}, {rate:g} | {' | '.join(shown)} |")
        return made

    count = sum(row["count"] for row in rows)
    hits = sum(row["count"] * row["coverage"] for row in rows if row["count"])
    outcomes = lines("columns, rate", KINDS_AND_RATES, sorted(SIZES))
    counts = lines("counts, mean", [("counts", mean) for mean in MEANS], sorted(OF_COUNTS))
    return "\n".join([*outcomes, "", *counts, "", f"Of all known effects {hits / count:.3f} are covered."]) + "\n"


def persons_table(rows: list[dict[str, Any]]) -> str:
    """Write the table of persons, over all kinds of several rows: share, known effects covered, gains held."""
    rows = [row for row in rows if "outcome" in row and row["rows"] != "1"]
    made = [f"| outcome, rows | {' | '.join(f'ε = {epsilon:g}' for epsilon in OF_PERSONS)} |"]
    made.append("| --- " * (len(OF_PERSONS) + 1) + "|")
    for outcome, equal in product(OUTCOMES, (False, True)):
        shown = []
        for epsilon in OF_PERSONS:
            place = {"outcome": outcome, "equal": equal, "epsilon": epsilon, "stated": 1.0}
            cell = [row for row in rows if place.items() <= row.items()]
            text, known = f"{np.mean([row['share'] for row in cell]):.2f}", sum(row.get("known", 0) for row in cell)
            hits, held = sum(row.get("hits", 0) for row in cell), np.mean([row.get("held", 0) for row in cell])
            shown.append(text + (f", {hits / known:.2f}, {held:.2f}" if known else ""))
        made.append(f"| {outcome}, {'equal' if equal else 'own'} | {' | '.join(shown)} |")
    return "\n".join(made) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a stored sweep, and run nothing")
    args = parser.parse_args()
    if args.table is not None:
        stored = json.loads(args.table.read_text())
        print(f"{table(stored)}\n{persons_table(stored)}", end="")
        return
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        rows = json.loads(args.out.read_text())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    keys = ("kind", "rate", "n", "epsilon", "runs"), ("outcome", "rows", "equal", "epsilon", "stated")
    done = {tuple(row[name] for name in keys["outcome" in row]) for row in rows}
    for run, cell in [*((run_cell, cell) for cell in cells()), *((run_persons, cell) for cell in persons_cells())]:
        if cell in done:
            continue
        rows.append({**run(*cell), "commit": commit.stdout.strip()})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if args.out is not None:
            args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
