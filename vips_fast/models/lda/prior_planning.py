"""Decisions about a run with public knowledge, from public and released numbers.

- *Proportions.* The Dirichlet prior of a document's proportions is chosen by the score among `ALPHAS`.
- *Topics of one's own.* They are fitted if they are expected to gain more than public topics are found to gain. A
  forecast may miss by 15 points, a score does not: so they have to be ahead by `_AHEAD`. In six corpora, topics that
  started from public ones and were moved by releases were never better than both.
- *Masses.* What public topics gain is found over released masses. These are worse than the records' word frequencies,
  so some nats are taken off (`LOSS`).
- *Distinct words.* The forecast of topics of one's own depends on the distinct words of a document, which the score
  releases too.
"""

from dataclasses import dataclass

from .forecast import Forecast, forecast
from .planning import Minibatches, TopicCase, averaged_noise

#: Priors of a document's proportions, of all K topics of a public prior and of topics of one's own, over 1/J.
ALPHAS, OWN_ALPHAS = (0.05, 0.15, 1.0), (1.0, 5.0)
#: Topics of one's own for each unit of the signal; the fewest and the most.
_TOPICS, _FEWEST, _MOST = 2.0, 5, 50
#: By how much topics of one's own have to be expected ahead.
_AHEAD = 0.05
#: How many times the nats that masses are estimated to lose they may be worse than exact ones: 1.7 to 4 in two corpora.
LOSS = 3.0
#: Fewest steps of a run with one score, and with a second one at its end.
_SCORED, _JUDGED = 3, 8


@dataclass(frozen=True)
class PriorSteps:
    """Decisions about a run with public knowledge.

    ``n_steps`` of the run; ``alphas`` that the scores compare, or one that was given; the numbers that a forecast is
    made from, None without noise.
    """

    n_steps: int
    alphas: tuple[float, ...]
    case: TopicCase | None = None
    runs: Minibatches | None = None
    noise_multiplier: float = 0.0

    @property
    def scored(self) -> bool:
        """Whether the second step is a score."""
        return self.n_steps >= _SCORED

    @property
    def judged(self) -> bool:
        """Whether the last step is a score of the finished topics."""
        return self.n_steps >= _JUDGED

    def own_topics(self, distinct_words: float, gain: float) -> int:
        """Choose the number of topics to fit in place of public ones, which gain ``gain``; 0 for none."""
        if self.case is None or self.runs is None:
            return 0
        number = round(min(max(_TOPICS * self._forecast(distinct_words, 1).signal, _FEWEST), _MOST))
        number = min(number, self.case.n_components)
        expected = self._forecast(distinct_words, number).expected_gain
        return number if expected > max(gain, 0.0) + _AHEAD else 0

    def _forecast(self, distinct_words: float, n_topics: int) -> Forecast:
        case, runs = self.case, self.runs
        assert case is not None and runs is not None
        decay = case.decay(runs, self.noise_multiplier)
        noise = averaged_noise(max(runs.n_steps - 3, 1), decay, n_topics)
        return forecast(
            case.n_records,
            case.n_features,
            n_topics,
            distinct_words=distinct_words,
            clip=case.clip,
            noise=self.noise_multiplier / runs.share * noise,
            word_neighbors=True,
        )
