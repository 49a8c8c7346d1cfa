"""Estimate tables from released sums: shares, intervals, readable cells.

The shares are consistent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtr, ndtri

from ...data.types import Matrix, Vector
from ...store.text import csv_text

#: Rounds of the search for shares >= 0.
_ROUNDS = 300
#: Rounds of scaling, and the least cell before it, as a share of an even one.
_SCALINGS, _LEAST = 30, 1e-5


@dataclass(frozen=True)
class Table:
    """Shares of topics in each group.

    Attributes
    ----------
    columns : tuple of str
        The columns whose groups these are.
    groups : tuple of tuples
        The values of each row, G of them.
    weights : (G,) array
        Noised total of each group: about its persons. They add up over groups.
    shares : (G, K) array
        At least 0; rows sum to 1. A table of fewer columns is the weighted mean of one of more.
    low, high : (G, K) arrays
        Ends of intervals for the share without noise. They contain it with the probability of the level.
    readable : (G, K) array of bool
        Whether the interval is narrow enough, and within 0 and 1; a function of released numbers.
    """

    columns: tuple[str, ...]
    groups: tuple[tuple[str | int, ...], ...]
    weights: Vector
    shares: Matrix
    low: Matrix
    high: Matrix
    readable: np.ndarray[tuple[int, int], np.dtype[np.bool_]]

    def csv(self, names: Sequence[str] | None = None) -> str:
        """Write a line for each group and topic.

        Numbers that cannot be read are left out. ``names`` are the names of the topics; None numbers them from 1.
        """
        names = [str(k + 1) for k in range(self.shares.shape[1])] if names is None else list(names)
        if len(names) != self.shares.shape[1]:
            raise ValueError(f"names: {len(names)}; expected {self.shares.shape[1]}, one for each topic")
        rows: list[list[object]] = [[*self.columns, "topic", "share", "low", "high"]]
        for g, group in enumerate(self.groups):
            for k, name in enumerate(names):
                numbers = (array[g, k] for array in (self.shares, self.low, self.high))
                rows.append([*group, name, *(f"{x:.4f}" if self.readable[g, k] else "" for x in numbers)])
        return csv_text(rows)


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of groups' shares, with intervals.

    It is (K,), for each topic, with the ends of its intervals.
    """

    estimate: Vector
    low: Vector
    high: Vector


class Estimate:
    """The cells of all columns together, as all released tables tell them.

    With M tables of noise sd s, table m releases M^(-1/2) B_m c of the cells c. Least squares gives c with covariance
    s^2 times the inverse of sum_m B_m' B_m / M, the same for every topic; topics are independent.
    """

    def __init__(self, sizes: Sequence[int], sums: np.ndarray, noise_sd: float):
        self._sizes, self._sd = tuple(sizes), noise_sd
        n_tables = 1 if len(self._sizes) == 1 else 1 + len(self._sizes)
        kept = [tuple(range(len(self._sizes))), *((c,) for c in range(len(self._sizes)))][:n_tables]
        every = np.vstack([self.merged(columns) for columns in kept]) / n_tables**0.5
        self.precision = every.T @ every
        self.inverse = np.linalg.inv(self.precision)
        self.cells = self.inverse @ (every.T @ sums)
        self._shares = self._consistent()

    def merged(self, columns: Sequence[int]) -> np.ndarray:
        """Make the matrix that adds cells up to groups of columns."""
        places = np.indices(self._sizes).reshape(len(self._sizes), -1)
        shape = [self._sizes[c] for c in columns]
        into = np.ravel_multi_index([places[c] for c in columns], shape)
        return np.asarray(into == np.arange(math.prod(shape))[:, None], dtype=np.float64)

    def variances(self, columns: Sequence[int]) -> np.ndarray:
        """Compute the covariance of the sums of groups of some columns."""
        matrix = self.merged(columns)
        return np.asarray(self._sd**2 * (matrix @ self.inverse @ matrix.T))

    def _consistent(self) -> np.ndarray:
        """Find the nearest cells >= 0 with these totals.

        They are nearest by the covariance (Beck & Teboulle 2009). Bounds at 0 draw large cells down. Sums over cells
        have less noise, so cells are scaled to the sums of each column (Deming & Stephan 1940).
        """
        totals = np.maximum(self.cells.sum(axis=1), 0.0)
        now = last = _on_simplex(self.cells, totals)
        if len(self._sizes) > 1:
            step = 1.0 / float(np.linalg.norm(self.precision, 2))
            for round_ in range(_ROUNDS):
                ahead = now + round_ / (round_ + 3.0) * (now - last)
                last, now = now, _on_simplex(ahead - step * (self.precision @ (ahead - self.cells)), totals)
            columns = [self.merged([c]) for c in range(len(self._sizes))]
            sums = [_on_simplex(column @ self.cells, column @ totals) for column in columns]
            now = now + _LEAST * totals[:, None] / now.shape[1]
            for _ in range(_SCALINGS):
                for column, target in zip(columns, sums, strict=True):
                    now = now * (column.T @ (target / np.maximum(column @ now, 1e-300)))
            now *= (totals / np.maximum(now.sum(axis=1), 1e-300))[:, None]
        return now

    def table(self, matrix: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Compute weights, shares and interval ends of groups."""
        found, sums = matrix @ self._shares, matrix @ self.cells
        variances = self._sd**2 * np.einsum("gc,cd,gd->g", matrix, self.inverse, matrix)
        weights = found.sum(axis=1)
        shares = np.where(weights[:, None] > 0, found, 1.0) / np.where(weights > 0, weights, sums.shape[1])[:, None]
        return weights, shares, *share_intervals(sums, variances, level)

    def contrast(self, column: int, factors: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the weighted sum of the groups' shares."""
        return share_contrast(self.merged([column]) @ self.cells, self.variances([column]), factors, level)

    def error(self, columns: Sequence[int], totals: np.ndarray, n_topics: int) -> float:
        """Compute the median error of shares of 1 / K.

        It is for groups of some columns, by the totals of all cells. The errors of a group are normal; the errors of
        all groups are their mixture, whose median is found by bisection.
        """
        sizes = np.maximum(self.merged(columns) @ totals, 1e-9)
        sds = np.sqrt(np.diag(self.variances(columns)) * (1.0 - 1.0 / n_topics)) / sizes
        low, high = 0.0, float(sds.max())
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if (2 * ndtr(middle / np.maximum(sds, 1e-300)) - 1).mean() < 0.5 else (low, middle)
            )
        return high


def share_intervals(sums: np.ndarray, variances: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Find the ends of intervals for the shares of sums (G, K).

    The noise has the same variance in a row.

    An interval has each share s with (c_k - s N)^2 <= z^2 v (1 - 2 s + K s^2). Here a sum c_k has noise variance v and
    the total N (Fieller 1954). It has the level exactly, for any N; where the noise hides N it is [0, 1].
    """
    n_topics, totals = sums.shape[1], sums.sum(axis=1, keepdims=True)
    spread = ndtri(0.5 + level / 2) ** 2 * variances[:, None]
    square = totals**2 - spread * n_topics
    middle = sums * totals - spread
    root = np.sqrt(np.maximum(middle**2 - square * (sums**2 - spread), 0.0))
    bounded = (square > 0) & (totals > 0)
    divisor = np.where(bounded, square, 1.0)
    low = np.where(bounded, np.clip((middle - root) / divisor, 0.0, 1.0), 0.0)
    high = np.where(bounded, np.clip((middle + root) / divisor, 0.0, 1.0), 1.0)
    return low, high


def share_contrast(
    sums: np.ndarray, covariance: np.ndarray, factors: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up shares times factors (G,).

    The noise is to first order in the noise of the sums. That has the covariance (G, G) in every topic, and topics are
    independent.
    """
    totals = np.maximum(sums.sum(axis=1), np.sqrt(np.diag(covariance) * sums.shape[1]))
    shares = sums / totals[:, None]
    # Of topic k: sum over topics j of (1[j = k] - share_k)^2, as the factors of groups with noise in common.
    own, others = (1.0 - shares).T / totals, shares.T / totals
    n_topics = sums.shape[1]
    both = own[:, :, None] * own[:, None, :] + (n_topics - 1) * others[:, :, None] * others[:, None, :]
    variance = np.einsum("g,kgh,h->k", factors, both * covariance, factors)
    estimate, half = factors @ shares, ndtri(0.5 + level / 2) * np.sqrt(variance)
    return estimate, estimate - half, estimate + half


def _on_simplex(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Project rows on nonnegative ones with these totals.

    The method is by Held, Wolfe & Crowder 1974.
    """
    ordered = -np.sort(-rows, axis=1)
    over = np.cumsum(ordered, axis=1) - totals[:, None]
    counts = np.arange(1, rows.shape[1] + 1)
    last = np.maximum((ordered * counts > over).sum(axis=1), 1) - 1
    return np.asarray(np.maximum(rows - (over[np.arange(len(rows)), last] / (last + 1))[:, None], 0.0))


def groups_of(by: dict[str, list[str | int]], columns: Sequence[str]) -> tuple[tuple[str | int, ...], ...]:
    """List the groups of some columns, the last column first to change."""
    return tuple(product(*(by[name] for name in columns)))
