"""A topic model with word neighbors.

For data of any number of columns.
"""

import numpy as np

from vips_fast import LatentDirichletAllocation


class Neighborly(LatentDirichletAllocation):
    """The neighbors of a column are those beside it."""

    def _neighbors(self, n_words):
        return (np.arange(n_words)[:, None] + np.arange(1, min(4, n_words))) % n_words
