"""Algorithm 3 of Park et al. (2020): E-step, noise that follows words, running average, read-out, M-step.

`LdaModel` is the algorithm, from the top: a step's contributions with their sensitivity, and what is made of a release.
Below it come its parts: histograms of words, scales of the entries, and the read-out of noised statistics. Only
`contribute` sees records. Everything else is post-processing of released numbers and costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ...accounting.solver import halve_brackets
from ...data.arrays import Parts, rows_of
from ...engine.model import BELOW, Model, Release, Schedule, array_of, diagnose
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock, unpack_block
from ...kernels import native
from ...kernels.lattice import LDA_MAX_SPACING, LDA_MIN_SPACING, checked_spacing
from ...kernels.threads import map_chunks, one_blas_thread, zeros_on_line
from ...mechanisms import GaussianMechanism
from .planning import READ_OUTS, LdaOptions
from .records import DocumentBlock, UnitWords, unit_words
from .score import HalfPrediction

#: Words whose statistics are read and turned into parameters at a time.
_CHUNK = 512
#: Share of a document's words that its topics may still change by when the E-step stops. A thirtieth takes 1.1 to 1.3
#: times as long and predicts no better; twice as much is worse on short posts.
WORD_TOL = 0.01
#: Entries of the statistics that a thread is for. A pass over them takes about 2 ms: 2 to 28 ns an entry, a digamma 60.
#: To wake a thread, and to take turns with Python's lock, takes up to a tenth of that.
_ENTRIES = 200_000
#: Below e^-85 a share would be a denormal float32: slow, and without effect.
_LEAST_LOG = -85.0
_LEAST_SHARE = math.exp(_LEAST_LOG)
#: Shapes of the Gamma law of the first topics: that of Hoffman et al. (2010), and one for private fits. With 100 topics
#: hardly differ, and the noise chooses among them: sections with K = 50 are .6 % worse, web snippets 1.2 %.
_START, _NOISED_START = 100.0, 20.0
#: What the noise of a share counts in the floor of the shares.
_NOISE_IN_FLOOR = 2.0
#: Without privacy, documents of at most so many different words have collapsed updates, this many rounds: 16 to 64
#: words are within the spread of seeds, and more rounds no better (docs/topics.md).
MOST_SHORT, ROUNDS = 32, 2
#: Largest scale and noise of a release, as the kernel has them.
_LARGEST = 1e100
#: The power of counts in a histogram without public frequencies, and the norm of counts that it takes for a long text.
COUNT_POWER, LONG_HISTOGRAM = 0.75, 8.0
#: That norm if topics stand clear, and otherwise if no length of single documents is known, over the usual one.
CLEAR_NORM, UNKNOWN_NORM = 4.0, 0.5
#: Standard deviations above the noise that no release reaches, even with the least noise that there is.
_MOST_CLEAR = 1e30
#: Points of the prior of r: 0, and from a twentieth to K times the corpus's share; and of the prior of p.
_RATIO_POINTS, _MASS_POINTS = 16, 60
#: EM rounds of the priors of p and r, the first time. Later steps start from the prior of the step before. That of r
#: takes one round, in the pass that reads the means; the next step has its result.
_FIRST_MASS_ROUNDS, _MASS_ROUNDS, _FIRST_ROUNDS = 40, 4, 8
#: Bands of half a decade of an entry's expected share over sd, below 10^-1.5 to above 10^2.
_BANDS = 9
_EDGES = 10.0 ** (np.arange(-3, _BANDS - 4) / 2)
#: About the most words that the prior of masses is learned from.
_MASS_WORDS = 1 << 16
#: Most factors of the covariance: 8 are worse on sections of articles, more than 16 no better. Rounds to find their
#: part of the diagonal: one is within .4 %.
_FACTORS, _FACTOR_ROUNDS = 16, 2
#: Up to so many topics NumPy finds all eigenpairs, and beyond it SciPy those of the factors, in a third of the time.
_ALL_PAIRS = 256
#: Eigenvalues count from this many times the edge: with few topics and heavy tails, chance passes the edge itself.
_CLEAR = 1.5
#: Variance of ratios that the words' weights suppose, so that the commonest words do not speak for all; and the least
#: that is a topic's own.
_SPREAD, _LEAST_OWN = np.float32(0.3), 0.05
#: A deviation above is beyond any doubt; and topics whose squares of shares add up to less have no covariance.
_MOST_DEVIATION, _LEAST_SQUARES = np.float32(3e7), 1e-30

#: Noised masses of words, and the standard deviations of their noise, (V,) each.
Noised = tuple[np.ndarray, np.ndarray]

_MODES = {None: native.LDA_AS_IS, "scale": native.LDA_SCALE, "resample": native.LDA_RESAMPLE}


@dataclass(frozen=True)
class LdaSettings:
    """Settings of `LdaModel`.

    ``alpha`` is the Dirichlet prior of a document's topics. Documents are scaled or resampled to ``doc_length`` words;
    None takes them as they are. ``clip`` bounds a contribution's L2 norm; if it does not ``clips`` (without privacy),
    it is that of the data. The first ``histograms`` steps release words, and the first ``soft_steps`` after them are
    followed by soft topics (`LdaModel`). ``long_histogram`` is about the norm of a usual document's counts, which are
    taken to the power ``count_power``. ``n_threads`` are of the M-step; they change no bit.
    """

    n_topics: int
    alpha: float
    doc_length: int | None
    clip: float
    clips: bool
    options: LdaOptions = LdaOptions()
    n_threads: int = 1
    histograms: int = 0
    soft_steps: int = 0
    long_histogram: float = LONG_HISTOGRAM
    count_power: float = COUNT_POWER


class LdaModel(Model):
    """Word-major (V, K) statistics c_i φ_ik of documents.

    A run starts from topics that the public seed draws. ``known`` are noised masses of words and their noise, (V,)
    each, of earlier releases of it.

    Notes
    -----
    *Sensitivity.* A document's contribution has entries ≥ 0 and an L2 norm of at most a N. Adding or removing a
    document moves the sum by at most a N. Replacing one moves it by at most √2 a N, as ‖x − y‖² = ‖x‖² + ‖y‖² − 2 x·y ≤
    2 (a N)². (Appendix 2 of the paper drops one of the two terms and gets a N for replacing.) If a person has several
    documents, the contribution is their sum, clipped once. The proof used nothing but entries ≥ 0 and the norm, so the
    same holds for adding, removing or replacing a person with all documents.

    *Words.* Before they are clipped, a contribution's entries are divided by public scales d_v e_vk (`entry_scales`).
    Each word's are scaled down to a norm of at most ``word_clip`` of the clip, so that no word takes the share of all
    others. The scales are made from earlier releases, which are the same whether a record is there or not. Given them,
    a contribution is a function of only its own unit. It has entries ≥ 0 and an L2 norm of at most a N, and no other
    property was used above. The release is multiplied by the scales afterwards, which is post-processing.

    *Histograms.* The first ``histograms`` steps release sums of a histogram of words in place of topics. A unit's part
    has entries ≥ 0 and an L2 norm of at most the clip (`WordHistogram.contribute`). It is a function of its own counts
    and of public scales, so the proof and the event of these steps are the same. The scales, and the inputs of the
    later read-out of words' masses, are functions of earlier releases. ``known`` are such masses, of earlier releases
    of the same run.

    *Soft topics.* After each of the first ``soft_steps`` releases of topics, the next E-step takes the root of each
    topic's share of a word. Noise is most of what tells the first topics apart, and documents that are sure of one
    topic would make it last; the first steps of annealed EM are softer in the same way (Ueda & Nakano 1998). The table
    is a function of earlier releases all the same.

    *Score.* The last score of a run compares the ``read_outs`` (`vips_fast.engine.gain`). Which one is taken is a
    function of that release.

    *Lattice.* Each contribution is truncated toward zero to the noise's own lattice, so `round` has nothing to do.
    """

    at_root = ("_average", "_noise_sd", "_shrinkage", "_scales")
    has_score = True
    #: Whether noised statistics are read out by their empirical-Bayes means.
    shrinks = True
    #: Topics are compared with public text only beside a public prior (`PublicTopicsModel`).
    lift: np.ndarray | None = None
    above_public_text: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(self, settings: LdaSettings, public: Public, known: Noised | None = None):
        n_topics, n_words, clip = settings.n_topics, public.n_features, settings.clip
        self.shape, self.clip = (n_words, n_topics), clip
        self.n_topics, self.n_words, self.n_records = n_topics, n_words, public.n_records
        self._options = options = settings.options
        eta = 1.0 / n_topics if options.topic_word_prior is None else options.topic_word_prior
        self._alpha, self._eta = np.full(n_topics, settings.alpha), np.float64(eta)
        self._length = settings.doc_length
        self._mode = _MODES[None if self._length is None else options.length_method]
        self._clip = clip if settings.clips else 0.0
        self._word_clip = self._clip * options.word_clip
        self._exponent = float(options.word_scale) if settings.clips else 0.0
        decay = 0.7 if options.learning_decay is None else options.learning_decay
        self._schedule = Schedule(options.learning_offset, decay)
        as_is = self._clip == 0.0 and self._length is None
        self._collapses = as_is and options.topic_mean == "arithmetic"
        self._spacing = 1.0
        self._n_threads = max(1, min(settings.n_threads, n_words * n_topics // _ENTRIES))
        self._table = zeros_on_line((n_words, native.lda_stride(n_topics)), options.dtype)
        self._seed = public.seed
        power = settings.count_power
        #: Steps of histograms; steps of topics that soft ones follow, and whether those of the table are soft.
        self._histograms, self._soft_steps, self._soft = settings.histograms, settings.soft_steps, False
        self._counts_as_are = power == 1.0
        self._histogram = WordHistogram(np.ones(n_words), clip, power, settings.long_histogram**power)
        start = self._start()
        #: The average of releases, in the units of the statistics; the noise in its entries, (V, K) or (1, 1) if they
        #: are alike; and the weight of what is left of the start.
        self._average, self._noise_sd, self._left = (start - self._eta) / self.n_records, np.zeros((1, 1)), 1.0
        self._known, self._ended = known, False
        self._shrinkage = ProductShrinkage(n_topics, self._n_threads, known)
        #: Words' scales and the floor of topics' shares, of `entry_scales`; as the kernel takes them.
        self._scales: tuple[np.ndarray, float] | None = None
        self._weight: np.ndarray | None = None
        self._floor = 0.0
        self._fill(start)

    def _start(self) -> np.ndarray:
        """Draw the first parameters, (V, K), from a Gamma law of mean 1."""
        shape = _NOISED_START if self._clip > 0.0 and self.shrinks else _START
        return np.random.default_rng(self._seed).gamma(shape, 1.0 / shape, self.shape)

    def sensitivity(self, relation: str) -> float:
        """Return a N to add or remove, √2 a N to replace. See the notes."""
        return self.clip * (1.0 if relation == "add_remove" else math.sqrt(2.0))

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = checked_spacing(mechanism.spacing, self.clip, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)

    # -- E-step

    def contribute(
        self, block: DocumentBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Count words; or gather documents, bring them to length, and add, clip and truncate what the E-step gives."""
        if self._histogram.count < self._histograms:
            units = unit_words(block, words, self.n_words)
            self._histogram.contribute(units, out.reshape(-1)[: self.n_words], self._spacing)
            diagnose(scratch, clipped=0, norm_sum=0)
            return
        (corpus, rows), words, starts = unpack_block(block, words)
        rows, offsets, columns, values = corpus.arrays(rows)
        if self._collapses:
            # Nothing is clipped, so units' sums are those of their documents.
            short, starts = offsets[rows + 1] - offsets[rows] <= MOST_SHORT, None
            self._contribute_short(rows_of((values, columns, offsets), rows[short]), out, scratch)
            rows, words = rows[~short], words[~short]
        starts = np.arange(len(rows) + 1) if starts is None else starts
        lengths = offsets[rows + 1] - offsets[rows]
        widest, ends = int(lengths.max(initial=0)), np.concatenate(([0], np.cumsum(lengths)))
        entries = max(int(ends[-1]), 1)
        bag = np.empty(len(rows) + 1, np.int64), np.empty(entries, np.int32), np.empty(entries)
        tokens = np.empty(max(native.LDA_RESAMPLE_TOKENS, widest), np.uint32)
        norms = np.zeros(len(starts) - 1) if "diagnostics" in scratch else None
        native.lda_gather(rows, self._mode, self._length or 1, offsets, columns, values, words, tokens, *bag)
        most, tol = int(self._options.max_doc_update_iter), self._options.mean_change_tol
        tol, word_tol = (0.0, WORD_TOL) if tol is None else (float(tol), 0.0)
        table, alpha, clip, spacing = self._table, self._alpha, self._clip, self._spacing
        single = table.dtype == np.float32
        together = int(np.diff(ends[starts]).max(initial=0))
        size = native.lda_units_workspace(self.n_topics, self.n_words, widest, together, single)
        work = np.empty(size // 8 + 1).view(np.uint8)
        word_clip, scales = self._word_clip, (self._weight, self._floor)
        native.lda_units(
            starts, *bag, table, alpha, tol, word_tol, most, clip, word_clip, *scales, spacing, work, out, norms
        )
        if norms is not None:
            diagnose(scratch, clipped=(norms > self.clip).sum(), norm_sum=norms.sum())

    def _contribute_short(self, documents: Parts, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add short documents by collapsed updates."""
        counts, indices, indptr = documents
        norms = np.zeros(len(indptr) - 1) if "diagnostics" in scratch else None
        work = np.empty((MOST_SHORT + 3) * self._table.shape[1], self._table.dtype)
        bag = indptr, indices, counts.astype(np.float64)
        native.lda_collapsed(ROUNDS, self._spacing, *bag, self._table, self._alpha, work, out, norms)
        if norms is not None:
            diagnose(scratch, clipped=0, norm_sum=norms.sum())

    # -- M-step

    def update(self, release: Release) -> None:
        """Average the release un-clipped, and its noise's law alongside; make the next step's table and scales.

        average ← (1 − rate) average + rate scales · release. Raises ValueError if the release's scale or noise is not
        in [0, 1e100].
        """
        if self._histogram.count < self._histograms:
            self._histogram.add(release)
            self._take_masses()
            return
        if not (0.0 <= release.scale <= _LARGEST and 0.0 <= release.noise_sd <= _LARGEST):
            raise ValueError(f"release: scale {release.scale} and noise {release.noise_sd}; expected [0, {_LARGEST}]")
        number = release.step - self._histogram.count
        rate = self._schedule.rate(number)
        values, units, numbers = self._average, release.units, (rate, release.scale, release.noise_sd)

        def even(first: int, last: int, worker: int) -> None:
            part = values[first:last]
            part *= 1.0 - rate
            part += units[first:last] * (release.scale * rate)

        if self._scales is None:
            map_chunks(len(values), _CHUNK, self._n_threads, even)
            self._noise_sd = np.asarray(np.hypot((1.0 - rate) * self._noise_sd, rate * release.noise_sd))
        else:
            if self._noise_sd.shape != values.shape:
                self._noise_sd = np.full(values.shape, self._noise_sd)
            noise_sd, (scale, floor) = self._noise_sd, self._scales

            def blend(first: int, last: int, worker: int) -> None:
                part = slice(first, last)
                of_words = np.ascontiguousarray(units[part]), scale[part], self._table[part]
                native.blend_release(*numbers, floor, *of_words, values[part], noise_sd[part])

            map_chunks(len(values), _CHUNK, self._n_threads, blend)
        self._left *= 1.0 - rate
        if self._reads_out:
            self._shrinkage.update(self._average, self._noise_sd)
        self._soft = self._reads_out and number < self._soft_steps
        self._fill()

    def _take_masses(self) -> None:
        """Read the histograms so far, and scale the next one."""
        self._shrinkage.known = known = self._histogram.mean()
        if self._histogram.count < self._histograms and self._exponent > 0.0:
            self._histogram.scales = word_scales(word_masses(*known)[0], self._exponent)

    def _fill(self, lam: np.ndarray | None = None) -> None:
        """Fill the next step's table, whose rows sum to 1, from parameters (V, K) or the average; then its scales."""
        # Two passes read the parameters once: first their digammas, then the parts that depend on their sums.
        arithmetic = self._options.topic_mean == "arithmetic"
        table = self._table[:, : self.n_topics]

        def take(first: int, last: int, worker: int) -> np.ndarray:
            if arithmetic and lam is None and self._reads_out:
                rows = self._table[first:last]
                return self._shrinkage.parameters(first, last, self.n_records, float(self._eta), rows)
            chunk = self._lambda(first, last) if lam is None else lam[first:last]
            table[first:last] = chunk if arithmetic else scipy.special.digamma(chunk)
            return np.asarray(chunk.sum(axis=0))

        def share(first: int, last: int, worker: int) -> None:
            rows = self._table[first:last]
            if arithmetic:
                native.table_shares(_LEAST_SHARE, inverse, rows)
            else:
                elog = table[first:last] - bias
                elog -= elog.max(axis=1, keepdims=True)
                elog[elog < _LEAST_LOG] = -np.inf
                np.exp(elog, out=elog)
                table[first:last] = elog / elog.sum(axis=1, keepdims=True)
            if self._soft:
                native.table_shares(_LEAST_SHARE, np.ones(self.n_topics), np.sqrt(rows, out=rows))

        total = np.asarray(sum(map_chunks(self.n_words, _CHUNK, self._n_threads, take)))
        # The means of all topics times one factor, which cancels and keeps float32 in its range.
        inverse, bias = total.min() / total, scipy.special.digamma(total)
        map_chunks(self.n_words, _CHUNK, self._n_threads, share)
        if self._reads_out and self._exponent > 0.0:
            mass = self._shrinkage.mass
            share_noise = self.n_words * float(self._noise_sd.mean()) / float(mass.sum())
            words, topics = word_scales(mass, self._exponent), self._shrinkage.weight
            self._scales = entry_scales(words, self._table, topics, share_noise, self._n_threads)
            self._weight, self._floor = 1.0 / self._scales[0], self._scales[1]

    # -- read-out

    @property
    def _reads_out(self) -> bool:
        """Whether the statistics are read out by their empirical-Bayes means: if any has noise, all of them have."""
        return self.shrinks and bool(self._noise_sd[0, 0] > 0)

    def _lambda(self, first: int, last: int) -> np.ndarray:
        """Dirichlet parameters of words first..last, shape (last − first, K)."""
        if self._reads_out:
            mean = self._shrinkage.means(first, last)
        else:
            mean = np.maximum(self._average[first:last], 0.0)
        mean *= self.n_records
        mean += self._eta
        return mean

    def result(self) -> dict[str, np.ndarray]:
        """``components``: (K, V) Dirichlet parameters λ."""
        out = np.empty((self.n_topics, self.n_words))
        for first in range(0, self.n_words, _CHUNK):
            out[:, first : first + _CHUNK] = self._lambda(first, first + _CHUNK).T
        return {"components": out}

    def gain_score(self) -> HalfPrediction:
        """Score the topics, with each prior of proportions, against the word frequencies that they add up to."""
        topics = self.result()["components"]
        masses = topics.sum(axis=0) / topics.sum()
        topics /= topics.sum(axis=1, keepdims=True)
        if self._shrinkage.known is not None and self._reads_out and self._counts_as_are:
            # Histograms of counts as they are tell more of word frequencies than sums of clipped topics.
            known = word_masses(*self._shrinkage.known)[0]
            masses = known / known.sum()
        read_outs = READ_OUTS if self._options.doc_topic_prior is None else READ_OUTS[:1]
        return HalfPrediction(len(read_outs)).take(topics, [self._alpha * times for times in read_outs], masses)

    def frequency_loss(self) -> float:
        """Estimate the nats a word that noisy word frequencies cost."""
        return self._shrinkage.frequency_loss() if self._reads_out else 0.0

    @property
    def relative_spread(self) -> np.ndarray:
        """Standard deviation of words' shares by the noise, over the shares, (K, V): NaN, as it finds other topics."""
        return np.full((self.n_topics, self.n_words), np.nan if self._noise_sd[0, 0] > 0 else 0.0)

    def deviations(self) -> np.ndarray:
        """Compute (K, V) released averages in standard deviations of their noise, without what is left of the start.

        An entry of a word that is in no record is N(0, 1): whatever the topics were, its contributions were 0.
        """
        values = self._average
        if self._left > 0.0:
            values = values - self._left * (self._start() - self._eta) / self.n_records
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.nan_to_num(values / self._noise_sd, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.ascontiguousarray(found.T)

    def end(self) -> None:
        """Drop the E-step's table and the M-step's scratch; the average may be given away."""
        self._table, self._scales, self._weight = self._table[:0].copy(), None, None
        self._shrinkage.predicted = np.empty((0, 0), np.float32)
        self._ended = True

    def state(self) -> dict[str, np.ndarray]:
        """Return the average, its read-out's priors, and the histograms. After the `end` the arrays are no copies."""
        state = {"average": self._average, "average_noise": self._noise_sd}
        if not self._ended:
            state = {name: array.copy() for name, array in state.items()}
        state |= {"average_weight": np.array([self._left]), **self._shrinkage.state()}
        if self._soft:
            state["soft"] = np.ones(1)
        if self._histograms:
            state |= {"histogram_steps": np.array([float(self._histograms)]), **self._histogram.state()}
            if self._counts_as_are:
                state["counts_as_are"] = np.ones(1)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        values = array_of(state, "average", self.shape)
        alike = np.shape(state.get("average_noise", 0.0)) == (1, 1)
        noise_sd = array_of(state, "average_noise", (1, 1) if alike else self.shape)
        (left,) = array_of(state, "average_weight", (1,)).tolist()
        possible = 0 <= noise_sd.min() <= noise_sd.max() <= _LARGEST and (noise_sd.min() > 0 or noise_sd.max() == 0)
        if not possible or not 0 <= left <= 1:
            raise ValueError("state: 'average_noise' or 'average_weight' is out of its range")
        self._average, self._noise_sd, self._left = values, noise_sd, left
        self._shrinkage = ProductShrinkage(self.n_topics, self._n_threads, self._known)
        self._scales, self._weight, self._floor = None, None, 0.0
        if "histogram_steps" in state:
            self._histogram.restore(state)
            (counted,) = array_of(state, "histogram_steps", (1,)).tolist()
            if not 1 <= counted < 2**31 or counted != int(counted):
                raise ValueError("state: 'histogram_steps' is out of its range")
            self._histograms, self._counts_as_are = int(counted), "counts_as_are" in state
            if self._histogram.count:
                self._take_masses()
        if self._reads_out:
            self._shrinkage.restore(state, self._average, self._noise_sd)
        self._soft = "soft" in state
        self._fill(self._start() if left == 1.0 else None)


# -------------------------------------------------------------------- histograms of words


class WordHistogram:
    """The average of released histograms of words, which add up one number for each word.

    A unit's counts are taken to a ``power``, because words come in bursts, and divided by public ``scales``, (V,), of
    the first release; later ones may have others. Units above a norm of ``long`` are scaled down to it; this norm is
    then the ``clip``. With a public prior the power is 1/2, the scales are d_v = (f_v / max f)^(1/4), and the norm is
    that of a unit of the released length. Without one the power is 3/4, the norm is a usual document's, and the scales
    follow the histograms before (`word_scales`). On eight corpora exact sums of this kind predict words 0 to 3 % worse
    than exact frequencies do, and sums of documents that were brought to one length 1 to 10 %. If nobody says a length,
    the norm is half of that: documents of six words are predicted 5 % better, and seven corpora of longer ones level
    within 0.2 %. Persons have several documents, so theirs stays. If topics stand clear of the noise, the norm is four
    times the usual one and the power 1: persons who write much then have more of their due weight.
    """

    def __init__(self, scales: np.ndarray, clip: float, power: float, long: float):
        self._first_scales, self.scales, self._clip, self._power, self._long = scales, scales, clip, power, long
        self._sum, self._precision, self.count = np.zeros(len(scales)), np.zeros(len(scales)), 0

    def contribute(self, units: UnitWords, out: np.ndarray, spacing: float) -> None:
        """Add units' contributions to a histogram, (V,) int64.

        A unit's values are a function of its own entries, in their order, are at least 0 and have an L2 norm of at most
        the clip. They are added in units of ``spacing``, truncated toward zero.
        """
        counts, clip = units.counts**self._power, self._clip * BELOW
        # The spacing is a power of two, so that the factor is exact.
        native.word_histogram(units.ends, units.columns, counts, self.scales, clip, self._long, 1.0 / spacing, out)

    def add(self, release: Release) -> None:
        """Add a release, whose first V entries are a histogram. Its weight is the inverse of its variance."""
        unit = self.scales * (self._long / (self._clip * BELOW))
        precision = np.maximum(release.noise_sd * unit, 1e-15) ** -2.0
        self._sum += precision * (release.units.reshape(-1)[: len(self._sum)] * (release.scale * unit))
        self._precision += precision
        self.count += 1

    def mean(self) -> Noised:
        """Compute the mean histogram and its noise, (V,) each.

        Raises ValueError if a release was not finite, or out of all proportion to its noise.
        """
        if not self.count:
            return np.zeros(len(self._sum)), np.full(len(self._sum), 1e-15)
        mean, sd = self._sum / self._precision, self._precision**-0.5
        if not (np.abs(mean) < _MOST_CLEAR * sd).all():
            raise ValueError("release: expected finite numbers")
        return mean, sd

    def state(self) -> dict[str, np.ndarray]:
        """Give arrays for `restore`."""
        sums = np.stack([self._sum, self._precision])
        return {"histogram": sums, "histograms": np.array([float(self.count)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take a `state`; ValueError if it is not one."""
        (count,) = array_of(state, "histograms", (1,)).tolist()
        sums = array_of(state, "histogram", (2, len(self._sum)))
        if not 0 <= count < 2**31 or count != int(count) or sums[1].min() < 0 or (count and not sums[1].min()):
            raise ValueError("state: 'histograms' is out of its range")
        (self._sum, self._precision), self.count, self.scales = sums, int(count), self._first_scales


# -------------------------------------------------------------------- scales of the entries


def word_scales(mass: np.ndarray, exponent: float) -> np.ndarray:
    """Compute word scales d, (V,), by the rule of `entry_scales`, for masses > 0. They stay in the kernel's range."""
    share = np.maximum(mass / mass.sum(), 1e-24)
    scale = share**exponent
    scale *= np.sqrt(np.sum(share / scale**2))
    return np.asarray(np.clip(scale, 1.0 / native.LDA_MAX_WEIGHT, 1.0 / native.LDA_MIN_WEIGHT))


def entry_scales(
    word: np.ndarray, table: np.ndarray, topic_weight: np.ndarray, share_noise: float, n_threads: int = 1
) -> tuple[np.ndarray, float]:
    """Compute the scales d_v e_vk of a step, so that noise follows words and topics.

    What is clipped, summed and noised is a contribution whose entry of word v and topic k was divided by a scale d_v
    e_vk > 0. The release is multiplied by it again. An entry's noise is then in proportion to its scale, and so is its
    part of a document's clip. The scales come from only earlier releases, so they are public when a step begins.

    With p_v the words' shares, d_v (``word``) is p_v^b times the factor that makes sum_v p_v / d_v^2 = 1. A document of
    N words drawn from p, each met once, then has the norm that it has without scales, so a clip keeps its meaning. b =
    1/4 was best on real sections and simulated articles. A b of 1/2, which makes the sum of the relative variances
    least, loses, because `ProductShrinkage` pools the rare words anyway.

    Among the topics of a word e_vk is (s_vk + f)^(1/2) times the factor that makes sum_k q_vk / e_vk^2 = 1. Here s_vk
    is topic k's share of the word in the E-step's ``table``, and q_vk the share of the word's tokens that the topic
    has; ``topic_weight``, (K,), are the topics' shares of all tokens. Most topics hardly use a word, and the read-out
    cannot tell noise there from a use. The root, with the least sum of relative variances, is best or level everywhere.

    Noise brings ``share_noise`` = V mean(sd) / sum_v mass_v to a share of an average word. The floor f = 1/K + 2
    share_noise keeps noise from making scales small, which would clip the documents that use the word in such topics.
    On short posts in 50 topics only 1/K costs 6 % of perplexity; on sections and articles they are level.

    Returns c, (V,), and f: an entry's scale is c_v (s_vk + f)^(1/2).
    """
    floor, scale = min(1.0 / len(topic_weight) + _NOISE_IN_FLOOR * share_noise, 1.0), np.empty(len(table))

    def fill(first: int, last: int, worker: int) -> None:
        native.table_spread(floor, topic_weight, table[first:last], scale[first:last])

    map_chunks(len(table), _CHUNK, n_threads, fill)
    scale *= word
    return np.clip(scale, 1.0 / native.LDA_MAX_WEIGHT, 1.0 / native.LDA_MIN_WEIGHT, out=scale), floor


# -------------------------------------------------------------------- the read-out


class ProductShrinkage:
    """Empirical-Bayes read-out of noised topic statistics, which carries its priors between steps.

    ``known`` are noised masses of words and their noise, (V,) each, if the run has released a histogram of words.

    The running average holds, for word v and topic k, a_vk = m_vk + N(0, sd_vk^2) with public sd_vk. All that follows
    is in units of them; a word's sums are in units of the root of the mean of its sd_vk^2. Most m_vk are far below sd.
    Mapping negative entries to zero (Algorithm 3) leaves 0.4 sd of bias in each of the V K entries. Here the m_vk are
    estimated by their posterior means under

        m_vk = p_v w_k h_vk r_vk

    - p_v, the word's share over all topics. It is estimated from sum_k a_vk, whose noise is only sqrt(K) sd, averaged
      with the histograms by their variances, if there are any. The prior is nonparametric (the EM of Kiefer &
      Wolfowitz's maximum-likelihood mixture).
    - w_k, the topic's share: from sum_v a_vk, shrunk linearly toward equal shares.
    - h_vk, the ratio that the word's other topics predict (`TopicFactors`), scaled so that the word keeps its share. If
      a topic of ships uses a word more than the corpus does, topics of coasts and of war do so more often than others.
    - r_vk, how much more the topic uses the word than that. It has a prior for each band of what is expected over sd,
      learned by the same EM over all entries of the band.

    Both priors are mixtures of overlapping Gaussians on a grid, and a point at 0; a prior of points would round clear
    statistics to the grid. A word that is too rare to tell topics apart falls back to p_v w_k, and never to noise.

    Perplexity (newswires, KOS and sections, K = 20 and 50, epsilon = 1, 2 and 4): without h -.9 % (KOS, K = 50) to
    +2.9 % (sections, K = 50, epsilon = 1); with linear shrinkage in place of the prior of r 0 to +7 %.
    """

    def __init__(self, n_topics: int, n_threads: int = 1, known: Noised | None = None):
        self._n_topics, self._n_threads, self.known = n_topics, n_threads, known
        grid = np.concatenate(([0.0], np.geomspace(0.05, max(2.0, n_topics), _RATIO_POINTS - 1)))
        self._grid = grid.astype(np.float32)
        self._prior: np.ndarray | None = None
        self._next_prior: np.ndarray | None = None
        self._mass_prior: np.ndarray | None = None
        self._sums: Noised = np.empty(0), np.empty(0)
        self._units = self.predicted = np.empty((0, 0), dtype=np.float32)

    def update(self, average: np.ndarray, sd: np.ndarray) -> None:
        """Estimate p, w, h and the prior of r from an average, (V, K), with noise sd > 0, (V, K) or (1, 1)."""
        shares, noise = self._take_noise(average, sd)
        self.mass, self._mass_prior = word_masses(*self._sums, self._mass_prior, self._n_threads)
        spread = max(float(shares.var()) - len(average), 0.0)  # the mean of the noise's variances is the words' number
        mean = float((self.mass / self._word_sd).sum()) / self._n_topics
        shares = mean + spread / (spread + noise) * (shares - shares.mean())
        # No topic below a twentieth of an equal share: it could not come back.
        shares = np.maximum(shares, 0.05 * mean)
        self.weight = shares / shares.sum()
        factors = self._expect(average)
        if self._next_prior is not None:
            self._prior = self._next_prior
        if self._prior is None:
            # All that is known of r without data is its mean, 1: weights exp(-c grid).
            grid, ends = self._grid, (np.array(-100.0 / self._grid[-1]), np.array(100.0))
            low, high = halve_brackets(lambda c: np.asarray(np.exp(-c * grid) @ (grid - 1.0) > 0.0), *ends, 59)
            start = np.exp(-0.5 * (low + high) * grid)
            self._prior = np.tile(start / start.sum(), (_BANDS, 1)).astype(np.float32)
            for _ in range(_FIRST_ROUNDS):
                self._prior, factors = self._read(factors, means=False), None
        self._next_prior = self._read(factors, means=True)

    def _take_noise(self, average: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take the noise of entries and words, and words' sums; return topics' sums in units of it, and their noise."""
        self._sd = np.ascontiguousarray(np.broadcast_to(sd, average.shape))
        self._word_sd, totals = np.empty((2, len(average)))

        def add(first: int, last: int, worker: int) -> np.ndarray:
            sums, part = np.zeros((2, self._n_topics)), slice(first, last)
            native.noise_sums(average[part], self._sd[part], self._word_sd[part], totals[part], sums)
            return sums

        shares, noise = np.sum(map_chunks(len(average), _CHUNK, self._n_threads, add), axis=0)
        errors = math.sqrt(self._n_topics) * self._word_sd
        if self.known is not None:
            (x, own), least = self.known, float(np.sqrt(errors @ errors))
            factor = max(float(totals.sum()), least) / max(float(x.sum()), float(np.sqrt(own @ own)))
            first, second = (own * factor) ** -2.0, errors**-2.0
            totals, errors = (first * factor * x + second * totals) / (first + second), (first + second) ** -0.5
        self._sums = totals, errors
        return shares, noise

    def _expect(self, average: np.ndarray) -> TopicFactors | None:
        """Bring entries and p w to units of their noise, (V, K) float32; return how topics go together, if several."""
        if self._units.shape != average.shape:
            self._units = np.empty(average.shape, dtype=np.float32)
            self.predicted = np.empty(average.shape, dtype=np.float32)

        def fill(first: int, last: int, worker: int) -> None:
            part = slice(first, last)
            inputs = average[part], self._sd[part], self.mass[part], self.weight
            native.noise_units(*inputs, self._units[part], self.predicted[part])

        map_chunks(len(average), _CHUNK, self._n_threads, fill)
        return TopicFactors(self._units, self.predicted, self._n_threads) if self._n_topics > 1 else None

    def _read(self, factors: TopicFactors | None, means: bool) -> np.ndarray:
        """Return the prior of r after a round of EM.

        With ``factors``, entries are first predicted from the word's other topics: the mean of each ratio given these,
        at least 0.1, times what was expected; a word's predictions keep its mass. With ``means``, these take the place
        of the units of noise.
        """
        prior, n_threads = self._prior, self._n_threads
        assert prior is not None
        work = np.empty((n_threads, 4 * min(_CHUNK, len(self._units)) * self._n_topics + 32), dtype=np.float32)
        q = 0 if factors is None else factors.loadings.shape[1]
        solved = zeros_on_line((n_threads, 8 * (4 * self._n_topics + 30 + q * (q + 2))), np.float64)

        def expect(first: int, last: int, worker: int) -> np.ndarray:
            part, weight = slice(first, last), np.zeros(prior.shape)
            units, base = self._units[part], self.predicted[part]
            if factors is not None:
                told, predicted = (self._sd[part], self.mass[part], factors.loadings, factors.own), np.empty_like(base)
                native.topic_ratios(units, base, *told, solved[worker], predicted)
                base[:] = predicted
            native.shrink_means(units, base, self._grid, prior, _EDGES, work[worker], units if means else None, weight)
            return weight

        weight = np.sum(map_chunks(len(self._units), _CHUNK, n_threads, expect), axis=0)
        # A little of every point, so that none is lost for good.
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300) + 1e-6
        return np.asarray((weight / weight.sum(axis=1, keepdims=True)).astype(np.float32))

    def means(self, first: int, last: int) -> np.ndarray:
        """Compute posterior means of words first..last, (last - first, K)."""
        return np.asarray(self._units[first:last] * self._sd[first:last])

    def parameters(self, first: int, last: int, factor: float, eta: float, table: np.ndarray) -> np.ndarray:
        """Write ``factor`` times the `means` plus ``eta`` to rows of a table; return their sums over words, (K,)."""
        sums, part = np.zeros(self._n_topics), slice(first, last)
        native.table_parameters(factor, eta, self._units[part], self._sd[part], table, sums)
        return sums

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for `restore`; none before the first update."""
        if self._prior is None or self._mass_prior is None:
            return {}
        priors = {"ratio_prior": self._prior.astype(np.float64), "mass_prior": self._mass_prior}
        return {**priors, "word_mass": self.mass, "topic_weight": self.weight}

    def restore(self, state: Mapping[str, np.ndarray], average: np.ndarray, sd: np.ndarray) -> None:
        """Resume from a `state` of an ``average`` with noise ``sd``; ValueError for others."""
        prior = array_of(state, "ratio_prior", (_BANDS, len(self._grid)))
        self._mass_prior = array_of(state, "mass_prior", (_MASS_POINTS + 1,))
        self.mass = array_of(state, "word_mass", (len(average),))
        self.weight = array_of(state, "topic_weight", (self._n_topics,))
        if min(prior.min(), self._mass_prior.min()) < 0 or min(self.mass.min(), self.weight.min()) <= 0:
            raise ValueError("state: the priors of the read-out are not above 0")
        self._prior = prior.astype(np.float32)
        self._take_noise(average, sd)
        self._next_prior = self._read(self._expect(average), means=True)

    def frequency_loss(self) -> float:
        """Estimate the nats a word that noise in masses costs: about half of their posterior's relative variance."""
        assert self._mass_prior is not None
        total, sd = self._sums
        units, variance = total / sd, np.empty(len(sd))
        grid, width = _mass_grid(units)
        spread = np.hypot(1.0, width)
        gain = (width / spread) ** 2
        for first in range(0, len(units), _CHUNK):
            distance = units[first : first + _CHUNK, None] - grid
            log = -0.5 * (distance / spread) ** 2
            weight = np.exp(log - log.max(axis=1, keepdims=True)) / spread * (self._mass_prior + 1e-12)
            weight /= weight.sum(axis=1, keepdims=True)
            center = grid + gain * distance
            mean = (weight * center).sum(axis=1, keepdims=True)
            variance[first : first + _CHUNK] = (weight * (gain + (center - mean) ** 2)).sum(axis=1)
        return float((variance * sd / self.mass) @ sd / (2.0 * self.mass.sum()))


class TopicFactors:
    """The covariance of a word's ratios over topics, L L' + diag(own): ``loadings`` L, (K, q), and ``own``, (K,).

    Words' statistics are ``x`` = ``base`` r + N(0, 1), (V, K) float32. A deviation is w (x - base), with the weight w =
    base / (1 + 0.3 base^2), and its topic's scale is the root of the sum of squares of w base. Sums of products of
    deviations over their scales, without the noise's own part on the diagonal, have in entry (k, l) the covariance of
    r_k and r_l times the cosine of the angle between the topics' shares: where topics share few words, less is known,
    and the covariance counts less. L is to give the entries off the diagonal (principal factors: the diagonal comes
    from L in the round before, and is first 0).

    Ratios without a covariance would have a spectrum with the edge e, 2 sqrt(K) standard deviations of an entry (the
    semicircle law). Eigenvalues that lie clear of it count, shrunk to (lambda^2 - e^2)^(1/2). That is best in squares
    for a matrix of low rank seen through such noise (Gavish & Donoho 2017).
    """

    def __init__(self, x: np.ndarray, base: np.ndarray, n_threads: int = 1):
        n_words, n_topics = base.shape

        def square(first: int, last: int, worker: int) -> np.ndarray:
            squares = base[first:last] ** 2
            squares /= 1 + _SPREAD * squares
            return np.asarray(np.einsum("vk,vk->k", squares, squares, dtype=np.float64))

        squares = np.sum(map_chunks(n_words, _CHUNK, n_threads, square), axis=0)
        inverse = np.zeros(n_topics, dtype=np.float32)
        np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > _LEAST_SQUARES, casting="same_kind")

        def multiply(first: int, last: int, worker: int) -> tuple[np.ndarray, float]:
            products, errors = np.zeros((n_topics, n_topics)), 0.0
            for begin in range(first, last, _CHUNK):
                part = slice(begin, min(begin + _CHUNK, last))
                weight = base[part] / (1 + _SPREAD * (base[part] * base[part]))
                weight *= inverse
                deviation = x[part] - base[part]
                deviation *= weight
                np.clip(deviation, -_MOST_DEVIATION, _MOST_DEVIATION, out=deviation)
                products += deviation.T @ deviation
                products.flat[:: n_topics + 1] -= np.einsum("vk,vk->k", weight, weight)
                # The variances of the entries off the diagonal.
                deviation *= deviation
                sums = deviation.sum(axis=1, dtype=np.float64)
                errors += float(sums @ sums - np.einsum("vk,vk->", deviation, deviation, dtype=np.float64))
            return products, errors

        # The threads are ours, and bits are not to hang on how many of its own a BLAS takes. Parts hold as much as two
        # matrices of products; their sums are joined in order, for any threads.
        with one_blas_thread(0, scipy=n_topics > _ALL_PAIRS):
            size = _CHUNK * -(-max(2 * n_topics, _CHUNK) // _CHUNK)
            (covariance, error), *others = map_chunks(n_words, size, n_threads, multiply)
            for products, errors in others:
                covariance += products
                error += errors
            variances = np.diag(covariance).copy()
            edge = _CLEAR * 2.0 * math.sqrt(max(error, 0.0) / n_topics)
            shared = np.zeros(n_topics)
            for _ in range(_FACTOR_ROUNDS):
                np.fill_diagonal(covariance, np.minimum(shared, np.maximum(variances, 0.0)))
                values, vectors = _largest(covariance)
                kept = values > edge
                self.loadings = vectors[:, kept] * (values[kept] ** 2 - edge**2) ** 0.25
                shared = (self.loadings**2).sum(axis=1)
        self.loadings, self.own = np.ascontiguousarray(self.loadings), np.maximum(variances - shared, _LEAST_OWN)


def _largest(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest eigenvalues of a symmetric matrix, ascending, and their vectors."""
    if len(matrix) > _ALL_PAIRS:
        from scipy.linalg import eigh

        found: tuple[np.ndarray, np.ndarray] = eigh(matrix, subset_by_index=(len(matrix) - _FACTORS, len(matrix) - 1))
        return found
    values, vectors = np.linalg.eigh(matrix)
    return values[-_FACTORS:], vectors[:, -_FACTORS:]


def word_masses(
    total: np.ndarray, sd: np.ndarray, prior: np.ndarray | None = None, n_threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means, (V,) above 0, of non-negative masses ``total`` seen through Gaussian noise ``sd``, (V,) each.

    The second is their prior, (61,), over a grid in units of the noise: where a later step starts from. None starts
    from an even one. EM takes every second word, third ... if there are more than `_MASS_WORDS`.
    """
    units = total / sd
    (grid, width), taken, known = _mass_grid(units), units[:: -(-len(units) // _MASS_WORDS)].copy(), False
    row = -(-len(grid) // 16) * 16

    def expect(first: int, last: int, worker: int) -> np.ndarray:
        sums = np.zeros(len(grid))
        native.word_masses(taken[first:last], grid, width, weight, known, 1.0, likelihood[first:last], sums, None)
        return sums

    # The grid moves a little from step to step: a little of every point, so that none is lost for good.
    weight = np.full(len(grid), 1 / len(grid)) if prior is None else (prior + 1e-6) / (1 + 1e-6 * len(grid))
    likelihood = zeros_on_line((len(taken), row), np.float32)
    for _ in range(_FIRST_MASS_ROUNDS if prior is None else _MASS_ROUNDS):
        weight = weight * np.sum(map_chunks(len(taken), _CHUNK, n_threads, expect), axis=0) / len(taken)
        known = True
    mass, work = np.empty(len(units)), zeros_on_line((n_threads, _CHUNK, row), np.float32)

    def read(first: int, last: int, worker: int) -> None:
        likely = work[worker, : last - first]
        native.word_masses(units[first:last], grid, width, weight, False, 1.0, likely, None, mass[first:last])

    map_chunks(len(units), _CHUNK, n_threads, read)
    return mass * sd, weight


def _mass_grid(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Make the grid of masses: component g is N(grid[g], width[g]^2), as wide as the grid is coarse; 0 is a point."""
    grid = np.concatenate(([0.0], np.geomspace(0.02, 1.1 * max(float(units.max()), 10.0), _MASS_POINTS)))
    return grid, np.concatenate(([0.0], np.gradient(grid)[1:] / 2))
