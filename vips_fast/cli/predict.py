"""``predict``: the probability of each class, or of each cluster, for new rows."""

from argparse import Namespace

from ..report import part_of
from .folder import load_new
from .output import write_table


def predict(args: Namespace) -> int:
    """Print the probability of each class or cluster for each row."""
    model, X = load_new(args, "predict")
    said = model.predict_proba(X)
    write_table(args, part_of(model).outputs(model, said.shape[1]), said)
    return 0
