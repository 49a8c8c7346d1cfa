"""Scale entries by public numbers, so that noise follows words and topics.

What is clipped, summed and noised is a contribution whose entry of word v and topic k was divided by a scale d_v e_vk >
0. The release is multiplied by it again. An entry's noise is then in proportion to its scale, and so is its part of a
document's clip. The scales come from only earlier releases, so they are public when a step begins.

With p_v the words' shares, d_v is p_v^b times the factor that makes sum_v p_v / d_v^2 = 1. A document of N words drawn
from p, each met once, then has the norm that it has without scales. So a clip keeps its meaning. b = 1/4 was best on
real sections and simulated articles. A b of 1/2, which makes the sum of the relative variances least, loses, because
the read-out (`vips_fast.models.lda.shrinkage`) pools the rare words anyway.

Among the topics of a word e_vk is (s_vk + f)^(1/2) times the factor that makes sum_k q_vk / e_vk^2 = 1. Here s_vk is
topic k's share of the word in the E-step's table, which makes the contributions. And q_vk is the share of the word's
tokens that the topic has. Most topics hardly use a word, and the read-out cannot tell noise there from a use. Here
the root, which makes the sum of the relative variances least, is best or level everywhere.

The shares are known no better than the releases so far. Of an average word, noise brings n = V mean(sd) / sum_v mass_v
to a share. The floor f = 1/K + 2 n keeps topics from having small scales because of noise. That would clip the
documents that use the word in them. Without noise it is 1/K; if noise is as large as a topic's part of a word, 3/K. On
short posts in 50 topics only 1/K costs 6 % of perplexity; on sections and articles they are level.
"""

from collections.abc import Mapping

import numpy as np

from ...engine.model import Release, array_of
from ...kernels import native
from ...kernels.threads import map_chunks, worth

#: Words averaged at a time by a thread, while there are no scales.
_CHUNK = 512
#: Nanoseconds of an entry, on one thread, in a pass over statistics or the table.
PASS_COST = 2.0
#: What the noise of a share counts in the floor of the shares.
_NOISE_IN_FLOOR = 2.0
#: Largest scale and noise of a release, as the kernel has them.
_LARGEST = 1e100


def word_scales(mass: np.ndarray, exponent: float) -> np.ndarray:
    """Compute word scales d, (V,) float64, by the module's rule.

    Words have masses > 0, and weights stay within the kernel's range.
    """
    share = np.maximum(mass / mass.sum(), 1e-24)
    scale = share**exponent
    scale *= np.sqrt(np.sum(share / scale**2))
    return np.asarray(np.clip(scale, 1.0 / native.LDA_MAX_WEIGHT, 1.0 / native.LDA_MIN_WEIGHT))


class EntryScales:
    """The scales d_v e_vk of a step.

    They come from the words' scales ``word``, (V,), and the E-step's ``table`` of it, whose rows begin with K topics.

    ``topic_weight``, (K,), are the topics' shares of all tokens, and ``share_noise`` is n of the module. The kernel
    takes ``weight``, (V,), and ``floor``: it multiplies an entry by weight_v / (s_vk + floor)^(1/2).
    """

    def __init__(
        self, word: np.ndarray, table: np.ndarray, topic_weight: np.ndarray, share_noise: float, n_threads: int = 1
    ):
        n_topics = len(topic_weight)
        self._table, self.floor = table, min(1.0 / n_topics + _NOISE_IN_FLOOR * share_noise, 1.0)
        self._word = np.empty(len(table))

        def fill(first: int, last: int, worker: int) -> None:
            native.table_spread(self.floor, topic_weight, table[first:last], self._word[first:last])

        n_threads = worth(n_threads, PASS_COST * table.size)
        map_chunks(len(table), -(-len(table) // n_threads), n_threads, fill)
        self._word *= word
        np.clip(self._word, 1.0 / native.LDA_MAX_WEIGHT, 1.0 / native.LDA_MIN_WEIGHT, out=self._word)
        self.weight = 1.0 / self._word

    def of_entries(self, n_words: int, n_topics: int) -> np.ndarray:
        """Return the scales of the first entries, (n_words, n_topics)."""
        return np.asarray(self._word[:n_words, None] * np.sqrt(self._table[:n_words, :n_topics] + self.floor))

    def blend(self, release: Release, rate: float, first: int, values: np.ndarray, noise: np.ndarray) -> None:
        """Average the words from ``first`` on of a release.

        ``values`` has them and ``noise`` their law; both are (n, K).
        """
        part = slice(first, first + len(values))
        units = np.ascontiguousarray(release.units[part])
        numbers = (rate, release.scale, release.noise_sd, self.floor)
        native.blend_release(*numbers, units, self._word[part], self._table[part], values, noise)


class ScaledAverage:
    """A running average whose entries have different noise.

    It is like `vips_fast.engine.averaging.RunningAverage`, for (V, K) releases. ``values`` are in the units of the
    statistics. ``noise_sd``, (V, K), or (1, 1) while all entries are alike, is the standard deviation of the noise in
    them. ``initial_weight`` is the weight of the rest of the start.
    """

    def __init__(self, start: np.ndarray):
        self.values = np.array(start, dtype=np.float64, order="C")
        self.noise_sd: np.ndarray = np.zeros((1, 1))
        self.initial_weight = 1.0
        #: Whether nothing will be added any more, so that `state` gives the arrays themselves.
        self.ended = False

    def add(self, release: Release, rate: float, scales: EntryScales | None, n_threads: int = 1) -> None:
        """Average a scaled release, and its noise's law alongside.

        values ← (1 − rate) values + rate scales · release; None stands for scales of 1. Raises ValueError if the
        release's scale or noise is not in [0, 1e100].
        """
        if not (0.0 <= release.scale <= _LARGEST and 0.0 <= release.noise_sd <= _LARGEST):
            raise ValueError(f"release: scale {release.scale} and noise {release.noise_sd}; expected [0, {_LARGEST}]")
        values, units, scale = self.values, release.units, release.scale * rate

        def even(first: int, last: int, worker: int) -> None:
            part = values[first:last]
            part *= 1.0 - rate
            part += units[first:last] * scale

        def blend(first: int, last: int, worker: int) -> None:
            assert scales is not None
            scales.blend(release, rate, first, values[first:last], self.noise_sd[first:last])

        n_threads = worth(n_threads, PASS_COST * values.size)
        if scales is None:
            map_chunks(len(values), _CHUNK, n_threads, even)
            self.noise_sd = self._with_even_noise(release, rate)
        else:
            if self.noise_sd.shape != values.shape:
                self.noise_sd = np.full(values.shape, self.noise_sd)
            map_chunks(len(values), -(-len(values) // n_threads), n_threads, blend)
        self.initial_weight *= 1.0 - rate

    def _with_even_noise(self, release: Release, rate: float) -> np.ndarray:
        return np.asarray(np.hypot((1.0 - rate) * self.noise_sd, rate * release.noise_sd))

    def add_values(self, values: np.ndarray, release: Release, rate: float) -> None:
        """Add as `add` without scales, for values made from the release."""
        self.values *= 1.0 - rate
        self.values += rate * values
        self.noise_sd = self._with_even_noise(release, rate)
        self.initial_weight *= 1.0 - rate

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for `restore`."""
        weight = np.array([self.initial_weight])
        values, noise_sd = (array if self.ended else array.copy() for array in (self.values, self.noise_sd))
        return {"average": values, "average_noise": noise_sd, "average_weight": weight}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`; ValueError for another shape."""
        values = array_of(state, "average", self.values.shape)
        alike = np.shape(state.get("average_noise", 0.0)) == (1, 1)
        noise_sd = array_of(state, "average_noise", (1, 1) if alike else self.values.shape)
        weight = float(array_of(state, "average_weight", (1,))[0])
        possible = 0 <= noise_sd.min() <= noise_sd.max() <= _LARGEST and (noise_sd.min() > 0 or noise_sd.max() == 0)
        if not possible or not 0 <= weight <= 1:
            raise ValueError("state: 'average_noise' or 'average_weight' is out of its range")
        self.values, self.noise_sd, self.initial_weight = values, noise_sd, weight
