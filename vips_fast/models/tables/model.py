"""Sums of topic proportions by public groups, in one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...engine.model import Model, Release, array_of, diagnose
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock, unpack_block
from ...kernels.lattice import checked_spacing
from ...mechanisms import GaussianMechanism
from .records import GRID, GroupBlock

#: Margin for the rounding of norms, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9


class TableModel(Model):
    """Sums of topic proportions by group.

    They are the table of all columns together and, beside it, one of each column.

    Notes
    -----
    *Contribution.* In table m of M, a unit has n_mg documents of group g, whose proportions p have the sum A_mg. It
    contributes all A_mg / (M^(1/2) max(1, s)) together, with s^2 = sum_mg n_mg^2 / M. A document whose group is not
    public is not among these. So the contribution is a function of the unit's own documents and of public lists.

    *Sensitivity.* Proportions are at least 0 and their sum is at most 1, so that |p| <= 1 and |A_mg| <= n_mg. The
    squared norm of a contribution is at most sum_mg n_mg^2 / (M max(1, s^2)) = s^2 / max(1, s^2) <= 1: the clip C.
    Adding or removing a unit moves the sum by at most C. Replacing one moves it by at most the root of 2 times C, since
    no entry is below 0. A person with many documents, in any groups, has the same bound as one with a single document.

    *Lattice.* Proportions are truncated to whole numbers of 1 / GRID, whose sums over a unit are exact. Contributions
    are truncated toward zero to the noise's lattice. Both raise no norm; `_BELOW` is above the rounding of norms.
    """

    at_root = ("_sums",)

    def __init__(self, sizes: Sequence[int], n_topics: int):
        self.clip, self.sizes = 1.0, tuple(sizes)
        #: How the number of a group in each table follows from a document's places: factors, and the first row.
        whole = [math.prod(self.sizes[c + 1 :]) for c in range(len(self.sizes))]
        tables = [whole] if len(whole) == 1 else [whole, *np.eye(len(whole), dtype=int).tolist()]
        counts = [math.prod(self.sizes), *(self.sizes if len(whole) > 1 else ())]
        self._factors, ends = np.array(tables, np.int64).T, np.cumsum([0, *counts])
        self._first, self._spacing = ends[:-1], 1.0
        self.shape = (int(ends[-1]), n_topics)
        self._sums, self._done, self._variance = np.zeros(self.shape), 0, 0.0

    @property
    def n_tables(self) -> int:
        """Number M of tables."""
        return len(self._first)

    def sensitivity(self, relation: str) -> float:
        """Return the clip, times the root of 2 to replace.

        The root is for a unit; see the notes.
        """
        return self.clip * (1.0 if relation == "add_remove" else 2.0**0.5)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = checked_spacing(mechanism.spacing, self.clip)

    def contribute(
        self, block: GroupBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add each unit's sums, brought to the bound together; see the notes."""
        (documents, rows), _, starts = unpack_block(block, words)
        unit = np.arange(len(rows)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        places = documents.places[rows]
        known = places[:, 0] >= 0
        unit, rows, places = unit[known], rows[known], places[known]
        keys = unit[:, None] * self.shape[0] + places @ self._factors + self._first
        keys, place = np.unique(keys, return_inverse=True)
        place = place.reshape(-1, self.n_tables)
        of_unit, cells = keys // self.shape[0], keys % self.shape[0]
        sums = np.zeros((len(keys), self.shape[1]))
        for column in place.T:
            np.add.at(sums, column, documents.proportions[rows])
        factors = _shortening(of_unit, np.bincount(place.reshape(-1), minlength=len(keys)), len(words), self.n_tables)
        values = sums * (factors * (self.clip / (GRID * self._spacing)))[:, None]
        np.add.at(out, cells, np.trunc(values).astype(np.int64))
        if "diagnostics" in scratch:
            diagnose(scratch, clipped=0, norm_sum=0)

    def update(self, release: Release) -> None:
        """Take a release."""
        self._sums += release.values
        self._variance += release.noise_sd**2
        self._done += 1

    def result(self) -> dict[str, np.ndarray]:
        """Give released sums as means per unit, with their noise.

        The noise is a standard deviation.
        """
        done = max(self._done, 1)
        return {"sums": self._sums / done, "noise_sd": np.array([math.sqrt(self._variance) / done])}

    def state(self) -> dict[str, np.ndarray]:
        """Give the released sums."""
        return {"table_sums": self._sums.copy(), "table_steps": np.array([float(self._done), self._variance])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        done, variance = array_of(state, "table_steps", (2,)).tolist()
        if not (0 <= done < 2**31 and done == int(done) and variance >= 0):
            raise ValueError("state: 'table_steps' is out of its range")
        self._sums, self._done, self._variance = array_of(state, "table_sums", self.shape), int(done), variance


def _shortening(of_unit: np.ndarray, counts: np.ndarray, n_units: int, n_tables: int) -> np.ndarray:
    """Compute factors that bring a unit's norm down to 1.

    There is one for each group of a unit, if the norm is above 1.
    """
    squares = np.bincount(of_unit, weights=counts.astype(np.float64) ** 2, minlength=n_units)
    return np.asarray((_BELOW / np.sqrt(np.maximum(squares, n_tables)))[of_unit])
