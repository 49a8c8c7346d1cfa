"""Checked Python entries of the sigmoid belief network kernels.

J visible units, K hidden units, n records. Each function splits the records (the second moments: the pairs) into blocks
for Python threads; results have the same bits for any number of threads (``n_threads``, -1 for all processors) and any
blocks. ``isa`` names an instruction set to use in place of the one chosen at import. An argument of a wrong shape,
dtype or range raises ValueError or TypeError before anything is computed. The twins of the same names in
`vips_fast.kernels.reference` are equivalent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import check_array
from . import native
from .lattice import MAX_SPACING, MIN_SPACING, checked_spacing, is_power_of_two
from .results import SbnEStep
from .threads import resolve_n_threads, run_blocks

#: Records of one block. A block's z and sums stay in a core's second-level cache.
BLOCK_RECORDS = 512

#: The second moments' pairs go to threads in multiples of this, a multiple of every panel width.
BLOCK_PAIRS = 24

#: Largest integers that the exact sums take (see csrc/sbn/sums.c).
MAX_CROSS_UNITS = 2**31 - 1
MAX_GRAM_UNITS = 2**20
MAX_WEIGHT_UNITS = 2**21
MAX_PAIR_SCALE = 2**22


def workspaces(kind: str, n_visible: int, n_hidden: int, n_threads: int, isa: str | None = None) -> list[np.ndarray]:
    """One workspace of the kernel ``kind`` (pg_f32, pg_f64, quadratic, moments or gram) for each thread."""
    kernel, _, real = kind.partition("_")
    sizes = (n_hidden,) if kernel == "gram" else (n_visible, n_hidden)
    size = getattr(native, f"sbn_{kernel}_workspace")(*sizes, *([real == "f32"] if real else []), isa=isa)
    return [np.empty(size, dtype=np.uint8) for _ in range(n_threads)]


def visible_table(w: np.ndarray, dtype: DTypeLike = np.float64) -> np.ndarray:
    """Hidden-unit-major (K, stride) copy of a (J, K) array, rows padded with zeros."""
    shape = (w.shape[1], native.sbn_stride(w.shape[0]))
    # Rows start on cache lines: vectors that straddle two cost twice.
    raw = np.zeros(shape[0] * shape[1] + 16, dtype=dtype)
    first = -raw.ctypes.data % 64 // raw.itemsize
    table = raw[first : first + shape[0] * shape[1]].reshape(shape)
    table[:, : w.shape[0]] = w.T
    return table


def record_blocks(n_records: int, block: int = BLOCK_RECORDS) -> list[tuple[int, int]]:
    """(first, last) of consecutive blocks of records."""
    return [(i, min(i + block, n_records)) for i in range(0, n_records, block)]


def _over_records(n_records: int, n_threads: int, work: Callable[[slice, int], None]) -> None:
    """work(records, worker) for each block of records, on threads."""
    blocks = record_blocks(n_records)
    run_blocks(len(blocks), n_threads, lambda block, worker: work(slice(*blocks[block]), worker))


def _binary(y: Any) -> np.ndarray:
    """The records as C-contiguous uint8; anything but 0 and 1 is refused."""
    y = np.asarray(y)
    if y.ndim != 2 or y.shape[1] < 1:
        raise ValueError(f"y has shape {y.shape}: expected (n, J) with J >= 1")
    if y.dtype.kind not in "biuf":
        raise TypeError(f"y has dtype {y.dtype}: expected booleans or numbers")
    if y.dtype != bool and not ((y == 0) | (y == 1)).all():
        raise ValueError("y: expected only the values 0 and 1")
    return np.ascontiguousarray(y, dtype=np.uint8)


def _matrix(name: str, value: ArrayLike) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}: expected two dimensions of at least 1")
    return np.ascontiguousarray(array)


def _sweeps(n_sweeps: Any) -> int:
    if isinstance(n_sweeps, (bool, np.bool_)) or not isinstance(n_sweeps, (int, np.integer)):
        raise TypeError(f"n_sweeps={n_sweeps!r}: expected an integer")
    if not 0 <= n_sweeps < 2**31:
        raise ValueError(f"n_sweeps={n_sweeps}: expected an integer >= 0")
    return int(n_sweeps)


def _units(name: str, value: ArrayLike, limit: int, low: int | None = None) -> np.ndarray:
    """Integers held in a float64 matrix."""
    array = _matrix(name, value)
    low = -limit if low is None else low
    for first, last in record_blocks(len(array)):  # in the cache
        part = array[first:last]
        # NaN is not equal to itself.
        if not (part == np.trunc(part)).all() or part.min() < low or part.max() > limit:
            raise ValueError(f"{name}: expected integers in [{low}, {limit}]")
    return array


def sbn_pg(
    y: ArrayLike, w: ArrayLike, w2: ArrayLike, c: ArrayLike, c_var: ArrayLike, b: ArrayLike, start: ArrayLike, *,
    n_sweeps: int = 5, dtype: str = "float32", n_threads: int = 1, isa: str | None = None,
) -> SbnEStep:
    """Mean-field q(z) of a sigmoid belief network under the Polya-Gamma bound: ``z`` (n, K) and ``xi`` (n, J), float64.

    From z = start, (K,) in [0, 1] and the same for each record, ``n_sweeps`` >= 0 sweeps of z_k = sigmoid(d_k), k =
    0..K-1 in turn, with d_k of Park et al. (2020), Eqs. 69-71; the Polya-Gamma means xi_j (Eq. 67) are renewed before
    each sweep and after the last, with E[psi_j^2] = E[psi_j]^2 + c_var_j + sum_k (w2_jk z_k - w_jk^2 z_k^2), the
    entries of W taken as independent. A record's result depends on that record and the parameters alone, bit for bit.

    ``y`` is (n, J) of 0 and 1; ``w`` and ``w2``, (J, K), are E[w_jk] and E[w_jk^2] (w2 = w * w for a point estimate);
    ``c`` and ``c_var``, (J,), mean and variance of the visible biases; ``b``, (K,), the hidden biases; ``dtype``,
    "float32" or "float64", is the precision of the sweeps.
    """
    y, w = _binary(y), _matrix("w", w)
    n_visible, n_hidden = w.shape
    if y.shape[1] != n_visible:
        raise ValueError(f"y has {y.shape[1]} columns: expected {n_visible}, the rows of w")
    w, w2 = check_array("w", w, w.shape), check_array("w2", w2, w.shape, 0.0)
    c, c_var = check_array("c", c, (n_visible,)), check_array("c_var", c_var, (n_visible,), 0.0)
    b, start = check_array("b", b, (n_hidden,)), check_array("start", start, (n_hidden,), 0.0, 1.0)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'")
    n_sweeps, n_threads = _sweeps(n_sweeps), resolve_n_threads(n_threads, "n_threads")
    z, xi = np.empty((len(y), n_hidden)), np.empty(y.shape)
    table, table2 = visible_table(w, dtype), visible_table(w2, dtype)
    c, c_var, b, start = (array.astype(dtype) for array in (c, c_var, b, start))
    areas = workspaces("pg_f32" if dtype == "float32" else "pg_f64", n_visible, n_hidden, n_threads, isa)
    _over_records(
        len(y), n_threads,
        lambda part, worker: native.sbn_pg(
            y[part], table, table2, c, c_var, b, start, n_sweeps, areas[worker], z[part], xi[part], isa
        ),
    )
    return SbnEStep(z, xi)


def sbn_quadratic(
    y: ArrayLike, w: ArrayLike, gram: ArrayLike, linear: ArrayLike, start: ArrayLike, *, n_sweeps: int = 5,
    n_threads: int = 1, isa: str | None = None,
) -> np.ndarray:
    """Mean-field q(z), (n, K) float64, of a sigmoid belief network under a bound whose curvature all records share.

    With log(1 + e^psi) bounded by a parabola of curvature kappa_j (1/4: Bohning 1992; tanh(t_j/2) / (2 t_j): Jaakkola &
    Jordan 2000) in place of the Polya-Gamma bound, Eq. 70 of Park et al. (2020) becomes z_k = sigmoid(linear_k + sum_j
    y_j w_jk - sum_{l != k} gram_kl z_l), k = 0..K-1 in turn. A record's result depends on that record and the
    parameters alone, bit for bit.

    ``y``, ``w``, ``start`` and ``n_sweeps`` are as in `sbn_pg`; ``linear`` is (K,), ``gram``, (K, K), sum_j kappa_j
    E[w_j w_j'] for the bounds above; its diagonal is not read.
    """
    y, w = _binary(y), _matrix("w", w)
    n_visible, n_hidden = w.shape
    if y.shape[1] != n_visible:
        raise ValueError(f"y has {y.shape[1]} columns: expected {n_visible}, the rows of w")
    w, gram = check_array("w", w, w.shape), check_array("gram", gram, (n_hidden, n_hidden))
    linear, start = check_array("linear", linear, (n_hidden,)), check_array("start", start, (n_hidden,), 0.0, 1.0)
    n_sweeps, n_threads = _sweeps(n_sweeps), resolve_n_threads(n_threads, "n_threads")
    z = np.empty((len(y), n_hidden))
    areas = workspaces("quadratic", n_visible, n_hidden, n_threads, isa)
    _over_records(
        len(y), n_threads,
        lambda part, worker: native.sbn_quadratic(
            y[part], w, gram, linear, start, n_sweeps, areas[worker], z[part], isa
        ),
    )
    return z


def sbn_clip(
    x: ArrayLike, center: ArrayLike | None = None, factor: ArrayLike | None = None, *, clip_norm: float | None = None,
    spacing: float, n_threads: int = 1, isa: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Center, clip and truncate rows to integers.

    Row n of x - center is scaled to an L2 norm of at most ``clip_norm`` (None does not clip), times ``factor[n]`` in
    (0, 1], and truncated toward zero to multiples of ``spacing``; the sum of squares of the integers is checked against
    floor(clip_norm * factor[n] / spacing)^2 in exact integers. Truncation toward zero cannot raise the norm. A row
    becomes the zero vector if an entry is not finite, if its norm exceeds 1e150 or if, without clipping, an entry
    exceeds 2^52 spacings.

    ``x`` is (n, m); ``spacing`` is a power of two in [2^-100, 2^100], clip_norm / spacing in [1, 2^31). Returns the
    integers, (n, m) float64, and the L2 norms of x - center before clipping, (n,) float64.
    """
    x = _matrix("x", x)
    center = None if center is None else check_array("center", center, (x.shape[1],))
    if factor is not None:
        factor = check_array("factor", factor, (len(x),), 0.0, 1.0)
        if factor.min() <= 0:
            raise ValueError("factor: expected values in (0, 1]")
    if not (is_power_of_two(spacing) and MIN_SPACING <= spacing <= MAX_SPACING):
        raise ValueError(f"spacing={spacing!r}: expected a power of two in [2^-100, 2^100]")
    if clip_norm is not None:
        checked_spacing(spacing, clip_norm)
    n_threads = resolve_n_threads(n_threads, "n_threads")
    units, norms = np.empty_like(x), np.empty(len(x))
    _over_records(
        len(x), n_threads,
        lambda part, _: native.sbn_clip(
            x[part], center, None if factor is None else factor[part], clip_norm or 0.0, spacing, units[part],
            norms[part], isa,
        ),
    )
    return units, norms


def sbn_visible_norms(y: ArrayLike, center: ArrayLike, *, n_threads: int = 1, isa: str | None = None) -> np.ndarray:
    """L2 norms of the rows of y - center, times 1 + 1e-9 so that rounding never makes one too small.

    ``y`` is (n, J) of 0 and 1, ``center`` (J,); returns (n,) float64.
    """
    y = _binary(y)
    center = check_array("center", center, (y.shape[1],))
    n_threads = resolve_n_threads(n_threads, "n_threads")
    norms = np.empty(len(y))
    _over_records(len(y), n_threads, lambda part, _: native.sbn_visible_norms(y[part], center, norms[part], isa))
    return norms


def _reduced(
    shape: int | tuple[int, ...], n_records: int, n_threads: int, add: Callable[[slice, int, np.ndarray], None]
) -> np.ndarray:
    """Exact integer sum over blocks of records: one accumulator for each thread, added at the end."""
    n_threads = max(1, min(n_threads, len(record_blocks(n_records))))
    sums = [np.zeros(shape, dtype=np.int64) for _ in range(n_threads)]
    _over_records(n_records, n_threads, lambda part, worker: add(part, worker, sums[worker]))
    for extra in sums[1:]:
        sums[0] += extra
    return sums[0]


def sbn_cross(y: ArrayLike, v: ArrayLike, *, n_threads: int = 1, isa: str | None = None) -> np.ndarray:
    """Exact integer sums sum_n y_nj v_nk, that is ``y.T @ v`` in int64, (J, K).

    ``y`` is (n, J) of 0 and 1, ``v`` (n, K), floats that are integers with |v| < 2^31.
    """
    y, v = _binary(y), _units("v", v, MAX_CROSS_UNITS)
    if len(y) != len(v):
        raise ValueError(f"v has {len(v)} rows: expected {len(y)}, the rows of y")
    n_threads = resolve_n_threads(n_threads, "n_threads")
    return _reduced(
        (y.shape[1], v.shape[1]), len(y), n_threads,
        lambda part, worker, sums: native.sbn_cross(y[part], v[part], sums, isa),
    )


def sbn_gram(v: ArrayLike, *, n_threads: int = 1, isa: str | None = None) -> np.ndarray:
    """Exact integer sums sum_n v_nk v_nl, k < l: the strict upper triangle of ``v.T @ v``, row after row, int64.

    ``v`` is (n, K), floats that are integers with |v| <= 2^20.
    """
    v = _units("v", v, MAX_GRAM_UNITS)
    n_threads = resolve_n_threads(n_threads, "n_threads")
    areas = workspaces("gram", 1, v.shape[1], n_threads, isa)
    return _reduced(
        v.shape[1] * (v.shape[1] - 1) // 2, len(v), n_threads,
        lambda part, worker, sums: native.sbn_gram(v[part], areas[worker], sums, isa),
    )


def sbn_moments(
    x: ArrayLike, z: ArrayLike, *, pair_scale: float = float(MAX_PAIR_SCALE), n_threads: int = 1, isa: str | None = None
) -> np.ndarray:
    """Exact weighted second moments of all visible units, (J, K (K + 1) / 2) int64, upper triangles row after row.

    sum_n x_nj trunc(pair_scale * z_nk z_nl) for k <= l, with z_nk in place of z_nk z_nl on the diagonal (E[z^2] = E[z]
    for a binary unit): with x the truncated Polya-Gamma means, s_7 of Park et al. (2020), section 7, whose diagonal is
    s_5. ``x`` is (n, J), integers in [0, 2^21], ``z`` (n, K) in [0, 1]; ``pair_scale``, a power of two of at most 2^22,
    is the grid of the pair products.
    """
    x = _units("x", x, MAX_WEIGHT_UNITS, low=0)
    z = check_array("z", _matrix("z", z), np.shape(z), 0.0, 1.0)
    if len(x) != len(z):
        raise ValueError(f"z has {len(z)} rows: expected {len(x)}, the rows of x")
    if not (is_power_of_two(pair_scale) and MIN_SPACING <= pair_scale <= MAX_PAIR_SCALE):
        raise ValueError(f"pair_scale={pair_scale!r}: expected a power of two in [2^-100, 2^22]")
    n_threads = resolve_n_threads(n_threads, "n_threads")
    n_visible, n_hidden = x.shape[1], z.shape[1]
    n_pairs = n_hidden * (n_hidden + 1) // 2
    sums = np.zeros((n_visible, n_pairs), dtype=np.int64)
    # Each block packs x once: few blocks, of whole panels.
    blocks = record_blocks(n_pairs, BLOCK_PAIRS * -(-n_pairs // (BLOCK_PAIRS * n_threads)))
    areas = workspaces("moments", n_visible, n_hidden, min(n_threads, len(blocks)), isa)

    def work(block: int, worker: int) -> None:
        native.sbn_moments(x, z, *blocks[block], pair_scale, areas[worker], sums, isa)

    run_blocks(len(blocks), n_threads, work)
    return sums
