"""Layer H: an audit from one fit, with records there by coins.

m *canaries* are put into one data set, each by a fair coin b_i (under replacing: one record or another). After one fit
an attacker who knows all of them, and not the coins, guesses coins from the releases. Steinke, Nasr & Jagielski 2023
("Privacy auditing with one (1) training run") bound the success of such guesses under (epsilon, delta). Mahloujifar,
Melis & Chaudhuri 2025 ("Auditing f-differential privacy in one run") do so for a whole trade-off curve. The score of a
canary is white-box and the best there is for Gaussian noise. It is the scalar product of the releases with the values
that the canary would add to them. Canaries have entries of the statistic to themselves, so the noise in their scores is
independent.

**Bound for normal scores.** For independent normal scores of one spread, mu is the gap of the means of both kinds over
that spread, with the interval of `mu_interval`. It is the bound of two samples of releases (layer D) with the canaries
of one run in the place of many runs. Canaries that differ in length raise the spread and lower the bound.

**Bound for any scores** (`one_run_lower_bound`). Nothing is assumed but the claim. Given all other coins, the outputs
for b_i = 1 and b_i = 0 have a trade-off curve such that P(E | 1) <= F(P(E | 0)) and the other way round, for every set
E of outputs. Here F(x) = Phi(Phi^-1(x) + mu). F is concave. The attacker makes r guesses, a number fixed beforehand; N
of them are right.

*Lemma.* For every k, E[N; N >= k] / m <= F(E[r - N; N >= k - 1] / m). Proof. Fix i and the other coins, and let N_i be
the number of right guesses of other coins, which is known from the output. Let E be the outputs where "i is in" is
guessed and N_i >= k - 1. If b_i = 1 that guess is right, and E is {"in" guessed, N >= k}. If b_i = 0 it is wrong, and E
is {"in" guessed, N >= k - 1}. So P("in" guessed, N >= k | b_i = 1) <= F(P("in" guessed, N >= k - 1 | b_i = 0)).
Likewise it holds for "out" with the sides of the coin changed. Take the mean of both, of all other coins and of all i.
On the left it is sum_i P(i guessed right, N >= k) / m = E[N; N >= k] / m. On the right the concavity of F moves the
mean inside, where it is sum_i P(i guessed wrong, N >= k - 1) / m = E[r - N; N >= k - 1] / m. QED.

*Bound.* Let S_k = P(N >= k), so that E[N; N >= k] = k S_k + sum_{j > k} S_j. With G = F^-1, G(x) = Phi(Phi^-1(x) - mu),
the lemma says E[r - N; N >= k - 1] >= m G(E[N; N >= k] / m), which is

    (r - k + 1) S_{k-1} >= sum_{j >= k} S_j + m G((k S_k + sum_{j > k} S_j) / m).

The right side does not fall when any S_j rises. Suppose S_v >= p. By induction from v downward, every S_k is at least
the number that the recursion gives with S_v = p, S_j = 0 for j > v, equality, and S_{k-1} >= S_k. If one of those
numbers is above 1, S_v >= p is impossible. Then v or more right guesses have a probability below p under mu. The
largest such mu is a lower bound that fails with probability at most p.

One run cannot tell a mechanism with parameter mu from one that gives everything away with probability about p and is
harmless otherwise. Such a mechanism may be mu-GDP, so this bound stays below the true mu however many canaries there
are. It comes near it only through guesses that are few and almost all right.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..accounting import Relation, gaussian_mu
from ..accounting.parts import composed
from ..accounting.solver import find_threshold
from ..engine.filters import without_leaks
from ..engine.model import Release
from ..engine.sampling import run_event
from .adapter import Adapter
from .bench import Bench, Data, Still, relation_of
from .report import Check, LayerResult
from .sizes import CONFIDENCE_ERROR, Sizes
from .statistics import mu_interval

#: Four releases at twice the noise: mu = 1, and the composition of steps is looked at too.
_MULTIPLIER, _STEPS = 2.0, 4
#: Most guesses; more of them cost time and, as they are less sure, gain nothing.
_MOST_GUESSES = 4_000
#: Error of the bounds that are shown beside the verdict's.
_SHOWN_ERROR = 0.05


def one_run_lower_bound(n_canaries: int, n_guesses: int, n_right: int, error: float) -> float:
    """Bound the Gaussian-DP mu of one run from below, for any scores.

    Parameters
    ----------
    n_canaries : int
        m, each there by a fair coin.
    n_guesses : int
        r <= m, fixed before the run. Which coins are guessed, and how, may depend on the releases in any way.
    n_right : int
        v, how many guesses were right.
    error : float
        Probability in (0, 1) that the bound may fail.

    Returns mu >= 0, rounded down. Module docstring: the proof. Raises ValueError if the numbers do not fit together.
    """
    if not 0 <= n_right <= n_guesses <= n_canaries or n_guesses < 1:
        raise ValueError(
            f"n_right={n_right}, n_guesses={n_guesses}, n_canaries={n_canaries}: expected 0 <= n_right <= n_guesses <= "
            "n_canaries, and a guess"
        )
    if not 0 < error < 1:
        raise ValueError(f"error={error!r}: expected a number in (0, 1)")
    # The safe side is a mu that the guesses rule out.
    return find_threshold(lambda mu: _impossible(mu, n_canaries, n_guesses, n_right, error), 64.0, 0.0, atol=1e-4)


def _impossible(mu: float, m: int, r: int, v: int, p: float) -> bool:
    """Tell whether P(N >= v) >= p contradicts mu."""
    from scipy.special import ndtr, ndtri

    # Rounding: probabilities are compared to one part in 10^9, rounded toward the possible.
    here, above = p, 0.0
    for k in range(v, 0, -1):
        right = min(1.0, (k * here + above) / m)
        least = here + above + m * float(ndtr(ndtri(right) - mu))
        above += here
        here = max(here, least / (r - k + 1) * (1.0 - 1e-9))
        if here > 1.0:
            return True
    return False


@lru_cache(64)
def number_of_guesses(n_canaries: int, mu: float, error: float) -> int:
    """Choose the even r with the largest `one_run_lower_bound` at mu.

    The scores of the two kinds are normal with unit variance and means mu apart. Two standard deviations are taken off
    the number of right guesses that is expected.
    """
    from scipy.special import ndtr

    best, chosen = -1.0, 2
    for cut in np.arange(0.5 * mu, 0.5 * mu + 5.0, 0.25):
        wrong, right = float(ndtr(-cut)), float(ndtr(mu - cut))
        r = 2 * round(0.5 * n_canaries * (wrong + right))
        if not 2 <= r <= min(_MOST_GUESSES, n_canaries):
            continue
        share = right / (right + wrong)
        v = math.floor(r * share - 2.0 * math.sqrt(r * share * (1 - share)))
        bound = one_run_lower_bound(n_canaries, r, max(0, v), error)
        if bound > best:
            best, chosen = bound, r
    return chosen


class Canaries:
    """The canaries before the run: each moves its own entries.

    The object has their contributions to the statistic.
    """

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


def has_canaries(adapter: Adapter) -> bool:
    """Tell whether the layer knows records with contributions that lie apart."""
    return adapter.most_canaries > 0 and adapter.canaries(2, relation_of(adapter)) is not None


def layer_h(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Bound mu from one fit to all records, under fixed parameters."""
    adapter = bench.adapter
    m = min(sizes.canaries, adapter.most_canaries)
    data = adapter.canaries(m, bench.relation)
    assert data is not None  # `audit` has asked `has_canaries`
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
    bounds, right = {}, {}
    order = np.argsort(scores)
    for error in (CONFIDENCE_ERROR, _SHOWN_ERROR):
        r = number_of_guesses(m, claim, error)
        right[error] = int(coins[order[m - r // 2 :]].sum() + (~coins[order[: r // 2]]).sum())
        bounds[error] = one_run_lower_bound(m, r, right[error], error)
    shown = mu_interval(scores[~coins], scores[coins], _SHOWN_ERROR)[1]
    any_scores, guesses = bounds[CONFIDENCE_ERROR], number_of_guesses(m, claim, CONFIDENCE_ERROR)
    figures = dict(
        canaries=m,
        mu=mu,
        low=low,
        high=high,
        low_95=shown,
        any_scores=any_scores,
        any_scores_95=bounds[_SHOWN_ERROR],
        guesses=guesses,
        right=right[CONFIDENCE_ERROR],
        claimed=claim,
        steps=_STEPS,
        noise_multiplier=_MULTIPLIER,
    )
    check = Check(
        "mu of one fit",
        max(low, any_scores) <= claim,
        mu,
        claim,
        f"at least {low:.4f} for normal scores ({shown:.4f} at 95 %), {any_scores:.4f} for any scores "
        f"({bounds[_SHOWN_ERROR]:.4f} at 95 %); {right[CONFIDENCE_ERROR]} of {guesses} guesses right",
        2 * CONFIDENCE_ERROR,
    )
    return LayerResult("H", f"one run, {m} canaries", (check,), figures={"one_run": figures})
