"""A public prior for data of any number of columns.

The module also has documents that the prior fits.
"""

import numpy as np
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, PublicPrior


def prior_of(n_words, n_topics=4, seed=0, shuffled=False):
    """Topics of words in turn.

    Word v is four times as frequent in topic v mod K.
    """
    ratios = np.ones((n_topics, n_words))
    ratios[np.arange(n_words) % n_topics, np.arange(n_words)] = 30.0
    if shuffled:
        ratios = ratios[:, np.random.default_rng(seed).permutation(n_words)]
    frequencies = 1.0 / (3.0 + np.arange(n_words))
    return PublicPrior([f"w{v}" for v in range(n_words)], ratios, np.ones(n_topics), frequencies, "a test")


def documents(n, n_words, n_topics=4, length=40, seed=1):
    """Documents of one or two of the prior's topics each."""
    rng = np.random.default_rng(seed)
    topics = prior_of(n_words, n_topics).topics()
    shares = rng.dirichlet(np.full(n_topics, 0.2), n)
    return sp.csr_array(np.array([rng.multinomial(length, share @ topics) for share in shares], dtype=np.int32))


class Prior(LatentDirichletAllocation):
    """A topic model that makes its public prior for given columns."""

    def _prior(self, n_words):
        return prior_of(max(n_words, 16), int(self.n_components)) if n_words >= 16 else None


class Counting(LatentDirichletAllocation):
    """A topic model whose first step releases a histogram.

    The histogram counts words, however few steps there are.
    """

    def _histograms(self, n_steps, signal):
        return 1
