"""The commands of ``vips-fast`` for logistic regression: ``fit blr`` and ``predict``."""

from __future__ import annotations

import csv
import sys
import zipfile
import zlib
from pathlib import Path

from . import cli

__all__ = ["add_fit_blr", "add_predict", "fit_blr", "predict"]

_COEFFICIENTS = "coefficients.csv"


def _add_input(parser):
    parser.add_argument(
        "input", metavar="INPUT", nargs="+", help="rows as .npy (dense) or .npz (scipy sparse), or files of --format adult or abalone"
    )
    parser.add_argument("--format", choices=["matrix", "adult", "abalone"], default="matrix", help="default matrix")


def add_fit_blr(parser):
    """Arguments of ``vips-fast fit blr``."""
    _add_input(parser)
    parser.add_argument("--labels", metavar="FILE", help="two labels, or counts with --trials: .npy, or text with one a line")
    parser.add_argument("--names", metavar="FILE", help="names of the columns, one a line")
    out = parser.add_argument_group("model")
    out.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    out.add_argument("--force", action="store_true", help="replace a model that is there")
    out.add_argument("--row-norm", type=cli._positive, help="public bound of the rows' norm, default 1; longer rows are scaled down")
    out.add_argument("--trials", type=cli._whole, help="trials of each record, default 1")
    out.add_argument("--no-intercept", action="store_true", help="no constant")
    out.add_argument("--update", help="average or paper")
    cli.add_privacy_and_run(parser)


def add_predict(parser):
    """Arguments of ``vips-fast predict``."""
    parser.add_argument("model", metavar="DIR", help="folder written by fit blr")
    _add_input(parser)
    parser.add_argument("--out", metavar="FILE", help=".csv or .npy; default: print as CSV")


def _array(path, what):
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        raise cli.CommandError(f"{path}: not a .npy file of {what}") from None


def _lines(path):
    return Path(path).read_text("utf-8").splitlines()


def _read(args):
    """(rows, labels or None, names of the columns or None) from files."""
    from .data import read_abalone, read_adult

    if args.format != "matrix":
        table = {"adult": read_adult, "abalone": read_abalone}[args.format](*args.input)
        return table.X, table.y, table.feature_names
    if len(args.input) != 1:
        raise cli.CommandError(f"{len(args.input)} inputs: expected one with --format matrix")
    path = args.input[0]
    if Path(path).suffix == ".npz":
        from scipy import sparse

        try:
            return sparse.csr_array(sparse.load_npz(path)), None, None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            raise cli.CommandError(f"{path}: not a .npz file of a scipy sparse matrix") from None
    if Path(path).suffix != ".npy":
        raise cli.CommandError(f"{path}: expected a name that ends in .npy or .npz, or --format adult or abalone")
    return _array(path, "numbers"), None, None


def fit_blr(args):
    """Fit a logistic regression and write it to a folder."""
    import numpy as np

    from vips_fast import BayesianLogisticRegression, report

    settings = cli._budget(args)
    for name, value in (
        ("row_norm", args.row_norm), ("n_trials", args.trials), ("update", args.update), ("sampling", args.sampling),
        ("neighbors", args.neighbors), ("n_records", args.records), ("batch_size", args.batch_size),
        ("n_steps", args.steps), ("n_jobs", args.jobs), ("random_state", args.seed),
    ):
        if value is not None:
            settings[name] = value
    if args.no_intercept:
        settings["fit_intercept"] = False
    if args.update == "paper":
        settings["center"] = False
    model = BayesianLogisticRegression(**settings)
    with cli._output_folder(Path(args.out), args.force, marks=(_COEFFICIENTS, cli._PRIVACY)) as folder:
        X, y, names = _read(args)
        if args.labels is not None:
            if y is not None:
                raise cli.CommandError(f"--labels {args.labels}: --format {args.format} has its own")
            y = _array(args.labels, "labels") if Path(args.labels).suffix == ".npy" else np.array(_lines(args.labels))
            if args.trials is not None and y.dtype.kind == "U":
                try:
                    y = y.astype(np.float64)
                except ValueError:
                    raise cli.CommandError(f"{args.labels}: expected numbers with --trials") from None
        if y is None:
            raise cli.CommandError("give --labels FILE")
        if args.names is not None:
            names = _lines(args.names)
        if names is not None and len(names) != X.shape[1]:
            raise cli.CommandError(f"{args.names}: {len(names)} names; expected {X.shape[1]}, one for each column")
        with cli._Progress(model.n_steps, "fit", args.quiet) as progress:
            model.set_params(callback=progress)
            model.fit(X, y)
        model.set_params(callback=None)
        model.save(folder)
        interval = model.credible_interval(0.9)
        if names is None:
            names = [f"x{j + 1}" for j in range(model.n_features_in_)]
        with open(folder / _COEFFICIENTS, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["feature", "mean", "low_90", "high_90"])
            table.writerow(["(intercept)", f"{model.intercept_[0]:.6g}", "", ""])
            for name, mean, (low, high) in zip(names, model.coef_[0], interval, strict=True):
                table.writerow([name, f"{mean:.6g}", f"{low:.6g}", f"{high:.6g}"])
        statement = report.paragraph(model.privacy_.statement())
        (folder / cli._PRIVACY).write_text(statement + "\n", "utf-8")
    sure = np.where((interval[:, 0] > 0) | (interval[:, 1] < 0), np.abs(model.coef_[0]), 0.0)
    print("Largest coefficients (posterior mean, 90 % interval):")
    shown = [j for j in np.argsort(-sure, kind="stable")[:10] if sure[j] > 0]
    for j in shown:
        print(f"  {model.coef_[0, j]:+8.3f}  [{interval[j, 0]:+.3f}, {interval[j, 1]:+.3f}]  {names[j]}")
    if not shown:
        print("  none whose interval leaves out 0")
    print()
    print(statement)
    print(f"Written to {args.out}.")
    if not args.non_private:
        cli._warn_delta(model.privacy_.delta, model.privacy_.n_records)
    return 0


def predict(args):
    """Print the probability of the second class for each row."""
    import numpy as np

    from vips_fast import BayesianLogisticRegression

    if not Path(args.model).is_dir():
        raise cli.CommandError(f"{args.model}: no such folder; expected one written by vips-fast fit blr")
    if args.out is not None and Path(args.out).suffix not in (".csv", ".npy"):
        raise cli.CommandError(f"--out {args.out}: expected a name that ends in .csv or .npy")
    try:
        model = BayesianLogisticRegression.load(args.model)
    except (KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise cli.CommandError(f"{args.model} holds no readable model") from None
    if model.privacy_.taints:
        cli._say(f"warning: {model.privacy_.statement()}")
    probability = model.predict_proba(_read(args)[0])

    def write(file):
        file.write(",".join(f"p({label})" for label in model.classes_.tolist()) + "\n")
        for row in probability.tolist():
            file.write(",".join(f"{value:.6g}" for value in row) + "\n")

    if args.out is None:
        write(sys.stdout)
        return 0
    with cli._output_file(Path(args.out)) as file:
        if Path(args.out).suffix == ".npy":
            np.save(file, probability, allow_pickle=False)
        else:
            write(cli._Encoded(file))
    return 0
