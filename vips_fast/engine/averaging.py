"""Running averages of releases: post-processing for models that need it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..kernels.threads import map_chunks
from .model import Release, array_of

#: Entries that a thread converts at a time, so that an average needs no second array of its size.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Schedule:
    """Step sizes rho_t = (offset + t)^-decay. Steps are t = 0, 1, … (Algorithm 1 of Park et al. 2020)."""

    offset: float
    decay: float

    def rate(self, step: int) -> float:
        """Compute rho of a step, at most 1."""
        base = self.offset + step
        return 1.0 if base <= 1.0 else base**-self.decay


class RunningAverage:
    """Weighted average of releases, and its known noise.

    ``values`` is the weighted sum of the releases and of the start, which has the weight ``initial_weight``.
    ``noise_sd`` is the standard deviation of the noise in an entry.
    """

    def __init__(self, start: np.ndarray):
        self.values = np.array(start, dtype=np.float64, order="C")
        self.noise_sd = 0.0
        self.initial_weight = 1.0

    def add(self, release: Release, rate: float, n_threads: int = 1) -> None:
        """Average a release into the values, and update the noise's law.

        The values become (1 − rate) values + rate release.
        """
        values, units = self.values.reshape(-1), release.units.reshape(-1)

        def blend(first: int, last: int, worker: int) -> None:
            part = values[first:last]
            part *= 1.0 - rate
            part += units[first:last] * (release.scale * rate)

        map_chunks(values.size, _CHUNK, n_threads, blend)
        self._weigh(release, rate)

    def add_values(self, values: np.ndarray, release: Release, rate: float) -> None:
        """Add values that were made from the release, as `add` does."""
        self.values *= 1.0 - rate
        self.values += rate * values
        self._weigh(release, rate)

    def _weigh(self, release: Release, rate: float) -> None:
        self.noise_sd = math.hypot((1.0 - rate) * self.noise_sd, rate * release.noise_sd)
        self.initial_weight *= 1.0 - rate

    def state(self) -> dict[str, np.ndarray]:
        """Give the arrays for `restore`."""
        return {"average": self.values.copy(), "average_law": np.array([self.noise_sd, self.initial_weight])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`; ValueError if its shape differs."""
        values = array_of(state, "average", self.values.shape)
        noise_sd, weight = array_of(state, "average_law", (2,)).tolist()
        if noise_sd < 0 or not 0 <= weight <= 1:
            raise ValueError("state: 'average_law' is out of its range")
        self.values, self.noise_sd, self.initial_weight = values, noise_sd, weight


def averaged_variance(rate: Schedule, n_steps: int) -> float:
    """Compute the variance of the average of ``n_steps`` unit noises. The first step replaces the start."""
    variance = 0.0
    for step in range(n_steps):
        share = 1.0 if step == 0 else rate.rate(step)
        variance = (1 - share) ** 2 * variance + share**2
    return variance
