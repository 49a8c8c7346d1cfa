"""Public scales of words: releases whose noise follows the words' frequencies.

What is clipped, summed and noised is a contribution whose row of word v was divided by a scale d_v > 0; the release is
multiplied by d_v again. A word's noise is then in proportion to d_v, and so is what it takes of a document's clip. The
scales come from earlier releases alone, so they are public when a step begins.

With p_v the words' shares, d_v is p_v^b times the factor with which sum_v p_v / d_v^2 = 1: a document of N words drawn
from p, each met once, then has the norm that it has without scales, so that a clip goes on meaning the same. b = 1/4
was best on real sections and simulated articles; 1/2, which makes the sum of the relative variances least, loses,
because the read-out (`vips_fast.models.lda.shrinkage`) pools the rare words anyway.
"""

from collections.abc import Mapping

import numpy as np

from ...engine.model import Release, array_of
from ...kernels import native
from ...kernels.threads import map_chunks

#: Words blended at a time by a thread.
_CHUNK = 256


def word_scales(mass: np.ndarray, exponent: float) -> np.ndarray:
    """d, (V,) float64, of words with masses > 0: the module's rule, within the weights that the kernel takes."""
    share = np.maximum(mass / mass.sum(), 1e-24)
    scale = share**exponent
    scale *= np.sqrt(np.sum(share / scale**2))
    return np.clip(scale, 1.0 / native.LDA_MAX_WEIGHT, 1.0 / native.LDA_MIN_WEIGHT)


class ScaledAverage:
    """What `vips_fast.engine.averaging.RunningAverage` is, of (V, K) releases whose noise differs from word to word.

    ``values`` are in the units of the statistics; ``noise_sd``, (V,), is the standard deviation of the noise in the
    entries of each word's row of them, and ``initial_weight`` the weight of what is left of the start.
    """

    def __init__(self, start: np.ndarray):
        self.values = np.array(start, dtype=np.float64, order="C")
        self.noise_sd = np.zeros(len(start))
        self.initial_weight = 1.0

    def add(self, release: Release, rate: float, scale: np.ndarray, n_threads: int = 1) -> None:
        """values ← (1 − rate) values + rate scale · release, with the law of the noise alongside."""
        values, units = self.values, release.units

        def blend(first: int, last: int, worker: int) -> None:
            part = values[first:last]
            part *= 1.0 - rate
            part += units[first:last] * (release.scale * rate * scale[first:last, None])

        map_chunks(len(values), _CHUNK, n_threads, blend)
        self._weigh(rate, release.noise_sd * scale)

    def add_values(self, values: np.ndarray, release: Release, rate: float) -> None:
        """As `add` without scales, for values that were made from the release."""
        self.values *= 1.0 - rate
        self.values += rate * values
        self._weigh(rate, np.full(len(values), release.noise_sd))

    def _weigh(self, rate: float, noise_sd: np.ndarray) -> None:
        self.noise_sd = np.hypot((1.0 - rate) * self.noise_sd, rate * noise_sd)
        self.initial_weight *= 1.0 - rate

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for `restore`."""
        weight = np.array([self.initial_weight])
        return {"average": self.values.copy(), "average_noise": self.noise_sd, "average_weight": weight}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state`; ValueError if it is not one of this shape."""
        values = array_of(state, "average", self.values.shape)
        noise_sd = array_of(state, "average_noise", (len(self.values),))
        weight = float(array_of(state, "average_weight", (1,))[0])
        if noise_sd.min() < 0 or (noise_sd.min() == 0 and noise_sd.max() > 0) or not 0 <= weight <= 1:
            raise ValueError("state: 'average_noise' or 'average_weight' is out of its range")
        self.values, self.noise_sd, self.initial_weight = values, noise_sd, weight
