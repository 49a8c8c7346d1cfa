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

    L = max(0, 1 - N0 / N) C tanh(g / C) for g > 0, else b g,  with g = k ln(x V^0.3 / x0) and C = c ln K

Of documents of N words so short that half of them tells no topics, no gain is expected.

Where a fit knows which words are used alike (`vips_fast.models.lda.neighbors`), this is worth as much as `NEIGHBORS`
times the signal: in each of five corpora the gain went with x as it did without, from an x0 that was 1.05 to 1.45 times
smaller.

A word of a topic is readable where its released average stands above four standard deviations of its noise; a topic has
about min(r x / K, 1) V such words. The constants were fitted on 121 runs: posts by person over 500, 2,000 and 5,000
public words, docstrings, newswires, blog entries, encyclopedia articles, their sections, and sections by article
(docs/forecast.md). What no public number says is how much the words of a corpus depend on one another: in single
corpora the gain lies 11 points below to 10 above. No run with less than `HOPELESS` had a gain. Only runs with less than
`LEAST` were worse than word frequencies, except documents whose words were drawn by chance from longer ones.
"""

import math
from dataclasses import dataclass

#: x0, k, c, b and N0 of the gain, and the power of V; r of the readable words; what gains rarely missed by more.
ORIGIN, SLOPE, CEILING, LOSS, SHORT, WORDS, READABLE = 32.3, 0.255, 0.225, 0.59, 5.0, 0.3, 0.059
MISS = 0.1
#: What it is worth to know which words are used alike: so many times the signal.
NEIGHBORS = 1.25
#: Where less was expected, no run had a gain, whatever the corpus; where more was, none was worse than frequencies.
HOPELESS, LEAST = -0.08, 0.08


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
    doc_length: float = 40.0,
    word_neighbors: bool = False,
) -> Forecast:
    """The forecast of a run.

    ``n_records``, ``n_features`` and ``n_components`` are n, V and K, ``distinct_words`` m, ``clip`` is a, ``noise``
    the standard deviation of an entry of the averaged sum in units of the clip, s. ``doc_length`` is N, of these words,
    and ``word_neighbors`` says whether the fit knows which words are used alike.
    """
    kept = min(math.sqrt(min(distinct_words, n_features)), 1 / clip)
    signal = n_records * kept / (n_features * noise) if noise > 0 else math.inf
    readable = min(READABLE * signal / n_components, 1.0) * n_features
    nats = _nats(effective(signal, word_neighbors), n_features, n_components, doc_length)
    return Forecast(signal, 1 - math.exp(-nats), readable)


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
    elif expected_gain < LEAST:
        gain = "little or no gain over word frequencies is expected"
    else:
        size = f"{expected_gain:.0%} (give or take {100 * MISS:.0f} points)"
        gain = f"held-out words about {size} better predicted than by word frequencies"
    words = "no word" if readable_words < 0.5 else f"about {float(f'{readable_words:.2g}'):.0f} words"
    return f"forecast: {gain}; {words} of a topic readable"


def advise(
    signal: float, expected_gain: float, n_features: int, n_components: int, doc_length: float, word_neighbors: bool
) -> str:
    """What would bring the gain of a run to 10 %, or to 5 points more, in one line."""
    gain = 0.1 if expected_gain < 0.08 else expected_gain + 0.05
    times = needed(effective(signal, word_neighbors), gain, n_features, n_components, doc_length)
    public = f"topics of public documents{'' if word_neighbors else ', or vectors of words,'} as a prior cost nothing"
    if not math.isfinite(times):
        return f"a gain of {gain:.0%} takes more topics than {n_components} or longer documents; {public}"
    # Noise goes with the inverse of epsilon, near enough.
    return (
        f"a gain of {gain:.0%} takes about {times:.2g} times the records or the epsilon, or fewer words; fewer topics "
        f"have more readable words each; {public}"
    )


def needed(signal: float, gain: float, n_features: int, n_components: int, doc_length: float) -> float:
    """How many times ``signal`` is needed for a gain; inf where no signal is enough."""
    nats, top = -math.log1p(-gain), CEILING * math.log(n_components)
    part = _told(doc_length)
    if nats >= part * top:
        return math.inf
    return float(ORIGIN * n_features**-WORDS * math.exp(top * math.atanh(nats / part / top) / SLOPE) / signal)


def _told(doc_length: float) -> float:
    """What a document's words tell of its topics."""
    return max(0.0, 1.0 - SHORT / doc_length)


def _nats(signal: float, n_features: int, n_components: int, doc_length: float) -> float:
    """L, nats a word."""
    if signal == 0:
        return -math.inf
    free, top = SLOPE * math.log(signal * n_features**WORDS / ORIGIN), CEILING * math.log(n_components)
    if free < 0 or top == 0:
        return LOSS * min(free, 0.0)
    return _told(doc_length) * top * math.tanh(free / top)
