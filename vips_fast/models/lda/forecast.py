"""What a private topic model can be expected to give, from public numbers alone.

A document is clipped to an L2 norm of a N. One with m distinct words used alike has a norm of N / sqrt(m) before, so
what is left of its N words is min(1, a sqrt(m)) N (1.0 to 1.2 times that on five corpora, 0.8 on articles of 290
distinct words). The average of the released sums has a noise of sd s a N in each entry, s the noise multiplier over the
sampling rate times the noise of the running average. What n documents add up to, for each of V words, over the noise
of one entry, is therefore the *signal*

    x = n min(sqrt(m), 1/a) / (V s)

from which N has gone: long documents help by their distinct words only. K does not stand in x: a topic has a K-th of a
word's mass, but a word has K topics to be told from noise by, and at the same x runs of 5 and of 50 topics begin to be
better than word frequencies at the same place. More topics raise where the gain ends.

The gain is 1 - exp(-L), L the nats that a held-out word is better predicted, from the other half of its document, than
by the training documents' own word frequencies:

    L = C tanh(g / C) for g > 0, else g,  with g = k ln(x / x0) and C = c ln K

Where a fit knows which words are used alike (`vips_fast.models.lda.neighbors`), this is worth as much as `NEIGHBORS`
times the signal: in each of five corpora the gain went with x as it did without, from an x0 that was 1.05 to 1.45 times
smaller.

A word of a topic is readable where its released average stands above four standard deviations of its noise; a topic has
about min(b x / K, 1) V such words. x0, k, c and b were fitted on three corpora of different kinds, and held against
three others (bench/forecast.py, docs/forecast.md). What no public number says is how much the words of a corpus depend
on one another: in single corpora x0 lies between 1.3 and 4.1. `HOPELESS` lies below all of them: what it refuses had no
gain in the easiest corpus either.
"""

import math
from dataclasses import dataclass

#: x0, k and c of the gain; b of the readable words; what gains missed the forecast by, rarely more.
ORIGIN, SLOPE, CEILING, READABLE = 3.47, 0.24, 0.15, 0.059
MISS = 0.15
#: What it is worth to know which words are used alike: so many times the signal.
NEIGHBORS = 1.25
#: Where so little or less was expected, no run had a gain, whatever the corpus.
HOPELESS = -0.3


@dataclass(frozen=True)
class Forecast:
    """What to expect of a run.

    Attributes
    ----------
    signal : float
        What all documents add up to for a word, over the noise of one entry: x of this module.
    expected_gain : float
        1 minus the perplexity of held-out words over that of the training documents' word frequencies, in
        (-inf, 1); below 0 the topics are worse than word frequencies.
    readable_words : float
        Words of a topic whose released average stands above four standard deviations of its noise.
    """

    signal: float
    expected_gain: float
    readable_words: float


def forecast(
    n_records: int,
    n_features: int,
    n_components: int,
    *,
    distinct_words: float,
    clip: float,
    noise: float,
    word_neighbors: bool = False,
) -> Forecast:
    """The forecast of a run.

    ``n_records``, ``n_features`` and ``n_components`` are n, V and K, ``distinct_words`` m, ``clip`` is a, ``noise``
    the standard deviation of an entry of the averaged sum in units of the clip, s, and ``word_neighbors`` says whether
    the fit knows which words are used alike.
    """
    kept = min(math.sqrt(min(distinct_words, n_features)), 1 / clip)
    signal = n_records * kept / (n_features * noise) if noise > 0 else math.inf
    readable = min(READABLE * signal / n_components, 1.0) * n_features
    return Forecast(signal, 1 - math.exp(-_nats(effective(signal, word_neighbors), n_components)), readable)


def effective(signal: float, word_neighbors: bool) -> float:
    """What a signal is worth."""
    return signal * NEIGHBORS if word_neighbors else signal


def is_hopeless(expected_gain: float) -> bool:
    """Whether no run of which so little was expected had a gain."""
    return expected_gain < HOPELESS


def describe(expected_gain: float, readable_words: float) -> str:
    """A forecast in one line."""
    if is_hopeless(expected_gain):
        gain = "the topics will be noise, worse than word frequencies"
    elif expected_gain < 0.02:
        gain = "little or no gain over word frequencies is expected"
    else:
        size = f"{expected_gain:.0%} (give or take {100 * MISS:.0f} points)"
        gain = f"held-out words about {size} better predicted than by word frequencies"
    words = "no word" if readable_words < 0.5 else f"about {float(f'{readable_words:.2g}'):.0f} words"
    return f"forecast: {gain}; {words} of a topic readable"


def advise(signal: float, expected_gain: float, n_components: int, word_neighbors: bool) -> str:
    """What would bring the gain of a run to 10 %, or to 5 points more, in one line."""
    gain = 0.1 if expected_gain < 0.08 else expected_gain + 0.05
    times = needed(effective(signal, word_neighbors), gain, n_components)
    public = f"topics of public documents{'' if word_neighbors else ', or vectors of words,'} as a prior cost nothing"
    if not math.isfinite(times):
        return f"a gain of {gain:.0%} takes more topics than {n_components}; {public}"
    # Noise goes with the inverse of epsilon, near enough.
    return (
        f"a gain of {gain:.0%} takes about {times:.2g} times the records or the epsilon, or 1/{times:.2g} of the "
        f"words; fewer topics have more readable words each; {public}"
    )


def needed(signal: float, gain: float, n_components: int) -> float:
    """How many times ``signal`` is needed for a gain; inf where no signal is enough."""
    nats, top = -math.log1p(-gain), CEILING * math.log(n_components)
    if nats >= top:
        return math.inf
    return ORIGIN * math.exp(top * math.atanh(nats / top) / SLOPE) / signal


def _nats(signal: float, n_components: int) -> float:
    """L, nats a word."""
    if signal == 0:
        return -math.inf
    free, top = SLOPE * math.log(signal / ORIGIN), CEILING * math.log(n_components)
    return min(free, 0.0) if free < 0 or top == 0 else top * math.tanh(free / top)
