"""VIPS article, Figure 5: batch logistic regression with many binary columns.

The Stroke data (12,586 patients, 4,146 medical codes, 14 % cases) are not public. They are simulated: code j is present
with a probability in proportion to 1/(j + 5), 28 codes a patient on average; 300 codes have an effect on the logit,
N(0, 1); the constant is set so that 14 % are cases. In each run another 10,069 of the same patients train and the other
2,517 test, as in the article.
"""

import math
import statistics
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import boxes, markdown, save, spread, strong_composition_noise, subplots
from peers import ObjectivePerturbationLogisticRegression
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import zcdp_rho_for_target

TITLE = "VIPS article, Figure 5: simulated Stroke data, Algorithm 5 and objective perturbation"
NEEDS: tuple[str, ...] = ("sklearn",)
DELTA, STEPS, TEST = 1e-4, 10, 2_517
EPSILONS = (0.5, 1.0, 2.0, 4.0)
#: Public bound of a patient's norm: 36 codes.
ROW_NORM = 6.0
#: Weights of the penalty on the sum of losses, for cross-validation.
PENALTIES = (0.1, 1.0, 10.0, 100.0)
FREE = ("BLR, no privacy", "ERM, no privacy")
MOMENTS, STRONG, ERM = "Algorithm 5, moments accountant", "Algorithm 5, strong composition", "private ERM"
EXACT, GAUSSIAN_ERM, OURS = "Algorithm 5, exact accounting", "private ERM with δ, sound", "ours"
METHODS = (*FREE, MOMENTS, STRONG, ERM, EXACT, GAUSSIAN_ERM, OURS)


def cells(scale: int) -> list[dict]:
    """Plan one run in full, an hour of a core, or four with a tenth of the codes, at the same noise over signal."""
    codes, train = 4_146 // scale, round(10_069 / math.sqrt(scale))
    runs = 1 if scale == 1 else 4
    return [
        dict(method=method, train=train, codes=codes, steps=STEPS, run=run) for run in range(runs) for method in METHODS
    ]


def simulate(seed, n, d, codes=28, cases=0.14):
    """(n x d binary rows, labels, probabilities)."""
    rng = np.random.default_rng(seed)
    prevalence = 1 / (np.arange(d) + 5.0)
    prevalence *= codes / prevalence.sum()
    X = sp.csr_array((rng.random((n, d)) < np.minimum(prevalence, 0.9)).astype(np.float64))
    weights, effects = np.zeros(d), round(300 * d / 4_146)
    # Codes that matter are more often frequent ones: a rare one is hardly ever learned.
    chosen = rng.choice(d, effects, replace=False, p=np.sqrt(prevalence) / np.sqrt(prevalence).sum())
    weights[chosen] = rng.normal(size=effects)
    logit = X @ weights
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(logit + middle).mean() < cases else (low, middle)
    p = expit(logit + low)
    return X, (rng.random(n) < p).astype(int), p


def moments_noise(target, steps):
    """Noise multiplier of whole-batch steps: Renyi bounds of the Gaussian, classical conversion at the best order."""
    return math.sqrt(steps / (2 * zcdp_rho_for_target(target, DELTA)))


def _validated(X, y, settings):
    """The penalty of the best AUC in five-fold cross-validation, which the article accounts for in neither form."""
    from sklearn.metrics import roc_auc_score

    fold = np.arange(len(y)) % 5

    def mean_auc(alpha):
        scores = []
        for held in range(5):
            kept, out = fold != held, fold == held
            model = ObjectivePerturbationLogisticRegression(alpha=alpha, **settings).fit(X[kept], y[kept])
            scores.append(roc_auc_score(y[out], model.decision_function(X[out])))
        return statistics.mean(scores)

    return ObjectivePerturbationLogisticRegression(alpha=max(PENALTIES, key=mean_auc), **settings)


def _estimator(method, epsilon, steps, X, y):
    algorithm = dict(row_norm=ROW_NORM, n_steps=steps, relation="replace_one", delta=DELTA)
    if method == "BLR, no privacy":
        return BayesianLogisticRegression.paper(private=False, n_steps=steps)
    if method == "ERM, no privacy":
        return _validated(X, y, dict(private=False))
    if method == MOMENTS:
        return BayesianLogisticRegression.paper(noise_multiplier=moments_noise(epsilon, steps), **algorithm)
    if method == STRONG:
        z = strong_composition_noise(epsilon, 1.0, steps, DELTA)
        return BayesianLogisticRegression.paper(noise_multiplier=z, **algorithm)
    if method == ERM:
        return _validated(X, y, dict(row_norm=ROW_NORM, epsilon=epsilon, delta=0.0))
    if method == EXACT:
        return BayesianLogisticRegression.paper(epsilon=epsilon, sensitivity="proven", form="orthonormal", **algorithm)
    budget = dict(row_norm=ROW_NORM, epsilon=epsilon, delta=DELTA)
    if method == GAUSSIAN_ERM:
        return ObjectivePerturbationLogisticRegression(**budget)
    return BayesianLogisticRegression(relation="replace_one", **budget)


def run(cell: dict) -> dict:
    """AUC of the test patients for each epsilon, of one split and one method."""
    import time

    from sklearn.metrics import roc_auc_score

    n = cell["train"]
    X, y, p = simulate(0, n + TEST, cell["codes"])
    order = np.random.default_rng(cell["run"]).permutation(len(y))
    X, y, p = X[order], y[order], p[order]
    fits, test = [], slice(n, None)
    for epsilon in (None,) if cell["method"] in FREE else EPSILONS:
        start = time.perf_counter()
        model = _estimator(cell["method"], epsilon, cell["steps"], X[:n], y[:n]).fit(X[:n], y[:n])
        seconds = time.perf_counter() - start
        privacy = model.privacy_
        fits.append(
            dict(
                epsilon=epsilon,
                auc=float(roc_auc_score(y[test], model.decision_function(X[test]))),
                seconds=seconds,
                exact=privacy.epsilon if privacy.private else None,
                noise_multiplier=privacy.noise_multiplier if privacy.private else None,
            )
        )
    return dict(true_auc=float(roc_auc_score(y[test], p[test])), fits=fits)


def _fits(rows, method, epsilon):
    found = [(row["run"], fit) for row in rows if row["method"] == method for fit in row["fits"]]
    return {run: fit for run, fit in found if method in FREE or fit["epsilon"] == epsilon}


def _mean(rows, method, epsilon):
    values = [fit["auc"] for fit in _fits(rows, method, epsilon).values()]
    return statistics.mean(values) if values else math.nan


def _above(rows, better, worse):
    return ", ".join(f"{e:g}" for e in EPSILONS if _mean(rows, better, e) > _mean(rows, worse, e)) or "none"


def report(rows: list[dict]) -> str:
    shown = []
    for method in METHODS:
        for epsilon in (None,) if method in FREE else EPSILONS:
            fits = list(_fits(rows, method, epsilon).values())
            if not fits:
                continue
            first = fits[0]
            shown.append(
                (
                    epsilon and f"{epsilon:g}",
                    method,
                    f"{first['noise_multiplier']:.3g}" if method in (MOMENTS, STRONG, EXACT) else None,
                    "cross-validation uncounted" if method == ERM else first["exact"] and f"{first['exact']:.3g}",
                    len(fits),
                    spread([fit["auc"] for fit in fits], 3),
                    f"{statistics.mean(fit['seconds'] for fit in fits):.1f}",
                )
            )
    columns = ("ε", "method", "noise multiplier", "exact tight ε", "runs", "AUC, ours (printed: a picture)", "seconds")
    cell, true = rows[0], statistics.mean({row["run"]: row["true_auc"] for row in rows}.values())
    return f"""{markdown(columns, shown)}

{cell["train"]:,} patients of {cell["codes"]:,} codes train and {TEST:,} test; δ = 10⁻⁴, {cell["steps"]} steps over all
of them; the true probabilities have an AUC of {true:.3f}. The data are simulated, as Stroke is not public, and the
printed values are in the picture only. Its order is the two fits without privacy, then Algorithm 5 with the moments
accountant, with strong composition, then private ERM. Seen here in the means: the moments accountant above strong
composition at ε = {_above(rows, MOMENTS, STRONG)}; strong composition above private ERM at ε =
{_above(rows, STRONG, ERM)}; the moments accountant above private ERM at ε = {_above(rows, MOMENTS, ERM)}.

*In the article's own setting*: its sensitivities 2/N and 1/(2N), replace one patient, the moments accountant of the
whole batch (Rényi bounds with the classical conversion) or strong composition, and private ERM with δ = 0 and a penalty
by five-fold cross-validation, which is not accounted for: **NOT PRIVATE**. The exact ε of Algorithm 5's runs is below
what the article's accountant says of the same noise, and its sensitivities are above those needed. *Sound*: Algorithm 5
with the sensitivities that are needed, symmetric noise with 1/√2 off the diagonal and exact accounting; objective
perturbation with Gaussian noise and no cross-validation (add or remove one); ours, the defaults. The article does not
print the number of steps.

With rows of norm 1 the spectrum of the noise in the d × d statistic reaches z √d / N, where a column's own curvature is
far smaller; Algorithm 5 takes the rest above 0 for curvature. Private ERM pays for δ = 0 with a perturbation whose
length grows as d, not √d. The full form has 1 run in place of 20, since each takes an hour of a core, nearly all of it
in eigenvalues of 4,146 × 4,146 matrices. The quick form has 4 runs, a tenth of the codes and N/√10 patients, so that
z √d / N is that of the full form; d / N, and with it private ERM's perturbation, is then √10 smaller than in full,
which favors private ERM above strong composition. The article has 5 pairs of training and test sets."""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, axes = subplots(figsize=(10, 4.6))
    private = [method for method in METHODS if method not in FREE]
    values = {m: [[f["auc"] for f in _fits(rows, m, e).values()] for e in EPSILONS] for m in private}
    handles = boxes(axes, values, [f"ε = {e:g}" for e in EPSILONS])
    levels = {method: _mean(rows, method, None) for method in FREE} | {"chance": 0.5}
    for (name, at), line in zip(levels.items(), ("-", "--", ":"), strict=True):
        handles[name] = axes.axhline(at, color="black", linewidth=0.8, linestyle=line)
    axes.set(xlabel="privacy, δ = 10⁻⁴ (0 for private ERM)", ylabel="AUC of the test patients")
    axes.legend(handles.values(), handles, fontsize=8, handleheight=1.3, loc="center left", bbox_to_anchor=(1, 0.5))
    return save(figure, folder, "stroke_fig5")
