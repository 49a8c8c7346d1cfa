"""LDA's table, blocks of documents and E-step in plain numpy."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from ..lattice import count_spacing, noise_spacing
from ..lda import LdaEStep

__all__ = [
    "lda_collapsed",
    "lda_estep",
    "lda_gather",
    "lda_table",
    "lda_units",
    "split_words",
    "unit_words",
    "word_histogram",
    "word_ratios",
]

#: The longest step of an extrapolation, in last rounds, with a stop and without one. The last is the share of its words
#: that a topic keeps in it.
LONGEST_STEP, ENDLESS_STEP, LEAST_SHARE = 12.0, 4.0, 0.25
#: How much farther than the last round the one after an extrapolation may go. The second is the change of gamma, as a
#: share of the words, below which nothing is extrapolated.
FARTHEST, LEAST_CHANGE = 4.0, 2.0**-44
#: When a topic leaves: the share of its words that is left. Then the words below which it counts for alpha = 0, as a
#: share of the least count and of the heaviest topic's.
SHRUNK, FEW_WORDS, FEW_SHARE = 0.5, 0.7, 0.02
#: The largest count of a word; what a call adds to an entry of a histogram stays below the second.
MAX_WORDS, MAX_SUM = 1e15, 2.0**62
#: splitmix64's step and its two factors (Steele, Lea & Flood 2014).
GOLDEN, MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def lda_table(exp_elog_beta: np.ndarray) -> np.ndarray:
    """Divide each word's entries by their sum: (V, K) from (K, V)."""
    top = exp_elog_beta.max(axis=0)
    share = exp_elog_beta / np.where(top > 0, top, 1.0)  # their sum overflows for no entries
    return np.asarray(share / np.maximum(share.sum(axis=0), 1.0)).T


def lda_gather(
    rows: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    *,
    mode: str = "as_is",
    doc_length: int = 1,
    seeds: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take rows of a corpus as documents: CSR arrays of the block.

    ``mode`` "as_is" takes the counts themselves. "scale" multiplies them so that they sum to ``doc_length``. "resample"
    draws that many words from the row's bag, from the document's entry of ``seeds``.
    """
    ends, words, values = [0], [], []
    for d, row in enumerate(rows):
        part = slice(indptr[row], indptr[row + 1])
        x = counts[part].astype(np.float64)
        if mode == "scale" and x.sum() > 0:
            x *= doc_length / x.sum()
        elif mode == "resample" and x.sum() > 0:
            assert seeds is not None
            tokens = np.repeat(np.arange(len(x)), counts[part])
            drawn = tokens[_draws(int(seeds[d]), doc_length, len(tokens))]
            x = np.bincount(drawn, minlength=len(x)).astype(np.float64)
        words.append(indices[part][x > 0])
        values.append(x[x > 0])
        ends.append(ends[-1] + len(values[-1]))
    return np.array(ends), np.concatenate(words), np.concatenate(values)


def _draws(seed: int, n: int, total: int) -> list[int]:
    """Draw n numbers below total from splitmix64."""
    drawn = []
    for i in range(1, n + 1):
        z = (seed + i * GOLDEN) % 2**64
        z = (z ^ z >> 30) * MIX[0] % 2**64
        z = (z ^ z >> 27) * MIX[1] % 2**64
        drawn.append((z ^ z >> 31) >> 32)
    return [word * total >> 32 for word in drawn]


def lda_estep(
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    exp_elog_beta: np.ndarray,
    alpha: np.ndarray,
    *,
    tol: float = 1e-3,
    word_tol: float = 0.0,
    max_iter: int = 100,
    clip_norm: float | None = None,
    spacing: float | None = None,
    dtype: str = "float64",
    n_threads: int = 1,
) -> LdaEStep:
    """E-step of Algorithm 3, accelerated, one document after the other; see `vips_fast.kernels.lda_estep`.

    Always float64 and one thread; `dtype` and `n_threads` are accepted so that the two functions can be exchanged.
    """
    indptr, indices = np.asarray(indptr), np.asarray(indices)
    counts = np.asarray(counts, dtype=np.float64)
    beta = np.asarray(exp_elog_beta, dtype=np.float64)
    n_topics, n_words = beta.shape
    n_docs = len(indptr) - 1
    alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (n_topics,))
    totals = np.array([counts[indptr[d] : indptr[d + 1]].sum() for d in range(n_docs)])
    if spacing is None:
        spacing = noise_spacing(0.0, clip_norm) if clip_norm else count_spacing(totals.max(initial=0), totals.sum())
    table = lda_table(beta).T
    gamma = np.tile(alpha, (n_docs, 1))
    sums = np.zeros((n_topics, n_words), dtype=np.int64)
    n_iter = np.zeros(n_docs, dtype=np.int32)
    norms = np.zeros(n_docs)
    for d in range(n_docs):
        if totals[d] == 0:
            continue
        part = slice(indptr[d], indptr[d + 1])
        stop = max(tol * n_topics, word_tol * totals[d])
        columns, s, gamma[d], n_iter[d] = _document(indices[part], counts[part], table, alpha, stop, max_iter)
        norms[d] = np.sqrt((s * s).sum())
        sums[:, columns] += _truncated(s, clip_norm, spacing)
    return LdaEStep(gamma, sums * spacing, n_iter, norms)


def lda_collapsed(
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    exp_elog_beta: np.ndarray,
    alpha: np.ndarray,
    *,
    n_rounds: int,
    spacing: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute statistics (V, K) and norms of documents by collapsed updates (CVB0; Asuncion et al. 2009).

    A word's topics go by those of the document's other occurrences: its own, up to one, is left out.
    """
    table = lda_table(np.asarray(exp_elog_beta, dtype=np.float64))
    sums, norms = np.zeros(table.shape, dtype=np.int64), np.zeros(len(indptr) - 1)
    for d in range(len(norms)):
        part = slice(indptr[d], indptr[d + 1])
        c, shares = np.asarray(counts[part], np.float64)[:, None], table[indices[part]]
        phi = shares.copy()
        for _ in range(n_rounds):
            for i in range(len(c)):
                others = np.maximum((c * phi).sum(axis=0) - min(c[i, 0], 1.0) * phi[i], 0.0)
                phi[i] = shares[i] * (alpha + others)
                phi[i] /= max(phi[i].sum(), 1e-300)
        norms[d] = np.linalg.norm(c * phi)
        sums[indices[part]] += _truncated(c * phi, None, spacing)
    return sums * spacing, norms


def lda_units(
    starts: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    counts: np.ndarray,
    exp_elog_beta: np.ndarray,
    alpha: np.ndarray,
    *,
    tol: float = 1e-3,
    max_iter: int = 100,
    clip_norm: float | None = None,
    word_clip: float = 0.0,
    word_weight: np.ndarray | None = None,
    share_floor: float = 0.0,
    spacing: float = 2.0**-30,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute statistics (V, K) and norms of units of documents.

    A unit's contribution is the sum of its documents', times ``word_weight``, (V,), if given. It is divided by the
    roots of the topics' shares of each word plus ``share_floor``, if that is above 0. In it each word's K entries are
    scaled down to an L2 norm of at most ``word_clip`` (0: no bound). Then the whole is scaled down to at most
    ``clip_norm``.
    """
    beta = np.asarray(exp_elog_beta, dtype=np.float64)
    alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (len(beta),))
    table, sums = lda_table(beta).T, np.zeros(beta.shape, dtype=np.int64)
    norms = np.zeros(len(starts) - 1)
    for u in range(len(norms)):
        total = np.zeros(beta.shape)
        for d in range(starts[u], starts[u + 1]):
            part = slice(indptr[d], indptr[d + 1])
            if counts[part].sum() > 0:
                columns, s, _, _ = _document(indices[part], counts[part], table, alpha, tol * len(alpha), max_iter)
                total[:, columns] += s
        if word_weight is not None:
            total *= word_weight
        if share_floor > 0:
            total /= np.sqrt(table + share_floor)
        if clip_norm and 0 < word_clip < clip_norm:
            total /= np.maximum(np.linalg.norm(total, axis=0) / word_clip, 1.0)
        norms[u] = np.linalg.norm(total)
        sums += _truncated(total, clip_norm, spacing)
    return sums.T * spacing, norms


def _document(
    indices: np.ndarray, counts: np.ndarray, beta: np.ndarray, alpha: np.ndarray, stop: float, max_iter: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Compute a document's words, contribution (K, n), gamma and rounds.

    They end at a summed change of gamma below ``stop``.
    """
    columns, c = np.unique(indices, return_inverse=True)
    c = np.bincount(c, weights=counts)
    full = b = beta[:, columns]
    total, n_iter, most = c.sum(), 0, np.inf
    prior, topics = alpha, np.arange(len(alpha))
    g = middle = document_start(c, b, alpha)

    def round_from(g: np.ndarray) -> np.ndarray:
        theta = _weights(g)
        return np.asarray(prior + theta * (b @ (c / (theta @ b + 1e-300))))

    def leave() -> None:
        """Drop topics with few words, and much fewer than in ``middle``."""
        nonlocal g, middle, prior, topics, b
        stay = g - prior >= np.minimum(few, SHRUNK * (middle - prior))
        g, middle, prior, topics, b = g[stay], middle[stay], prior[stay], topics[stay], b[stay]

    if max_iter > 0:
        g, n_iter = round_from(middle), 1
        if np.abs(g - middle).sum() < stop:
            max_iter = 1
        few = min(FEW_WORDS * max(1.0 - 4.0 * alpha.max(), 0.0) * c[c > 0].min(), FEW_SHARE * (g - prior).max())
        leave()
    while n_iter < max_iter:
        if most < np.inf:
            leave()
        start, g, n_iter = g, round_from(g), n_iter + 1
        change = np.abs(g - start).sum()
        if change > most:
            g, most = middle, np.inf
            continue
        if change < stop or n_iter == max_iter:
            break
        middle, g, n_iter, most = g, round_from(g), n_iter + 1, np.inf
        change = np.abs(g - middle).sum()
        if change < stop or n_iter == max_iter:
            break
        if change > LEAST_CHANGE * total:
            # Shorter near the stop: a document that rounding stops a round late then moves little farther.
            longest = LONGEST_STEP * min(change / stop - 1.0, 1.0) if stop > 0 else ENDLESS_STEP
            most = FARTHEST * change
            g, middle = extrapolated(start, middle, g, prior, longest), g
    theta, gamma, contribution = _weights(g), alpha.copy(), np.zeros(full.shape)
    gamma[topics] = g
    contribution[topics] = theta[:, None] * b * (c / (theta @ b + 1e-300))
    return columns, contribution, gamma, n_iter


def _weights(g: np.ndarray) -> np.ndarray:
    # The common factor exp(-psi(sum gamma)) cancels in phi.
    e = digamma(g)
    return np.asarray(np.exp(e - e.max()))


def document_start(c: np.ndarray, b: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Choose gamma's start: cubed topic weights of a round from equal ones."""
    s = b @ (c / (b.sum(axis=0) + 1e-300))
    share = (s / s.max()) ** 3 if s.max() > 0 else np.ones(len(alpha))
    return np.asarray(alpha + c.sum() * share / share.sum())


def extrapolated(start: np.ndarray, middle: np.ndarray, g: np.ndarray, alpha: np.ndarray, longest: float) -> np.ndarray:
    """Extrapolate gamma by Aitken from two rounds, ``longest`` rounds at most.

    A topic keeps at least LEAST_SHARE of its words in ``g``, and sum(gamma - alpha) stays.
    """
    last = g - middle
    second = last - (middle - start)
    step = min(np.sqrt(last @ last / max(second @ second, 1e-300)), longest)
    own = g - alpha
    x = np.maximum(own + step * last, LEAST_SHARE * own)
    return np.asarray(alpha + x * (own.sum() / x.sum()))


def _truncated(s: np.ndarray, clip_norm: float | None, spacing: float) -> np.ndarray:
    """Return a contribution, clipped, as integers on the lattice."""
    norm = np.sqrt((s * s).sum())
    if clip_norm and norm > clip_norm:
        s = s * (clip_norm / norm)
    q = np.trunc(s / spacing).astype(np.int64)
    while clip_norm and sum(int(x) ** 2 for x in q[q != 0]) > np.floor(clip_norm / spacing) ** 2:
        q = np.trunc(q * (1 - 2.0**-16)).astype(np.int64)
    return q


def unit_words(
    rows: np.ndarray, starts: np.ndarray, indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the words of units, each once.

    Returns ends, columns and sums of counts. Unit u has the documents ``rows[starts[u] : starts[u + 1]]`` of a CSR
    corpus.
    """
    ends = [0]
    columns: list[np.ndarray] = [np.empty(0, np.int32)]
    sums: list[np.ndarray] = [np.empty(0)]
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        parts = [slice(indptr[row], indptr[row + 1]) for row in rows[first:last]]
        words, place = np.unique(np.concatenate([indices[part] for part in parts] or columns[:1]), return_inverse=True)
        total = np.bincount(place, np.concatenate([counts[part] for part in parts] or sums[:1]), len(words))
        columns.append(words[total > 0])
        sums.append(total[total > 0])
        ends.append(ends[-1] + len(sums[-1]))
    return np.array(ends), np.concatenate(columns), np.concatenate(sums)


def word_histogram(
    ends: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    scales: np.ndarray,
    *,
    clip: float,
    least_norm: float,
    factor: float,
) -> np.ndarray:
    """Add up units' values over their words' scales, (V,) int64.

    A unit's values are multiplied by clip / max(their norm, least_norm), then by factor, and truncated. Raises
    OverflowError if an entry times the number of units is not in [0, MAX_SUM).
    """
    sums, unit = np.zeros(len(scales), np.int64), np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    with np.errstate(all="ignore"):
        scaled = values / scales[columns]
        norms = np.sqrt(np.bincount(unit, scaled * scaled, len(ends) - 1))
        entries = scaled * (clip / np.maximum(norms, least_norm))[unit] * factor
    if not (np.isfinite(norms).all() and ((entries >= 0) & (entries < MAX_SUM / max(len(ends) - 1, 1))).all()):
        raise OverflowError("an entry is beyond the limit")
    np.add.at(sums, columns, entries.astype(np.int64))
    return sums


def split_words(
    ends: np.ndarray, columns: np.ndarray, counts: np.ndarray, words: np.ndarray, asked: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """Divide units' words in two: ends, columns and counts of each half.

    Of a count n the first half has Binomial(n, 1/2), by bits scrambled from the unit's word and the column. What n has
    above 64 is divided evenly. Units that are not ``asked`` have nothing. Raises ValueError if a count of the others is
    not whole, or not in [0, MAX_WORDS].
    """
    known: list[list[tuple[int, int]]] = []
    told: list[list[tuple[int, int]]] = []
    for u, word in enumerate(words.tolist()):
        known.append([])
        told.append([])
        for i in range(ends[u], ends[u + 1]) if asked is None or asked[u] else ():
            z = (word + int(columns[i]) * GOLDEN) % 2**64
            z = (z ^ z >> 30) * MIX[0] % 2**64
            z = (z ^ z >> 27) * MIX[1] % 2**64
            if not 0 <= counts[i] <= MAX_WORDS or counts[i] % 1:
                raise ValueError("counts are expected to be whole")
            n = int(counts[i])
            drawn = min(n, 64)
            first = ((z ^ z >> 31) & (2**drawn - 1)).bit_count() + (n - drawn) // 2
            known[-1].append((columns[i], first))
            told[-1].append((columns[i], n - first))
    out: list[np.ndarray] = []
    for half in (known, told):
        kept = [[entry for entry in unit if entry[1]] for unit in half]
        pairs = np.array([entry for unit in kept for entry in unit], np.int64).reshape(-1, 2)
        ends_of_half = np.cumsum([0, *(len(unit) for unit in kept)])
        out += [ends_of_half, pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.float64)]
    return tuple(out)


def word_ratios(ends: np.ndarray, columns: np.ndarray, proportions: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Compute each entry's product of its unit's proportions and its word's ratios.

    ``proportions`` are (n_units, K), ``ratios`` (V, K).
    """
    unit = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    return np.asarray((proportions[unit].astype(np.float64) * ratios[columns]).sum(axis=1))
