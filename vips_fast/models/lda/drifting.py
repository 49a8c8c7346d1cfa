"""Topics that drift, from a chain of releases.

Each period has a release of its documents' statistics, a call of ``partial_fit`` that starts from the topics released
before. So topic k of a period follows topic k of the period before. `drift` takes the models after each period and
computes only from them: it costs nothing, and the last model's statement covers all of it.

*A period's statistics.* A call averages its release into the statistics so far, S <- (1 - r) S + r R, with public rates
r. Over the calls of a period S becomes c S + (1 - c) R. Here c is the product of their 1 - r, and R a weighted mean of
their releases. So R = (S_t - c S_(t-1)) / (1 - c). Its noise has the variance (v_t - c^2 v_(t-1)) / (1 - c)^2 in each
entry. Noise of different periods is independent. The first model's S is the first period as it is.

*Shares.* A word's share s of a topic is its entry over the topic's sum n. Let the noise of the entry have the variance
v, and of the sum w. To first order the share's noise has the variance (v (1 - 2 s) + s^2 w) / n^2. Intervals of shares
are not smoothed, so they hold whatever the words do. `vips_fast.models.smoothing` smooths the shares, with a common
prior of the words of a topic.

*Change.* The mean change of a share from a period to the next is by least squares, with the normal noise that follows.
A word *moved* if 0 is outside of its interval at the level 1 - (1 - level) / (K V). So with a probability of ``level``
no word is listed that only noise moved.

All of it is about the records that were in the fits: intervals know the noise, and not which other documents could have
been written. Statistics are sums of clipped contributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy

from ...checks import check_number
from ...data.types import Array, Matrix
from ..inputs import column_names
from ..smoothing import smoothed
from .model import LdaModel

if TYPE_CHECKING:
    from .estimator import LatentDirichletAllocation

#: Standard deviations of its noise that a topic's sum must have, for its shares of a period to be read.
_CLEAR = 4.0


@dataclass(frozen=True)
class Drift:
    """Words of topics over periods.

    Attributes
    ----------
    periods : tuple of str
        Names of the P periods, in order.
    words : tuple of str
        Names of the V words.
    shares : (P, K, V) array
        Probability of each word in each topic, smoothed or not.
    low, high : (P, K, V) arrays
        Ends of intervals for the share without noise; 0 and 1 where noise hides the topic.
    change : (K, V) array
        Mean change of a share from a period to the next.
    change_low, change_high : (K, V) arrays
        Ends of intervals of the changes, which hold for all words together.
    """

    periods: tuple[str, ...]
    words: tuple[str, ...]
    shares: Array
    low: Array
    high: Array
    change: Matrix
    change_low: Matrix
    change_high: Matrix

    def moved(self) -> list[tuple[int, int]]:
        """List (topic, word) of the words that moved, the clearest first."""
        sure = np.maximum(self.change_low, -self.change_high)
        order = np.argsort(-sure, axis=None, kind="stable")
        return [(int(k), int(v)) for k, v in zip(*np.unravel_index(order, sure.shape), strict=True) if sure[k, v] > 0]

    def rows(self) -> list[list[Any]]:
        """List the shares of the words that moved, below a head."""
        rows: list[list[Any]] = [["topic", "word", "period", "share", "low", "high"]]
        for k, v in self.moved():
            for t, period in enumerate(self.periods):
                numbers = (float(array[t, k, v]) for array in (self.shares, self.low, self.high))
                rows.append([k + 1, self.words[v], period, *numbers])
        return rows


def drift(
    models: Sequence[LatentDirichletAllocation],
    periods: Sequence[str] | None = None,
    *,
    level: float = 0.9,
    smooth: bool = True,
) -> Drift:
    """Follow the words of topics over periods, from the models after each.

    Parameters
    ----------
    models : sequence of fitted LatentDirichletAllocation
        At least two, in order. Each continued the one before by ``partial_fit``, with
        ``options=LdaOptions(learning_decay=...)`` given. A decay of 0 makes every call forget the statistics before it.
    periods : sequence of str or None
        Their names; None numbers them from 1.
    level : float
        Level of the intervals, in (0, 1).
    smooth : bool
        Whether the shares borrow strength from the periods beside them.

    Raises ValueError if the models are not such a chain.

    Examples
    --------
    >>> import copy
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation
    >>> from vips_fast.models.lda import LdaOptions, drift
    >>> rng = np.random.default_rng(0)
    >>> def month(number):  # the first topic's word 0 goes down, its word 1 up
    ...     first, second = [0.5 - 0.1 * number, 0.1 + 0.1 * number, 0.4, 0, 0, 0], [0, 0, 0, 0.4, 0.3, 0.3]
    ...     return np.array([rng.multinomial(20, topic) for topic in [first, second] * 2000])
    >>> model = LatentDirichletAllocation(2, doc_length=20, noise_multiplier=2.0, n_steps=6, random_state=0)
    >>> models = [model.fit(month(0), groups=[f"0-{i}" for i in range(4000)])]
    >>> for number in (1, 2, 3, 4):
    ...     model = copy.deepcopy(models[-1]).set_params(options=LdaOptions(learning_decay=0.0))
    ...     names = [f"{number}-{i}" for i in range(4000)]
    ...     models.append(model.partial_fit(month(number), groups=names, n_records=4000))
    >>> found = drift(models, ["May", "June", "July", "August", "September"])
    >>> found.shares.shape, sorted(v for _, v in found.moved()[:2])
    ((5, 2, 6), [0, 1])
    """
    level = check_number("level", level, 0, 1, low_open=True, high_open=True)
    names = [str(t + 1) for t in range(len(models))] if periods is None else list(map(str, periods))
    if len(models) < 2 or len(names) != len(models) or len(set(names)) < len(names):
        raise ValueError(f"models: {len(models)}, periods: {len(names)}; expected two or more, with a name for each")
    sums, variances = _statistics(models)
    totals, noise = sums.sum(axis=1), variances.sum(axis=1)
    clear = totals > _CLEAR * np.sqrt(noise)
    if not clear.all():
        totals = np.where(clear, totals, np.maximum(totals, _CLEAR * np.sqrt(noise) + 1e-300))
    shares = sums / totals[:, None]
    of_shares = (variances * (1.0 - 2.0 * shares) + shares**2 * noise[:, None]) / totals[:, None] ** 2
    of_shares = np.maximum(of_shares, 1e-300)
    half = float(scipy.special.ndtri(0.5 + level / 2)) * np.sqrt(of_shares)
    low, high = (np.where(clear[:, None], np.clip(shares + sign * half, 0, 1), end) for sign, end in ((-1, 0), (1, 1)))
    steps = np.arange(len(models)) - (len(models) - 1) / 2
    factors = steps / (steps @ steps)
    change = np.einsum("t,tvk->kv", factors, shares)
    several = -float(scipy.special.ndtri((1.0 - level) / (2 * change.size)))
    widths = several * np.sqrt(np.einsum("t,tvk->kv", factors**2, of_shares))
    hidden = ~clear.all(axis=0)
    widths[hidden] = math.inf
    shown = shares
    if smooth and len(models) > 2:
        walks = [
            smoothed(shares[:, :, k].T, of_shares[:, :, k].T[:, :, None] * np.eye(len(models)), pooled=True).T
            for k in range(shares.shape[2])
        ]
        shown = np.stack(walks, axis=2)
    words = column_names(models[-1]._fitted().public) or tuple(f"#{v}" for v in range(shares.shape[1]))
    shown, low, high = (np.moveaxis(array, 1, 2) for array in (np.clip(shown, 0.0, 1.0), low, high))
    return Drift(tuple(names), words, shown, low, high, change, change - widths, change + widths)


def _statistics(models: Sequence[LatentDirichletAllocation]) -> tuple[np.ndarray, np.ndarray]:
    """Find each period's statistics, (P, V, K), and their noise's variance."""
    sums: list[np.ndarray] = []
    variances: list[np.ndarray] = []
    before: tuple[np.ndarray, np.ndarray] | None = None
    for number, model in enumerate(models):
        result, restored = model._fitted(), model._restored()
        if not isinstance(restored, LdaModel):
            raise ValueError(f"models: number {number + 1} has a public prior; expected models without one")
        values, sd = restored.statistics()
        variance = np.broadcast_to(sd, values.shape) ** 2
        share = 0.0
        if before is not None:
            last = models[number - 1]._fitted()
            chained = last.ledger.head in result.ledger.heads and last.arrays["components"].shape == values.T.shape
            if not chained or result.n_steps <= last.n_steps:
                raise ValueError(
                    f"models: number {number + 1} does not continue the one before; expected partial_fit of a copy"
                )
            if cast(Any, model._as_fitted())._options.learning_decay is None:
                raise ValueError("models: options=None: expected LdaOptions(learning_decay=...), such as 0.0")
            share = restored.share_before(range(last.n_steps, result.n_steps))
        kept = (values, variance)
        if before is not None and share > 0.0:
            values = (values - share * before[0]) / (1.0 - share)
            variance = np.maximum(variance - share**2 * before[1], 0.0) / (1.0 - share) ** 2
        sums.append(values)
        variances.append(variance)
        before = kept
    return np.array(sums), np.array(variances)
