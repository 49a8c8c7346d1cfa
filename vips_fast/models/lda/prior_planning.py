"""Decisions about a run with public knowledge, from public numbers.

- *Proportions.* The Dirichlet prior of a document's proportions is chosen by the score among `ALPHAS`.
- *Topics of one's own.* Steps that release topics pay from a signal of `REFINED` on
  (`vips_fast.models.lda.forecast`); below it, all steps but the score release histograms.
- *Pseudo-counts.* Public topics count as `PSEUDO` of the noise of the averaged topics, in every entry: their weight
  falls with the noise, so that it does not hurt where releases say more.
"""

from .forecast import forecast
from .planning import Minibatches, TopicCase, averaged_noise
from .prior_model import PriorSteps

#: Priors of a document's proportions.
ALPHAS = (0.05, 0.15, 1.0)
#: The signal from which topics are released.
REFINED = 20.0
#: Pseudo-counts over the noise.
PSEUDO = 0.08
#: Topics without public knowledge, for each unit of the signal; the fewest and the most.
_TOPICS, _FEWEST, _MOST = 2.0, 5, 50


def prior_steps(case: TopicCase, runs: Minibatches, noise_multiplier: float, alphas: tuple[float, ...]) -> PriorSteps:
    """Decide about the steps of a run with this noise."""
    decay = case.decay(runs, noise_multiplier)
    expected = case.forecast(runs, noise_multiplier, decay)
    number = min(round(min(max(_TOPICS * expected.signal, _FEWEST), _MOST)), case.n_components)
    noise = averaged_noise(max(runs.n_steps - 2, 1), decay, number)
    plain = forecast(
        case.n_records,
        case.n_features,
        number,
        distinct_words=case.distinct_words,
        clip=case.clip,
        noise=noise_multiplier / runs.share * noise,
        word_neighbors=case.word_neighbors,
    )
    pseudo = PSEUDO * case.n_features * case.n_components * averaged_noise(max(runs.n_steps - 2, 1), decay)
    return PriorSteps(
        runs.n_steps,
        alphas,
        refined=expected.signal >= REFINED,
        plain_topics=number if plain.expected_gain > 0 else 0,
        pseudo_noise=pseudo,
    )
