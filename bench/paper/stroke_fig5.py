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
from common import CLASSICAL, TIGHT, boxes, crossed, listed, order, save, spread, strong_composition_noise, subplots
from epsilon_table import blr_joint_sensitivity
from peers import ObjectivePerturbationLogisticRegression, vips
from peers.theorems import zcdp_rho_for_target
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import GaussianEvent, SelfComposedEvent
from vips_fast.accounting import epsilon as exact_epsilon

TITLE = "VIPS article, Figure 5: simulated Stroke data, Algorithm 5 and objective perturbation"
NEEDS: tuple[str, ...] = ("sklearn",)
DELTA, STEPS, TEST = 1e-4, 10, 2_517
EPSILONS = (0.5, 1.0, 2.0, 4.0)
#: Public bound of a patient's norm: 36 codes.
ROW_NORM = 6.0
#: Weights of the penalty on the sum of losses, for cross-validation.
PENALTIES = (0.1, 1.0, 10.0, 100.0)
FREE = ("as printed, no privacy", "authors' code, no privacy", "ERM, no privacy")
MA = "moments accountant"
#: The two baselines with their noises; the authors' strong composition has a δ of each step.
BASELINES = {f"{vips.PRINTED}, {how}": (vips.PRINTED, how) for how in (MA, TIGHT, CLASSICAL)}
BASELINES |= {f"{vips.AUTHORS}, {how}": (vips.AUTHORS, how) for how in (MA, CLASSICAL)}
AUTHORS_STEP_DELTA = 1e-6
#: Replacing a patient, as in the article, and adding or removing one, which objective perturbation is proven for.
EXACT, OURS = "Algorithm 5, exact accounting", "ours"
ERM, GAUSSIAN_ERM, OURS_ADDED = "private ERM", "private ERM with δ, sound", "ours, add or remove"
REPLACE = (*BASELINES, EXACT, OURS)
METHODS = (*FREE, *REPLACE, ERM, GAUSSIAN_ERM, OURS_ADDED)


def cells(scale: int) -> list[dict]:
    """Plan one run: an hour of a core in full. Or a tenth of the codes at the same noise over signal."""
    codes, train = 4_146 // scale, round(10_069 / math.sqrt(scale))
    return [dict(method=method, train=train, codes=codes, steps=STEPS, run=0) for method in METHODS]


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
    """Compute the noise multiplier of whole-batch steps.

    Renyi bounds of the Gaussian, classical conversion at the best order.
    """
    return math.sqrt(steps / (2 * zcdp_rho_for_target(target, DELTA)))


def _validated(X, y, settings):
    """Find the penalty of the best AUC in five-fold cross-validation. The article accounts for it in neither form."""
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


def baseline_noise(method, epsilon, n, steps) -> float:
    """Calibrate a baseline to an epsilon."""
    form, how = BASELINES[method]
    if how == MA:
        return moments_noise(epsilon, steps)
    each = AUTHORS_STEP_DELTA if form == vips.AUTHORS else None
    return strong_composition_noise(epsilon, n, n, steps, DELTA, how, each)


def _estimator(method, epsilon, steps, X, y):
    if method == "ERM, no privacy":
        return _validated(X, y, dict(private=False))
    if method == ERM:
        return _validated(X, y, dict(row_norm=ROW_NORM, epsilon=epsilon, delta=0.0))
    budget = dict(row_norm=ROW_NORM, epsilon=epsilon, delta=DELTA)
    if method == EXACT:
        return BayesianLogisticRegression.paper(
            sensitivity="proven", form="orthonormal", n_steps=steps, options={"relation": "replace_one"}, **budget
        )
    if method == GAUSSIAN_ERM:
        return ObjectivePerturbationLogisticRegression(**budget)
    return BayesianLogisticRegression(options={"relation": "replace_one" if method == OURS else "add_remove"}, **budget)


def _scores(method, epsilon, cell, X, y, rows):
    """Fit one method; return logits of ``rows``, exact epsilon and noise multiplier."""
    form = BASELINES[method][0] if method in BASELINES else method.split(", ")[0]
    if form not in (vips.PRINTED, vips.AUTHORS):
        model = _estimator(method, epsilon, cell["steps"], X, y).fit(X, y)
        privacy = model.privacy_
        private = (privacy.epsilon, privacy.noise_multiplier) if privacy.private else (None, None)
        return model.decision_function(rows), *private
    # Rows of a norm of at most 1, as the article assumes.
    length = np.maximum(np.sqrt((X * X).sum(axis=1)) / ROW_NORM, 1.0)
    dense = np.asarray(X.todense()) / (ROW_NORM * np.reshape(length, (-1, 1)))
    z = 0.0 if epsilon is None else baseline_noise(method, epsilon, len(y), cell["steps"])
    q = vips.fit_regression(form, dense, y, z, len(y), cell["steps"], np.random.default_rng(cell["run"]))
    # Both statistics as one release: at most the printed sensitivities, and more than the authors'.
    true = blr_joint_sensitivity(1.0, 0.5) if form == vips.AUTHORS else 1.0
    exact = exact_epsilon(SelfComposedEvent(GaussianEvent(z / true), cell["steps"]), DELTA) if z else None
    return rows @ q.mean, exact, z or None


def run(cell: dict) -> dict:
    """Compute AUC of the test patients for each epsilon. Of one split and one method."""
    import time

    from sklearn.metrics import roc_auc_score

    n = cell["train"]
    X, y, p = simulate(0, n + TEST, cell["codes"])
    order = np.random.default_rng(cell["run"]).permutation(len(y))
    X, y, p = X[order], y[order], p[order]
    fits, test = [], slice(n, None)
    for epsilon in (None,) if cell["method"] in FREE else EPSILONS:
        start = time.process_time()
        scores, exact, z = _scores(cell["method"], epsilon, cell, X[:n], y[:n], X[test])
        seconds = time.process_time() - start
        auc = float(roc_auc_score(y[test], scores))
        fits.append(dict(epsilon=epsilon, auc=auc, seconds=seconds, exact=exact, noise_multiplier=z))
    return dict(true_auc=float(roc_auc_score(y[test], p[test])), fits=fits)


def _fits(rows, method, epsilon):
    found = [(row["run"], fit) for row in rows if row["method"] == method for fit in row["fits"]]
    return {run: fit for run, fit in found if method in FREE or fit["epsilon"] == epsilon}


def _mean(rows, method, epsilon):
    values = [fit["auc"] for fit in _fits(rows, method, epsilon).values()]
    return statistics.mean(values) if values else math.nan


def orders(rows: list[dict]) -> list:
    """Check the printed order of the means at each epsilon."""

    def above(better, worse):
        return {f"ε = {e:g}": _mean(rows, better, e) > _mean(rows, worse, e) for e in EPSILONS}

    found = []
    for form in (vips.PRINTED, vips.AUTHORS):
        noises = [method for method, (of, how) in BASELINES.items() if of == form and how != MA]
        moments = f"{form}, {MA}"
        found.append(order(f"{form}: no privacy above the {MA}", above(f"{form}, no privacy", moments)))
        found += [order(f"{form}: {MA} above {m.split(', ', 1)[1]}", above(moments, m)) for m in noises]
        found += [order(f"{m} above {ERM}", above(m, ERM)) for m in (moments, *noises)]
    return [
        *found,
        order("replace one patient: ours above exact accounting", above(OURS, EXACT)),
        order("add or remove one: ours above private ERM with δ", above(OURS_ADDED, GAUSSIAN_ERM)),
    ]


def report(rows: list[dict]) -> str:
    def shown(method, epsilon):
        fits = list(_fits(rows, method, epsilon).values())
        if not fits:
            return None
        exact = f"; {fits[0]['exact']:.2g}" if fits[0]["exact"] and method != ERM else ""
        return spread([fit["auc"] for fit in fits], 3) + exact

    private = {m: f"{m}, {'replace' if m in REPLACE else 'add or remove'} one" for m in METHODS if m not in FREE}
    private[OURS_ADDED] = f"{OURS_ADDED} one"
    cell, true = rows[0], statistics.mean({row["run"]: row["true_auc"] for row in rows}.values())
    free = ", ".join(f"{method.removesuffix(', no privacy')} {shown(method, None)}" for method in FREE)
    return f"""*As printed* is Algorithm 5 letter by letter, with noise for 2/N and 1/(2N). *Authors' code* has noise
for 1/N and 1/(2N), replaces everything at step 1, which keeps {100 * vips.first_weight(cell["steps"]):.0f} % of the
weight, and has δ = 10⁻⁶ a step. *Exact accounting* has the sensitivities that are needed. Private ERM has δ = 0, and
its cross-validation is not accounted for: NOT PRIVATE. Without privacy: {free}; the true probabilities have
{true:.3f}. Data are {cell["train"]:,} simulated patients of {cell["codes"]:,} codes, {cell["steps"]} steps over all of
them, δ = 10⁻⁴.

{listed(orders(rows))}

AUC; exact tight ε:

{crossed("method", private, {e: f"ε = {e:g}" for e in EPSILONS}, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    figure, panels = subplots(1, 2, figsize=(12, 5.6), sharey=True, constrained_layout=True)
    groups = {"replace one patient": REPLACE, "add or remove one patient": (ERM, GAUSSIAN_ERM, OURS_ADDED)}
    for axes, (relation, methods) in zip(panels, groups.items(), strict=True):
        values = {m: [[f["auc"] for f in _fits(rows, m, e).values()] for e in EPSILONS] for m in methods}
        handles = boxes(axes, values, [f"ε = {e:g}" for e in EPSILONS])
        for method, line in zip(FREE, ("-", "--", ":"), strict=True):
            at = _mean(rows, method, None)
            handles[method] = axes.axhline(at, color="black", linewidth=0.8, linestyle=line)
        axes.set(title=relation, xlabel="privacy, δ = 10⁻⁴ (0 for private ERM)")
        axes.legend(handles.values(), handles, fontsize=7, loc="upper center", ncols=2, bbox_to_anchor=(0.5, -0.15))
    panels[0].set_ylabel("AUC of the test patients")
    return save(figure, folder, "stroke_fig5")
