"""Polya-Gamma mean and logistic regression E-step in plain numpy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["logistic_accumulate", "logistic_classes", "logistic_units", "logistic_weights", "pg_mean"]


def pg_mean(c: ArrayLike, *, b: float = 1.0) -> np.ndarray:
    """b tanh(c/2)/(2c), by its series where the quotient loses digits; see `vips_fast.kernels.pg_mean`."""
    c = np.abs(np.asarray(c, dtype=np.float64))
    y = np.minimum(c, 1e-2) ** 2
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return np.asarray(b * np.where(c < 1e-2, 0.25 - y / 48 + y * y / 480, np.tanh(c / 2) * 0.5 / c))


def clip_weights(
    x: np.ndarray,
    y: float,
    b: float,
    second_moment: np.ndarray | None,
    center: np.ndarray,
    row_norm: float,
    scales: tuple[float, float],
    clip_norm: float,
    label_free: bool,
    spacing: float,
    grid: float,
) -> tuple[float, float, float, float]:
    """Return one record's factors (linear, quadratic), its <xi> and its joint norm."""
    norm, shrink = math.sqrt(x @ x), 1.0
    if norm > row_norm:
        x, norm, shrink = x * (row_norm / norm), row_norm, row_norm / norm
    c = abs(x @ center) if second_moment is None else math.sqrt(max(x @ second_moment @ x, 0.0))
    xi = float(pg_mean(c, b=b))
    curvature = b / 4 * (1 - math.tanh(c / 2) ** 2) if second_moment is None else xi
    residual = y - b / 2 - xi * (x @ center)
    size = max(abs(residual), b / 2 + xi * abs(x @ center)) if label_free else residual
    joint = math.hypot(size * norm / scales[0], xi * norm**2 / scales[1])
    target = clip_norm - 2 * spacing
    t = target / joint if joint > target else 1.0
    linear = t * residual * shrink / scales[0] / spacing
    quadratic = math.sqrt(t * curvature / scales[1]) * shrink / grid
    return linear, quadratic, xi, joint


def logistic_weights(
    X: np.ndarray,
    y: np.ndarray,
    trials: np.ndarray,
    second_moment: np.ndarray | None,
    center: np.ndarray,
    *,
    row_norm: float,
    scales: tuple[float, float],
    clip_norm: float,
    label_free: bool,
    spacing: float,
    grid: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute each record's two factors, <xi> and joint norm, (n,) each.

    The factors are lowered until the record's integers are within the clip: exactly, in Python's integers.
    """
    bound = int(clip_norm / spacing) ** 2
    columns = np.zeros((4, len(X)))
    for i, x in enumerate(X):
        w, f, *rest = clip_weights(
            x, float(y[i]), trials[i], second_moment, center, row_norm, scales, clip_norm, label_free, spacing, grid
        )
        if not 1e-140 <= np.linalg.norm(x) <= 1e150:
            w = f = 0.0
        while True:
            # Integers of one record: q of s1, and the factor a of a a^T.
            q, a = np.trunc(w * x).astype(np.int64), np.trunc(f * x).astype(np.int64)
            # h^2 sum a^2 in units of the spacing, rounded up; Python integers are exact.
            frobenius = math.ceil(int(a @ a) * (grid * grid / spacing))
            if int(q @ q) + frobenius**2 <= bound:
                break
            w, f = w * (1 - 2.0**-20), f * (1 - 2.0**-20)
        columns[:, i] = w, f, *rest
    return columns[0], columns[1], columns[2], columns[3]


def logistic_accumulate(X: np.ndarray, linear: np.ndarray, quadratic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum records' integers: (d,), and a packed upper triangle, int64."""
    q = np.trunc(linear[:, None] * X).astype(np.int64)
    a = np.trunc(quadratic[:, None] * X).astype(np.int64)
    return q.sum(axis=0), (a.T @ a)[np.triu_indices(X.shape[1])]


def logistic_units(
    starts: np.ndarray,
    X: np.ndarray,
    linear: np.ndarray,
    quadratic: np.ndarray,
    norms: np.ndarray,
    *,
    clip_norm: float,
    spacing: float,
    grid: float,
    label_free: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Scale rows down to a unit's joint bound, from matrices.

    The matrices are d x d. Unit u has rows ``starts[u]`` to ``starts[u + 1]`` of X, (n, d); ``linear``, ``quadratic``
    and ``norms`` of the rows are as `clip_weights` gives them.
    """
    linear, quadratic = linear.copy(), quadratic.copy()
    target, limit = clip_norm - 2 * spacing, math.floor(clip_norm / spacing)
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        part = slice(first, last)
        x = np.where(((linear[part] != 0) | (quadratic[part] != 0))[:, None], np.asarray(X[part], np.float64), 0.0)
        if last - first < 2:
            continue
        gram, f = x @ x.T, quadratic[part] * grid
        square = float(np.sum(((linear[part] * spacing) @ x) ** 2))
        if label_free:
            own = np.minimum(norms[part], target)
            rest = np.sqrt(np.maximum(own**2 - (f**2 * np.diag(gram)) ** 2, 0.0) + 2.0**-40 * own**2)
            weight = np.divide(rest, np.sqrt(np.diag(gram)), out=np.zeros_like(rest), where=np.diag(gram) > 0)
            square = float(weight @ np.abs(gram) @ weight)
        norm = math.sqrt(square + np.linalg.norm((x.T * f**2) @ x) ** 2)
        goal = target * (1 - 2.0**-18)
        factor = goal / norm if norm > goal else 1.0
        while True:
            linear[part] *= factor
            quadratic[part] *= math.sqrt(factor)
            q = np.trunc(linear[part, None] * x).astype(np.int64).sum(axis=0)
            a = np.trunc(quadratic[part, None] * x)
            square = float(q @ q) + (grid * grid / spacing) ** 2 * float(np.linalg.norm(a.T @ a)) ** 2
            if square * (1 + 2.0**-20) <= limit**2:
                break
            factor = limit / math.sqrt(square * (1 + 2.0**-20)) * (1 - 2.0**-20)
    return linear, quadratic


def logistic_classes(
    starts: np.ndarray | None,
    X: np.ndarray,
    labels: np.ndarray,
    second_moment: np.ndarray | None,
    center: np.ndarray,
    *,
    row_norm: float,
    scales: tuple[float, float],
    clip_norm: float,
    spacing: float,
    grid: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute factors (K, n) and (n,) of K classes, with joint norms.

    ``second_moment`` is (K, d, d) or None, ``center`` (K, d). Unit u has rows ``starts[u]`` to ``starts[u + 1]`` of
    X, (n, d).
    """
    n, K, target = len(X), len(center), clip_norm * (1 - 2.0**-20)
    linear, quadratic, norms = np.zeros((K, n)), np.zeros(n), np.zeros(n)
    for i in range(n):
        norm = math.sqrt(X[i] @ X[i])
        shrink = min(1.0, row_norm / norm) if norm > 0 else 1.0
        x, norm = X[i] * shrink, norm * shrink
        if norm == 0:
            continue
        logits = center @ x
        xi = pg_mean(logits if second_moment is None else np.sqrt([max(x @ M @ x, 0.0) for M in second_moment]))
        residual = -0.5 - xi * logits
        # With the worst label the residuals' squares add up to sum r^2 + 1 + 2 max r.
        worst = math.sqrt(max(residual @ residual + 1 + 2 * residual.max(), 0.0))
        norms[i] = math.hypot(worst * norm / scales[0], xi.max() * norm**2 / scales[1])
        t = min(1.0, target / norms[i])
        linear[:, i] = t * (residual + (np.arange(K) == labels[i])) * shrink / scales[0] / spacing
        quadratic[i] = math.sqrt(t * xi.max() / scales[1]) * shrink / grid
    for first, last in () if starts is None else zip(starts[:-1], starts[1:], strict=True):
        unit = slice(first, last)
        factor = min(1.0, target / max(np.minimum(norms[unit], target).sum(), target)) if last - first > 1 else 1.0
        linear[:, unit] *= factor
        quadratic[unit] *= math.sqrt(factor)
    return linear, quadratic, norms
