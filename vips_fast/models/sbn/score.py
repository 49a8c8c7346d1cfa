"""Score networks: half of a record's columns predict the rest."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ...engine.gain import RowScore
from ...engine.units import GOLDEN, scramble
from ...kernels import native
from ...kernels.sbn import record_blocks, workspaces

#: Records of a block of the E-step: its arrays stay in a core's second-level cache.
BLOCK = 512

#: Number of public ways to halve the columns, a power of two; a row's random word chooses one.
_DIVISIONS = 16


class Half(NamedTuple):
    """Tables of one network for one division of the columns."""

    known: np.ndarray  #: (J,) whether a column is in the known half.
    weights: np.ndarray  #: (J, K), 0 for the others.
    gram: np.ndarray
    linear: np.ndarray
    start: np.ndarray
    asked: np.ndarray  #: Numbers of the columns to predict.
    slope: np.ndarray  #: (K, asked) integers, and for the variance (2 K, asked).
    spread: np.ndarray
    bias: np.ndarray
    shares: np.ndarray  #: (asked,) released shares of ones.


class PixelPrediction(RowScore):
    """Contributions to a score of networks.

    The hidden units of a row are inferred from the columns of one half. The nats compare the network's probability of
    each other column with the column's released share. Rows of a unit are added up. ``networks`` are `QuadraticModel`:
    one, or one for each class; a row's class is then the block's last column.

    Notes
    -----
    *Bound.* A unit's row is a function of its own rows and word, and of released numbers; `GainScore.clip_rows` proves
    the norm. *Purity.* The kernel works record by record, products are of integers below 2^53 in all, and the rest is
    elementwise or a sum within a row. So a unit's row has the same bits in any block.
    """

    def __init__(self, networks: Sequence[Any]):
        first = networks[0]
        self._n_visible, self._n_hidden, self._sweeps = first.n_visible, first.n_hidden, first.settings.n_sweeps
        # Sums of 2 K products of two numbers of these bits stay below 2^53.
        self._bits = (52 - math.ceil(math.log2(2 * self._n_hidden))) // 2
        rng = np.random.default_rng(0)
        known = rng.permuted(np.tile(np.arange(self._n_visible) % 2 == 0, (_DIVISIONS, 1)), axis=1)
        self._halves = [[self._half(one, part) for part in known] for one in networks]

    def _half(self, network: Any, known: np.ndarray) -> Half:
        weights = np.where(known[:, None], network.w, 0.0)
        gram, linear = network.terms(weights, known.mean())
        asked, bits = np.flatnonzero(~known), self._bits
        w = np.clip(network.w[asked].T, -_LARGEST, _LARGEST)
        spread = np.concatenate([w * w, np.minimum(network.variances[asked].T, _LARGEST**2)])
        return Half(
            known,
            weights,
            gram,
            linear,
            expit(network.b),
            asked,
            np.trunc(np.ldexp(w / _LARGEST, bits)),
            np.trunc(np.ldexp(spread / _LARGEST**2, bits)),
            network.c[asked],
            network.mean_image[asked],
        )

    def predict(self, records: Any, words: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        division = (scramble(words[kept] + GOLDEN) >> np.uint64(60)).astype(np.int64) % _DIVISIONS
        nats, predicted = np.zeros((2, len(kept)))
        for number, halves in enumerate(self._halves):
            mine = len(self._halves) == 1 or records[kept, self._n_visible] == number
            for place, half in enumerate(halves):
                chosen = np.flatnonzero(mine & (division == place))
                for first, last in record_blocks(len(chosen), BLOCK):
                    part = chosen[first:last]
                    nats[part] = self._predict(records[kept[part], : self._n_visible], half)
                predicted[chosen] = len(half.asked) if half.known.any() else 0
        return nats, predicted

    def _predict(self, y: np.ndarray, half: Half) -> np.ndarray:
        """Compute the nats of rows, (n,)."""
        z = np.empty((len(y), self._n_hidden))
        seen = np.ascontiguousarray(np.where(half.known, y, 0), dtype=np.uint8)
        area = workspaces("quadratic", self._n_visible, self._n_hidden, 1)[0]
        native.sbn_quadratic(seen, half.weights, half.gram, half.linear, half.start, self._sweeps, area, z)
        z = np.clip(z, 0.0, 1.0)
        unit = _LARGEST * 0.25**self._bits
        logit = np.trunc(np.ldexp(z, self._bits)) @ half.slope * unit + half.bias
        both = np.concatenate([z * (1.0 - z), z], axis=1)
        variance = np.trunc(np.ldexp(both, self._bits)) @ half.spread * (unit * _LARGEST)
        # The mean of a logistic function over a normal law (MacKay 1992).
        p = np.clip(expit(logit / np.sqrt(1.0 + math.pi / 8.0 * variance)), _LEAST, 1.0 - _LEAST)
        on = y[:, half.asked] > 0
        ratios = np.where(on, np.log(p / half.shares), np.log((1.0 - p) / (1.0 - half.shares)))
        return np.asarray(ratios.sum(axis=1))


#: Weights are limited to this size, and probabilities this far from 0 and 1.
_LARGEST, _LEAST = 16.0, 1e-6
