"""Topics from public knowledge and few releases: a model whose steps are of several kinds.

The first step releases a histogram of words (`vips_fast.models.lda.masses`), the second a score of public topics
(`vips_fast.models.lda.score`). The score decides about the rest. If public topics predict the records' words, the plan
goes on with them: with more histograms if topics of one's own would be noise, else with topics that start from them. If
they do not, topics are fitted as without public knowledge; or, if these would be noise, word frequencies only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from ...engine.model import Model, Release, array_of, diagnose
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock, unpack_block
from ...mechanisms import GaussianMechanism
from .masses import HistogramReadOut, histogram, histogram_factor, histogram_scales
from .model import LdaModel
from .prior import PublicPrior
from .records import DocumentBlock
from .score import HalfPrediction, Score
from .start import start_steps

#: What the steps after the score are for; the first is the choice before it.
_OPEN, _MASSES, _TOPICS, _PLAIN, _NO_TOPICS = range(5)
#: Fewest steps of a run with a score.
_LEAST_STEPS = 3


@dataclass(frozen=True)
class PriorSteps:
    """Decisions about a run with public knowledge, made from public numbers before it.

    ``n_steps`` of the run; ``alphas`` that the score compares, the middle one without a score; whether topics are
    ``refined`` by steps of their own; ``plain_topics``, how many are fitted if public topics do not predict, 0 for
    none; ``pseudo_noise``, the weight of public topics over the noise of a step, in all entries.
    """

    n_steps: int
    alphas: tuple[float, ...]
    refined: bool
    plain_topics: int
    pseudo_noise: float

    @property
    def scored(self) -> bool:
        """Whether the second step is a score."""
        return self.n_steps >= _LEAST_STEPS


class PriorLdaModel(Model):
    """Topics, started and judged with public knowledge.

    ``topics(**settings)`` makes the model of topics' own steps, of ``n_topics``, with a prior ``eta`` or without.

    Notes
    -----
    *Sensitivity.* A release has V K entries. Every kind of step adds up contributions with entries >= 0 and an L2 norm
    of at most the clip, so adding or removing a unit moves a sum by at most the clip, and replacing one by at most
    sqrt(2) times the clip, as `LdaModel` proves. Each step's event is the same.

    *Masses.* `histogram` gives the first V entries. A unit's values are functions of its own counts and of public
    scales, and are divided by their norm over the clip, or by more. The other entries are 0.

    *Score.* `HalfPrediction.contributions` gives the first entries. Every prior of proportions has one entry for nats
    that are won and one for nats that are lost, of which at most one is above 0. Each is at most the clip over the root
    of J + 1, J the number of priors, and so is the entry for words. So the norm is at most the clip. What is compared
    depends on the histogram that was released, and on public topics; the halves depend on the unit's own random word.

    *Topics.* They are steps of an `LdaModel`, whose proof holds for any topics and scales that are public when a step
    begins. The start and the prior are functions of releases and public knowledge. The choice among kinds of steps is a
    function of the released score; it changes no event.

    *Lattice.* Contributions are truncated toward zero, which lowers no entry below 0 and raises no norm.
    """

    at_root = ("_prior", "_make", "_sum", "_read_out", "_settings")

    def __init__(
        self, *, prior: PublicPrior, steps: PriorSteps, make: Callable[..., LdaModel], **settings: Any
    ) -> None:
        self.shape, self.clip = (settings["n_words"], settings["n_topics"]), settings["clip"]
        self.n_topics, self.n_words, self.n_records = prior.n_topics, settings["n_words"], settings["n_records"]
        self._prior, self._steps, self._make, self._settings = prior, steps, make, settings
        self._scales = histogram_scales(prior.frequencies)
        self._spacing = 1.0
        self._mechanism: tuple[GaussianMechanism, Sampler] | None = None
        self._done, self._choice, self._pseudo = 0, _OPEN, 0.0
        self._plain_topics = steps.plain_topics
        self._sum, self._variance, self._histograms = np.zeros(self.n_words), 0.0, 0
        self._score: Score | None = None
        self._half: HalfPrediction | None = None
        self._own: LdaModel | None = None
        self._read_out: HistogramReadOut | None = None

    def sensitivity(self, relation: str) -> float:
        """As for `LdaModel`; see the notes."""
        return self.clip * (1.0 if relation == "add_remove" else 2**0.5)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._mechanism = mechanism, sampler
        self._spacing = mechanism.spacing
        if self._own is not None:
            self._own.prepare(mechanism, sampler)

    # -- contributions

    def contribute(
        self, block: DocumentBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add contributions of the kind of this step; see the notes."""
        if self._own is not None:
            self._own.contribute(block, words, self._part(out), scratch)
            return
        owner, columns, counts = _entries(block, words, self.n_words)
        flat = out.reshape(-1)
        if self._half is None:
            values = histogram(owner, counts, self._scales[columns], len(words), self.clip)
            np.add.at(flat, columns, self._truncated(values))
        else:
            rows = self._half.contributions(owner, columns, counts, words, self.clip)
            flat[: self._half.cells] += self._truncated(rows).sum(axis=0)
        if "diagnostics" in scratch:
            diagnose(scratch, clipped=0, norm_sum=0)

    def _truncated(self, values: np.ndarray) -> np.ndarray:
        return np.floor(values / self._spacing).astype(np.int64)

    def _part(self, array: np.ndarray) -> np.ndarray:
        """The entries of a release that the model of topics' own steps takes, (V, J)."""
        assert self._own is not None
        n_topics = self._own.n_topics
        return np.asarray(array.reshape(-1)[: self.n_words * n_topics].reshape(self.n_words, n_topics))

    # -- updates

    def update(self, release: Release) -> None:
        """Take a release of this step's kind, and choose the kind of the next."""
        flat = release.units.reshape(-1)
        if self._own is not None:
            self._own.update(replace(release, step=self._own_step, units=self._part(release.units)))
        elif self._half is not None:
            values = flat[: self._half.cells] * release.scale
            self._score = Score.read(self._steps.alphas, values, release.noise_sd, self.clip)
            self._choose()
        else:
            factor = histogram_factor(self.clip)
            self._sum += flat[: self.n_words] * (release.scale * factor)
            self._variance += (release.noise_sd * factor) ** 2
            self._histograms, self._read_out = self._histograms + 1, None
            self._pseudo = self._steps.pseudo_noise * release.noise_sd * self.n_records
        self._done += 1
        self._begin()

    @property
    def _own_step(self) -> int:
        """The number of a step among those of the topics."""
        return self._done - self._histograms - (self._score is not None)

    def _choose(self) -> None:
        """Choose what the steps after the score are for."""
        assert self._score is not None
        if self._score.trusted:
            self._choice = _TOPICS if self._steps.refined else _MASSES
        else:
            self._choice = _PLAIN if self._plain_topics else _NO_TOPICS

    def _begin(self) -> None:
        """Prepare the next step."""
        self._half = None
        if self._choice == _OPEN and self._histograms:
            if self._steps.scored:
                read = self.read_out
                self._half = HalfPrediction(read.topics, read.masses, self._steps.alphas)
            else:
                self._choice = _MASSES
        if self._own is None and self._choice in (_TOPICS, _PLAIN):
            self._own = self._topics_model()
            if self._mechanism is not None:
                self._own.prepare(*self._mechanism)

    def _topics_model(self) -> LdaModel:
        """Make the model of topics' own steps, from public topics or without them."""
        if self._choice == _TOPICS:
            read = self.read_out
            eta = (read.weights[:, None] * read.topics).T * max(self._pseudo, 1.0)
            more: dict[str, Any] = {"eta": np.ascontiguousarray(eta), "informed": True, "alpha": self.alpha}
            return self._make(**{**self._settings, "start_steps": 0, **more})
        number = self._plain_topics
        more = {"n_topics": number, "alpha": self.alpha}
        eta = np.broadcast_to(1.0 / number, (self.n_words, number))
        begin = start_steps(self._steps.n_steps - 2, number) if self._settings["start_steps"] else 0
        return self._make(**{**self._settings, **more, "eta": eta, "start_steps": begin})

    # -- results

    @property
    def read_out(self) -> HistogramReadOut:
        """The histograms so far, read with public topics; public topics as they are before there is one."""
        if self._read_out is None:
            sd = np.maximum(self._variance, 1e-30) ** 0.5 / max(self._histograms, 1) * self._scales
            x = self._sum / max(self._histograms, 1) * self._scales
            self._read_out = HistogramReadOut(x, sd, self._prior.topics(), self._prior.weights)
        return self._read_out

    @property
    def score(self) -> Score | None:
        """The released score, if there is one."""
        return self._score

    @property
    def alpha(self) -> float:
        """The Dirichlet prior of a document's proportions."""
        if self._choice == _PLAIN:
            return self._plain_alpha
        alphas = self._steps.alphas
        return alphas[len(alphas) // 2] if self._score is None else alphas[self._score.best]

    @property
    def _plain_alpha(self) -> float:
        """The prior of proportions without public topics: what was given, for all K of them, or the usual one."""
        alphas = self._steps.alphas
        return 1.0 / self._plain_topics if len(alphas) > 1 else alphas[0]

    def result(self) -> dict[str, np.ndarray]:
        """``components``: (J, V) Dirichlet parameters, of fewer topics than K where public ones are left out."""
        if self._own is not None:
            return self._own.result()
        return {"components": self._components()}

    def _components(self) -> np.ndarray:
        """Parameters from histograms and public topics; without these, of one topic."""
        read, total = self.read_out, float(self.n_records) * float(self._settings["doc_length"] or 1)
        shares = read.masses[None] if self._choice == _NO_TOPICS else read.weights[:, None] * read.topics
        return np.asarray(np.maximum(total * shares, 1e-12))

    def standard_errors(self) -> np.ndarray:
        """(J, V) standard deviations that the noise leaves in ``components``, those of public topics taken as given."""
        if self._own is not None:
            return self._own.standard_errors()
        return np.asarray(self._components() * np.sqrt(np.expm1(self.read_out.spread**2)))

    def intervals(self, level: float) -> np.ndarray:
        """(J, V, 2) central intervals of the entries of ``components``; see `standard_errors`."""
        if self._own is not None:
            return self._own.intervals(level)
        ends, sd = np.array([0.5 - level / 2, 0.5 + level / 2]), self.read_out.spread[:, None]
        return np.asarray(self._components()[:, :, None] * np.exp(ndtri(ends) * sd - sd**2 / 2))

    # -- state

    def state(self) -> dict[str, np.ndarray]:
        """The sum of histograms, the score, the choice that it made, and the state of topics' own steps."""
        numbers = [self._done, self._choice, self._histograms, self._plain_topics, self._pseudo, self._variance]
        state = {"prior_steps": np.array(numbers, np.float64), "histogram": self._sum.copy()}
        if self._score is not None:
            score = self._score
            state["score"] = np.array([*score.nats, score.sd, score.words])
        return state if self._own is None else {**state, **self._own.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        numbers = array_of(state, "prior_steps", (6,))
        counts = [int(number) for number in numbers[:4] if 0 <= number < 2**31 and number == int(number)]
        if len(counts) < 4 or counts[1] > _NO_TOPICS or counts[3] > self.n_topics or numbers[4:].min() < 0:
            raise ValueError("state: 'prior_steps' is out of its range")
        self._done, self._choice, self._histograms, self._plain_topics = counts
        self._pseudo, self._variance = (float(number) for number in numbers[4:])
        self._sum, self._read_out, self._own, self._score = (
            array_of(state, "histogram", (self.n_words,)),
            None,
            None,
            None,
        )
        if "score" in state:
            number = len(self._steps.alphas)
            values = array_of(state, "score", (number + 2,))
            self._score = Score(self._steps.alphas, values[:number], float(values[-2]), float(values[-1]))
        self._begin()
        if self._own is not None:
            self._own.restore(state)


def _entries(block: Any, words: np.ndarray, n_words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Word counts of units: the number of the unit, the column and the count of each entry, in ascending order."""
    (corpus, rows), _, starts = unpack_block(block, words)
    rows, offsets, columns, values = corpus.arrays(rows)
    lengths = offsets[rows + 1] - offsets[rows]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    at = np.repeat(offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])
    unit = np.arange(len(rows)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    keys = np.repeat(unit, lengths) * n_words + columns[at]
    keys, place = np.unique(keys, return_inverse=True)
    counts = np.bincount(place, weights=values[at])
    keys, counts = keys[counts > 0], counts[counts > 0]
    return keys // n_words, keys % n_words, counts
