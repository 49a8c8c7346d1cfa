"""Expect the worth of a private topic model, from public numbers only.

A document is clipped to an L2 norm of a N. One with m equally frequent words has a norm of N / sqrt(m) before, so the
clip leaves min(1, a sqrt(m)) N of its N words. (It is 1.0 to 1.2 times that on five corpora, 0.8 on articles of 290
distinct words.) The average of the released sums has noise of sd s a N in each entry. Here s is the noise multiplier
over the sampling rate times the noise of the running average. The *signal* of n documents over V words is their sum for
one word over the noise of one entry:

    x = n min(sqrt(m), 1/a) / (V s)

It has no N: long documents help by their distinct words only. It has no K: a topic has a K-th of a word's mass, but a
word has K topics that set it apart from noise.

The gain is 1 - exp(-L). L is a held-out word's gain in nats. It is predicted from the other half of its document, and
the gain is over the training documents' own word frequencies. It is the gain of the topics over the run's word
frequencies, less the nats that the noise in these frequencies costs:

    L = min(k ln(1 + x V^w / x1), C ln K) - c x^-b

No public number says how much the words of a corpus depend on one another. So the gain has an interval: L at `SPREAD`
times less and more signal, and `MISS` nats further out. The page docs/forecast_measured.md shows how often it holds on
corpora that the constants were not fitted on (`python -m bench.forecast coverage`).

A word of a topic is readable if its released average is above four standard deviations of its noise. A topic has about
min(r x / K, 1) V such words.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from ...engine.gain import FoundGain
from ..forecast import factor


class Constants(NamedTuple):
    """The constants k, x1, w, c and b of the gain."""

    slope: float
    origin: float
    words: float
    cost: float
    power: float


CONSTANTS = Constants(0.156, 849.0, 0.733, 0.175, 0.868)
#: How many times less or more a signal may be worth, and the nats that a forecast misses beside that.
SPREAD, MISS = 1.9, 0.07
#: How far the loss of a run's word frequencies may be from the estimate by its releases: a share of it, and nats.
LOSS_SPREAD, LOSS_MISS = 0.4, 0.04
#: The low end, the middle and the high end of an interval: times the signal, and nats more.
ENDS = ((1 / SPREAD, -MISS), (1.0, 0.0), (SPREAD, MISS))
#: C. Only runs of documents in two languages exceeded it.
CEILING = 0.2
#: r of the readable words.
READABLE = 0.059
#: Nats that words of a purchase gain beside that: a corpus's own words tell more than a language's. (The means of 30
#: runs were .10 on posts, .04 on docstrings and .04 on sections.)
PURCHASED = 0.05
#: A run whose gain is expected to lie below this is refused.
HOPELESS = 0.0


@dataclass(frozen=True)
class Forecast:
    """The expected worth of a run.

    Attributes
    ----------
    signal : float
        x of this module: the sum of all documents for a word, over the noise of one entry.
    expected_gain, gain_low, gain_high : float
        1 minus the perplexity of held-out words over their perplexity under the training documents' word frequencies,
        in (-inf, 1), and the ends of its interval. Below 0 the topics are worse than word frequencies.
    readable_words : float
        Words of a topic whose released average stands above four standard deviations of its noise.
    """

    signal: float
    expected_gain: float
    gain_low: float
    gain_high: float
    readable_words: float


def forecast(
    n_records: int,
    n_features: int,
    n_components: int,
    *,
    distinct_words: float,
    clip: float,
    noise: float,
    purchased: bool = False,
) -> Forecast:
    """Forecast a run.

    ``n_records``, ``n_features`` and ``n_components`` are n, V and K, ``distinct_words`` is m, and ``clip`` is a.
    ``noise`` is the standard deviation of an entry of the averaged sum in units of the clip, s. ``purchased`` says
    whether the words are yet to be purchased.
    """
    kept = min(math.sqrt(min(distinct_words, n_features)), 1 / clip)
    signal = n_records * kept / (n_features * noise) if noise > 0 else math.inf
    readable = min(READABLE * signal / n_components, 1.0) * n_features
    shape, extra = (n_features, n_components), PURCHASED if purchased else 0.0
    low, middle, high = (_gain(nats(signal * times, *shape) + more + extra) for times, more in ENDS)
    return Forecast(signal, middle, low, high, readable)


def nats(signal: float, n_features: int, n_components: int, constants: Constants = CONSTANTS) -> float:
    """Expect L, the nats that a run gains for each word."""
    if signal == 0:
        return -math.inf
    topics = constants.slope * math.log1p(signal * n_features**constants.words / constants.origin)
    return min(topics, CEILING * math.log(n_components)) - float(constants.cost * signal**-constants.power)


def over_frequencies(found: FoundGain, loss: float) -> FoundGain:
    """Convert a gain over a run's own word frequencies to the records'.

    ``loss`` is the nats a word that exact frequencies would save, by the releases.
    """

    def less(gain: float, nats: float) -> float:
        return max(1 - (1 - gain) * math.exp(min(nats, 9.0)), -1.0)

    spread = LOSS_SPREAD * loss + LOSS_MISS
    return FoundGain(less(found.gain, loss), less(found.low, loss + spread), less(found.high, loss - spread))


def _gain(of: float) -> float:
    return 1 - math.exp(min(-of, 700.0))


def is_hopeless(gain_high: float) -> bool:
    """Tell from the interval's upper end if no gain is expected."""
    return gain_high < HOPELESS


def describe(expected_gain: float, gain_low: float, gain_high: float, readable_words: float) -> str:
    """Describe a forecast in one line."""
    if is_hopeless(gain_high):
        gain = "the topics will be noise, worse than word frequencies"
    elif gain_low > 0:
        size = f"{expected_gain:.0%} ({gain_low:.0%} to {gain_high:.0%})"
        gain = f"held-out words about {size} better predicted than by word frequencies"
    else:
        middle = f" (about {expected_gain:.0%})" if expected_gain >= 0.005 else ""
        ends = f"{max(gain_low, -1):.0%} and {gain_high:.0%}"
        gain = f"uncertain, a gain over word frequencies between {ends}{middle}"
    words = "no word" if readable_words < 0.5 else f"about {float(f'{readable_words:.2g}'):.0f} words"
    return f"forecast: {gain}; {words} of a topic readable"


def advise(signal: float, expected_gain: float, n_features: int, n_components: int) -> str:
    """Advise in one line how to reach a larger gain.

    The larger gain is 10 %, or 5 points above the expected one.
    """
    gain = 0.1 if expected_gain < 0.08 else expected_gain + 0.05
    times = needed(signal, gain, n_features, n_components)
    public = "topics of public documents as a prior cost nothing"
    if not math.isfinite(times):
        return f"a gain of {gain:.0%} takes more topics than {n_components}; {public}"
    # Noise goes with the inverse of epsilon, near enough.
    return (
        f"a gain of {gain:.0%} takes about {factor(times)} times the records or the epsilon, or fewer words; "
        f"fewer topics have more readable words each; {public}"
    )


def needed(signal: float, gain: float, n_features: int, n_components: int) -> float:
    """Find how many times ``signal`` a gain needs; or inf.

    It is inf if no signal is enough.
    """
    wanted, low, high = -math.log1p(-gain), -60.0, 60.0
    if nats(signal * math.exp(high), n_features, n_components) < wanted:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if nats(signal * math.exp(middle), n_features, n_components) >= wanted else (middle, high)
        )
    return math.exp(high)
