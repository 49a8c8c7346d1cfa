"""Topics from public knowledge and few releases, in steps of several kinds.

The first step releases a histogram of words (`vips_fast.models.lda.masses`), the second a score of public topics with
these masses (`vips_fast.models.lda.score`). The score decides about the rest. It takes more histograms if public topics
are worth more than topics of one's own can be expected to be, else steps of these, on trial or for good
(`vips_fast.models.lda.prior_planning`). Public topics give them word neighbors, and the histogram the masses of words.
The last step releases a score of the finished topics, which is the verdict on them. It also decides between them, the
public ones and both together.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy

from ...engine.gain import FoundGain, Score
from ...engine.measured import ScoreStep
from ...engine.model import Model, Release, array_of, diagnose
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock
from ...kernels.lattice import LDA_MAX_SPACING, LDA_MIN_SPACING, checked_spacing
from ...mechanisms import GaussianMechanism
from .masses import HistogramReadOut, WordHistogram, histogram_scales
from .model import LdaModel
from .neighbors import nearest_words
from .prior import PublicPrior, word_probabilities
from .prior_planning import BESIDE, OWN_ALPHAS, TRIED, PriorSteps, own_are_better
from .records import DocumentBlock
from .score import DISTINCT, HalfPrediction, proportions_prior
from .start import start_steps

#: What the steps between the scores are for; the first is the choice before it.
_OPEN, _MASSES, _TOPICS = range(3)


class PriorLdaModel(Model):
    """Topics, judged with public knowledge.

    ``make(**settings)`` makes the model of topics' own steps.

    Notes
    -----
    *Sensitivity.* A release has V K entries. Every kind of step adds up contributions with entries >= 0 and an L2 norm
    of at most the clip. So adding or removing a unit moves a sum by at most the clip, and replacing one moves it by at
    most sqrt(2) times the clip, as `LdaModel` proves. Each step's event is the same.

    *Masses.* `vips_fast.models.lda.masses.histogram` gives the first V entries. A unit's values are functions of its
    own counts and of public scales, and are divided by their norm over the clip, or by more. The other entries are 0.

    *Score.* `HalfPrediction` gives the first entries, with a norm of at most the clip
    (`vips_fast.engine.gain.GainScore.clip_rows`). Candidates and masses are functions of earlier releases and of public
    topics. The halves, and whether a unit contributes at all, depend on the unit's own random word.

    *Topics.* They are steps of an `LdaModel` of J <= K topics, whose proof holds, in the first V J entries. The choice
    among kinds of steps and among finished topics is a function of released scores; it changes no event. The masses of
    words that they are read with are a function of earlier releases.

    *Lattice.* Contributions are truncated toward zero, which lowers no entry below 0 and raises no norm.
    """

    at_root = ("_prior", "_make", "_read_out", "_settings")

    def __init__(
        self, *, prior: PublicPrior, steps: PriorSteps, make: Callable[..., LdaModel], **settings: Any
    ) -> None:
        self.shape, self.clip = (settings["n_words"], settings["n_topics"]), settings["clip"]
        self.n_topics, self.n_words, self.n_records = prior.n_topics, settings["n_words"], settings["n_records"]
        self._prior, self._steps, self._make, self._settings = prior, steps, make, settings
        self._histogram = WordHistogram(histogram_scales(prior.frequencies), self.clip)
        self._spacing = 1.0
        self._mechanism: tuple[GaussianMechanism, Sampler] | None = None
        self._done, self._choice, self._own_topics = 0, _OPEN, 0
        self._trial, self._tried = False, False
        self._first: Score | None = None
        self._last: Score | None = None
        self._half: ScoreStep | None = None
        self._own: LdaModel | None = None
        self._read_out: HistogramReadOut | None = None

    def contributor(self) -> Self:
        """Make a copy for another process, without the updates' parts."""
        other = super().contributor()
        other._own = None if self._own is None else self._own.contributor()
        return other

    def sensitivity(self, relation: str) -> float:
        """Return the bound of `LdaModel`; see the notes."""
        return self.clip * (1.0 if relation == "add_remove" else 2**0.5)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._mechanism = mechanism, sampler
        self._spacing = checked_spacing(mechanism.spacing, self.clip, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)
        if self._own is not None:
            self._own.prepare(mechanism, sampler)

    # -- contributions

    def contribute(
        self, block: DocumentBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add contributions of the kind of this step; see the notes."""
        if self._half is None and self._own is not None:
            self._own.contribute(block, words, self._part(out), scratch)
            return
        if self._half is None:
            self._histogram.contribute(block, words, out, self._spacing)
        else:
            self._half.contribute(block, words, out, self._spacing)
        if "diagnostics" in scratch:
            diagnose(scratch, clipped=0, norm_sum=0)

    def _part(self, array: np.ndarray) -> np.ndarray:
        """Select the entries of topics of one's own, (V, J)."""
        size = self.n_words * self._own_topics
        return np.asarray(array.reshape(-1)[:size].reshape(self.n_words, self._own_topics))

    # -- updates

    def update(self, release: Release) -> None:
        """Take a release, and choose the kind of the next step."""
        if self._half is not None:
            finished = self._done == self._steps.n_steps - 1
            units = self._mechanism[1].expected_batch_size if finished and self._mechanism else None
            self._take(self._half.read(release, units))
        elif self._own is not None:
            self._own.update(replace(release, step=self._own_step, units=self._part(release.units)))
        else:
            self._histogram.add(release)
            self._read_out = None
        self._done += 1
        self._begin()

    @property
    def _own_step(self) -> int:
        """The number of steps of topics of one's own before this one."""
        done = self._done - 2
        return done if self._trial or not self._tried else done - 1

    def _take(self, score: Score) -> None:
        """Take a score, and choose by it."""
        if self._choice == _OPEN:
            self._first = score
            nats = score.nats[score.best(self._usual)] / score.predicted
            self._own_topics, clear = self._steps.own_topics(max(score.more * DISTINCT, 1.0), float(nats))
            self._trial = self._tried = self._own_topics > 0 and not clear
            self._choice = _TOPICS if self._own_topics else _MASSES
        elif self._trial:
            own = float(score.nats[: len(self._own_alphas)].max() / score.predicted)
            public = float(score.nats[-1] / score.predicted)
            losses = (self.read_out.loss(times) for times in (1, self._steps.n_steps - self._done - 1))
            if not own_are_better(self._own_topics, own, public, *losses):
                self._choice, self._own_topics, self._own = _MASSES, 0, None
            self._trial = False
        else:
            self._last = score

    def _begin(self) -> None:
        """Prepare the next step."""
        self._half = None
        if self._choice == _OPEN and self._histogram.count:
            if self._steps.scored:
                self._half = self._score(self._public_candidates())
            else:
                self._choice = _MASSES
        if self._own is None and self._choice == _TOPICS:
            self._own = self._topics_model()
            if self._mechanism is not None:
                self._own.prepare(*self._mechanism)
        tried = self._trial and self._own_step == TRIED
        finished = self._steps.judged and self._done == self._steps.n_steps - 1
        if tried or finished:
            self._half = self._score(self._candidates(), finished)

    def _score(self, candidates: list[tuple[np.ndarray, np.ndarray]], finished: bool = False) -> ScoreStep:
        """Make a score of candidates, against the masses so far."""
        return ScoreStep(HalfPrediction(candidates, self.read_out.masses, finished), self.clip, self.n_records)

    def _topics_model(self) -> LdaModel:
        """Make a model of topics of one's own.

        Public topics give it word neighbors.
        """
        number = self._own_topics
        more: dict[str, Any] = {"n_topics": number, "alpha": self._own_alphas[0]}
        more["eta"] = self._settings["options"].topic_word_prior or 1.0 / number
        more["start_steps"] = start_steps(self._steps.n_steps - 4, number) if self._settings["start_steps"] else 0
        if self._settings["neighbors"] is None:
            more["neighbors"] = _neighbors(self._prior)
        more["known"] = self.read_out.known
        return self._make(**{**self._settings, **more})

    # -- candidates

    @property
    def _usual(self) -> int:
        """The prior of proportions to take if no score tells."""
        return len(self._steps.alphas) // 2

    @property
    def _own_alphas(self) -> tuple[float, ...]:
        """Priors of proportions for topics of one's own."""
        alphas = self._steps.alphas
        return alphas if len(alphas) == 1 else tuple(alpha / self._own_topics for alpha in OWN_ALPHAS)

    def _public_candidates(self) -> list[tuple[np.ndarray, np.ndarray]]:
        read = self.read_out
        return [(read.topics, proportions_prior(alpha, read.weights)) for alpha in self._steps.alphas]

    def _candidates(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """List topics for a score, each with a prior of proportions."""
        public = self._public_candidates()
        if self._own is None:
            return public
        usual = self._usual if self._first is None else self._first.best(self._usual)
        components = self._own_rows(lambda own: own.result()["components"])
        own, weights = word_probabilities(components), components.sum(axis=1)
        found = [(own, proportions_prior(alpha, weights)) for alpha in self._own_alphas]
        prior, (topics, public_prior) = found[-1][1], public[usual]
        both = prior * (1.0 - BESIDE), public_prior * (BESIDE * prior.sum() / public_prior.sum())
        return [*found, (np.concatenate([own, topics]), np.concatenate(both)), public[usual]]

    @property
    def _taken(self) -> int:
        """The number of the candidate that the scores say is best."""
        if self._own is not None:
            return 0 if self._last is None else self._last.best(0)
        score = self._last or self._first
        return self._usual if score is None else score.best(self._usual)

    @property
    def _shares(self) -> tuple[float, float]:
        """Return the shares of own and public topics with masses.

        The masses are released. The shares are 0 if they are not taken.
        """
        place = 1 if self._own is None else self._taken - len(self._own_alphas)
        return (1.0, 0.0) if place < 0 else (1.0 - BESIDE, BESIDE) if place == 0 else (0.0, 1.0)

    def _of_taken(self, own: Callable[[float], np.ndarray], public: Callable[[float], np.ndarray]) -> np.ndarray:
        """Join rows of the taken topics, each made for its share."""
        return np.concatenate([rows(share) for rows, share in zip((own, public), self._shares, strict=True) if share])

    # -- results

    @property
    def read_out(self) -> HistogramReadOut:
        """The histograms so far, read with public topics.

        Before there is a histogram they are the public topics.
        """
        if self._read_out is None:
            self._read_out = HistogramReadOut(*self._histogram.mean(), self._prior.topics(), self._prior.weights)
        return self._read_out

    @property
    def found_gain(self) -> FoundGain | None:
        """The gain that the last score found, if there is one."""
        score = self._last or (self._first if self._own is None else None)
        return None if score is None else score.found(self._taken, finished=score is self._last)

    def frequency_loss(self) -> float:
        """Estimate the nats a word that noisy word frequencies cost."""
        return self.read_out.loss()

    @property
    def fits_own(self) -> bool:
        """Whether steps are about topics of one's own."""
        return self._own is not None

    @property
    def takes_present(self) -> bool:
        """Whether the topics that steps are about come first in the result."""
        return self._own is None or self._shares[0] > 0.0

    @property
    def present(self) -> np.ndarray:
        """Give the topics of the steps: weights of words, (J, V).

        Before releases they are public ones."""
        if self._own is not None:
            return self._own.result()["components"]
        return np.asarray(self._prior.weights[:, None] * self._prior.topics())

    @property
    def from_records(self) -> np.ndarray:
        """Share of each topic's probability that is not the public topic's, (J,)."""
        return self._of_taken(
            lambda share: np.ones(self._own_topics),
            lambda share: np.abs(self.read_out.topics - self._prior.topics()).sum(axis=1) / 2,
        )

    @property
    def alpha(self) -> np.ndarray:
        """The Dirichlet prior of a document's proportions, (J,)."""
        return self._candidates()[self._taken][1]

    def result(self) -> dict[str, np.ndarray]:
        """Give ``components``, (J, V) Dirichlet parameters.

        They are of the K public topics, of fewer of one's own, or of both.
        """
        return {
            "components": self._of_taken(
                lambda share: share * self._own_rows(lambda own: own.result()["components"]),
                lambda share: share * self._components(),
            )
        }

    def _own_rows(self, entries: Callable[[LdaModel], np.ndarray]) -> np.ndarray:
        """Read entries of topics of one's own."""
        assert self._own is not None
        return entries(self._own)

    def _components(self) -> np.ndarray:
        """Parameters from histograms and public topics."""
        read, total = self.read_out, float(self.n_records) * float(self._settings["doc_length"] or 1)
        if self._own is not None and self._shares[0]:
            total = float(self._own.result()["components"].sum())
        return np.asarray(np.maximum(total * read.weights[:, None] * read.topics, 1e-12))

    def standard_errors(self) -> np.ndarray:
        """Compute standard deviations that the noise leaves in ``components``, (J, V).

        Public topics are taken as given.
        """
        spread = np.sqrt(np.expm1(self.read_out.spread**2))
        return self._of_taken(
            lambda share: share * self._own_rows(lambda own: own.standard_errors()),
            lambda share: share * self._components() * spread,
        )

    def deviations(self) -> np.ndarray:
        """Compute (J, V) releases in standard deviations of their noise, as `LdaModel.deviations`.

        Of a public topic the histograms tell which of its words the records have, not how the topic uses them.
        """
        sums, sd = self._histogram.mean()
        return self._of_taken(
            lambda share: self._own_rows(lambda own: own.deviations()),
            lambda share: np.tile(sums / sd, (self._prior.n_topics, 1)),
        )

    def intervals(self, level: float) -> np.ndarray:
        """(J, V, 2) central intervals of the entries of ``components``; see `standard_errors`."""
        ends, sd = np.array([0.5 - level / 2, 0.5 + level / 2]), self.read_out.spread[:, None]
        factors = np.exp(scipy.special.ndtri(ends) * sd - sd**2 / 2)
        return self._of_taken(
            lambda share: share * self._own_rows(lambda own: own.intervals(level)),
            lambda share: share * self._components()[:, :, None] * factors,
        )

    # -- state

    def state(self) -> dict[str, np.ndarray]:
        """Give histograms, scores, choices and the state of topics of one's own."""
        flags = [self._trial, self._tried]
        numbers = [self._done, self._choice, self._own_topics, *flags]
        state = {"prior_steps": np.array(numbers, np.float64), **self._histogram.state()}
        for name, score in (("first_score", self._first), ("last_score", self._last)):
            if score is not None:
                state[name] = score.state()
        return state if self._own is None else {**state, **self._own.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        numbers = array_of(state, "prior_steps", (5,))
        most = (2**31 - 1, _TOPICS, self.n_topics, 1, 1)
        counts = [int(number) for number in numbers]
        if numbers.min() < 0 or any(a != b or a > c for a, b, c in zip(counts, numbers, most, strict=True)):
            raise ValueError("state: 'prior_steps' is out of its range")
        if (counts[1] == _TOPICS) != (counts[2] > 0):
            raise ValueError("state: 'prior_steps' has no number of topics for its choice")
        self._done, self._choice, self._own_topics = counts[:3]
        self._trial, self._tried = bool(counts[3]), bool(counts[4])
        self._histogram.restore(state)
        self._read_out, self._own, self._first, self._last = None, None, None, None
        if "first_score" in state:
            self._first = Score.restore(array_of(state, "first_score", (len(self._steps.alphas) + 3,)))
        if self._choice == _TOPICS:
            self._own = self._topics_model()
            if self._mechanism is not None:
                self._own.prepare(*self._mechanism)
            self._own.restore(state)
        if "last_score" in state:
            number = len(self._steps.alphas) if self._own is None else len(self._own_alphas) + 2
            self._last = Score.restore(array_of(state, "last_score", (number + 3,)))
        self._begin()


@lru_cache(maxsize=2)
def _neighbors(prior: PublicPrior) -> np.ndarray:
    """Find words that public topics use alike."""
    profiles = np.sqrt(prior.ratios.T * prior.weights)
    return nearest_words(np.asarray(profiles, np.float32))
