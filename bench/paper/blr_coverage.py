"""Coverage of the logistic regression's intervals and regions.

Simulated records: true weights N(0, 3^2) and an intercept of 0.5, delta = 10^-5, adding or removing a record. Rows are
correlated normal columns inside the unit ball, or 0/1 columns of shares from 2 to 50 %, over the root of their number.
Every run is another data set; its intervals share records and noise, so that standard errors come from the runs'
shares. Methods:

- ours: the defaults of `BayesianLogisticRegression`;
- noise ignored: the same with ``noise_aware=False``;
- one release: the exact posterior of a likelihood that is quadratic in the logit (its coefficient the best on [-4, 4],
  Huggins et al. 2017) given one noised release of sum (y - 1/2) x and sum x x^T, as in Bernstein & Sheldon (2019) and
  Kulkarni et al. (2021), the matrix taken by our estimate of it;
- all records: without privacy, the normal approximation at the posterior's mode.

Credible regions are tested by TARP (Lemos et al. 2023): for each run a random point, and the share of the posterior
that lies nearer to it than the truth. Of regions that cover as they say, these shares are uniform; the expected
coverage error is the mean distance of their distribution from the uniform one.
"""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from common import STYLES, crossed, save, subplots
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import gaussian_noise_multiplier
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.posterior import second_moment

TITLE = "Logistic regression: coverage of intervals and credible regions"
NEEDS = ()
RUNS, BLOCK, DELTA, LEVEL = 200, 25, 1e-5, 0.9
DESIGNS = (("normal", 5_000, 10), ("normal", 20_000, 10), ("normal", 20_000, 30), ("binary", 20_000, 20))
EPSILONS = (0.1, 0.5, 2.0)
METHODS = ("ours", "noise ignored", "one release")


@lru_cache(2)
def simulate(design, run, n, d, scale=3.0):
    """(X, y, weights)."""
    rng = np.random.default_rng([run, n, d])
    if design == "binary":
        X = (rng.random((n, d)) < np.geomspace(0.02, 0.5, d)) / math.sqrt(d)
    else:
        X = rng.normal(size=(n, d)) @ (rng.normal(size=(d, d)) * 0.5 / math.sqrt(d) + np.eye(d))
        radius = 1.2 * math.sqrt(d)
        X *= np.minimum(1, radius / np.linalg.norm(X, axis=1))[:, None] / radius
    weights = rng.normal(size=d) * scale
    return X, (rng.random(n) < expit(X @ weights + 0.5)).astype(int), weights


def prior_precision(mean, covariance):
    """Return the variational update of alpha."""
    return (0.01 + len(mean) / 2) / (0.01 + (mean @ mean + np.trace(covariance)) / 2)


def all_records(X, y):
    """Mean and covariance of the normal approximation at the posterior's mode."""
    X = np.hstack([X, np.ones((len(X), 1))])
    mean, covariance, alpha = np.zeros(X.shape[1]), np.zeros((X.shape[1],) * 2), 1.0
    for _ in range(60):
        p = expit(X @ mean)
        covariance = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X + alpha * np.eye(len(mean)))
        step = covariance @ (X.T @ (y - p) - alpha * mean)
        mean, alpha = mean + step, prior_precision(mean, covariance)
        if np.abs(step).max() < 1e-8:
            break
    return mean, covariance


def one_release(X, y, epsilon, rng):
    """Return the posterior given one noised release; see the module."""
    n, bound = len(X), math.sqrt(2)
    X = np.hstack([X, np.ones((n, 1))])
    d = X.shape[1]
    # (sum (y - 1/2) x / C1, sum x x^T / C2), each with half of the squared bound.
    first, second = bound / 2 * math.sqrt(2), bound**2 * math.sqrt(2)
    noise = gaussian_noise_multiplier(epsilon, DELTA)
    s = X.T @ (y - 0.5) + rng.normal(size=d) * noise * first
    upper = np.triu(rng.normal(size=(d, d)) * noise * second / math.sqrt(2))
    matrix = X.T @ X + upper + upper.T
    s2, _ = second_moment(matrix, noise * second / math.sqrt(2), noise * second, True)
    grid = np.linspace(-4, 4, 2001)
    quadratic = np.polynomial.chebyshev.chebfit(grid / 4, -np.log1p(np.exp(-grid)), 2)[2] * 2 / 16
    curvature = -2 * quadratic * s2
    # s has the mean curvature m and the variance of labels, about sum x x^T p (1 - p), and of the noise.
    both = np.linalg.solve(curvature + (noise * first) ** 2 * np.eye(d), curvature)
    mean, covariance, alpha = np.zeros(d), np.zeros((d, d)), 1.0
    for _ in range(60):
        covariance = np.linalg.inv(curvature @ both + alpha * np.eye(d))
        mean = covariance @ both.T @ s
        alpha = prior_precision(mean, covariance)
    return mean, covariance


def fitted(method, epsilon, X, y, rng):
    """Mean and covariance of the weights."""
    if method == "all records":
        mean, covariance = all_records(X, y)
    elif method == "one release":
        mean, covariance = one_release(X, y, epsilon, rng)
    else:
        budget = dict(private=False) if epsilon is None else dict(epsilon=epsilon, delta=DELTA)
        options = LogisticOptions(noise_aware=method != "noise ignored")
        model = BayesianLogisticRegression(options=options, n_jobs=1, **budget).fit(X, y)
        mean, covariance = model.coef_[0], model.covariance_
    d = X.shape[1]
    return mean[:d], covariance[:d, :d]


def nearer(mean, covariance, truth, rng, draws=1000):
    """Compute the posterior's share that is nearer to a point than the truth.

    The point is random.
    """
    sd = np.sqrt(np.diag(covariance))
    point = (mean + 2 * sd * rng.normal(size=len(mean))) / sd
    # The point may depend on the release in any way, but not on the truth.
    sample = rng.multivariate_normal(mean, covariance, size=draws) / sd
    return float((np.linalg.norm(sample - point, axis=1) < np.linalg.norm(truth / sd - point)).mean())


def coverage_error(shares):
    """Mean distance of the shares' distribution from the uniform one."""
    levels = np.linspace(0, 1, 101)
    return float(np.abs((np.asarray(shares)[:, None] <= levels).mean(axis=0) - levels).mean())


def cells(scale: int) -> list[dict]:
    settings = [(method, epsilon) for method in METHODS for epsilon in EPSILONS]
    settings += [("ours", None), ("all records", None)]
    runs = max(10, RUNS // scale)
    return [
        dict(design=design, n=n, d=d, method=method, epsilon=epsilon, first=first, runs=min(BLOCK, runs - first))
        for first in range(0, runs, BLOCK)
        for design, n, d in DESIGNS
        for method, epsilon in settings
    ]


def run(cell: dict) -> dict:
    from scipy.special import ndtri

    inside, shares, widths, errors = [], [], [], []
    for i in range(cell["first"], cell["first"] + cell["runs"]):
        X, y, truth = simulate(cell["design"], i, cell["n"], cell["d"])
        rng = np.random.default_rng([i, cell["n"], cell["d"], 1])
        mean, covariance = fitted(cell["method"], cell["epsilon"], X, y, rng)
        half = ndtri(0.5 + LEVEL / 2) * np.sqrt(np.diag(covariance))
        inside.append(float((np.abs(mean - truth) <= half).mean()))
        shares.append(nearer(mean, covariance, truth, rng))
        widths.append(float(half.mean()))
        errors.append(float(((mean - truth) ** 2).mean()))
    return dict(coverage=float(np.mean(inside)), inside=inside, shares=shares, widths=widths, errors=errors)


def gathered(rows):
    """Map (design, n, d, epsilon, method) to the lists of all runs."""
    found: dict = {}
    for row in rows:
        lists = found.setdefault(
            (row["design"], row["n"], row["d"], row["epsilon"], row["method"]),
            dict(inside=[], shares=[], widths=[], errors=[]),
        )
        for name, values in lists.items():
            values += row[name]
    return found


def report(rows: list[dict]) -> str:
    found = gathered(rows)

    def shown(line, method):
        lists = found.get((*line, method))
        if lists is None:
            return None
        width = f"; {np.mean(lists['widths']):.2f}; {math.sqrt(float(np.mean(lists['errors']))):.2f}"
        return f"{np.mean(lists['inside']):.3f}{width if method == METHODS[0] else ''}"

    pooled = []
    for method in METHODS:
        shares = [s for key, lists in found.items() if key[4] == method and key[3] for s in lists["shares"]]
        pooled.append(f"{method} {coverage_error(shares):.3f}")
    lines = {
        (design, n, d, e): f"{n:,} × {d} {design}, {'no privacy' if e is None else f'ε = {e:g}'}"
        for design, n, d, e, _ in sorted(found, key=lambda key: (*key[:3], key[3] or math.inf))
    }
    runs = {len(lists["inside"]) for lists in found.values()}
    return f"""Share of coefficients whose 90 % interval holds the truth, over {max(runs)} simulated data sets; for
*ours* also the interval's half width and the root mean squared error. *Noise ignored* takes the released statistics
as exact, *one release* has the noise-aware posterior of a single release. Expected coverage error of credible regions
by TARP over all private cells: {"; ".join(pooled)}. Uniform shares have about 0.3 over the root of the number of
runs.

{crossed("records", lines, {m: m for m in (*METHODS, "all records")}, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    found = gathered(rows)
    figure, axes = subplots(figsize=(4.5, 4.5))
    levels = np.linspace(0, 1, 101)
    axes.plot(levels, levels, color="#999999", linewidth=0.8)
    for style, method in zip(STYLES, METHODS, strict=False):
        shares = np.array([s for key, lists in found.items() if key[4] == method and key[3] for s in lists["shares"]])
        if len(shares):
            covered = (shares[:, None] <= levels).mean(axis=0)
            axes.plot(levels, covered, label=method, markevery=10, markersize=4, **style)
    axes.set_xlabel("credibility of the region")
    axes.set_ylabel("share of runs whose truth it holds")
    axes.legend()
    # Beside the table's CSV, not on the page.
    save(figure, folder, "blr_coverage")
    return []  # the page shows the table only
