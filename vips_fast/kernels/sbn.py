"""Checked Python entries of the sigmoid belief network kernels.

J visible units, K hidden units, n records. Both sweeps split the records into blocks for Python threads. Results have
the same bits for any number of threads (``n_threads``, -1 for all processors) and any blocks. ``isa`` names an
instruction set to use in place of the one chosen at import. An argument of a wrong shape, dtype or range raises
ValueError or TypeError before anything is computed. The twins of the same names in `vips_fast.kernels.reference` are
equivalent. The models call the kernels of the sums, which csrc/kernels.toml describes, without checks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import check_array, check_choice, check_number
from . import native
from .threads import map_chunks, resolve_n_threads, zeros_on_line

__all__ = ["SbnEStep", "sbn_pg", "sbn_quadratic"]

#: Records of one block. A block's z and sums stay in a core's second-level cache.
BLOCK_RECORDS = 512


class SbnEStep(NamedTuple):
    """Result of a sigmoid belief network's Polya-Gamma E-step, n records."""

    z: np.ndarray  #: (n, K) float64, probabilities q(z_k = 1).
    xi: np.ndarray  #: (n, J) float64, Polya-Gamma means at that z.


def workspaces(kind: str, n_visible: int, n_hidden: int, n_threads: int, isa: str | None = None) -> list[np.ndarray]:
    """Make a workspace of the kernel ``kind`` for each thread."""
    kernel, _, real = kind.partition("_")
    sizes = (n_hidden,) if kernel == "gram" else (n_visible, n_hidden)
    size = getattr(native, f"sbn_{kernel}_workspace")(*sizes, *([real == "f32"] if real else []), isa=isa)
    return [np.empty(size, dtype=np.uint8) for _ in range(n_threads)]


def visible_table(w: np.ndarray, dtype: DTypeLike = np.float64) -> np.ndarray:
    """Copy (J, K) to hidden-unit-major (K, stride) order, padded with zeros."""
    table = zeros_on_line((w.shape[1], native.sbn_stride(w.shape[0])), dtype)
    table[:, : w.shape[0]] = w.T
    return table


def record_blocks(n_records: int, block: int) -> list[tuple[int, int]]:
    """Return (first, last) of consecutive blocks of records."""
    return [(i, min(i + block, n_records)) for i in range(0, n_records, block)]


def _checked(y: ArrayLike, w: ArrayLike, n_sweeps: Any, n_threads: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Check the arguments of both sweeps: records, as C-contiguous uint8, weights, sweeps and threads."""
    records, weights = np.asarray(y), np.asarray(w, dtype=np.float64)
    if records.ndim != 2 or records.shape[1] < 1:
        raise ValueError(f"y has shape {records.shape}: expected (n, J) with J >= 1")
    if records.dtype.kind not in "biuf":
        raise TypeError(f"y has dtype {records.dtype}: expected booleans or numbers")
    if records.dtype != bool and not ((records == 0) | (records == 1)).all():
        raise ValueError("y: expected only the values 0 and 1")
    records = np.ascontiguousarray(records, dtype=np.uint8)
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(f"w has shape {weights.shape}: expected two dimensions of at least 1")
    if records.shape[1] != len(weights):
        raise ValueError(f"y has {records.shape[1]} columns: expected {len(weights)}, the rows of w")
    sweeps = check_number("n_sweeps", n_sweeps, 0, 2**31 - 1, integer=True)
    return records, check_array("w", weights, weights.shape), sweeps, resolve_n_threads(n_threads, "n_threads")


def sbn_pg(
    y: ArrayLike,
    w: ArrayLike,
    w2: ArrayLike,
    c: ArrayLike,
    c_var: ArrayLike,
    b: ArrayLike,
    start: ArrayLike,
    *,
    n_sweeps: int = 5,
    dtype: str = "float32",
    n_threads: int = 1,
    isa: str | None = None,
) -> SbnEStep:
    """Compute mean-field q(z) of a belief network by the Polya-Gamma bound.

    Start from z = start, (K,) in [0, 1] and the same for each record. Make ``n_sweeps`` >= 0 sweeps of z_k =
    sigmoid(d_k), k = 0..K-1 in turn, with d_k of Park et al. (2020), Eqs. 69-71; the Polya-Gamma means xi_j (Eq. 67)
    are renewed before each sweep and after the last. They use E[psi_j^2] = E[psi_j]^2 + c_var_j + sum_k (w2_jk z_k -
    w_jk^2 z_k^2), where entries of W count as independent. A record's result depends only on that record and the
    parameters, bit for bit.

    ``y`` is (n, J) of 0 and 1. ``w`` and ``w2``, (J, K), are E[w_jk] and E[w_jk^2] (w2 = w * w for a point estimate).
    ``c`` and ``c_var``, (J,), are mean and variance of the visible biases. ``b``, (K,), are the hidden biases.
    ``dtype``, "float32" or "float64", is the precision of the sweeps.
    """
    y, w, n_sweeps, n_threads = _checked(y, w, n_sweeps, n_threads)
    (n_visible, n_hidden), w2 = w.shape, check_array("w2", w2, w.shape, 0.0)
    c, c_var = check_array("c", c, (n_visible,)), check_array("c_var", c_var, (n_visible,), 0.0)
    b, start = check_array("b", b, (n_hidden,)), check_array("start", start, (n_hidden,), 0.0, 1.0)
    check_choice("dtype", dtype, ("float32", "float64"))
    z, xi = np.empty((len(y), n_hidden)), np.empty(y.shape)
    table, table2 = visible_table(w, dtype), visible_table(w2, dtype)
    c, c_var, b, start = (array.astype(dtype) for array in (c, c_var, b, start))
    areas = workspaces("pg_f32" if dtype == "float32" else "pg_f64", n_visible, n_hidden, n_threads, isa)

    def sweep(first: int, last: int, worker: int) -> None:
        part = slice(first, last)
        native.sbn_pg(y[part], table, table2, c, c_var, b, start, n_sweeps, areas[worker], z[part], xi[part], isa)

    map_chunks(len(y), BLOCK_RECORDS, n_threads, sweep)
    return SbnEStep(z, xi)


def sbn_quadratic(
    y: ArrayLike,
    w: ArrayLike,
    gram: ArrayLike,
    linear: ArrayLike,
    start: ArrayLike,
    *,
    n_sweeps: int = 5,
    n_threads: int = 1,
    isa: str | None = None,
) -> np.ndarray:
    """Compute mean-field q(z) of a belief network by a shared curvature.

    A parabola of curvature kappa_j bounds log(1 + e^psi) here. (Bohning 1992 has 1/4, Jaakkola & Jordan 2000
    tanh(t_j/2) / (2 t_j).) It replaces the Polya-Gamma bound, Eq. 70 of Park et al. (2020) becomes z_k =
    sigmoid(linear_k + sum_j y_j w_jk - sum_{l != k} gram_kl z_l), k = 0..K-1 in turn. A record's result depends only on
    that record and the parameters, bit for bit.

    ``y``, ``w``, ``start`` and ``n_sweeps`` are as in `sbn_pg`. ``linear`` is (K,). ``gram``, (K, K), is sum_j kappa_j
    E[w_j w_j'] for the bounds above; its diagonal is not read.
    """
    y, w, n_sweeps, n_threads = _checked(y, w, n_sweeps, n_threads)
    n_visible, n_hidden = w.shape
    gram, linear = check_array("gram", gram, (n_hidden, n_hidden)), check_array("linear", linear, (n_hidden,))
    start = check_array("start", start, (n_hidden,), 0.0, 1.0)
    z = np.empty((len(y), n_hidden))
    areas = workspaces("quadratic", n_visible, n_hidden, n_threads, isa)

    def sweep(first: int, last: int, worker: int) -> None:
        native.sbn_quadratic(y[first:last], w, gram, linear, start, n_sweeps, areas[worker], z[first:last], isa)

    map_chunks(len(y), BLOCK_RECORDS, n_threads, sweep)
    return z
