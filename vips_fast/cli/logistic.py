"""Logistic regression: ``fit blr`` and ``predict``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .arguments import Parser, add_fit_groups, add_model, add_table, command, positive, whole
from .fit import Job, run_fit
from .folder import load_model
from .output import read_array, read_lines, warn_of_taints, write_table

if TYPE_CHECKING:
    import numpy as np


def add(commands: Any, models: Any) -> None:
    parser = command(models, "blr", fit, "fit a logistic regression and write it to a folder")
    _add_input(parser)
    parser.add_argument("--labels", metavar="FILE", help="two labels, or counts with --trials: .npy, or lines of text")
    parser.add_argument("--names", metavar="FILE", help="names of the columns, one on each line")
    _, privacy, run = add_fit_groups(parser)
    privacy.add_argument("--row-norm", type=positive, help="bound that rows are scaled down to, default 1; public")
    what = "the two labels, which are public; without it those of the data are taken as public"
    privacy.add_argument("--classes", nargs=2, metavar="LABEL", help=what)
    run.add_argument("--trials", dest="n_trials", type=whole, help="trials of each record, default 1")
    run.add_argument("--no-intercept", dest="fit_intercept", action="store_const", const=False, help="no constant")

    what = "print each row's probabilities by a logistic regression, which are as private as the rows"
    parser = command(commands, "predict", predict, what)
    add_model(parser, "fit blr")
    _add_input(parser)
    add_table(parser)


def _add_input(parser: Parser) -> None:
    parser.add_argument(
        "input", metavar="INPUT", nargs="+",
        help="rows as .npy (dense) or .npz (scipy sparse), or files of --format adult or abalone",
    )
    parser.add_argument("--format", choices=["matrix", "adult", "abalone"], default="matrix", help="default matrix")


def _rows(args: Namespace) -> tuple[Any, Any, Any]:
    """(rows, labels or None, names of the columns or None) from files."""
    from ..data import read_abalone, read_adult

    if args.format != "matrix":
        table = (read_adult if args.format == "adult" else read_abalone)(*args.input)
        return table.X, table.y, table.feature_names
    if len(args.input) != 1:
        raise ValueError(f"{len(args.input)} inputs: expected one with --format matrix")
    (path,) = args.input
    if Path(path).suffix == ".npz":
        from scipy import sparse

        try:
            return sparse.csr_array(sparse.load_npz(path)), None, None
        except (OSError, MemoryError):
            raise
        except Exception:
            # Damaged archives end in errors of many kinds.
            raise ValueError(f"{path}: not a .npz file of a scipy sparse matrix") from None
    if Path(path).suffix != ".npy":
        raise ValueError(f"{path}: expected a name that ends in .npy or .npz, or --format adult or abalone")
    return read_array(path, "biuf"), None, None


def _labels(args: Namespace) -> np.ndarray:
    """The labels in a file of their own."""
    import numpy as np

    if Path(args.labels).suffix == ".npy":
        return read_array(args.labels, "biufU" if args.n_trials is None else "biuf")
    labels = np.array(read_lines(args.labels))
    try:
        return labels if args.n_trials is None else labels.astype(np.float64)
    except ValueError:
        raise ValueError(f"{args.labels}: expected numbers with --trials") from None


def fit(args: Namespace) -> int:
    """Fit a logistic regression."""
    from ..models.logistic import BayesianLogisticRegression

    if (args.format == "matrix") == (args.labels is None):
        raise ValueError("give --labels FILE" if args.labels is None else f"--format {args.format}: leave out --labels")

    def read(estimator: BayesianLogisticRegression, run: Any) -> Job:
        X, y, names = _rows(args)
        if args.names is not None:
            names = read_lines(args.names)
            if len(names) != X.shape[1]:
                raise ValueError(f"{args.names}: {len(names)} names; expected {X.shape[1]}, one for each column")
        names = names or [f"x{j + 1}" for j in range(X.shape[1])]
        y = _labels(args) if y is None else y
        if args.classes is not None and y.dtype.kind in "biuf":
            try:
                estimator.set_params(classes=[float(label) for label in args.classes])
            except ValueError:
                raise ValueError(f"--classes {' '.join(args.classes)}: expected numbers, as the labels are") from None
        return Job(
            (X, y),
            lambda model: {texts.COEFFICIENTS: texts.coefficients(model, names)}, lambda model: _largest(model, names),
        )

    return run_fit(args, BayesianLogisticRegression, read)


def _largest(model: Any, names: Any) -> str:
    """The ten largest coefficients whose interval leaves out 0."""
    import numpy as np

    mean, interval = model.coef_[0], model.credible_interval(0.9)
    size = np.where((interval[:, 0] > 0) | (interval[:, 1] < 0), np.abs(mean), 0.0)
    lines = [
        f"  {mean[j]:+8.3f}  [{interval[j, 0]:+.3f}, {interval[j, 1]:+.3f}]  {names[j]}"
        for j in np.argsort(-size, kind="stable")[:10] if size[j] > 0
    ]
    head = "Largest coefficients (posterior mean, 90 % interval):"
    return "\n".join([head, *(lines or ["  none whose interval leaves out 0"]), ""])


def predict(args: Namespace) -> int:
    """Print the probability of each class for each row."""
    from ..models.logistic import BayesianLogisticRegression

    model = load_model(args.model, BayesianLogisticRegression, "fit blr", args.verify_key)
    warn_of_taints(model)
    probability = model.predict_proba(_rows(args)[0])
    write_table(args, (f"p({label})" for label in model.classes_.tolist()), probability)
    return 0
