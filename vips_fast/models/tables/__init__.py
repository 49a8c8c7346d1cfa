"""Tables of topics by public groups."""

from .estimator import TopicTables, model_epsilon
from .readout import Contrast, Table

__all__ = ["Contrast", "Table", "TopicTables", "model_epsilon"]
