"""Statistics of a mixture's rows; clip and truncate units of rows, one after the other."""

import math

import numpy as np

__all__ = ["clip_units", "mixture_rows", "mixture_units"]


def clip_units(
    values: np.ndarray, starts: np.ndarray, *, clip: float, bound: float, spacing: float, nonnegative: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Add up the rows of each unit, scale the sum down to a norm of ``clip``, and truncate it to multiples of spacing.

    Unit u has the rows starts[u] to starts[u + 1] of ``values``, (n, S). A row that is not finite adds nothing. Returns
    sums over units, (S,) int64, and counts, (2,) int64: units that were scaled down; rows not finite or longer than
    ``bound``.
    """
    sums, counts = np.zeros(values.shape[1], np.int64), np.zeros(2, np.int64)
    limit = math.floor(clip / spacing)
    if nonnegative:
        values = np.where(values < 0.0, 0.0, values)
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        if first == last:
            continue
        rows = [_within_reach(row) for row in values[first:last]]
        counts[1] += sum(norm < 0.0 or norm > bound * (1.0 + 1e-9) for _, norm in rows)
        total, norm = rows[0] if len(rows) == 1 else _within_reach(np.sum([row for row, _ in rows], axis=0))
        counts[0] += norm > clip * (1.0 + 1e-9)
        longest = clip * (1.0 - 2.0**-40)
        factor = longest / norm / spacing if norm > longest else 1.0 / spacing
        whole = np.trunc(total * factor).astype(np.int64)
        while norm > clip * (1.0 - 2.0**-20) and int((whole * whole).sum()) > limit**2:
            factor *= 1.0 - 2.0**-20
            whole = np.trunc(total * factor).astype(np.int64)
        sums += whole
    return sums, counts


def _within_reach(row: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a row and its norm: zeros and -1 for one that is not finite, of norm 1e120 if squares would overflow."""
    if not np.isfinite(row).all():
        return np.zeros(len(row)), -1.0
    top = float(np.abs(row).max())
    if top > 1e100 and float(np.linalg.norm(row / top)) * top > 1e150:
        row = row / top * 1e120
    return row, float(np.sqrt((row * row).sum()))


def mixture_rows(records: np.ndarray, constant: np.ndarray, linear: np.ndarray, weight: float) -> np.ndarray:
    """Compute the statistics of a mixture of round Gaussians, (n, K (1 + d) + 1), for records (n, d).

    A record is scaled down to norm 1. Its responsibilities are in proportion to exp(constant + linear x). The rows are
    the responsibilities times ``weight``, their products with x, and the squared length times weight. They are NaN if
    they cannot be computed.
    """
    with np.errstate(all="ignore"):
        lengths = np.sqrt((records * records).sum(axis=1, keepdims=True))
        x = records / np.maximum(lengths, 1.0)
        logs = constant + x @ linear.T
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        products = (shares[:, :, None] * x[:, None, :]).reshape(len(x), linear.size)
        rows = np.concatenate([weight * shares, products, weight * (x * x).sum(axis=1, keepdims=True)], axis=1)
    usable = np.isfinite(rows).all(axis=1, keepdims=True) & np.isfinite(lengths)
    return np.where(usable, rows, math.nan)


def mixture_units(
    records: np.ndarray,
    starts: np.ndarray,
    constant: np.ndarray,
    linear: np.ndarray,
    weight: float,
    *,
    clip: float,
    bound: float,
    spacing: float,
    nonnegative: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `mixture_rows`, and their `clip_units`."""
    rows = mixture_rows(records, constant, linear, weight)
    return clip_units(rows, starts, clip=clip, bound=bound, spacing=spacing, nonnegative=nonnegative)
