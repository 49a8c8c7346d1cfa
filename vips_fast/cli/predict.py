"""``predict``: the probability of each class, or of each cluster, for new rows."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from . import texts
from .arguments import add_model, add_table, command
from .folder import kind_in, load_model
from .mixture import mixtures, read_dense
from .output import warn_of_taints, write_table
from .records import sharded
from .rows import add_rows, read_matrix, read_table


def add(commands: Any) -> None:
    what = "print each row's probabilities of classes or clusters, which are as private as the rows"
    parser = command(commands, "predict", predict, what)
    add_model(parser, "fit blr or fit mixture")
    add_rows(parser)
    add_table(parser)


def predict(args: Namespace) -> int:
    """Print the probability of each class or cluster for each row."""
    from ..data import Schema
    from ..models.logistic import BayesianLogisticRegression

    kind = kind_in(args.model)
    clusters = kind in mixtures().values()
    expected = kind if clusters else BayesianLogisticRegression
    model = load_model(args.model, expected, "fit blr or fit mixture", args.verify_key)
    warn_of_taints(model)
    path = Path(args.schema or Path(args.model) / texts.SCHEMA)
    shards = sharded(args)
    if shards is not None:
        if clusters:
            raise ValueError(f"{args.input}: shards; expected rows in a file for clusters")
        X: Any = shards
    elif args.schema is None and (not path.exists() or Path(args.input).suffix in (".npy", ".npz")):
        X = read_dense(args.input) if clusters else read_matrix(args.input)
    else:
        X = read_table(args.input, Schema.load(path), "raise")[0]
        X = X.toarray() if clusters else X
    if clusters:
        said = model.predict_proba(X)
        names = [f"component{k + 1}" for k in range(said.shape[1])]
    else:
        said, names = model.predict_proba(X), [f"p({label})" for label in model.classes_.tolist()]
    write_table(args, names, said)
    return 0
