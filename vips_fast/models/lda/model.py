"""Run Algorithm 3 of Park et al. (2020): E-step, read-out, M-step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from ...engine.averaging import Schedule
from ...engine.model import Model, Release, array_of, diagnose
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock, unpack_block
from ...kernels import native
from ...kernels.lattice import LDA_MAX_SPACING, LDA_MIN_SPACING, checked_spacing
from ...kernels.memory import zeros_on_line
from ...kernels.threads import map_chunks, worth
from ...mechanisms import GaussianMechanism
from .masses import COUNT_POWER, LONG_HISTOGRAM, WordHistogram
from .planning import WORD_CLIP, WORD_SCALE, LdaOptions, first_topics, spread
from .records import DocumentBlock
from .scaling import PASS_COST, EntryScales, ScaledAverage, word_scales
from .score import HalfPrediction
from .shrinkage import KnownMasses, ProductShrinkage

#: Words whose statistics are turned into parameters at a time.
_CHUNK = 512
#: Nanoseconds of an entry's digamma on one thread.
_DIGAMMA_COST = 60.0

#: Below e^-85 a share would be a denormal float32: slow, and without effect.
_LEAST_LOG = -85.0
_LEAST_SHARE = math.exp(_LEAST_LOG)

_MODES = {"scale": native.LDA_SCALE, "resample": native.LDA_RESAMPLE}


@dataclass(frozen=True)
class LdaSettings:
    """Settings of `LdaModel`.

    Attributes
    ----------
    n_topics : int
    alpha, eta : float
        Dirichlet priors of a document's topics and of a topic's words.
    doc_length : int or None
        Words that documents are scaled or resampled to; None takes them as they are.
    clip, clips : float, bool
        Bound of a contribution's L2 norm, a N; if it does not ``clips`` (without privacy), that of the data.
    options : LdaOptions
    n_threads : int
        Threads of the M-step; they change no bit.
    start_steps : int
        First steps in which a quarter of the topics take part (`vips_fast.models.lda.planning`).
    histograms : int
        First steps that release a histogram of words.
    long_histogram, count_power : float
        About the norm of a usual document's counts, which are taken to this power.
    read_out_alphas : tuple of float
        Priors of new documents' proportions, the usual one first; () for ``alpha``.
    """

    n_topics: int
    alpha: float
    eta: float
    doc_length: int | None
    clip: float
    clips: bool
    options: LdaOptions = LdaOptions()
    n_threads: int = 1
    start_steps: int = 0
    histograms: int = 0
    long_histogram: float = LONG_HISTOGRAM
    count_power: float = COUNT_POWER
    read_out_alphas: tuple[float, ...] = ()


class LdaModel(Model):
    """Word-major (V, K) statistics c_i φ_ik of documents.

    A run starts from topics that the public seed draws. ``known`` are words' masses, of earlier releases of the run.

    Notes
    -----
    *Sensitivity.* A document's contribution has entries ≥ 0 and an L2 norm of at most a N. Adding or removing a
    document moves the sum by at most a N. Replacing one moves it by at most √2 a N, as ‖x − y‖² = ‖x‖² + ‖y‖² − 2 x·y ≤
    2 (a N)². (Appendix 2 of the paper drops one of the two terms and gets a N for replacing.) If a person has several
    documents, the contribution is their sum, clipped once. The proof used nothing but entries ≥ 0 and the norm, so the
    same holds for adding, removing or replacing a person with all documents.

    *Words.* Before they are clipped, a contribution's entries are divided by public scales d_v e_vk
    (`vips_fast.models.lda.scaling`). Each word's are scaled down to a norm of at most ``word_clip`` of the clip, so
    that no word takes the share of all others. The scales are made from earlier releases, which are the same whether a
    record is there or not. Given them, a contribution is a function of only its own unit. It has entries ≥ 0 and an L2
    norm of at most a N, and no other property was used above. The release is multiplied by the scales afterwards, which
    is post-processing.

    *Start.* While only some topics take part, the others have probability 0, so that their entries of a contribution
    are 0. Their parts after the split are a function of earlier releases and of the public ``seed``. Nothing was
    assumed above about the topics but that they are public.

    *Histograms.* The first ``histograms`` steps release sums of a histogram of words in place of topics. A unit's part
    has entries ≥ 0 and an L2 norm of at most the clip (`vips_fast.models.lda.masses.histogram`). It is a function of
    its own counts and of public scales, so the proof and the event of these steps are the same. The scales, and the
    inputs of the later read-out of words' masses, are functions of earlier releases. ``known`` are such masses, of
    earlier releases of the same run. ``long_histogram`` is about the norm of a usual document's counts, which are taken
    to the power ``count_power``.

    *Score.* The last score of a run compares the ``read_out_alphas`` (`vips_fast.engine.gain`). Which one is taken
    is a function of that release.

    *Lattice.* Each contribution is truncated toward zero to the noise's own lattice, so `round` has nothing to do.
    """

    at_root = ("_average", "_shrinkage", "_scales")
    #: Whether noised statistics are read out by their empirical-Bayes means.
    shrinks = True

    def __init__(self, settings: LdaSettings, public: Public, known: KnownMasses | None = None):
        n_topics, n_words, clip = settings.n_topics, public.n_features, settings.clip
        self.shape, self.clip = (n_words, n_topics), clip
        self.n_topics, self.n_words, self.n_records = n_topics, n_words, public.n_records
        self._alpha, self._eta = np.full(n_topics, settings.alpha), np.float64(settings.eta)
        self._read_out_alphas = settings.read_out_alphas or (settings.alpha,)
        self._options = options = settings.options.resolved()
        self._length = settings.doc_length
        self._mode = native.LDA_AS_IS if self._length is None else _MODES[options.length_method]
        self._clip = clip if settings.clips else 0.0
        self._word_clip = self._clip * (WORD_CLIP if options.word_clip is None else options.word_clip)
        exponent = WORD_SCALE if options.word_scale is None else options.word_scale
        self._exponent = exponent if settings.clips else 0.0
        decay = 0.7 if options.learning_decay is None else options.learning_decay
        self._schedule = Schedule(options.learning_offset, decay)
        self._stop = options.stop
        self._spacing = 1.0
        self._n_threads = settings.n_threads
        self._table = zeros_on_line((n_words, native.lda_stride(n_topics)), options.dtype)
        self._seed = public.seed
        power = settings.count_power
        self._histograms, self._known, self._counts_as_are = settings.histograms, known, power == 1.0
        self._histogram = WordHistogram(np.ones(n_words), clip, power, settings.long_histogram**power)
        self._start_steps, self._started = settings.start_steps, 0
        topics = first_topics(n_topics) if self._start_steps else n_topics
        start = self._factors()[:, :topics]
        self._fill_table(start)
        start -= self._eta
        start /= self.n_records
        self._average = ScaledAverage(start)
        self._shrinkage = self._read_out(topics)
        self._scales: EntryScales | None = None
        self._weight: np.ndarray | None = None
        self._floor = 0.0

    def _read_out(self, n_topics: int) -> ProductShrinkage:
        return ProductShrinkage(n_topics, self._n_threads, self._known)

    @property
    def _counting(self) -> bool:
        """Whether the next release is a histogram of words."""
        return self._histogram.count < self._histograms

    def _factors(self) -> np.ndarray:
        """Draw (V, K) random factors that set topics apart.

        They are Gamma(100, 1/100), the start of Hoffman et al. (2010).
        """
        return np.random.default_rng(self._seed).gamma(100.0, 0.01, self.shape)

    def sensitivity(self, relation: str) -> float:
        """Return a N to add or remove, √2 a N to replace.

        See the notes.
        """
        return self.clip * (1.0 if relation == "add_remove" else math.sqrt(2.0))

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = checked_spacing(mechanism.spacing, self.clip, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)

    # -- E-step

    def contribute(
        self, block: DocumentBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add a unit's documents, clipped and truncated; or count words.

        The steps are: gather, bring to length, E-step, add, clip, truncate.
        """
        if self._counting:
            self._histogram.contribute(block, words, out, self._spacing)
            if "diagnostics" in scratch:
                diagnose(scratch, clipped=0, norm_sum=0)
            return
        (corpus, rows), words, starts = unpack_block(block, words)
        rows, offsets, columns, values = corpus.arrays(rows)
        buffers = self._buffers(offsets[rows + 1] - offsets[rows], starts, scratch)
        bag = buffers["indptr"][: len(rows) + 1], buffers["indices"], buffers["counts"]
        n_units = len(rows) if starts is None else len(starts) - 1
        norms = np.zeros(n_units) if "diagnostics" in scratch else None
        length, tokens, work = self._length or 1, buffers["tokens"], buffers["work"]
        native.lda_gather(rows, self._mode, length, offsets, columns, values, words, tokens, *bag)
        (tol, word_tol), most = self._stop, int(self._options.max_doc_update_iter)
        if starts is None and self._by_words:
            starts = np.arange(n_units + 1)
        table, alpha, clip, spacing = self._table, self._alpha, self._clip, self._spacing
        if starts is None:
            native.lda_estep(*bag, table, alpha, tol, word_tol, most, clip, spacing, work, None, out, None, norms)
        else:
            word_clip, scales = self._word_clip, (self._weight, self._floor)
            native.lda_units(
                starts, *bag, table, alpha, tol, word_tol, most, clip, word_clip, *scales, spacing, work, out, norms
            )
        if norms is not None:
            diagnose(scratch, clipped=(norms > self.clip).sum(), norm_sum=norms.sum())

    def _buffers(self, lengths: np.ndarray, starts: np.ndarray | None, scratch: dict[str, Any]) -> dict[str, Any]:
        """Make buffers for documents of these lengths.

        They stay from block to block, and grown where need be.
        """
        need = {"entries": int(lengths.sum()), "n_docs": len(lengths), "widest": int(lengths.max(initial=0))}
        need["together"] = 0
        if starts is not None:
            ends = np.concatenate(([0], np.cumsum(lengths)))
            need["together"] = int(np.diff(ends[starts]).max(initial=0))
        have = scratch.get("lda")
        if have is None or any(have[name] < size for name, size in need.items()):
            if have is not None:
                need = {name: max(size, have[name]) for name, size in need.items()}
            entries, single = max(need["entries"], 1), self._table.dtype == np.float32
            if starts is None and not self._by_words:
                size = native.lda_workspace(self.n_topics, need["widest"], single)
            else:
                size = native.lda_units_workspace(self.n_topics, self.n_words, need["widest"], need["together"], single)
            have = scratch["lda"] = {
                **need,
                "indptr": np.empty(need["n_docs"] + 1, dtype=np.int64),
                "indices": np.empty(entries, dtype=np.int32),
                "counts": np.empty(entries),
                "tokens": np.empty(max(native.LDA_RESAMPLE_TOKENS, need["widest"]), dtype=np.uint32),
                "work": np.empty(size // 8 + 1).view(np.uint8),
            }
        return have

    # -- M-step

    def update(self, release: Release) -> None:
        """Average the release un-clipped; make the next step's table and weights.

        The table is exp(E[log β]), and the weights are of words.
        """
        if self._counting:
            self._histogram.add(release)
            self._take_masses()
            if not self._counting:
                self._shrinkage = self._read_out(self._average.values.shape[1])
            return
        release = replace(release, step=release.step - self._histogram.count)
        if self._starting and self._started == self._start_steps:
            self._go_on()
        topics = self._average.values.shape[1]
        rate = self._rate(release.step)
        if self._starting:
            self._started += 1
            release = replace(release, units=release.units[:, :topics])
        self._average.add(release, rate, self._scales, self._n_threads)
        if self.noised:
            self._shrinkage.update(self._average.values, self._average.noise_sd)
        self._fill()

    def end(self) -> None:
        """Drop the E-step's table and the M-step's scratch; the average may be given away."""
        self._table, self._scales, self._weight = self._table[:0].copy(), None, None
        self._shrinkage.end()
        self._average.ended = True

    def _rate(self, step: int) -> float:
        """Find a release's weight, by its number among releases of topics."""
        # After a start the average holds something already, as after a first step.
        return self._schedule.rate(step if self._starting else step - max(self._start_steps - 1, 0))

    def _take_masses(self) -> None:
        """Read the histograms so far, and scale the next one."""
        self._known = KnownMasses(*self._histogram.mean())
        if self._counting and self._exponent > 0.0:
            self._histogram.scales = word_scales(self._known.masses, self._exponent)

    @property
    def _starting(self) -> bool:
        """Whether only some topics take part."""
        return bool(self._average.values.shape[1] < self.n_topics)

    def _go_on(self) -> None:
        """Continue with all topics, each with its copy's share.

        Each has its share of the releases about the one that it is a copy of.
        """
        average = ScaledAverage(spread(self._average.values, self.n_topics))
        noise_sd = np.broadcast_to(self._average.noise_sd, self._average.values.shape)
        average.noise_sd, average.initial_weight = spread(noise_sd, self.n_topics), self._average.initial_weight
        self._average = average
        self._shrinkage = self._read_out(self.n_topics)

    def _copies(self) -> np.ndarray:
        """(V, K) parameters of all topics, from those that began."""
        start = spread(np.concatenate(map_chunks(self.n_words, _CHUNK, self._n_threads, self._lambda)), self.n_topics)
        start *= self._factors()
        return start

    def _fill(self) -> None:
        """Fill the next step's table and scales, after an update."""
        copied = self._starting and self._started == self._start_steps
        self._fill_table(self._copies() if copied else None)
        if self.noised and self.shrinks and self._exponent > 0.0:
            weight = self._shrinkage.weight
            if copied:
                weight = spread(weight[None], self.n_topics)[0]
            mass = self._shrinkage.mass
            share_noise = self.n_words * float(self._average.noise_sd.mean()) / float(mass.sum())
            words = word_scales(mass, self._exponent)
            self._scales = EntryScales(words, self._table, weight, share_noise, self._n_threads)
            self._weight, self._floor = self._scales.weight, self._scales.floor

    @property
    def noised(self) -> bool:
        """Whether the average has noise; then all of it has."""
        return bool(self._average.noise_sd[0, 0] > 0)

    @property
    def _by_words(self) -> bool:
        """Whether words have weights, or bounds of their own."""
        return self._weight is not None or 0.0 < self._word_clip < self._clip

    def _lambda(self, first: int, last: int, worker: int) -> np.ndarray:
        """Dirichlet parameters of words first..last, shape (last − first, K)."""
        values = self._average.values
        last = min(last, len(values))
        if self.noised:
            mean = self._shrinkage.means(first, last)
        else:
            mean = np.maximum(values[first:last], 0.0)
        mean *= self.n_records
        mean += self._eta
        return mean

    def result(self) -> dict[str, np.ndarray]:
        """``components``: (K, V) Dirichlet parameters λ."""
        out = np.empty((self.n_topics, self.n_words))

        def fill(first: int, last: int, worker: int) -> None:
            out[:, first:last] = spread(self._lambda(first, last, worker), self.n_topics).T

        map_chunks(self.n_words, _CHUNK, self._n_threads, fill)
        return {"components": out}

    @property
    def has_score(self) -> bool:
        """Whether the topics can be scored: always."""
        return True

    def gain_score(self) -> HalfPrediction:
        """Score the topics against the word frequencies that they add up to.

        Each prior of new documents' proportions is a candidate.
        """
        topics = self.result()["components"]
        masses = topics.sum(axis=0) / topics.sum()
        topics /= topics.sum(axis=1, keepdims=True)
        if self._known is not None and self.noised and self._counts_as_are:
            # Histograms of counts as they are tell more of word frequencies than sums of clipped topics.
            masses = self._known.masses / self._known.masses.sum()
        alphas = (np.full(self.n_topics, alpha) for alpha in self._read_out_alphas)
        return HalfPrediction([(topics, alpha) for alpha in alphas], masses)

    def frequency_loss(self) -> float:
        """Estimate the nats a word that noisy word frequencies cost."""
        return self._shrinkage.frequency_loss(self._average.values) if self.noised and self.shrinks else 0.0

    def deviations(self) -> np.ndarray:
        """Compute (K, V) released averages in standard deviations of their noise.

        An entry of a word that is in no record is the noise alone, so that it is N(0, 1): whatever the topics were, its
        contributions were 0. The part of the start that is left in the average is taken off.
        """
        average = self._average
        values = average.values
        if average.initial_weight > 0.0:
            begun = first_topics(self.n_topics) if self._start_steps else self.n_topics
            start = (self._factors()[:, :begun] - self._eta) / self.n_records
            values = values - average.initial_weight * spread(start, values.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.nan_to_num(values / average.noise_sd, nan=0.0, posinf=np.inf, neginf=-np.inf)
        # Copies of a topic have its deviations.
        return np.ascontiguousarray(found[:, np.arange(self.n_topics) % found.shape[1]].T)

    def _fill_table(self, lam: np.ndarray | None) -> None:
        """Fill the table from (V, J) parameters, whole or by chunks.

        Its rows sum to 1; it is 0 beyond the J topics.
        """
        # Two passes, so that the parameters are read once: first their digammas, then the parts that depend on their
        # sums.
        arithmetic = self._options.topic_mean == "arithmetic"
        n_topics = (self._average.values if lam is None else lam).shape[1]
        table = self._table[:, :n_topics]

        def take(first: int, last: int, worker: int) -> np.ndarray:
            if arithmetic and lam is None and self.noised and self.shrinks:
                rows = self._table[first:last]
                return self._shrinkage.parameters(first, last, self.n_records, float(self._eta), rows)
            chunk = self._lambda(first, last, worker) if lam is None else lam[first:last]
            table[first:last] = chunk if arithmetic else scipy.special.digamma(chunk)
            return np.asarray(chunk.sum(axis=0))

        def scale(first: int, last: int, worker: int) -> None:
            elog = table[first:last] - bias
            elog -= elog.max(axis=1, keepdims=True)
            elog[elog < _LEAST_LOG] = -np.inf
            np.exp(elog, out=elog)
            table[first:last] = elog / elog.sum(axis=1, keepdims=True)

        def share(first: int, last: int, worker: int) -> None:
            native.table_shares(_LEAST_SHARE, inverse, self._table[first:last])

        n_threads = worth(self._n_threads, (PASS_COST if arithmetic else _DIGAMMA_COST) * table.size)
        total = np.asarray(sum(map_chunks(self.n_words, _CHUNK, n_threads, take)))
        if arithmetic:
            # The means of all topics times one factor, which cancels and keeps float32 in its range.
            inverse = total.min() / total
            map_chunks(self.n_words, -(-self.n_words // n_threads), n_threads, share)
        else:
            self._table[:, n_topics:] = 0
            bias = scipy.special.digamma(total)
            map_chunks(self.n_words, _CHUNK, n_threads, scale)

    def state(self) -> dict[str, np.ndarray]:
        """Return the average, its read-out's priors, and the start's place."""
        start = np.array([float(self._start_steps), float(self._started)])
        state = {**self._average.state(), **self._shrinkage.state(), "start_steps": start}
        if self._histograms:
            state |= {"histogram_steps": np.array([float(self._histograms)]), **self._histogram.state()}
            if self._counts_as_are:
                state["counts_as_are"] = np.ones(1)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        steps, started = array_of(state, "start_steps", (2,)).tolist()
        if not (0 <= started <= steps < 2**31 and steps == int(steps) and started == int(started)):
            raise ValueError("state: 'start_steps' is out of its range")
        n_topics = self.n_topics
        if steps > 0 and np.shape(state.get("average", 0.0))[1:] == (first_topics(n_topics),):
            n_topics = first_topics(n_topics)
        average = ScaledAverage(np.empty((self.n_words, n_topics)))
        average.restore(state)
        if "histogram_steps" in state:
            self._histogram.restore(state)
            (counted,) = array_of(state, "histogram_steps", (1,)).tolist()
            if not 1 <= counted < 2**31 or counted != int(counted):
                raise ValueError("state: 'histogram_steps' is out of its range")
            self._histograms, self._counts_as_are = int(counted), "counts_as_are" in state
            if self._histogram.count:
                self._take_masses()
        shrinkage = self._read_out(n_topics)
        read = self.shrinks and average.noise_sd[0, 0] > 0
        if read:
            shrinkage.restore(state, average.values, average.noise_sd)
        self._start_steps, self._started = int(steps), int(started)
        self._average, self._shrinkage = average, shrinkage
        self._fill()
