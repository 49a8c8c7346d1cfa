"""Private logistic regression on Adult or Abalone: the table behind Fig. 4.

    python bench/paper/blr_table.py                   # Adult, 20 splits, epsilon 0.05, 0.2, 0.8
    python bench/paper/blr_table.py --data abalone
    python bench/paper/blr_table.py --tune dpvi       # the grid that a baseline's settings come from

Each run is another random 80/20 split; AUC is that of the test part, delta = 10^-3,
epsilon proven for adding or removing a record. Rows:

- scikit-learn: LogisticRegression, no privacy;
- non-private VB: our posterior without noise;
- ours: the defaults of `BayesianLogisticRegression`; the same with ``noise_aware=False``;
- paper's algorithm: Algorithm 5 with its rate 0.004 and 100 steps (Adult), the noise
  being what the accountant asks for at that epsilon; and the best of other rates;
- objective perturbation, DPVI, DP-SGLD, variational inference by sampling: the best
  settings of a grid on other splits by test AUC at epsilon = 0.2 (``--tune``), which
  favours them: a private user could not choose so without spending budget.

Rows are appended one by one, so a run that is broken off goes on where it was.
"""

import argparse
import csv
import itertools
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from lda_common import RESULTS

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import moments_accountant_epsilon
from vips_fast.baselines import (
    DPSGLDLogisticRegression,
    DPVILogisticRegression,
    ObjectivePerturbationLogisticRegression,
    VariationalSamplingLogisticRegression,
)
from vips_fast.data import read_abalone, read_adult
from vips_fast.models.logistic import LogisticOptions

DELTA = 1e-3
DATA = Path(os.environ.get("VIPS_FAST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
FIELDS = ["method", "epsilon", "run", "auc", "log_likelihood", "sound", "seconds"]
PAPER = dict(sensitivity="proven", sampling="poisson")
BASELINES = {
    "objective perturbation": ObjectivePerturbationLogisticRegression,
    "DPVI": DPVILogisticRegression,
    "DP-SGLD": DPSGLDLogisticRegression,
    "sampling VI": VariationalSamplingLogisticRegression,
}
#: method -> settings; ``q`` is turned into a batch size.
SETTINGS = {
    "ours": {},
    "ours, noise_aware=False": dict(options=LogisticOptions(noise_aware=False)),
    "paper's algorithm": dict(PAPER, q=0.004, n_steps=100),
    "paper's algorithm, q = 0.1": dict(PAPER, q=0.1, n_steps=10),
    "objective perturbation": dict(row_norm=2.0, curvature_share=0.1),
    "DPVI": dict(clip_norm=2.0, learning_rate=0.3, n_steps=200, q=0.05),
    "DP-SGLD": dict(clip_norm=0.5, n_steps=300, sampling="full"),
    "sampling VI": dict(clip_norm=2.0, learning_rate=30.0, n_steps=200, q=0.05),
}
GRIDS = {
    "objective perturbation": dict(row_norm=[1.0, 2.0, 3.3], curvature_share=[0.05, 0.1, 0.3]),
    "DPVI": dict(clip_norm=[0.5, 1.0, 2.0, 4.0], learning_rate=[0.1, 0.3, 1.0], n_steps=[50, 200]),
    "DP-SGLD": dict(clip_norm=[0.5, 1.0, 2.0], n_steps=[100, 300], prior_precision=[0.1, 1.0]),
    "sampling VI": dict(clip_norm=[0.5, 1.0, 2.0], learning_rate=[10.0, 30.0, 100.0], n_steps=[30, 200]),
}
NON_PRIVATE = ("scikit-learn", "non-private VB")


def split(n, run):
    """(training rows, test rows) of a run."""
    order = np.random.default_rng(run).permutation(n)
    return np.split(order, [round(0.8 * n)])


def estimator(method, epsilon, n, jobs, settings=None):
    """The estimator of a row."""
    if method == "scikit-learn":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=2000)
    if method == "non-private VB":
        return BayesianLogisticRegression(private=False, options=LogisticOptions(noise_aware=False), n_jobs=jobs)
    options = dict(SETTINGS[method] if settings is None else settings, target_epsilon=epsilon, target_delta=DELTA)
    if "q" in options:
        options["batch_size"] = options.pop("q") * n
    if method != "objective perturbation":
        options["n_jobs"] = jobs
    ours = BayesianLogisticRegression.paper if method.startswith("paper's") else BayesianLogisticRegression
    return BASELINES.get(method, ours)(**options)


def one(method, epsilon, run, X, y, jobs, settings=None):
    """One fit, as a row of the file."""
    from sklearn.metrics import roc_auc_score

    train, test = split(len(y), run)
    start = time.perf_counter()
    model = estimator(method, epsilon, len(train), jobs, settings).fit(X[train], y[train])
    seconds = time.perf_counter() - start
    p = np.clip(model.predict_proba(X[test])[:, 1], 1e-12, 1 - 1e-12)
    private = method not in NON_PRIVATE
    return dict(
        method=method, epsilon=epsilon, run=run, auc=f"{roc_auc_score(y[test], model.decision_function(X[test])):.5f}",
        log_likelihood=f"{np.log(np.where(y[test] == 1, p, 1 - p)).mean():.5f}",
        sound=f"{model.privacy_.epsilon:.4f}" if private else "", seconds=f"{seconds:.2f}",
    )


def summary(rows, order):
    """Mean and standard deviation over the runs; the difference from ours on the same splits."""
    cells = {}
    for row in rows:
        cells.setdefault((float(row["epsilon"]), row["method"]), {})[row["run"]] = row
    lines = [f"{'epsilon':>8}  {'method':28}{'runs':>5}  {'AUC':^16}  {'ours - it (se)':^18}  {'log lik.':>9} {'s':>6}"]
    for epsilon, method in sorted(cells, key=lambda c: (-c[0], order.index(c[1]))):
        group = cells[epsilon, method]
        auc = {run: float(row["auc"]) for run, row in group.items()}
        spread = statistics.stdev(auc.values()) if len(auc) > 1 else 0.0
        ours = cells.get((epsilon, "ours"), {})
        gap = [float(ours[run]["auc"]) - auc[run] for run in auc if run in ours]
        shown = f"{np.mean(gap):+.4f} ({np.std(gap) / max(1, len(gap) - 1) ** 0.5:.4f})" if gap else ""
        shown = "" if method == "ours" else shown
        names = ("log_likelihood", "seconds")
        mean = {name: statistics.mean(float(row[name]) for row in group.values()) for name in names}
        lines.append(
            f"{epsilon:8g}  {method:28}{len(auc):5}  {statistics.mean(auc.values()):.4f} ± {spread:.4f}   {shown:^18} "
            f"{mean['log_likelihood']:9.4f} {mean['seconds']:6.2f}"
        )
    return "\n".join(lines)


def load(name):
    """(rows, labels) of a data set."""
    if not DATA.is_dir():
        sys.exit("real data not found: set VIPS_FAST_DATA to the folder that holds adult/ and abalone/")
    if name == "adult":
        table = read_adult(DATA / "adult" / "adult.data.gz", DATA / "adult" / "adult.test.gz")
    else:
        table = read_abalone(next((DATA / "abalone").glob("abalone.data*")))
    return table.X.tocsr(), table.y


def tune(method, epsilons, X, y, runs, jobs):
    """The grid of a baseline, on splits that the table does not use."""
    names = list(GRIDS[method])
    for epsilon in epsilons:
        for values in itertools.product(*GRIDS[method].values()):
            settings = {**SETTINGS[method], **dict(zip(names, values, strict=True))}
            auc = [float(one(method, epsilon, 1000 + run, X, y, jobs, settings)["auc"]) for run in range(runs)]
            print(f"{epsilon:6g}  {statistics.mean(auc):.4f}  {settings}", flush=True)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", choices=["adult", "abalone"], default="adult")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.05, 0.2, 0.8])
    parser.add_argument("--methods", nargs="+", default=[*NON_PRIVATE, *SETTINGS], choices=[*NON_PRIVATE, *SETTINGS])
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--out", type=Path)
    spelled = {method.lower(): method for method in GRIDS}
    parser.add_argument(
        "--tune", metavar="METHOD", type=lambda name: spelled.get(name.lower(), name), choices=list(GRIDS)
    )
    arguments = parser.parse_args(argv)
    X, y = load(arguments.data)
    if arguments.tune:
        tune(arguments.tune, arguments.epsilon, X, y, min(arguments.runs, 2), arguments.jobs)
        return
    out = arguments.out or RESULTS / f"blr_{arguments.data}.csv"
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    if out.exists():
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
    done = {(row["method"], float(row["epsilon"]), int(row["run"])) for row in rows}
    with open(out, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not rows:
            writer.writeheader()
        for run in range(arguments.runs):
            for method in arguments.methods:
                for epsilon in [float("inf")] if method in NON_PRIVATE else arguments.epsilon:
                    if (method, epsilon, run) not in done:
                        row = one(method, epsilon, run, X, y, arguments.jobs)
                        writer.writerow(row)
                        file.flush()
                        rows.append({name: str(value) for name, value in row.items()})
            print(f"run {run + 1} of {arguments.runs}", file=sys.stderr, flush=True)
    print(summary(rows, [*NON_PRIVATE, *SETTINGS]))
    if "sampling VI" in arguments.methods:
        bayesian(arguments.epsilon, X, y, arguments.jobs)


def bayesian(epsilons, X, y, jobs):
    """One run each of variational inference by sampling under the generic and the Bayesian accountant."""
    train, _ = split(len(y), 0)
    for epsilon in epsilons:
        model = estimator("sampling VI", epsilon, len(train), jobs).set_params(bayesian_pairs=1000)
        model.fit(X[train], y[train])
        privacy, q = model.privacy_, model.privacy_.batch_size / len(train)
        generic = moments_accountant_epsilon(q, privacy.noise_multiplier, privacy.steps, DELTA, max_order=512)
        said = f"generic accountant {generic:.4g}; {model.bayesian_}"
        print(f"sampling VI, epsilon {epsilon:g} (privacy loss distribution): {said}")


if __name__ == "__main__":
    main()
