"""Decisions about a run with public knowledge, from public and released numbers.

- *Proportions.* The Dirichlet prior of a document's proportions is chosen by the score among `ALPHAS`.
- *Topics of one's own.* They are fitted if they are worth more than public topics. What public topics are worth is
  found by the first score. What topics of one's own will be worth is forecast, and may be missed by 15 points. So they
  are left out, or fitted at once, only if the forecast is clear. Else they are tried for `TRIED` steps and compared by
  a score. From there to the end own topics gained .06 (7 topics) to .15 nats a word in nine runs on three corpora. The
  rule takes .05 for each e-fold of their number (`_OWN_GROWS`).
- *Masses.* With more histograms public topics gain too, by the nats that masses then lose less. These are 2.5 times
  their posterior's number (`_LOSS`; .7 to 4 in these runs).
- *Distinct words.* The forecast of topics of one's own depends on the distinct words of a document, which the score
  releases too. Their number is the plan's.
- *Number.* Topics of one's own need records, not only signal. With word neighbors, 69 topics of 97,750 sections at
  epsilon = 2 were 1.2 % better than 50. On 6,652 persons' posts at epsilon = 10 and on 17,000 newswires at 8, 61 and 68
  were 1.8 % worse, .8 % worse and 3 % better in three runs.

In these corpora, topics that started from public ones and were moved by releases were not better than the better of
both.
"""

import math
from dataclasses import dataclass

from ...engine.measured import MEASURED
from ...engine.request import RunForecast
from .forecast import Forecast, forecast
from .masses import clear_words
from .planning import Minibatches, TopicCase, averaged_noise
from .prior import PublicPrior

#: Priors of a document's proportions, of all K topics of a public prior and of topics of one's own, over 1/J.
ALPHAS, OWN_ALPHAS = (0.05, 0.15, 1.0), (1.0, 5.0)
#: Topics of one's own for each unit of the signal; the fewest and the most, or one for each thousand records if more.
_TOPICS, _FEWEST, _MOST, _RECORDS = 2.0, 5, 50, 1000
#: Nats that a forecast may miss. Nats that own topics gain after a trial, for each e-fold of their number. The weight
#: of a posterior's loss of masses.
_MISS, _OWN_GROWS, _LOSS = 0.25, 0.05, 2.5
#: Different words of a unit whose number nobody stated; least shares of clear words for records to add something, and
#: much.
_DISTINCT, _LITTLE, _MUCH = 40.0, 0.02, 0.1
#: Share of public topics beside topics of one's own, in the prior of a document's proportions.
BESIDE = 0.1
#: Steps of a trial.
TRIED = 5
#: Fewest steps of a run with one score, and with a trial.
_SCORED, _LONG = 3, 16


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
        return self.n_steps >= MEASURED

    def own_topics(self, distinct_words: float, public_nats: float) -> tuple[int, bool]:
        """Choose the number of own topics; tell if it is clear.

        Public topics gain ``public_nats`` a word. The number is 0 if they are clearly better, or in a run that is too
        short for a trial.
        """
        if self.case is None or self.runs is None:
            return 0, True
        usual = self._forecast(self.case.distinct_words, 1).signal
        most = max(_MOST, self.case.n_records // _RECORDS)
        number = round(min(max(_TOPICS * usual, _FEWEST), most))
        number = min(number, self.case.n_components)
        ahead = -math.log1p(-self._forecast(distinct_words, number).expected_gain) - public_nats
        clear = ahead > _MISS
        return (number if clear or (ahead > -_MISS and self.n_steps >= _LONG) else 0), clear

    def forecast(self, prior: PublicPrior) -> RunForecast | None:
        """Forecast the records' gain over public topics; None without noise."""
        if self.case is None or self.runs is None:
            return None
        n_steps = self.n_steps - self.scored - self.judged
        noise = self.noise_multiplier / self.runs.share / math.sqrt(n_steps)
        clear = clear_words(prior.frequencies, self.case.n_records, _DISTINCT, noise)
        share = clear / len(prior.words)
        adds = "add little" if share < _LITTLE else "add something" if share < _MUCH else "add much"
        words = f"of {len(prior.words):,} words about {float(f'{clear:.2g}'):,.0f} stand"
        text = f"forecast: topics of public knowledge, to which the records {adds}; {words}"
        return RunForecast(share, f"{text} two standard deviations above the noise")

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


def own_are_better(n_topics: int, own_nats: float, public_nats: float, loss: float, later_loss: float) -> bool:
    """Tell from a trial whether topics of one's own will be better.

    Nats a word that the topics gain, and nats that the masses of public ones lose, now and at the end.
    """
    return own_nats + _OWN_GROWS * math.log(n_topics) > public_nats + _LOSS * (loss - later_loss)
