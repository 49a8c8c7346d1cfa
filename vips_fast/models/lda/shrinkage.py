"""Empirical-Bayes read-out of noised topic statistics.

Everything here is post-processing of released numbers: it costs no privacy.

The running average holds, for word v and topic k, a_vk = m_vk + N(0, sd_vk^2) with noise levels that are public. All
that follows is in units of them. Entries are divided by sd_vk, so that sd is 1, and the means multiplied by it. A
word's sums are in units of the root of the mean of its sd_vk^2, over topics. Most m_vk are far below sd. Mapping
negative entries to zero (Algorithm 3) leaves 0.4 sd of bias in each of the V K entries. Here the m_vk are estimated by
their posterior means under

    m_vk = p_v w_k r_vk

- p_v, the word's share over all topics. It is estimated from sum_k a_vk, whose noise is only sqrt(K) sd, with a
  nonparametric prior (the EM of Kiefer & Wolfowitz's maximum-likelihood mixture). If the run has released histograms of
  words, they and sum_k a_vk are averaged first (`KnownMasses`).
- w_k, the topic's share: from sum_v a_vk, shrunk linearly toward equal shares.
- r_vk, how much more the topic uses the word than the corpus does. It has a prior for each band of p_v / (K sd),
  learned by the same EM over all entries of the band.

Both priors are mixtures of overlapping Gaussians on a grid, and a point at 0. Where a statistic stands far above the
noise, its mean is the statistic itself; a prior of points would round it to the grid.

So a word that is too rare to tell topics apart falls back to the corpus's share of it, p_v w_k, and never to noise.

p_v w_k h_vk takes the place of p_v w_k. Here h_vk is the ratio that the word's other topics predict, scaled so that the
word keeps its share. The bands belong to the entries. Topics that use a word more than the corpus does are not found at
random: if a topic of ships uses a word, topics of coasts and of war do so more often than others. So the ratios r_vk of
a word have a covariance over topics. It is estimated from all words of a release, and an entry has a conditional mean
given the word's other entries (`TopicFactors`). Without it the perplexity of 97,750 sections at ε = 2 is 2 to 13 %
higher, that of 21,475 articles 1 %.
"""

import math
from collections.abc import Mapping

import numpy as np

from ...accounting.solver import halve_brackets
from ...engine.model import array_of
from ...kernels import native
from ...kernels.memory import zeros_on_line
from ...kernels.threads import map_chunks, one_blas_thread, run_blocks, worth
from .scaling import PASS_COST

#: Points of the prior of r: 0, and from a twentieth to K times the corpus's share.
_RATIO_POINTS = 16
#: Points of the prior of p.
_MASS_POINTS = 60
#: EM rounds of the priors of p and r, the first time. Then the ones of p at each later step, which starts from the
#: prior of the step before. The prior of r takes one round a step, in the pass that reads the means; the next step has
#: its result.
_FIRST_MASS_ROUNDS, _MASS_ROUNDS = 40, 4
_FIRST_ROUNDS = 8
#: The variance of the ratio of two kinds of masses that weights suppose, when it is estimated.
_DIFFERS = 0.1
#: Bands of half a decade of p_v / (K sd), or of an entry's own share over sd, below 10^-1.5 to above 10^2.
_BANDS = 9
_EDGES = 10.0 ** (np.arange(-3, _BANDS - 4) / 2)
#: About the most words that the prior of masses is learned from.
_MASS_WORDS = 1 << 16
_CHUNK = 512
#: Most factors of the covariance: 8 are worse on sections of articles, more than 16 no better.
_FACTORS = 16
#: Eigenvalues count from this many times the edge: with few topics and heavy tails, chance passes the edge itself.
_CLEAR = 1.5
#: Rounds to find the factors' part of the diagonal, from none and from an earlier step's; and the largest share of a
#: change that is left after a round.
_FIRST_FACTOR_ROUNDS, _FACTOR_ROUNDS, _MOST_LEFT = 5, 2, 0.9
#: Variance of ratios that the words' weights suppose, so that the commonest words do not speak for all.
_SPREAD = np.float32(0.3)
#: Least variance of a topic's ratios that is its own.
_LEAST_OWN = 0.05
#: Up to so many topics all eigenpairs are found, and beyond it only those of the factors, by Lanczos' iteration.
_ALL_PAIRS = 256
#: A deviation above is beyond any doubt; and topics whose squares of shares add up to less have no covariance.
_MOST_DEVIATION, _LEAST_SQUARES = np.float32(3e7), 1e-30
#: Nanoseconds on one thread: a word in a round of EM, an entry in `_read` and in `_predict`.
_MASS_COST, _READ_COST, _PREDICT_COST = 60.0, 28.0, 10.0


def word_masses(
    total: np.ndarray, sd: float, prior: np.ndarray | None = None, n_threads: int = 1, work: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of non-negative masses seen through Gaussian noise, and the prior.

    ``total``, (V,) float64, are the noised masses, ``sd`` > 0 the standard deviation of the noise; the means, (V,)
    float64, are above 0. ``prior``, (61,) float64, is where EM starts: the one returned for an earlier step. None
    starts from an even one and takes more rounds. EM takes every second word, third ... if there are more than
    `_MASS_WORDS`. ``work`` is scratch from `mass_work`, or None.
    """
    grid, width = _mass_grid(total, sd)
    n_words, n_grid, every = len(total), len(grid), -(-len(total) // _MASS_WORDS)
    taken = np.ascontiguousarray(total[::every])
    likelihood = (mass_work(n_words) if work is None else work)[: len(taken)]
    sums = np.empty((-(-len(taken) // _CHUNK), n_grid))
    known = False

    def expect(number: int, worker: int) -> None:
        part = slice(number * _CHUNK, (number + 1) * _CHUNK)
        native.word_masses(taken[part], grid, width, weight, known, sd, likelihood[part], sums[number], None)

    n_threads = worth(n_threads, _MASS_COST * n_words)
    # The grid moves a little from step to step: a little of every point, so that none is lost for good.
    weight = np.full(n_grid, 1 / n_grid) if prior is None else (prior + 1e-6) / (1 + 1e-6 * n_grid)
    for _ in range(_FIRST_MASS_ROUNDS if prior is None else _MASS_ROUNDS):
        sums[:] = 0.0
        run_blocks(len(sums), n_threads, expect)
        weight = weight * sums.sum(axis=0) / len(taken)
        known = True

    mass, scratch = np.empty(n_words), [mass_work(_CHUNK) for _ in range(n_threads)]

    def read(first: int, last: int, worker: int) -> None:
        likely = scratch[worker][: last - first]
        native.word_masses(total[first:last], grid, width, weight, False, sd, likely, None, mass[first:last])

    map_chunks(n_words, _CHUNK, n_threads, read)
    return mass, weight


def mass_work(n_words: int) -> np.ndarray:
    """Make scratch for the masses of so many words."""
    return zeros_on_line((min(n_words, _MASS_WORDS), -(-(_MASS_POINTS + 1) // 16) * 16), np.float32)


class KnownMasses:
    """Noised masses of words that a histogram tells before there are topics.

    ``x`` and ``sd`` are the masses and their noise, (V,). ``masses`` are the expected x, (V,): given, or None for the
    posterior means by the histogram only.
    """

    def __init__(self, x: np.ndarray, sd: np.ndarray, masses: np.ndarray | None = None):
        self._x, self._sd = x, sd
        self.masses = word_masses(x / sd, 1.0)[0] * sd if masses is None else masses

    def with_sums(self, sums: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Average the masses and topics' word sums by standard errors.

        All are (V,).

        Returns the average and its noise, in units of the sums. Weights are in inverse proportion to the variances. The
        sums are of documents that were brought to one length and clipped, so they differ from the histogram by more
        than the noise. The variance of their ratio to it is estimated from both.
        """
        total = max(float(sums.sum()), float(np.sqrt(errors @ errors)))
        factor, noise = total / float(self.masses.sum()), errors**2
        x, own, squares = self._x * factor, (self._sd * factor) ** 2, (self.masses * factor) ** 2
        variance = own + noise
        weight = squares / (variance + _DIFFERS * squares) ** 2
        differs = max(float(weight @ ((x - sums) ** 2 - variance) / (weight @ squares)), 0.0)
        first, second = 1.0 / own, 1.0 / (noise + differs * squares)
        return (first * x + second * sums) / (first + second), 1.0 / np.sqrt(first + second)


def _mass_grid(total: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Make the grid of masses: component g is N(grid[g], width[g]^2).

    It is as wide as the grid is coarse; 0 is a point.
    """
    top = max(float(total.max()), 10 * sd) * 1.1
    grid = np.concatenate(([0.0], np.geomspace(0.02 * sd, top, _MASS_POINTS)))
    return grid, np.concatenate(([0.0], np.gradient(grid)[1:] / 2))


def mass_variances(total: np.ndarray, sd: float, prior: np.ndarray) -> np.ndarray:
    """Compute posterior variances, (V,), of the means of `word_masses`.

    The ``prior`` is the same.
    """
    grid, width = _mass_grid(total, sd)
    spread = np.hypot(sd, width)
    gain = (width / spread) ** 2
    out = np.empty(len(total))
    for first in range(0, len(total), _CHUNK):
        distance = total[first : first + _CHUNK, None] - grid
        log = -0.5 * (distance / spread) ** 2
        weight = np.exp(log - log.max(axis=1, keepdims=True)) / spread * (prior + 1e-12)
        weight /= weight.sum(axis=1, keepdims=True)
        center = grid + gain * distance
        mean = (weight * center).sum(axis=1, keepdims=True)
        out[first : first + _CHUNK] = (weight * (gain * sd**2 + (center - mean) ** 2)).sum(axis=1)
    return out


def mean_one(grid: np.ndarray) -> np.ndarray:
    """Compute weights exp(-c grid) that give the grid mean 1.

    They hold up to scale.

    r is 1 on the average over topics; where the data do not tell, this is all that the prior knows.
    """

    def weights(c: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-c * (grid - grid[0])))

    def heavy(c: np.ndarray) -> np.ndarray:
        return np.asarray(weights(c) @ grid > weights(c).sum())

    low, high = halve_brackets(heavy, np.array(-100.0 / grid[-1]), np.array(100.0, dtype=grid.dtype), 59)
    found = weights(0.5 * (low + high))
    return np.asarray(found / found.sum())


def add_squares(base: np.ndarray) -> np.ndarray:
    """Sum the squares of the shares w base over words, (K,), for ``base``, (n, K) float32.

    The weight of an entry is w = base / (1 + 0.3 base^2).
    """
    squares = base * base
    squares /= 1 + _SPREAD * squares
    return np.asarray(np.einsum("vk,vk->k", squares, squares, dtype=np.float64))


class Moments:
    """Sums over words of products of topics' deviations, and how exact these are.

    With x = base r + N(0, 1), a deviation is w (x - base), and its topic's scale the root of the sum of squares of w
    base (`add_squares`). ``products`` are sums of products of deviations over their scales, (K, K), without the noise's
    own part on the diagonal. Entry (k, l) is the covariance of r_k and r_l times the cosine of the angle between the
    topics' shares: where topics share few words, less is known, and the covariance counts less. ``errors`` sums the
    variances of the entries off the diagonal.
    """

    def __init__(self, squares: np.ndarray):
        self._inverse = np.zeros(len(squares), dtype=np.float32)
        np.divide(1.0, np.sqrt(squares), out=self._inverse, where=squares > _LEAST_SQUARES, casting="same_kind")
        self.products, self.errors = np.zeros((len(squares), len(squares))), 0.0

    def add(self, x: np.ndarray, base: np.ndarray) -> None:
        """Add words' ``x`` and ``base``, (n, K) float32."""
        weight = base / (1 + _SPREAD * (base * base))
        weight *= self._inverse
        deviation = x - base
        deviation *= weight
        np.clip(deviation, -_MOST_DEVIATION, _MOST_DEVIATION, out=deviation)
        self.products += deviation.T @ deviation
        self.products.flat[:: len(self.products) + 1] -= np.einsum("vk,vk->k", weight, weight)
        deviation *= deviation
        sums = deviation.sum(axis=1, dtype=np.float64)
        self.errors += float(sums @ sums - np.einsum("vk,vk->", deviation, deviation, dtype=np.float64))

    def join(self, other: "Moments") -> None:
        """Add the sums of other words."""
        self.products += other.products
        self.errors += other.errors


def _largest(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest eigenvalues of a symmetric matrix, ascending, and their vectors."""
    if len(matrix) > _ALL_PAIRS:
        from scipy.sparse.linalg import ArpackError, eigsh

        try:
            start = np.random.default_rng(0).standard_normal(len(matrix))
            values, vectors = eigsh(matrix, _FACTORS, which="LA", v0=start, ncv=4 * _FACTORS, maxiter=30, tol=1e-10)
            order = np.argsort(values)
            return values[order], vectors[:, order]
        except ArpackError:  # none, or not all, found: such as of a matrix of zeros
            pass
    values, vectors = np.linalg.eigh(matrix)
    return values[-_FACTORS:], vectors[:, -_FACTORS:]


class TopicFactors:
    """The covariance of a word's ratios, L L' + diag(own).

    ``loadings`` are L, (K, q), and ``own`` has shape (K,).

    ``moments`` are of all words; their products are overwritten. L is to give the entries off the diagonal (principal
    factors: the diagonal comes from L in the round before). Rounds start from ``start``, (K,), the ``shared`` part of
    the diagonal of an earlier step, or zeros. Every other round extrapolates it: five rounds then come as near to its
    limit as ten plain ones.

    Ratios without a covariance would have a spectrum with the edge e, 2 sqrt(K) standard deviations of an entry (the
    semicircle law). Eigenvalues that lie clear of it count, shrunk to (lambda^2 - e^2)^(1/2). That is best in squares
    for a matrix of low rank seen through such noise (Gavish & Donoho 2017). Where topics do not go together, nothing is
    predicted.
    """

    def __init__(self, moments: Moments, start: np.ndarray):
        covariance = moments.products
        variances = np.diag(covariance).copy()
        edge = _CLEAR * 2.0 * math.sqrt(max(moments.errors, 0.0) / len(variances))
        most, before = np.maximum(variances, 0.0), 0.0
        self.shared = np.minimum(start, most)
        # The threads are ours, and bits are not to hang on how many of its own a BLAS takes.
        with one_blas_thread(0, scipy=len(covariance) > _ALL_PAIRS):
            for number in range(_FACTOR_ROUNDS if start.any() else _FIRST_FACTOR_ROUNDS):
                np.fill_diagonal(covariance, self.shared)
                values, vectors = _largest(covariance)
                kept = values > edge
                self.loadings = vectors[:, kept] * (values[kept] ** 2 - edge**2) ** 0.25
                shared = np.minimum((self.loadings**2).sum(axis=1), most)
                change, self.shared = shared - self.shared, shared
                size = float(np.sqrt(change @ change))
                if size == 0.0:
                    break
                if number % 2 and before > 0.0:
                    # Changes shrink by one factor: continue to their limit.
                    left = min(size / before, _MOST_LEFT)
                    self.shared = np.clip(shared + left / (1.0 - left) * change, 0.0, most)
                before = size
        self.own = np.maximum(variances - (self.loadings**2).sum(axis=1), _LEAST_OWN)

    def predict(self, x: np.ndarray, base: np.ndarray, sd: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Compute ``base`` times conditional means of the ratios, (n, K) float32.

        Each mean is given the word's other entries ``x``, and at least 0.1. A word's predictions are scaled so that
        they keep its ``mass``, (n,). The kernel takes the words' q x q systems by Woodbury's identity.
        """
        n_topics, q = self.loadings.shape
        out = np.empty(base.shape, dtype=np.float32)
        work = zeros_on_line(8 * (4 * n_topics + 30 + q * (q + 2)), np.float64)
        native.topic_ratios(x, base, sd, mass, np.ascontiguousarray(self.loadings), self.own, work, out)
        return out


class ProductShrinkage:
    """A fit's read-out, which carries its priors between steps.

    ``known`` masses are released.
    """

    def __init__(self, n_topics: int, n_threads: int = 1, known: KnownMasses | None = None):
        self._n_topics, self._n_threads, self._known = n_topics, n_threads, known
        self._grid = np.concatenate(([0.0], np.geomspace(0.05, max(2.0, n_topics), _RATIO_POINTS - 1))).astype(
            np.float32
        )
        self._prior: np.ndarray | None = None
        self._next_prior: np.ndarray | None = None
        self._shared = self._next_shared = np.zeros(n_topics)
        self._mass_prior: np.ndarray | None = None
        self._mass_work: np.ndarray | None = None
        self._work: dict[int, np.ndarray] = {}
        self._units = self._predicted = np.empty((0, 0), dtype=np.float32)

    def update(self, average: np.ndarray, sd: np.ndarray) -> None:
        """Estimate p, w and the prior of r.

        They come from an average and its means.

        It is (V, K), with noise sd > 0, (V, K) or (1, 1).
        """
        share, noise, totals = self._take_noise(average, sd)
        totals, error, unit = self._totals(totals)
        if self._mass_work is None:
            self._mass_work = mass_work(len(totals))  # pages that are touched for the first time cost more than a round
        self._mass, self._mass_prior = word_masses(totals, error, self._mass_prior, self._n_threads, self._mass_work)
        self._mass *= unit
        spread = max(float(share.var()) - len(average), 0.0)  # the mean of the noise's variances is the words' number
        mean = float(self._mass.sum()) / self._n_topics
        share = mean + spread / (spread + noise) * (share - share.mean())
        # No topic below a twentieth of an equal share: it could not come back.
        share = np.maximum(share, 0.05 * mean)
        self.weight = share / share.sum()
        self._shared = self._next_shared
        factors = self._predict(average)
        if self._next_prior is not None:
            self._prior = self._next_prior
        if self._prior is None:
            self._prior = np.tile(mean_one(self._grid), (_BANDS, 1)).astype(np.float32)
            for _ in range(_FIRST_ROUNDS):
                self._prior, factors = self._read(factors, means=False), None
        self._next_prior = self._read(factors, means=True)

    def end(self) -> None:
        """Drop everything that `means` and `state` do not need."""
        self._predicted, self._mass_work, self._work = np.empty((0, 0), dtype=np.float32), None, {}

    def _read(self, factors: TopicFactors | None, means: bool) -> np.ndarray:
        """Return the prior after a round of EM.

        With ``factors``, entries are first predicted from the word's other topics. But for its part of the mass, none
        is predicted from itself. With ``means``, these take the place of the units of noise.
        """
        prior, mass = self._prior, self.mass
        assert prior is not None

        def expect(first: int, last: int, worker: int) -> np.ndarray:
            weight, units = np.zeros(prior.shape), self._units[first:last]
            if factors is not None:
                part, base = slice(first, last), self._predicted[first:last]
                base[:] = factors.predict(units, base, self._sd[part], mass[part])
            self._shrink(units, first, units if means else None, weight, worker)
            return weight

        n_threads = worth(self._n_threads, _READ_COST * self._units.size)
        weight = np.sum(map_chunks(len(self._units), _CHUNK, n_threads, expect), axis=0)
        # A little of every point, so that none is lost for good.
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300) + 1e-6
        return np.asarray((weight / weight.sum(axis=1, keepdims=True)).astype(np.float32))

    def _totals(self, sums: np.ndarray) -> tuple[np.ndarray, float, np.ndarray | float]:
        """Return noised masses, (V,), their noise, and a factor.

        The factor brings them to units of the words' noise.
        """
        noise = float(np.sqrt(self._n_topics))
        if self._known is None:
            return sums * (1.0 / self._word_sd), noise, 1.0
        x, sd = self._known.with_sums(sums, self._word_sd * noise)
        return x / sd, 1.0, sd / self._word_sd

    @property
    def mass(self) -> np.ndarray:
        """(V,) posterior means of the words' masses, above 0.

        They are over all topics, in the units of the average.
        """
        return np.asarray(self._mass * self._word_sd)

    def _take_noise(self, average: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take the noise of all entries and of words.

        Returns topics' sums, their noise and words' sums.
        """
        self._sd = np.ascontiguousarray(np.broadcast_to(sd, average.shape))
        self._word_sd, totals = np.empty((2, len(average)))

        def add(first: int, last: int, worker: int) -> np.ndarray:
            sums, part = np.zeros((2, self._n_topics)), slice(first, last)
            native.noise_sums(average[part], self._sd[part], self._word_sd[part], totals[part], sums)
            return sums

        n_threads = worth(self._n_threads, PASS_COST * average.size)
        share, noise = np.sum(map_chunks(len(average), _CHUNK, n_threads, add), axis=0)
        return share, noise, totals

    def _predict(self, average: np.ndarray) -> TopicFactors | None:
        """Predict each entry, in units of its noise, (V, K) float32.

        Returns how topics go together, for `_read`; None for one topic.
        """
        if self._units.shape != average.shape:
            self._units = np.empty(average.shape, dtype=np.float32)
            self._predicted = np.empty(average.shape, dtype=np.float32)
        mass, n_words = self.mass, len(average)

        def fill(first: int, last: int, worker: int) -> np.ndarray:
            part = slice(first, last)
            units, predicted = self._units[part], self._predicted[part]
            native.noise_units(average[part], self._sd[part], mass[part], self.weight, units, predicted)
            return add_squares(predicted)

        n_threads = worth(self._n_threads, _PREDICT_COST * average.size)
        squares = np.sum(map_chunks(n_words, _CHUNK, n_threads, fill), axis=0)
        if self._n_topics == 1:
            return None
        # As many parts as hold no more than half of the statistics: their sums are joined in order, for any threads.
        size = _CHUNK * -(-max(2 * self._n_topics, _CHUNK) // _CHUNK)

        def add(first: int, last: int, worker: int) -> Moments:
            moments = Moments(squares)
            for begin in range(first, last, _CHUNK):
                part = slice(begin, min(begin + _CHUNK, last))
                moments.add(self._units[part], self._predicted[part])
            return moments

        with one_blas_thread(0, scipy=False):
            moments, *others = map_chunks(n_words, size, n_threads, add)
        for other in others:
            moments.join(other)
        factors = TopicFactors(moments, self._shared)
        self._next_shared = factors.shared
        return factors

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for `restore`; none before the first update."""
        if self._prior is None or self._mass_prior is None:
            return {}
        return {
            "ratio_prior": self._prior.astype(np.float64),
            "mass_prior": self._mass_prior,
            "word_mass": self._mass,
            "topic_weight": self.weight,
            "topic_shared": self._shared,
        }

    def restore(self, state: Mapping[str, np.ndarray], average: np.ndarray, sd: np.ndarray) -> None:
        """Resume from a `state` of an ``average``; ValueError for others.

        The noise ``sd`` is (V, K) or (1, 1).
        """
        prior = array_of(state, "ratio_prior", (_BANDS, len(self._grid)))
        mass_prior = array_of(state, "mass_prior", (_MASS_POINTS + 1,))
        mass = array_of(state, "word_mass", (len(average),))
        weight = array_of(state, "topic_weight", (self._n_topics,))
        shared = array_of(state, "topic_shared", (self._n_topics,))
        if min(prior.min(), mass_prior.min(), shared.min()) < 0 or min(mass.min(), weight.min()) <= 0:
            raise ValueError("state: the priors of the read-out are not above 0")
        self._prior, self._mass_prior = prior.astype(np.float32), mass_prior
        self._mass, self.weight, self._shared = mass, weight, shared
        self._take_noise(average, sd)
        self._next_prior = self._read(self._predict(average), means=True)

    def means(self, first: int, last: int) -> np.ndarray:
        """Compute posterior means of words first..last, (last - first, K)."""
        return np.asarray(self._units[first:last] * self._sd[first:last])

    def parameters(self, first: int, last: int, factor: float, eta: float, table: np.ndarray) -> np.ndarray:
        """Write ``factor`` times the `means` plus ``eta`` to a table.

        It fills some rows, and returns their sums over words, (K,).
        """
        sums, part = np.zeros(self._n_topics), slice(first, last)
        native.table_parameters(factor, eta, self._units[part], self._sd[part], table, sums)
        return sums

    def frequency_loss(self, average: np.ndarray) -> float:
        """Estimate the nats a word that noise in the masses costs.

        By the posterior of the masses, exact ones would save this. It is about half of their relative variance.
        """
        return float((self._variances(average) / self._mass) @ self._word_sd / (2.0 * self.mass.sum()))

    def _variances(self, average: np.ndarray) -> np.ndarray:
        """Compute the masses' posterior variances, (V,), in units of noise."""
        assert self._mass_prior is not None
        totals, sd, unit = self._totals(np.einsum("vk->v", average))
        return np.asarray(mass_variances(totals, sd, self._mass_prior) * unit**2)

    def _shrink(
        self, units: np.ndarray, first: int, means: np.ndarray | None, weight: np.ndarray | None, worker: int
    ) -> None:
        """Shrink statistics in units of noise, of words from ``first`` on."""
        assert self._prior is not None
        expected = self._predicted[first : first + len(units)]
        if worker not in self._work or len(self._work[worker]) < 4 * units.size + 32:
            # As for masses: so much memory would be mapped anew for each chunk.
            self._work[worker] = np.empty(4 * units.size + 32, dtype=np.float32)
        native.shrink_means(units, expected, self._grid, self._prior, _EDGES, self._work[worker], means, weight)
