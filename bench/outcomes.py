"""Measure the coverage of 90 % intervals for outcomes of several kinds.

    python bench/outcomes.py persons    # rows of one person are alike: a random effect
    python bench/outcomes.py counts     # counts, as spread as stated and not
    python bench/outcomes.py predictions --runs 8    # of counts, beside the best factor of the logits
    python bench/outcomes.py classes    # three classes, each against the rest
    python bench/outcomes.py survey     # a survey through the shell, 40 seeds
    python bench/outcomes.py wards      # a survey with rare values of categories
    python bench/outcomes.py randhie    # visits to a doctor, beside statsmodels (needs statsmodels)

Data and noise of a run come from its number, so the figures repeat. Only surveys have fresh noise.
"""

import argparse
import csv
import itertools
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.data import Schema

#: Rows of one data set: design, outcomes, true coefficients, and other arguments of ``fit``.
Data = tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


def cover(runs: int, simulate: Callable[[int], Data], make: Callable[[], Any]) -> str:
    """Fit ``runs`` data sets; describe the intervals of known effects."""
    hits, shares, widths, errors = [], [], [], []
    for seed in range(runs):
        X, y, truth, more = simulate(seed)
        model = make().set_unsafe(test_key=(seed + 1).to_bytes(32, "big")).fit(X, y, **more)
        low, high = np.moveaxis(model.credible_interval(0.9).reshape(*truth.shape, 2), -1, 0)
        known = np.isfinite(high)
        shares.append(np.mean(known))
        if known.any():
            hits.append(np.mean(((low <= truth) & (truth <= high))[known]))
            widths.append(np.mean((high - low)[known]))
        errors.append(np.mean((model.coef_.reshape(truth.shape) - truth) ** 2))
    if not hits:
        return f"none known   {math.sqrt(np.mean(errors)):.3f}"
    inside = f"{np.mean(hits):.3f} ± {np.std(hits) / math.sqrt(len(hits)):.3f} of {np.mean(shares):.2f} known"
    return f"{inside}   {np.mean(widths):.3f}   {math.sqrt(np.mean(errors)):.3f}"


def persons(seed: int, n: int, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw 1 to 5 rows of n persons with a random effect."""
    rng = np.random.default_rng([seed, n])
    X = np.repeat(rng.uniform(-1, 1, (n, 5)), 5, axis=0)
    X[:, 3:] = rng.uniform(-1, 1, (5 * n, 2))
    own = np.repeat(1.5 * rng.normal(size=n), 5)
    kept = np.arange(5 * n) % 5 < np.repeat(rng.integers(1, 6, n), 5)
    y = rng.random(5 * n) < expit(X @ [1.0, -0.7, 0.0, 0.8, 0.0] - 0.3 + own)
    return size * X[kept], y[kept].astype(int), np.repeat(np.arange(n), 5)[kept]


def of_persons(runs: int) -> None:
    """Print the coverage of marginal coefficients."""
    X, y, _ = persons(10**6, 300_000, 1.0)
    truth = BayesianLogisticRegression(private=False, n_steps=40).fit(X, y).coef_[0]
    for size in (0.3, 1.0):
        for n in (1500, 6000):
            for epsilon in (1.0, 4.0):

                def simulate(seed: int, n: int = n, size: float = size) -> Data:
                    X, y, groups = persons(seed, n, size)
                    return X, y, truth / size, {"groups": groups}

                def make(epsilon: float = epsilon) -> Any:
                    return BayesianLogisticRegression(row_norm=5**0.5, epsilon=epsilon, delta=1e-6, n_jobs=1)

                print(f"{n} persons, rows x {size}, epsilon {epsilon}:", cover(runs, simulate, make), flush=True)


def of_counts(runs: int) -> None:
    """Print the coverage of log rate ratios."""
    truth = np.array([0.6, -0.4, 0.2, 0.0, 0.0, 0.3])
    sizes = (5000, 1.0), (5000, 4.0), (20_000, 1.0), (20_000, 4.0)
    # With exposures: of a record's own frailty, for which twice the time is twice the mean of every count.
    for spread, most in itertools.product((0.01, 1.0, 2.0), (None, 365.0)):
        for n, epsilon in sizes if most is None else sizes[3:]:

            def simulate(seed: int, n: int = n, spread: float = spread, most: float | None = most) -> Data:
                rng = np.random.default_rng([seed, n])
                X = rng.uniform(-1, 1, (n, 6))
                share = rng.uniform(0.1, 1, n) * np.where(X[:, 0] > 0, 0.5, 1) if most else 1.0
                y = rng.poisson(share * np.exp(0.6 + X @ truth) * rng.gamma(1 / spread, spread, n))
                return X, y, truth, {"exposure": most * share} if most else {}

            def make(epsilon: float = epsilon, most: float | None = most) -> Any:
                how = {"row_norm": 6**0.5, "epsilon": epsilon, "delta": 1e-6, "n_jobs": 1}
                return CountRegression(largest=40, largest_exposure=most, **how)

            text = f"dispersion {spread}, {n} rows, epsilon {epsilon}{', exposures' if most else ''}:"
            print(text, cover(runs, simulate, make), flush=True)


def of_predictions(runs: int) -> None:
    """Print the mean log probability of other records' counts.

    Beside it are the mean count only, and the best factor for the deviations of these records' logits.
    """

    def draw(seed: int, n: int, binary: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, n, binary])
        numbers = rng.uniform(-1, 1, (n, 1 if binary else 6))
        X = np.hstack([numbers, rng.random((n, binary)) < 0.25])
        slopes = [0.8, *(0.4 * np.random.default_rng(5).normal(size=10))] if binary else [0.6, -0.4, 0.2, 0, 0, 0.3]
        return X, rng.poisson(np.exp((-0.2 if binary else 0.6) + X @ slopes) * rng.gamma(1, 1, n))

    def score(logits: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(y * logits - (y + 1) * np.logaddexp(0, logits)))

    for binary, n, epsilon in itertools.product((0, 10), (1500, 6000), (1.0, 4.0)):
        found = []
        for seed in range(runs):
            (X, y), (other, seen) = draw(seed, n, binary), draw(seed + 1000, 20_000, binary)
            model = CountRegression(largest=40, row_norm=X.shape[1] ** 0.5, epsilon=epsilon, delta=1e-6, n_jobs=1)
            model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big")).fit(X, y)
            logits, seen = model.decision_function(other), np.minimum(seen, 40)
            apart, mean = logits - logits.mean(), math.log(seen.mean())
            best = minimize(lambda c, apart=apart, y=seen: -score(c[0] * apart + c[1], y), [1, mean], method="Powell")
            found.append((score(logits, seen), score(np.full(len(seen), mean), seen), -best.fun, best.x[0]))
        print(f"{X.shape[1]} columns, {n} rows, epsilon {epsilon}:", np.round(np.mean(found, axis=0), 3), flush=True)


def of_classes(runs: int) -> None:
    """Print the coverage of each class's log odds."""
    slopes = np.array([[1.0, 0.0, -1.0, 0.3], [0.0, 0.8, 0.0, 0.3], [-0.5, -0.5, 0.5, 0.0]])

    def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, n])
        X = rng.uniform(-1, 1, (n, 4))
        return X, (X @ slopes.T + rng.gumbel(size=(n, 3))).argmax(axis=1)

    X, y = draw(10**6, 400_000)
    one = BayesianLogisticRegression(private=False, n_steps=40)
    truth = np.concatenate([one.fit(X, (y == k).astype(int)).coef_ for k in range(3)])
    for n in (5000, 20_000):
        for epsilon in (0.5, 1.0, 4.0):

            def make(epsilon: float = epsilon) -> Any:
                settings: dict[str, Any] = {"classes": [0, 1, 2], "row_norm": 2.0, "epsilon": epsilon, "delta": 1e-6}
                return BayesianLogisticRegression(n_jobs=1, **settings)

            said = cover(runs, lambda seed, n=n: (*draw(seed, n), truth, {}), make)
            print(f"{n} rows, epsilon {epsilon}:", said, flush=True)


SCHEMA = """[columns.age]
kind = "number"
low = 18
high = 90
[columns.sex]
kind = "binary"
values = ["woman", "man"]
[columns.smoker]
kind = "binary"
values = ["no", "yes"]
[columns.region]
kind = "category"
values = ["north", "south", "east", "west"]
reference = "east"
[columns.state]
kind = "binary"
values = ["well", "ill"]
"""
EFFECTS = {"age": 0.04, "sex=man": 0.2, "smoker=yes": 0.5, "region=north": 0.3, "region=south": 0.6, "region=west": 0.0}


def survey(seed: int, n: int = 6000) -> dict[str, np.ndarray]:
    """Draw a survey, column by column."""
    rng = np.random.default_rng(seed)
    table = {
        "age": rng.integers(18, 91, n),
        "sex": rng.choice(["woman", "man"], n),
        "smoker": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
        "region": rng.choice(["north", "south", "east", "west"], n),
    }
    logit = 0.04 * (table["age"] - 60) - 0.5
    for name, effect in list(EFFECTS.items())[1:]:
        column, _, value = name.partition("=")
        logit = logit + effect * (table[column] == value)
    return {**table, "state": np.where(rng.random(n) < expit(logit), "ill", "well")}


def write(path: Path, names: Iterable[str], rows: Iterable[Any]) -> None:
    """Write a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(names), *rows])


def of_surveys(runs: int) -> None:
    """Fit surveys at the shell, and print the coverage."""
    from sklearn.linear_model import LogisticRegression

    hits, agrees, signs = np.zeros((3, len(EFFECTS)))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "s.toml").write_text(SCHEMA)
        for seed in range(runs):
            table = survey(seed)
            write(folder / "t.csv", table, zip(*table.values(), strict=True))
            named = ["--schema", "s.toml", "--label", "state", "--out", f"m{seed}", "--quiet", "--epsilon", "1"]
            command = [sys.executable, "-m", "vips_fast", "fit", "blr", "t.csv", *named]
            said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            assert "Odds of ill against well (state)" in said, said
            with (folder / f"m{seed}" / "coefficients.csv").open(newline="") as file:
                found = {row["feature"]: row for row in csv.DictReader(file)}
            columns = [table["age"], *(table[n.split("=")[0]] == n.split("=")[1] for n in list(EFFECTS)[1:])]
            X = np.column_stack(columns).astype(float)
            plain = LogisticRegression(C=1e6, max_iter=10_000).fit(X, table["state"] == "ill").coef_[0]
            for j, (name, truth) in enumerate(EFFECTS.items()):
                low, high = (float(found[name][f"log_odds_{end}_90"] or "nan") for end in ("low", "high"))
                hits[j] += low <= truth <= high
                agrees[j] += low <= plain[j] <= high
                signs[j] += truth == 0 or truth * float(found[name]["log_odds"]) > 0
    print("effect, log odds, share of intervals with the truth, with scikit-learn's estimate, share of right signs")
    for name, truth, *shares in zip(EFFECTS, EFFECTS.values(), hits, agrees, signs, strict=True):
        print(f"{name:14s} {truth:5.2f}", *(f"{share / runs:.3f}" for share in shares))
    print(f"{'all':20s}", *(f"{share.mean() / runs:.3f}" for share in (hits, agrees, signs)))


WARDS = """[columns.age]
kind = "number"
low = 18
high = 95
[columns.sex]
kind = "binary"
values = ["female", "male"]
[columns.ward]
kind = "category"
values = ["A", "B", "C", "D", "E", "F"]
[columns.smoking]
kind = "category"
values = ["never", "former", "current"]
"""
#: Shares of the values, and their log odds against the first.
SHARES = {
    "sex": ([0.55, 0.45], [0, 0.3]),
    "ward": ([0.3, 0.25, 0.2, 0.12, 0.08, 0.05], [0, 0.2, -0.3, 0.5, 0, 0.8]),
    "smoking": ([0.5, 0.3, 0.2], [0, 0.3, 0.8]),
}


def of_wards(runs: int) -> None:
    """Print the coverage and errors of known effects."""
    schema = Schema.parse(WARDS)
    values = {column.name: column.values for column in schema.columns}
    for n in (2000, 6000, 20_000):
        for epsilon in (0.5, 1.0, 3.0):
            known, hits, errors = 0, [], []
            for seed in range(runs):
                rng = np.random.default_rng([seed, n])
                cells: dict[str, Any] = {"age": np.clip(np.round(rng.normal(55, 17, n)), 18, 95)}
                logits, truth = 0.035 * (cells["age"] - 55) - 2, {"age": 0.035}
                for name, (shares, odds) in SHARES.items():
                    places = rng.choice(len(shares), n, p=shares)
                    cells[name], logits = np.array(values[name])[places], logits + np.array(odds)[places]
                    truth |= {f"{name}={value}": own for value, own in zip(values[name], odds, strict=True)}
                y = (rng.random(n) < expit(logits)).astype(int)
                model = BayesianLogisticRegression(row_norm=schema.row_norm, epsilon=epsilon, delta=1e-6, n_jobs=1)
                model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big"))
                model.fit(schema.encode(cells), y, inputs={"schema.toml": WARDS})
                found = [one for one in model.effects() if one.change]
                known += sum(one.known for one in found)
                for one in found:
                    if one.known:
                        mean, low, high = one.log_ratio
                        hits.append(low <= truth[one.name] <= high)
                        errors.append((mean - truth[one.name]) / (high - low) * 2 * 1.645)
            sd = math.sqrt(np.mean(np.square(errors))) if errors else math.nan
            share, inside = known / (runs * len(found)), np.mean(hits) if hits else math.nan
            print(f"{n} rows, epsilon {epsilon}: known {share:.2f}, covered {inside:.3f}, sd {sd:.2f}", flush=True)


#: Public bounds of columns of RAND's health insurance experiment: coinsurance, limits, chronic conditions and so on.
RANDHIE = {"lncoins": (0, 5), "idp": (0, 1), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}


def of_randhie(runs: int) -> None:
    """Print rate ratios of visits to a doctor, beside statsmodels."""
    import statsmodels.api as sm

    data = sm.datasets.randhie.load_pandas().data
    low, high = np.array(list(RANDHIE.values()), dtype=float).T
    X = np.clip((data[list(RANDHIE)].to_numpy() - low) / (high - low), 0, 1) * 2 - 1
    y = data["mdvis"].to_numpy()
    for largest in (20, 40):
        family = sm.families.NegativeBinomial(alpha=1.0)
        plain = sm.GLM(np.minimum(y, largest), sm.add_constant(X), family=family).fit(cov_type="HC0")
        for epsilon in (0.5, 1.0, 4.0):
            model = CountRegression(largest=largest, row_norm=len(RANDHIE) ** 0.5, epsilon=epsilon, delta=1e-6)
            model.set_unsafe(test_key=bytes(32)).fit(X, y)
            print(f"largest {largest}, epsilon {epsilon}: mean log probability {model.score(X, y):.4f}")
            ends = np.asarray(plain.conf_int(0.1))[1:]
            for name, one, middle, (a, b) in zip(RANDHIE, model.effects(), plain.params[1:], ends, strict=True):
                ours = f"{one.ratio.mean:.2f} [{one.ratio.low:.2f}, {one.ratio.high:.2f}]"
                print(f"  {name:8s} {ours:22s} statsmodels {np.exp(middle):.2f} [{np.exp(a):.2f}, {np.exp(b):.2f}]")


def main() -> None:
    """Run one of the benches."""
    benches = {
        "persons": of_persons,
        "counts": of_counts,
        "predictions": of_predictions,
        "classes": of_classes,
        "survey": of_surveys,
        "wards": of_wards,
        "randhie": of_randhie,
    }
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bench", choices=benches)
    parser.add_argument("--runs", type=int, default=40)
    args = parser.parse_args()
    benches[args.bench](args.runs)


if __name__ == "__main__":
    main()
