"""Tables of topics by public groups."""

from .estimator import TopicTables, model_epsilon
from .nightly import NightlyTables
from .readout import Contrast, Table

__all__ = ["Contrast", "NightlyTables", "Table", "TopicTables", "model_epsilon"]
