"""Score a mixture: half of a record's columns predict the rest."""

from typing import Any

import numpy as np

from ...engine.gain import MOST, GainScore
from ...engine.units import GOLDEN, scramble, unpack_block

#: Below e^-700 a density is 0.
_LEAST_LOG = -700.0


class ColumnPrediction(GainScore):
    """Contributions to a score of mixture components.

    Each column is in the known half by a bit of the row's random word. The known columns give the responsibilities of
    the components. For each other column the nats compare its density with that under the released weights. All
    columns are worked through one by one, so that a row's numbers depend on that row only, bit for bit. Rows of a unit
    are added up. ``functions`` is a mixture of this package, with `component_weights`, `scored_columns` and
    `column_logs`.
    """

    def __init__(self, functions: Any, parameters: tuple[np.ndarray, ...]):
        self._functions, self._parameters = functions, parameters
        self._weights = functions.component_weights(parameters)

    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        """Compute contributions of the units of a block."""
        (records, chosen), row_words, starts = unpack_block(block, words)
        unit = np.arange(len(chosen)) if starts is None else np.repeat(np.arange(len(words)), np.diff(starts))
        kept = asked[unit]
        with np.errstate(all="ignore"):
            nats, predicted = self._predict(np.array(records[chosen[kept]], np.float64), row_words[kept])
        # A row that holds no numbers says nothing.
        valid = np.isfinite(nats)
        total, sums = (
            np.bincount(unit[kept], weights=np.where(valid, each, 0.0), minlength=len(words))
            for each in (predicted, nats)
        )
        share = np.minimum(1.0, MOST / np.maximum(total, 1.0))
        return self.clip_rows((sums * share)[:, None], share * total / MOST, clip)

    def _predict(self, records: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute nats and the number of predicted columns of each row."""
        records = self._functions.scored_columns(records)
        columns = np.arange(records.shape[1])
        known = [scramble(words + np.uint64(j + 1) * GOLDEN) >> np.uint64(63) == 0 for j in columns.tolist()]
        held = np.log(self._weights) + np.zeros((len(records), 1))
        for j in columns.tolist():
            held += np.where(known[j][:, None], self._logs(records, j), 0.0)
        shares = np.maximum(np.exp(held - held.max(axis=1, keepdims=True)), 0.0)
        nats, predicted, some = np.zeros(len(records)), np.zeros(len(records)), np.zeros(len(records), bool)
        for j in columns.tolist():
            logs = self._logs(records, j)
            density = np.exp(logs - logs.max(axis=1, keepdims=True))
            found, plain, whole = np.zeros((3, len(records)))
            for k, weight in enumerate(self._weights.tolist()):
                found += shares[:, k] * density[:, k]
                plain += weight * density[:, k]
                whole += shares[:, k]
            nats += np.where(known[j], 0.0, np.log(found / whole / plain))
            predicted += ~known[j]
            some |= known[j]
        return np.where(some, nats, 0.0), np.where(some, predicted, 0.0)

    def _logs(self, records: np.ndarray, column: int) -> np.ndarray:
        logs = self._functions.column_logs(records[:, column], column, self._parameters)
        return np.asarray(np.maximum(logs, _LEAST_LOG))


def within(records: np.ndarray, radius: float) -> np.ndarray:
    """Scale rows down to at most an L2 norm ``radius``.

    Each row is scaled by its own numbers.
    """
    square = np.zeros(len(records))
    for j in range(records.shape[1]):
        square += records[:, j] ** 2
    return np.asarray(records * (radius / np.maximum(np.sqrt(square), radius))[:, None])
