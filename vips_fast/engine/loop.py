"""The loop of variational Bayes in private settings, once for all models.

One step is (Algorithms 1, 2 and 4 of Park et al. 2020)

    sample -> E-step, clipped and truncated per record -> exact integer sum
    -> noise (one draw) -> running average -> the model's own M-step

with the ledger written before the noise is drawn. A model knows nothing of
sampling, noise, accounting or threads; it has the members of `Model`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .ledger import Ledger
from ..mechanisms import GaussianMechanism


class Model(Protocol):
    """What the loop needs of a model.

    Every quantity but the contributions is public or released. ``estep`` is the
    only method that sees records; a record's contribution must depend on that
    record, its own random word and the model's released parameters alone, bit for
    bit, and have an L2 norm of at most ``clip_norm``.
    """

    #: Shape of the statistics; one release is one array of this shape.
    statistics_shape: tuple[int, ...]
    #: L2 bound of one record's contribution, in the units of the statistics.
    clip_norm: float
    #: None, or a list to which ``estep`` adds a dict of un-noised figures (a taint).
    diagnostics: list | None

    def sensitivity(self, neighbors: str) -> float:
        """Proven L2 sensitivity of the sum of contributions under a relation."""

    def estep(self, records: np.ndarray, words: np.ndarray, spacing: float, sums: np.ndarray, n_threads: int) -> None:
        """Add the truncated contributions of ``records`` to ``sums`` (int64, units of ``spacing``).

        ``words`` holds one uniform uint64 for each of the records.
        """

    def project(self, released: np.ndarray) -> None:
        """In place, the paper's own repair of one noised statistic (only for ``update="paper"``)."""

    def mstep(self, state: State) -> None:
        """Set the parameters of the next E-step from the running average."""


@dataclass
class State:
    """Running average of the noised statistics, per record, and its public noise.

    Attributes
    ----------
    average : ndarray, float64, shape ``model.statistics_shape``
        Weighted average of the released per-record means; never clipped with
        ``update="average"``.
    noise_sd : float
        Standard deviation of the noise in an entry of ``average`` (of an entry
        that gets noise of the mechanism's full standard deviation).
    initial_weight : float
        Weight that the initial value of ``average`` still has.
    step : int
        Steps done.
    """

    average: np.ndarray
    noise_sd: float = 0.0
    initial_weight: float = 1.0
    step: int = 0


@dataclass(frozen=True)
class Schedule:
    """Step sizes rho_t = (offset + t)^-decay, t = 0, 1, … (Algorithm 1)."""

    offset: float
    decay: float

    def rate(self, step: int) -> float:
        """rho of a step, at most 1."""
        base = self.offset + step
        return 1.0 if base <= 1.0 else base**-self.decay


#: Entries converted at a time, so that a step needs no second array of the statistics' size.
_CHUNK = 1 << 16


def run(
    model: Model, sampler, mechanism: GaussianMechanism, ledger: Ledger, randomness, state: State, *, n_steps: int,
    schedule: Schedule, update: str = "average", n_threads: int = 1,
    callback: Callable[[int, float], None] | None = None,
) -> State:
    """Run ``n_steps`` steps, changing ``state`` and ``ledger``.

    Parameters
    ----------
    model : Model
    sampler : a sampler of `vips_fast.sampling`
    mechanism : GaussianMechanism
    ledger : Ledger
    randomness : `vips_fast.randomness.SystemRandomness` (or keyed, in tests and without privacy)
    state : State
    n_steps : int
    schedule : Schedule
    update : {"average", "paper"}
        "average" keeps the un-clipped average of the noised statistics; "paper"
        repairs each noised statistic first (Algorithm 3: negative entries to 0).
    n_threads : int
    callback : callable(step, seconds) or None
        Called after each step with the number of steps done and the seconds since
        the start of this run. It sees nothing that was not noised.

    Returns
    -------
    State
        ``state`` itself.
    """
    event = sampler.event(mechanism.noise_multiplier) if mechanism.noise_multiplier > 0 else None
    start = time.perf_counter()
    sums = np.empty(model.statistics_shape, dtype=np.int64)
    buffer = np.empty(min(_CHUNK, max(sums.size, 1)))
    for _ in range(n_steps):
        step = state.step
        if event is not None:
            # Before anything is drawn: an interrupted step is spent all the same.
            ledger.intend(event, clip_norm=mechanism.clip_norm, sensitivity=mechanism.sensitivity)
        records = sampler.draw(randomness, step)
        words = randomness.words(len(records), "record", step)
        sums[...] = 0
        model.estep(records, words, mechanism.spacing, sums, n_threads)
        mechanism.add_noise(sums, randomness.noise_key(step), n_threads)

        # The public expected batch size: the drawn one is private.
        scale = mechanism.spacing / sampler.expected_batch_size
        rate = schedule.rate(step)
        if update == "paper":
            released = sums * scale
            model.project(released)
            state.average *= 1.0 - rate
            released *= rate
            state.average += released
            del released
        else:
            flat_sums, flat_average = sums.reshape(-1), state.average.reshape(-1)
            for first in range(0, flat_sums.size, _CHUNK):
                part = flat_average[first : first + _CHUNK]
                fresh = buffer[: len(part)]
                np.multiply(flat_sums[first : first + _CHUNK], scale * rate, out=fresh)
                part *= 1.0 - rate
                part += fresh
        noise = mechanism.noise_sd / sampler.expected_batch_size
        state.noise_sd = float(np.hypot((1.0 - rate) * state.noise_sd, rate * noise))
        state.initial_weight *= 1.0 - rate
        state.step = step + 1
        model.mstep(state)
        if callback is not None:
            callback(state.step, time.perf_counter() - start)
    return state
