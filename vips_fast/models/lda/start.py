"""Fewer topics first: where a private run of many topics starts from.

Topics that are drawn at random hardly differ from one another. So do the first released statistics: their differences
drown in the noise, which then chooses the topics. A quarter of the topics have four times the words each, at the same
noise. So a run begins with only these, for a few steps. Then all topics start from copies of them, each times random
factors. The codewords of a vector quantizer are split alike (Linde, Buzo & Gray 1980). What was released by then serves
as a start and for nothing else. All of this is post-processing.
"""

import math

import numpy as np

#: Steps of the start, at most a sixth of all.
_START_STEPS, _SHARE = 3, 6
#: The topics that begin, and the fewest topics of a model that begins so.
_TOPICS, _LEAST = 0.25, 8


def start_steps(n_steps: int, n_topics: int) -> int:
    """Choose a run's steps with fewer topics; 0 if it is small.

    It is 0 for few steps or few topics.
    """
    return min(_START_STEPS, n_steps // _SHARE) if n_topics >= _LEAST else 0


def first_topics(n_topics: int) -> int:
    """Choose the number of first topics: a quarter, rounded up."""
    return math.ceil(_TOPICS * n_topics)


def spread(topics: np.ndarray, n_topics: int) -> np.ndarray:
    """Copy columns of a (V, J) array to (V, K), in shares.

    The columns are taken in turn. The copies of one column add up to it.
    """
    parent = np.arange(n_topics) % topics.shape[1]
    # Rows as they lie elsewhere: sums over them are to have the same bits.
    return np.ascontiguousarray(topics[:, parent] / np.bincount(parent)[parent])
