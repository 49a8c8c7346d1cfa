"""Sums of words by topic and period, in one release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...data.frames import public_places
from ...data.shards import ShardedCorpus
from ...engine.model import Release
from ...engine.result import Public
from .model import LdaModel, LdaSettings
from .records import Documents
from .scaling import EntryScales, ScaledAverage, word_scales


class DatedDocuments(Documents):
    """Documents with a word of its own for each period.

    Column p V + v is word v in period p. A document of another period has no words, so it contributes nothing.
    """

    def __init__(self, X: Any, y: Any, periods: tuple[str, ...], invalid: str, kind: str):
        if isinstance(X, ShardedCorpus):
            raise ValueError("X: shards have no periods; give counts in memory")
        if y is None:
            raise ValueError("y=None: expected the period of each row of X")
        super().__init__(X, invalid, kind)
        labels = np.asarray(y, dtype=object).reshape(-1)
        if len(labels) != self.n_rows:
            raise ValueError(f"y has {len(labels)} values: expected {self.n_rows}, a period for each row of X")
        places = public_places(np.array([str(one) for one in labels.tolist()], dtype=object), periods)
        if self.n_features * len(periods) >= 2**31:
            raise ValueError(f"X: {self.n_features} words in {len(periods)} periods; expected fewer than 2^31 together")
        counts, indices, indptr = self._parts
        place = np.repeat(places, np.diff(indptr))
        kept = place >= 0
        ends = np.concatenate(([0], np.cumsum(kept)))[indptr].astype(indptr.dtype)
        self._parts = counts[kept], (indices + place * self.n_features)[kept].astype(np.int32), ends
        self._native = counts.dtype == np.int32


class DriftModel(LdaModel):
    """Sums (P V, K) of words by period and topic, with topics that stay.

    ``topics``, (K, V), are public or were released; ``settings`` are of `LdaModel`, for the words of all periods.

    Notes
    -----
    *Sensitivity.* This is a step of `LdaModel`, over a vocabulary with each word once for each period. A document's
    words become words of its own period, a function of the document and of public lists. The table of topics is a
    function of ``topics``, and so are the scales. The proof there assumed only that these are public. All documents of
    a unit, of any periods, are added up and clipped once. So a person's contribution has entries >= 0 and an L2 norm of
    at most a N, however many periods the person is in. Nothing is assumed about persons who return.
    """

    def __init__(self, settings: LdaSettings, public: Public, topics: np.ndarray, n_periods: int):
        super().__init__(settings, replace(public, n_features=topics.shape[1] * n_periods))
        self.n_periods = n_periods
        weights = np.tile(topics.T, (n_periods, 1))
        self._fill_table(weights)
        if self._exponent > 0.0:
            words = word_scales(weights.sum(axis=1), self._exponent)
            sizes = weights.sum(axis=0) / weights.sum()
            self._scales = EntryScales(words, self._table, sizes, 0.0, self._n_threads)
            self._weight, self._floor = self._scales.weight, self._scales.floor
        self._average = ScaledAverage(np.zeros(self.shape))

    def entry_scales(self) -> np.ndarray:
        """Return a period's scales of entries, (K, V)."""
        n_words = len(self._table) // self.n_periods
        if self._scales is None:
            return np.ones((self.n_topics, n_words))
        return self._scales.of_entries(n_words, self.n_topics).T

    def update(self, release: Release) -> None:
        """Average the releases; the topics stay as they are."""
        self._average.add(release, 1.0 / (release.step + 1), self._scales, self._n_threads)

    @property
    def has_score(self) -> bool:
        """Whether the sums can be scored: no."""
        return False

    def result(self) -> dict[str, np.ndarray]:
        """Give sums, (P, K, V), per unit, and their noise's deviation, (K, V).

        The noise is the same in each period.
        """
        values = self._average.values.reshape(self.n_periods, -1, self.n_topics)
        sd = np.broadcast_to(self._average.noise_sd, self.shape)[: values.shape[1]]
        return {"sums": np.ascontiguousarray(values.transpose(0, 2, 1)), "noise_sd": np.ascontiguousarray(sd.T)}

    def state(self) -> dict[str, np.ndarray]:
        """Return the averaged releases."""
        return self._average.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        average = ScaledAverage(np.zeros(self.shape))
        average.restore(state)
        self._average = average
