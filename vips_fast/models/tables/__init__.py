"""Tables of topics by public groups."""

from .estimator import TopicTables
from .readout import Contrast, Table

__all__ = ["Contrast", "Table", "TopicTables"]
