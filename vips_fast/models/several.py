"""Read the largest of many noised numbers: what may be called clear.

A number that was named before it was seen has an interval of its own, at the level that is stated beside it. The
largest of many numbers was chosen by its noise, too: of 1,000 that are only noise, some 23 stand two standard
deviations above 0. So everything that the package counts, lists or marks as clear, moved, found or a keyword goes by
this module. It takes the number of *candidates*: all that were looked at, whether they are listed or not.

*Error rate.* With a probability of at least 90 %, a list holds nothing that only noise brought there (`ERROR`). It is
the level of the intervals beside such lists, so that a reader has to know one number. Each of n candidates has an nth
of it (Bonferroni), which holds whatever the noise of one has to do with that of another. Holm's rule would add next to
nothing among thousands. A false discovery rate (Benjamini & Hochberg) would let words that are in no record hide in a
list of many that are plain to see, and these lists promise that they hold none.
"""

from statistics import NormalDist

#: Probability that a list holds something that only noise brought there.
ERROR = 0.1


def level_of_each(n_candidates: int, level: float = 1.0 - ERROR) -> float:
    """Find the level of each of n intervals that all hold together at ``level``."""
    return 1.0 - (1.0 - level) / max(n_candidates, 1)


def clear_deviations(n_candidates: int, *, sides: int = 1, level: float = 1.0 - ERROR) -> float:
    """Find the standard deviations of its noise from which on one of n numbers is clear.

    With two ``sides`` a number may be below 0 as well as above it.

    >>> round(clear_deviations(1), 2), round(clear_deviations(1000), 2), round(clear_deviations(1, sides=2), 2)
    (1.28, 3.72, 1.64)
    """
    return -NormalDist().inv_cdf((1.0 - level) / (sides * max(n_candidates, 1)))
