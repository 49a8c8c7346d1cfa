"""``predict``: the probability of each class, or of each cluster, for new rows."""

from argparse import Namespace
from typing import Any

from .arguments import add_model, add_table, command
from .folder import load_new
from .output import write_table
from .rows import add_rows


def add(commands: Any) -> None:
    what = "print each row's probabilities of classes or clusters, which are as private as the rows"
    parser = command(commands, "predict", predict, what)
    add_model(parser, "fit blr or fit mixture")
    add_rows(parser)
    add_table(parser)


def predict(args: Namespace) -> int:
    """Print the probability of each class or cluster for each row."""
    from ..report import part_of

    model, X = load_new(args, "predict")
    said = model.predict_proba(X)
    write_table(args, part_of(model).outputs(model, said.shape[1]), said)
    return 0
