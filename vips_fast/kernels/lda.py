"""Checked Python entry of the LDA E-step kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..checks import check_number
from . import native
from .lattice import LDA_MAX_SPACING, LDA_MIN_SPACING, check_range, checked_spacing, count_spacing, is_power_of_two
from .threads import map_chunks, resolve_n_threads, run_blocks, zeros_on_line

__all__ = ["LdaEStep", "lda_estep"]

#: Stored entries of one block, large enough that handing it out costs nothing; a document costs DOCUMENT entries more.
#: The last blocks are smaller, down to a quarter, so that threads end together.
BLOCK_NNZ, DOCUMENT = 40_000, 10
_LAST = 4
#: Words of a table, or of sums, at a time.
_WORDS = 1024
#: Most words of a document.
MOST_WORDS = 1e15


class LdaEStep(NamedTuple):
    """Result of an LDA E-step over D documents, K topics, V words."""

    gamma: np.ndarray  #: (D, K) float64, variational Dirichlet parameters of each document.
    sstats: np.ndarray  #: (K, V) float64, sum of the (clipped) contributions c_i phi_ik.
    n_iter: np.ndarray  #: (D,) int32, rounds done for each document.
    norms: np.ndarray  #: (D,) float64, L2 norm of each contribution before clipping.


def document_blocks(indptr: np.ndarray) -> np.ndarray:
    """Bound blocks of documents of about `BLOCK_NNZ` entries, at least one."""
    n_docs = len(indptr) - 1
    cost = indptr + DOCUMENT * np.arange(n_docs + 1)
    edges = [0]
    while edges[-1] < n_docs:
        here = edges[-1]
        size = min(BLOCK_NNZ, max(BLOCK_NNZ // _LAST, (cost[-1] - cost[here]) // _LAST))
        after = int(np.searchsorted(cost, cost[here] + size, side="right")) - 1
        edges.append(min(n_docs, max(after, here + 1)))
    return np.asarray(edges)


def scaled_table(exp_elog_beta: np.ndarray, dtype: DTypeLike, isa: str | None = None, n_threads: int = 1) -> np.ndarray:
    """Make the word-major table (V, padded K), rows divided by sums.

    Raises ValueError if an entry of ``exp_elog_beta``, (K, V) float64, is not in [0, 1e300].
    """
    n_topics, n_words = exp_elog_beta.shape
    table = zeros_on_line((n_words, native.lda_stride(n_topics)), dtype)

    def fill(first: int, last: int, worker: int) -> None:
        native.lda_table(exp_elog_beta[:, first:last], table[first:last], isa)

    try:
        map_chunks(n_words, _WORDS, n_threads, fill)
    except RuntimeError:
        raise ValueError("exp_elog_beta: expected finite values in [0, 1e300]") from None
    return table


def estep_blocks(
    indptr: np.ndarray,
    block_of: Callable[[int, int, int], tuple[np.ndarray, np.ndarray]],
    table: np.ndarray,
    alpha: np.ndarray,
    *,
    tol: float,
    word_tol: float,
    max_iter: int,
    clip_norm: float | None,
    spacing: float,
    n_threads: int = 1,
    gamma: np.ndarray | None = None,
    sums: np.ndarray | None = None,
    n_iter: np.ndarray | None = None,
    norms: np.ndarray | None = None,
    isa: str | None = None,
) -> None:
    """Run the kernel over blocks of documents on threads, adding to ``sums``.

    The unchecked core of `lda_estep` and of the topic model: arrays must be valid CSR with strictly increasing indices.
    ``block_of(first, last, worker)`` gives the int32 indices and float64 counts of documents first..last, which lets a
    caller check and convert them by threads too. ``sums`` is word-major (V, K) int64 or None. Extra accumulators, one
    for each further thread, are made here and added exactly at the end.
    """
    edges = document_blocks(indptr)
    n_blocks = len(edges) - 1
    if n_blocks == 0:
        return
    n_threads = min(n_threads, n_blocks)
    max_words = int(np.diff(indptr).max())
    bytes_needed = native.lda_workspace(len(alpha), max_words, table.dtype == np.float32, isa)
    workspaces = [np.empty(bytes_needed // 8 + 1).view(np.uint8) for _ in range(n_threads)]
    accumulators = [sums]
    accumulators += [None if sums is None else zeros_on_line(sums.shape, sums.dtype) for _ in range(n_threads - 1)]

    def part(array: np.ndarray | None, first: int, last: int) -> np.ndarray | None:
        return None if array is None else array[first:last]

    def work(block: int, worker: int) -> None:
        first, last = int(edges[block]), int(edges[block + 1])
        indices, counts = block_of(first, last, worker)
        native.lda_estep(
            indptr[first : last + 1] - indptr[first],
            indices,
            counts,
            table,
            alpha,
            tol,
            word_tol,
            max_iter,
            clip_norm or 0.0,
            spacing,
            workspaces[worker],
            part(gamma, first, last),
            accumulators[worker],
            part(n_iter, first, last),
            part(norms, first, last),
            isa,
        )

    run_blocks(n_blocks, n_threads, work)
    for extra in accumulators[1:]:
        if extra is not None and sums is not None:
            sums += extra


def _check_csr(
    indptr: ArrayLike, indices: ArrayLike, counts: ArrayLike, n_words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make contiguous CSR arrays: int64 pointers, int32 words in any order, and float64 counts."""
    indptr, indices, counts = np.asarray(indptr), np.asarray(indices), np.asarray(counts)
    for name, array in (("indptr", indptr), ("indices", indices), ("counts", counts)):
        if array.ndim != 1:
            raise ValueError(f"{name} has {array.ndim} dimensions: expected 1")
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} has dtype {array.dtype}: expected an integer dtype")
    if counts.dtype.kind not in "iuf":
        raise ValueError(f"counts has dtype {counts.dtype}: expected an integer or floating dtype")
    if len(indptr) < 1:
        raise ValueError("indptr is empty: expected n_docs + 1 entries")
    if len(indices) != len(counts):
        raise ValueError(f"counts has length {len(counts)}: expected the length of indices, {len(indices)}")
    indptr = indptr.astype(np.int64, copy=False)
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(f"indptr runs from {indptr[0]} to {indptr[-1]}: expected 0 to len(indices) = {len(indices)}")
    if (np.diff(indptr) < 0).any():
        raise ValueError("indptr falls: expected a non-decreasing sequence")
    counts = np.ascontiguousarray(counts, dtype=np.float64)
    if len(counts) and not (counts.min() >= 0 and counts.max() < np.inf):  # NaN fails
        raise ValueError("counts: expected finite values >= 0")
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_words:
        raise ValueError(f"indices: expected values in [0, {n_words}), the columns of exp_elog_beta")
    return np.ascontiguousarray(indptr), np.ascontiguousarray(indices, dtype=np.int32), counts


def lda_estep(
    indptr: ArrayLike,
    indices: ArrayLike,
    counts: ArrayLike,
    exp_elog_beta: ArrayLike,
    alpha: ArrayLike,
    *,
    tol: float = 1e-3,
    word_tol: float = 0.0,
    max_iter: int = 100,
    clip_norm: float | None = None,
    spacing: float | None = None,
    dtype: DTypeLike = "float32",
    n_threads: int = 1,
    isa: str | None = None,
) -> LdaEStep:
    """Run the variational E-step of topics over sparse documents.

    For each document, iterate two updates: phi_ik proportional to exp(psi(gamma_k)) exp_elog_beta[k, i] and gamma_k =
    alpha_k + sum_i c_i phi_ik. (See Park et al. 2020, Algorithm 3 and Eq. 26; Hoffman et al. 2010, Algorithm 1.) They
    end by ``tol`` or ``word_tol``, whichever comes first. The first gamma is a round's result from equal weights, with
    its topics' words to the power 3 (`vips_fast.kernels.reference.document_start`).
    After each two rounds gamma is extrapolated along the last step (Aitken, csrc/lda/estep.c): half the rounds lead
    nearer to the fixed point. With alpha below 1/4 a topic that has less than a word of the document and halves leaves
    it; its gamma is alpha. The contribution (c_i phi_ik) is scaled to an L2 norm of at most ``clip_norm`` (Eq. 29). It
    is truncated toward zero to multiples of ``spacing`` and added as integers. So the sums have the same bits for any
    number of threads and any order of documents. A document's result depends only on that document and the topics.

    Equivalent to ``vips_fast.kernels.reference.lda_estep(indptr, indices, counts, exp_elog_beta, alpha, ...)``.

    Parameters
    ----------
    indptr : (D + 1,) integer array
    indices : (nnz,) integer array
        Word numbers in [0, V), in any order within a document; repeated words add.
    counts : (nnz,) integer or float array
        Finite, >= 0. A document of less than 1e-30 words counts as empty.
    exp_elog_beta : (K, V) float array
        exp(E[log beta]), finite, >= 0. A factor common to a word's column cancels.
    alpha : float or (K,) float array
        Dirichlet prior of the topic proportions, in [1e-30, 1e30].
    tol : float
        Stop when mean |change of gamma| < tol.
    word_tol : float
        Or when sum |change of gamma| < word_tol times the document's words. If both are 0, exactly ``max_iter`` rounds
        run.
    max_iter : int
        Most rounds for a document, >= 0: evaluations of phi, one after an extrapolation that is not taken included.
    clip_norm : float or None
        Bound of a contribution's L2 norm, > 0; None does not clip.
    spacing : float or None
        Lattice spacing of the sums, a power of two in [2^-60, 2^60]; clip_norm / spacing is in [1, 2^31). None: 2^-30
        of the clip norm's power of two, or, without clipping, the finest spacing whose sums fit 62 bits.
    dtype : {"float32", "float64"}
        Precision of the rounds.
    n_threads : int
        Threads; -1 for all processors.
    isa : str or None
        Instruction set to use instead of the one chosen at import.

    Returns LdaEStep: ``gamma`` (D, K), ``sstats`` (K, V) float64, ``n_iter`` (D,), ``norms`` (D,). An empty document
    has gamma = alpha, no rounds, norm 0. Raises ValueError if an argument has a wrong shape, dtype or range; nothing is
    computed.
    """
    real = np.dtype(dtype)
    if real not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype={real.name!r}: expected 'float32' or 'float64'")
    beta = np.asarray(exp_elog_beta, dtype=np.float64)
    if beta.ndim != 2 or 0 in beta.shape:
        raise ValueError(f"exp_elog_beta has shape {beta.shape}: expected (K, V) with K, V >= 1")
    n_topics, n_words = beta.shape
    indptr, indices, counts = _check_csr(indptr, indices, counts, n_words)
    n_docs = len(indptr) - 1
    alpha = np.asarray(alpha, dtype=np.float64)
    if alpha.shape not in ((), (n_topics,)):
        raise ValueError(f"alpha has shape {alpha.shape}: expected a number or ({n_topics},)")
    alpha = np.ascontiguousarray(np.broadcast_to(alpha, (n_topics,)))
    if not (alpha.min() >= 1e-30 and alpha.max() <= 1e30):  # NaN fails
        raise ValueError("alpha: expected values in [1e-30, 1e30]")
    check_number("tol", tol, 0, math.inf, high_open=True)
    check_number("word_tol", word_tol, 0, math.inf, high_open=True)
    check_number("max_iter", max_iter, 0, 2**31 - 1, integer=True)
    check_number("clip_norm", clip_norm, 0, math.inf, low_open=True, high_open=True, optional=True)
    if spacing is not None and not is_power_of_two(spacing):
        raise ValueError(f"spacing={spacing!r}: expected a positive power of two or None")
    n_threads = resolve_n_threads(n_threads, "n_threads")
    words = np.bincount(np.repeat(np.arange(n_docs), np.diff(indptr)), counts, n_docs)
    total, longest = float(words.sum()), float(words.max(initial=0.0))
    if longest > MOST_WORDS:
        raise ValueError("counts: expected at most 1e15 words a document")
    if clip_norm is not None:
        spacing = checked_spacing(spacing, clip_norm, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)
        units = clip_norm / spacing
    else:
        spacing = count_spacing(longest, total) if spacing is None else spacing
        checked_spacing(spacing, spacing, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)
        units = total / spacing
    check_range(1 if clip_norm is None else n_docs, units)

    gamma = np.empty((n_docs, n_topics))
    n_iter = np.empty(n_docs, dtype=np.int32)
    norms = np.empty(n_docs)
    sums = zeros_on_line((n_words, n_topics), np.int64)
    table = scaled_table(beta, real, isa, n_threads)

    def run(indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray) -> None:
        def block_of(first: int, last: int, worker: int) -> tuple[np.ndarray, np.ndarray]:
            part = slice(int(indptr[first]), int(indptr[last]))
            return indices[part], counts[part]

        estep_blocks(
            indptr,
            block_of,
            table,
            alpha,
            tol=float(tol),
            word_tol=float(word_tol),
            max_iter=int(max_iter),
            clip_norm=clip_norm,
            spacing=spacing,
            n_threads=n_threads,
            gamma=gamma,
            sums=sums,
            n_iter=n_iter,
            norms=norms,
            isa=isa,
        )

    try:
        run(indptr, indices, counts)
    except native.IndexStatus:
        # The kernel found words that repeat or fall. It looks in any case: to look here would cost twice.
        from scipy.sparse import csr_array

        matrix = csr_array((counts, indices, indptr), shape=(n_docs, n_words), copy=True)
        matrix.sum_duplicates()
        sums[...] = 0
        run(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    # In the memory of the integers.
    sstats = sums.view(np.float64)

    def scale(first: int, last: int, worker: int) -> None:
        sstats[first:last] = sums[first:last] * spacing

    map_chunks(n_words, _WORDS, n_threads, scale)
    return LdaEStep(gamma, sstats.T, n_iter, norms)
