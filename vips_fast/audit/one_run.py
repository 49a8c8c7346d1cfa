"""Layer H: an audit from one fit, with records there by coins.

m *canaries* are put into one data set, each by a fair coin b_i (under replacing: one record or another). After one fit
an attacker who knows all of them, and not the coins, tells them from the releases (Steinke, Nasr & Jagielski 2023,
"Privacy auditing with one (1) training run"). The score of a canary is white-box and the best there is for Gaussian
noise: the scalar product of the releases with the values that the canary would add to them. Canaries have entries of
the statistic to themselves, so the noise in their scores is independent.

For independent normal scores of one spread, mu is the gap of the means of both kinds over that spread, with the
interval of `mu_interval`: the bound of two samples of releases (layer D) with the canaries of one run in the place
of many runs. Canaries that differ in length raise the spread and lower the bound.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..accounting import Relation, gaussian_mu
from ..accounting.parts import composed
from ..engine.filters import without_leaks
from ..engine.model import Release
from ..engine.sampling import run_event
from .bench import CONFIDENCE_ERROR, Bench, Data, Sizes, Still
from .report import Check, LayerResult
from .statistics import mu_interval

#: Four releases at twice the noise: mu = 1, and the composition of steps is looked at too.
_MULTIPLIER, _STEPS = 2.0, 4
#: Error of the bound that is shown beside the verdict's.
_SHOWN_ERROR = 0.05


class Canaries:
    """The canaries before the run: each moves its own entries. The object has their contributions to the statistic."""

    def __init__(self, bench: Bench, data: Data, m: int, estimator: Any):
        self.bench, self.m, self.data = bench, m, data
        self.pairs = bench.relation == Relation.REPLACE_ONE
        self.stage = bench.prepare_data(estimator, data)
        bench.adapter.sharp(self.stage)
        numbers = np.arange(m)
        first = self._sums(numbers)
        second = self._sums(m + numbers) if self.pairs else np.zeros_like(first)
        moved = first - second
        #: Number of the only canary that moves an entry, -1 without one.
        self.canary_of = np.zeros(len(moved), dtype=np.int64)
        shared = moved == 0
        for bit in range(max(1, (m - 1).bit_length())):
            some = numbers[(numbers >> bit) & 1 == 1]
            part = self._sums(some) - (self._sums(m + some) if self.pairs else 0)
            # An entry of one canary has all of its value or none of it in the sum of any others with that bit.
            shared |= (part != 0) & (part != moved)
            self.canary_of[part != 0] += 1 << bit
        shared |= self.canary_of >= m
        self.canary_of[shared] = -1
        self.own = np.flatnonzero(~shared)
        self.middle = 0.5 * (first + second)[self.own]
        self.direction = moved[self.own].astype(np.float64)
        squares = np.bincount(self.canary_of[self.own], self.direction**2, minlength=m)
        self.lengths = np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny))

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.bench.sums(self.stage, rows, np.zeros(len(rows), dtype=np.uint64))

    def units(self, coins: np.ndarray) -> np.ndarray:
        """List the records that these coins put into the data set."""
        numbers = np.arange(self.m)
        return np.where(coins, numbers, self.m + numbers) if self.pairs else numbers[coins]

    def scores(self, mean: np.ndarray) -> np.ndarray:
        """Project the mean of the releases on each canary's own direction."""
        moved = (mean[self.own] - self.middle) * self.direction
        return np.bincount(self.canary_of[self.own], moved, minlength=self.m) / self.lengths


def layer_h(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Bound mu from one fit to all records, under fixed parameters."""
    adapter = bench.adapter
    m = min(sizes.canaries, adapter.most_canaries)
    data = adapter.canaries(m, bench.relation)
    assert data is not None  # `audit` has asked
    estimator = bench.whole(noise_multiplier=_MULTIPLIER, n_records=m, n_steps=_STEPS)
    canaries = Canaries(bench, data, m, estimator)
    coins = rng.random(m) < 0.5
    stage = bench.prepare_data(estimator, adapter.take(data, canaries.units(coins)))
    adapter.sharp(stage)
    total = np.zeros(len(canaries.canary_of))

    def on_release(release: Release) -> None:
        np.add(total, release.units.reshape(-1), out=total)

    still: Any = Still(stage.model)
    bench.run(replace(stage, model=still), on_release)
    scores = canaries.scores(total / _STEPS)
    event = composed(without_leaks({run_event(stage.plan.sampler, _MULTIPLIER, _STEPS): 1}))
    claim = None if event is None else gaussian_mu(event)
    assert claim is not None
    mu, low, high = mu_interval(scores[~coins], scores[coins], CONFIDENCE_ERROR)
    shown = mu_interval(scores[~coins], scores[coins], _SHOWN_ERROR)[1]
    figures = dict(
        canaries=m, mu=mu, low=low, high=high, low_95=shown, claimed=claim, steps=_STEPS, noise_multiplier=_MULTIPLIER
    )
    check = Check(
        "mu of one fit", low <= claim, mu, claim, f"at least {low:.4f} ({shown:.4f} at 95 %)", CONFIDENCE_ERROR
    )
    return LayerResult("H", f"one run, {m} canaries", (check,), figures={"one_run": figures})
