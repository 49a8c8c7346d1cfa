"""Every kernel against its twin in kernels.reference. One registry, one test over instruction sets and sizes."""

import math
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import inputs
import numpy as np
import pytest
import scipy.sparse as sp
import sums
from inputs import clipping, documents, network, shrinking, topics

import vips_fast
from vips_fast import kernels
from vips_fast.kernels import native, reference
from vips_fast.kernels.lda import scaled_table
from vips_fast.kernels.reference.logistic import clip_weights

ISAS = native.isas_available()
KERNELS = tomllib.loads((Path(__file__).resolve().parents[2] / "csrc" / "kernels.toml").read_text())["kernel"]
KEY = bytes(range(100, 132))
#: Around the lanes of every instruction set, the kernels' own blocks and the noise's groups of 128.
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 63, 64, 65, 127, 128, 129]
ROWS = (1, 2, 3, 15, 16, 17, 33, 64, 65)
SINGLE, DOUBLE = "float32", "float64"

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Case:
    """How one kernel is called and how near its twin it stays."""

    #: (args, kwargs) for a size: both functions are called with them.
    arguments: Callable[[np.random.Generator, int], Iterator[Arguments]]
    #: compare(ours, twin, precision): the stated tolerance, with its reason beside it.
    compare: Callable[[Any, Any, str], None]
    precisions: tuple[str, ...] = (DOUBLE,)
    sizes: tuple[int, ...] = tuple(SIZES)


def equal(ours, twin, precision):
    """Integers: the same bits."""
    for a, b in zip(ours, twin, strict=True) if isinstance(twin, (tuple, list)) else [(ours, twin)]:
        np.testing.assert_array_equal(a, b)


def near(*rtol, single=None, atol=0.0):
    """Make a comparison of numbers with a tolerance for each part, or one for all; of float32, ``single``."""

    def compare(ours, twin, precision):
        ours, twin = (part if isinstance(part, (tuple, list)) else [part] for part in (ours, twin))
        given = single if single and precision == SINGLE else rtol
        for a, b, r, t in zip(ours, twin, np.resize(given, len(twin)), np.resize(atol, len(twin)), strict=True):
            np.testing.assert_allclose(a, b, rtol=r, atol=t)

    return compare


def lda_arguments(rng, size):
    """Topics of every number over short documents, some empty. Documents of every length, clipped and not."""
    for alpha in (1.0 / size, 0.5):
        csr = documents(rng, [*rng.integers(1, 38, 11), 0], 40)
        yield (*csr, topics(rng, size, 40), alpha), {"tol": 0, "max_iter": 30}
    csr = documents(rng, [size], 200)
    for clip_norm in (None, 0.7 * np.linalg.norm(csr[2])):
        yield (*csr, topics(rng, 20, 200), 0.05), {"tol": 0, "max_iter": 30, "clip_norm": clip_norm}


def lda_compare(ours, twin, precision):
    # float32 rounds differ from float64 by its resolution times the number of additions in a sum over words, which a
    # document that has not settled after 30 rounds multiplies. A clipped sum's lattice is 2^-30 of the clip norm: one
    # step an entry.
    tolerance = 2e-5 if precision == SINGLE else 1e-11
    lattice = 2.0**-29 * np.sqrt(twin.sstats.size)
    assert np.linalg.norm(ours.sstats - twin.sstats) <= (tolerance + lattice) * np.linalg.norm(twin.sstats)
    # A topic that left the loops shows gamma = alpha instead of alpha + its rest (< 1e-5).
    np.testing.assert_allclose(ours.gamma, twin.gamma, rtol=20 * tolerance, atol=1e-5 + 20 * tolerance)
    np.testing.assert_array_equal(ours.n_iter, twin.n_iter)
    # So has its share of the norm: 1e-10 of the heaviest, for each topic.
    np.testing.assert_allclose(ours.norms, twin.norms, rtol=20 * tolerance + 1e-9)


def table_arguments(rng, size):
    """Yield words without weight, huge weights, and strides."""
    beta = rng.gamma(0.3, 1.0, (size, 23))
    beta[:, 3], beta[:, 4], beta[:, 5], beta[1:, 6] = 0.0, 1e300, 1e-300, 0.0
    for array in (beta, np.asfortranarray(beta)):
        yield (array,), {}


def lda_table(beta, *, dtype, isa):
    table = np.full((beta.shape[1], native.lda_stride(len(beta))), 7, dtype)
    native.lda_table(beta, table, isa)
    assert not table[:, len(beta) :].any()  # the padding
    return table[:, : len(beta)]


def gather_arguments(rng, size):
    """Yield empty and repeated rows, zero counts and one long document."""
    csr = [np.concatenate([[0], np.cumsum([*rng.integers(0, 9, 10), 0, size])]), None, None]
    csr[1] = rng.integers(0, 99, csr[0][-1]).astype(np.int32)
    csr[2] = rng.integers(0, 6, csr[0][-1]).astype(np.int32)
    csr[2][-1] = 70_000
    seeds = rng.integers(0, 2**64, 20, dtype=np.uint64)
    for mode in ("as_is", "scale", "resample"):
        yield (rng.integers(0, 12, 20), *csr), {"mode": mode, "doc_length": 3 * size, "seeds": seeds}


def lda_gather(rows, indptr, indices, counts, *, mode, doc_length, seeds, isa):
    ends, room = np.empty(len(rows) + 1, np.int64), int(np.diff(indptr)[rows].sum())
    words, values, scratch = np.empty(room, np.int32), np.empty(room), np.empty(native.LDA_RESAMPLE_TOKENS, np.uint32)
    number = {"as_is": native.LDA_AS_IS, "scale": native.LDA_SCALE, "resample": native.LDA_RESAMPLE}[mode]
    native.lda_gather(rows, number, doc_length, indptr, indices, counts, seeds, scratch, ends, words, values, isa)
    return ends, words[: ends[-1]], values[: ends[-1]]


def unit_words_arguments(rng, size):
    """Yield units of no, one and several documents: repeated rows, zero counts, columns around the borders of 64."""
    csr = documents(rng, [*rng.integers(1, 60, 11), 0, size], 200)
    csr = (csr[0], csr[1].astype(np.int32), rng.integers(0, 3, len(csr[1])).astype(np.int32))
    yield (rng.integers(0, 13, 13), np.array([0, 1, 1, 4, 5, 11, 13]), *csr), {}
    yield (np.arange(13), np.arange(14), *csr), {}


def unit_words(rows, starts, indptr, indices, counts, *, isa):
    room, n_words = int(np.diff(indptr)[rows].sum()), 200
    found = np.full(len(starts), 7), np.empty(room, np.int32), np.empty(room)
    scratch = np.full(n_words + n_words // 64 + 1, 2**60)
    native.unit_words(rows, starts, indptr, indices, counts, n_words, scratch, *found, isa)
    return found[0], *(part[: found[0][-1]] for part in found[1:])


def words_of_units(rng, size):
    """Make some units' words, among 200, with counts to 10^6."""
    ends, columns, _ = documents(rng, [3, 0, *rng.integers(1, 60, 4), size], 200)
    return ends, columns.astype(np.int32), rng.choice([1.0, 2.0, 3.0, 63.0, 64.0, 65.0, 1e6], len(columns))


def histogram_arguments(rng, size):
    for least_norm in (1e-3, 5.0, 1e8):
        settings = {"clip": 3.0, "least_norm": least_norm, "factor": 2.0**30}
        yield (*words_of_units(rng, size), rng.uniform(0.1, 1.0, 200)), settings


def word_histogram(ends, columns, values, scales, *, clip, least_norm, factor, isa):
    sums = np.full(200, 5)
    native.word_histogram(ends, columns, values, scales, clip, least_norm, factor, sums, isa)
    return sums - 5  # they are added to


def split_arguments(rng, size):
    for asked in (None, rng.integers(0, 2, 7, dtype=np.uint8)):
        yield (*words_of_units(rng, size), rng.integers(0, 2**64, 7, dtype=np.uint64)), {"asked": asked}


def split_words(ends, columns, counts, words, *, asked, isa):
    halves = [[np.empty_like(part) for part in (ends, columns, counts)] for _ in range(2)]
    native.split_words(ends, columns, counts, words, asked, *halves[0], *halves[1], isa)
    return [part if k == 0 else part[: half[0][-1]] for half in halves for k, part in enumerate(half)]


def word_ratio_arguments(rng, size):
    ends, columns, _ = words_of_units(rng, 9)
    proportions = rng.dirichlet(np.full(size, 0.3), 7).astype(np.float32)
    yield (ends, columns, proportions, rng.gamma(0.5, 1.0, (200, size)).astype(np.float32)), {}


def word_ratios(ends, columns, proportions, ratios, *, isa):
    out = np.empty(len(columns))
    native.word_ratios(ends, columns, proportions, ratios, out, isa)
    return out


def units_arguments(rng, size):
    """Units of no, one and several documents that share words. Clipped or not, by words or not."""
    csr = documents(rng, [*rng.integers(1, 38, 11), 0, size], 200)
    starts = np.array([0, 1, 1, 4, 5, 11, 13])
    bounds = [(None, 0, 0, 0), (6.0, 0, 0, 0), (6.0, 2.0, 0, 0), (1e3, 0, 0, 0), (6.0, 2.0, 1, 0), (9.0, 0, 1, 0)]
    for clip_norm, word_clip, spread, share_floor in [*bounds, (6.0, 2.0, 1, 0.1), (9.0, 0, 0, 1e-6)]:
        args = (starts, *csr, topics(rng, 1 + size % 33, 200), 0.1)
        weight = np.exp(rng.normal(size=200)) if spread else None
        settings = {"clip_norm": clip_norm, "word_clip": word_clip, "word_weight": weight, "share_floor": share_floor}
        yield args, {"tol": 0, "max_iter": 50, "spacing": 2.0**-20, **settings}


def collapsed_arguments(rng, size):
    """Documents of no, one and several words, some of them less than one."""
    csr = documents(rng, [*rng.integers(1, 12, 11), 0, size], 200)
    for scale in (1.0, 0.3):
        args = (*csr[:2], csr[2] * scale, topics(rng, 1 + size % 33, 200), 0.1)
        for n_rounds in (0, 1, 2, 7):
            yield args, {"n_rounds": n_rounds, "spacing": 2.0**-20}


def lda_collapsed(indptr, indices, counts, beta, alpha, *, n_rounds, spacing, dtype, isa):
    table = scaled_table(beta, np.dtype(dtype), isa)
    work = np.empty((np.diff(indptr).max() + 3) * table.shape[1], dtype)
    sums, norms = np.zeros(beta.T.shape, dtype=np.int64), np.empty(len(indptr) - 1)
    records = indptr, indices.astype(np.int32), counts.astype(np.float64), table, np.full(len(beta), alpha)
    native.lda_collapsed(n_rounds, spacing, *records, work, sums, norms, isa)
    return sums * spacing, norms


def lda_units(starts, indptr, indices, counts, beta, alpha, *, spacing, clip_norm, dtype, isa, **settings):
    table = scaled_table(beta, np.dtype(dtype), isa)
    longest, entries = int(np.diff(indptr).max()), int(np.diff(indptr[starts]).max())
    work = np.empty(native.lda_units_workspace(*beta.shape, longest, entries, dtype == SINGLE, isa) // 8 + 1)
    sums, norms = np.zeros(beta.T.shape, dtype=np.int64), np.empty(len(starts) - 1)
    records = starts, indptr, indices.astype(np.int32), counts.astype(np.float64), table, np.full(len(beta), alpha)
    stop = settings["tol"], settings.get("word_tol", 0.0), settings["max_iter"]
    bounds = clip_norm or 0.0, settings["word_clip"], settings["word_weight"], settings["share_floor"], spacing
    native.lda_units(*records, *stop, *bounds, work.view(np.uint8), sums, norms, isa)
    return sums * spacing, norms


def units_compare(ours, twin, precision):
    # As for one document; a unit's sum adds at most 13 of them.
    tolerance = 4e-5 if precision == SINGLE else 1e-11
    lattice = 2.0**-19 * np.sqrt(twin[0].size)
    assert np.linalg.norm(ours[0] - twin[0]) <= tolerance * np.linalg.norm(twin[0]) + lattice
    np.testing.assert_allclose(ours[1], twin[1], rtol=20 * tolerance + 1e-9)


def shrink_arguments(rng, size):
    """Statistics from 1/30 of the noise to 300 times it."""
    for n_grid in (1, 2, 3, 16, 32):
        yield shrinking(rng, 37, size, n_grid, 4), {}


def shrink_compare(ours, twin, precision):
    # float32 exponents of up to some 100 have errors of 100 times its resolution, and so have the weights. Means are
    # compared relative to the entry, but not below the noise: there the mean is a small share of it.
    assert (np.abs(ours[0] - twin[0]) / np.maximum(twin[0], 0.3)).max() <= 1e-4
    np.testing.assert_allclose(ours[1], twin[1], rtol=1e-4, atol=1e-4 * twin[0].size)
    assert ours[1].sum() == pytest.approx(twin[0].size, rel=1e-5)  # each entry shares out one unit of weight


def mass_arguments(rng, size):
    """Yield masses from nothing to 10^5 times the noise, on grids around the lanes and the model's own of 61 points."""
    for n_grid in (1, 2, size, 61, 128):
        width = rng.uniform(0, 3, n_grid) * (np.arange(n_grid) > 0)
        total = np.concatenate([rng.normal(size=size), np.geomspace(0.1, 1e5, 5)]) * 0.3
        yield (total, np.sort(rng.gamma(0.5, 50.0, n_grid)), width, rng.dirichlet(np.ones(n_grid)), 0.3), {}


def word_masses(total, grid, width, weight, sd, isa=None):
    n_grid = len(grid)
    likelihood = np.empty((len(total), -(-n_grid // 16) * 16), dtype=np.float32)
    sums, means = np.zeros(n_grid), np.empty(len(total))
    native.word_masses(total, grid, width, weight, False, sd, likelihood, sums, None, isa)
    # Known values are read, whatever noise is stated meanwhile.
    native.word_masses(total, grid, width, weight, True, sd, likelihood, None, means, isa)
    return means, sums, likelihood[:, :n_grid]


def ratio_arguments(rng, size):
    """Yield words hidden by the noise and far above it. From no factor to 32."""
    for q in (0, 1, 2, 3, 16, 32):
        for loud in (0.01, 3.0, 300.0):
            base = (loud * rng.gamma(1.0, 1.0, (11, size)) + 1e-3).astype(np.float32)
            x = (base * rng.gamma(1.0, 1.0, base.shape) + rng.normal(size=base.shape)).astype(np.float32)
            sd, mass = np.exp(rng.normal(size=base.shape)), rng.gamma(1.0, 1.0, 11)
            yield (x, base, sd, mass, rng.normal(size=(size, q)), rng.uniform(0.05, 2.0, size)), {}


def topic_ratios(x, base, sd, mass, loadings, own, isa=None):
    (n_topics, q), expected = loadings.shape, np.empty(x.shape, dtype=np.float32)
    work = np.empty(8 * (4 * n_topics + 30 + q * (q + 2)))
    native.topic_ratios(x, base, sd, mass, loadings, own, work, expected, isa)
    return expected


def blend_arguments(rng, size):
    """Tables with rows as long as the topics and longer. No weight, some and all of it."""
    for n_words, padded in ((1, size), (7, size + 5)):
        for rate in (0.0, 0.3, 1.0):
            units = rng.integers(-(2**40), 2**40, (n_words, size))
            values, noise = rng.normal(size=units.shape), rng.gamma(1.0, 1.0, units.shape)
            table = rng.random((n_words, padded))
            yield (units, rng.gamma(2.0, 1.0, n_words), table, values, noise, rate, 2.0**-38, 0.7, 1e-3), {}


def blend_release(units, word_scale, table, values, noise, rate, scale, noise_sd, floor, dtype, isa=None):
    values, noise, table = values.copy(), noise.copy(), table.astype(dtype)
    native.blend_release(rate, scale, noise_sd, floor, units, word_scale, table, values, noise, isa)
    return values, noise


def blend_compare(ours, twin, precision):
    # Roots of shares in the table's precision; sums of two terms of up to 30, which may cancel.
    tolerance = 2e-7 if precision == SINGLE else 1e-14
    for one, other in zip(ours, twin, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=30 * tolerance)


def noise_arguments(rng, size):
    """Averages that the noise hides and ones far above it. Noise that differs a lot from word to word."""
    for n_words in (1, 9):
        sd = np.exp(3.0 * rng.normal(size=(n_words, 1)) + rng.normal(size=(n_words, size)))
        yield (sd * rng.normal(size=sd.shape) * 10.0 ** rng.integers(-3, 4, sd.shape), sd), {}


def noise_sums(average, sd, isa=None):
    sums, (word_sd, totals) = np.ones((2, average.shape[1])), np.empty((2, len(average)))
    native.noise_sums(average, sd, word_sd, totals, sums, isa)
    return word_sd, totals, sums - 1.0


def noise_compare(ours, twin, precision):
    # float64, in another order; terms of up to 10^4, which may cancel, beside the 1 that was there.
    for one, other in zip(ours, twin, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * max(np.abs(other).max(), 1.0))


def noise_units_arguments(rng, size):
    for (average, sd), _ in noise_arguments(rng, size):
        yield (average, sd, rng.gamma(0.5, 10.0, len(sd)), rng.dirichlet(np.ones(size))), {}


def noise_units(average, sd, mass, weight, isa=None):
    x, base = np.empty((2, *average.shape), dtype=np.float32)
    native.noise_units(average, sd, mass, weight, x, base, isa)
    return x, base


def parameter_arguments(rng, size):
    yield (rng.gamma(0.3, 9.0, (9, size)).astype(np.float32), rng.gamma(1.0, 1.0, (9, size)), 1e4, 0.02), {}


def table_parameters(units, sd, factor, eta, dtype, isa=None):
    table, sums = np.full((len(units), units.shape[1] + 3), 7.0, dtype), np.zeros(units.shape[1])
    native.table_parameters(factor, eta, units, sd, table, sums, isa)
    assert (table[:, -3:] == 7.0).all()
    return table[:, :-3], sums


def rows_arguments(rng, size):
    """Yield rows as long as the topics, longer, or zeros. Shares from 1 to 1e-12."""
    for padded in (size, size + 5):
        table = rng.random((9, padded)) * 10.0 ** -rng.integers(0, 12, (9, padded))
        table[4] = 0.0
        table[:4] *= rng.random((4, 1)) * 1000
        yield (table, rng.gamma(1.0, 1.0, size), 1e-9), {}


def table_shares(table, weight, least, dtype, isa=None):
    out = table.astype(dtype)
    native.table_shares(least, weight, out, isa)
    return out


def shares_compare(ours, twin, precision):
    # Rounded to the table's precision, before and after; at the least share, either side of it.
    far = np.abs(twin - 1e-9) > 1e-15
    np.testing.assert_allclose(ours[far], twin[far], rtol=2e-7 if precision == SINGLE else 1e-14)
    assert not ours[4].any()


def spread_arguments(rng, size):
    for (table, weight, _), _ in rows_arguments(rng, size):
        yield (np.minimum(table, 1.0), weight / weight.sum(), 0.02), {}


def table_spread(table, weight, least, dtype, isa=None):
    out = np.empty(len(table))
    native.table_spread(least, weight, table.astype(dtype), out, isa)
    return out


def cell_arguments(rng, size):
    """Yield plain rows, and then rows of every other kind. Or the text ends within a row."""
    pieces = [b"a", b"bc ", b'"', b'""', b",", b";", b"\n", b"\r\n", b"\r", b"\0", "\u00e9".encode()]
    cells = [b"", b"a", b"b;c", b'"a,b"', b'"a\r\nb"', b'"a ""b"""', b'""', b'a"b', "\u00e9".encode()]
    for n_columns in (1, 2, 5):
        for n_rows in (0, 1, size):
            rows = [b",".join(cells[i] for i in rng.integers(0, len(cells), n_columns)) for _ in range(n_rows)]
            text = b"".join(row + (b"\n", b"\r\n", b"\n\n")[rng.integers(0, 3)] for row in rows)
            for length in range(12):
                yield (text + b"".join(pieces[i] for i in rng.integers(0, len(pieces), length)), ",", n_columns), {}


def csv_cells(text, delimiter, n_columns, *, isa):
    """With room for all rows, and row by row."""
    found = []
    for at_once in (len(text) + 1, 1):
        rows, at, lines = [], 0, 0
        begins, ends, summary = (np.empty(n, np.int64) for n in (at_once * n_columns, at_once * n_columns, 4))
        while True:
            part = text[at:] or b"\0"
            native.csv_cells(part, ord(delimiter), n_columns, begins, ends, summary, isa)
            n, used, more, odd = summary.tolist()
            places = zip(begins.tolist(), ends.tolist())
            cells = [part[a : b if b >= 0 else -1 - b] for a, b in list(places)[: n * n_columns]]
            assert all((b'"' in part[a : -1 - b]) for a, b in zip(begins, ends[: n * n_columns].tolist()) if b < 0)
            rows += [cells[k : k + n_columns] for k in range(0, len(cells), n_columns)]
            at, lines = at + used, lines + more
            if not used:
                break
        found.append((rows, [at, lines, odd if text[at:] else 0]))
    assert found[0] == found[1]
    return found[0]


def cell_compare(ours, twin, precision):
    assert ours == twin


def token_arguments(rng, size):
    """Few and many words, short and long, in every neighborhood of separators. Texts without any."""
    for n_letters, rate in ((2, 2), (9, 5), (250, 40)):
        letters = (rng.choice(n_letters, k) + (rng.random(k) < 1 / rate) * 255 for k in (0, size, 50 * size, 1))
        yield ([bytes(text).replace(b"\xfe", b"") for text in letters],), {}


def token_numbers(texts, *, isa):
    """Count in two calls, so that words are known before. In little memory and in more."""
    for more in (0, 1000):
        names = reference.token_numbers(texts)[2]
        slots = np.zeros(1 << (2 * len(names) + more).bit_length(), np.uint64)
        ends, found = np.empty(max(1, len(names) + more), np.int64), []
        known = np.empty(len(b".".join(names)) + 1 + more, np.uint8)
        text_ends, n_known = np.empty(len(texts), np.int64), 0
        for first, last in ((0, 3), (3, len(texts))):
            text = b"".join(text + b"\xfe" for text in texts[first:last])
            numbers = np.empty((len(text) + 1) // 2, np.int32)
            n = native.token_numbers(text, more, slots, known, ends, n_known, numbers, text_ends[first:last], isa)
            text_ends[first:last] += sum(map(len, found))
            found.append(numbers[:n])
            n_known = max(n_known, numbers[:n].max(initial=-1) + 1)
        names = known[: ends[n_known - 1] if n_known else 0].tobytes().split(b"\xff")[:-1]
    return np.concatenate(found), text_ends, names


def weight_arguments(rng, size):
    """Yield rows beyond and within their bound, clipped or not."""
    X, A = rng.normal(size=(20, size)) * (rng.random((20, size)) < 0.5), rng.normal(size=(size, size))
    y, trials = rng.integers(0, 2, 20).astype(float), rng.integers(1, 5, 20).astype(float)
    settings = {"row_norm": 1.5, "spacing": 2.0**-20, "grid": 2.0**-18}
    for scales in ((0.7, 0.3), (1.0, np.inf), (np.inf, 1.0)):
        for clip_norm, label_free in ((0.8, True), (0.8, False), (32.0, False)):
            for rows, moment in product((X, sp.csr_array(X)), (A @ A.T, None)):
                options = {"scales": scales, "clip_norm": clip_norm, "label_free": label_free}
                yield (rows, y, trials, moment, rng.normal(size=size)), {**settings, **options}


def rows_of(X, isa, dtype=DOUBLE):
    sparse = sp.issparse(X)
    indptr, indices = (X.indptr.astype(np.int64), X.indices.astype(np.int32)) if sparse else (None, np.empty(0, "i4"))
    work = np.empty(native.logistic_workspace(X.shape[1], not sparse, isa) // 8 + 1).view(np.uint8)
    return (indptr, indices, (X.data if sparse else X.reshape(-1)).astype(dtype)), work


def logistic_weights(X, y, trials, M, center, *, row_norm, scales, clip_norm, spacing, grid, label_free, isa):
    (columns, work), out = rows_of(X, isa), np.empty((4, len(y)))
    settings = row_norm, trials.max(), *scales, clip_norm, spacing, grid, label_free
    native.logistic_weights(X.shape[1], *columns, y, trials, M, center, *settings, work, *out, isa=isa)
    return tuple(out)


def accumulate_arguments(rng, size):
    X = rng.normal(size=(20, size)) * (rng.random((20, size)) < 0.5)
    for rows in (X, sp.csr_array(X)):
        yield (rows, rng.normal(size=20) * 2.0**26, rng.random(20) * 2.0**17), {}


def logistic_accumulate(X, linear, quadratic, *, isa):
    """Call it for two ranges of rows, as threads do."""
    (columns, work), d = rows_of(X, isa), X.shape[1]
    sums, triangle = np.zeros(d, np.int64), np.zeros(d * (d + 1) // 2, np.int64)
    for first, last in ((0, d // 3), (d // 3, d)):
        native.logistic_accumulate(d, first, last, *columns, linear, quadratic, work, sums, triangle, isa=isa)
    return sums, triangle


def dense(twin):
    return lambda *args, **options: twin(*(x.toarray() if sp.issparse(x) else x for x in args), **options)


def logistic_units_arguments(rng, size):
    """Yield units of no, one, few and many rows, rows of zeros and ones that contribute nothing; all clips."""
    starts, spacing, grid = np.array([0, 1, 1, 3, 10, 90]), 2.0**-20, 2.0**-18
    X = rng.normal(size=(90, size)) * (rng.random((90, size)) < 0.5) + 0.3 * (np.arange(90) % 3 == 0)[:, None]
    X[2] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    for scales, label_free in (((0.7, 0.3), True), ((0.7, 0.3), False), ((1.0, np.inf), True), ((9.0, 9.0), True)):
        center, y = rng.normal(size=size) / size, rng.integers(0, 2, 90).astype(float)
        more = 1.0, np.eye(size), center, 1.5, scales, 1.0, label_free, spacing, grid
        factors = np.array([clip_weights(x, b, *more) for x, b in zip(X, y, strict=True)])
        linear, quadratic, norms = factors[:, 0] * (1 - 1e-7), factors[:, 1] * (1 - 1e-7), factors[:, 3]
        linear[7] = quadratic[7] = 0.0
        for rows in (X, sp.csr_array(X)):
            settings = {"clip_norm": 1.0, "spacing": spacing, "grid": grid, "label_free": label_free}
            yield (starts, rows, linear, quadratic, norms), settings


def logistic_units(starts, X, linear, quadratic, norms, *, clip_norm, spacing, grid, label_free, dtype, isa):
    factors, (columns, work) = (linear.copy(), quadratic.copy(), norms.copy()), rows_of(X, isa, dtype)
    settings = None, None, 1.0, 1.0, 1.0, 1.0, clip_norm, spacing, grid, label_free
    native.logistic_units(starts, X.shape[1], *columns, *settings, work, *factors, False, isa)
    return factors[:2]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("label_free", [False, True])
@pytest.mark.parametrize("m, d", [(10_000, 20), (300, 123), (3, 4000)])
def test_units_of_many_rows_and_of_many_columns(m, d, label_free, sparse):
    """The bound holds in integers and is used; columns of zeros, which make pairs of rows cheaper, only round apart."""
    rng, spacing, grid = np.random.default_rng(m), 2.0**-20, 2.0**-18
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.3) + 0.2
    X /= np.linalg.norm(X, axis=1)[:, None]
    linear, quadratic, norms = np.full(m, 0.4 / spacing), np.full(m, 0.6 / grid), np.full(m, math.hypot(0.4, 0.36))
    linear *= rng.choice([-1.0, 1.0], m)
    options = dict(clip_norm=1.0, spacing=spacing, grid=grid, label_free=label_free, dtype=np.float64, isa=None)
    wide = np.concatenate([X, np.zeros((m, 300))], axis=1)[: 600 if m > 1000 else None]
    ways = []
    for x in (X, X[: len(wide)], wide):
        factors = (part[: len(x)] for part in (linear, quadratic, norms))
        ways.append(logistic_units(np.array([0, len(x)]), sp.csr_array(x) if sparse else x, *factors, **options))
    q = np.trunc(ways[0][0][:, None] * X).astype(np.int64).sum(axis=0)
    a = np.trunc(ways[0][1][:, None] * X)
    size = math.sqrt(spacing**2 * float(q @ q) + grid**4 * float(((a @ a.T if m < d else a.T @ a) ** 2).sum()))
    assert size <= 1.0 and (size > 0.9 or label_free)
    for few, pairs in zip(*ways[1:]):
        np.testing.assert_allclose(few, pairs, rtol=1e-5)


def classes_arguments(rng, size):
    """Yield one class and several, with and without units. Rows beyond their bound, rows of zeros; all clips."""
    X = rng.normal(size=(150, size)) * (rng.random((150, size)) < 0.5)
    X[3] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    starts = np.array([0, 1, 1, 3, 10, 149, 150])
    kinds = (1, (9.0, 9.0), 1.0, None), (3, (0.7, 0.3), 1.0, starts), (5, (1.0, np.inf), 0.5, None)
    for K, scales, clip, units in kinds:
        roots = rng.normal(size=(K, size, size)) / size
        labels, state = rng.integers(-1, K, 150).astype(float), (roots @ roots.mT, rng.normal(size=(K, size)) / size)
        for given in (state, (None, state[1]), (None, np.zeros((K, size)))):
            for rows in (X, sp.csr_array(X)):
                options = {"row_norm": 1.5, "scales": scales, "clip_norm": clip, "spacing": 2.0**-20, "grid": 2.0**-18}
                yield (units, rows, labels, *given), options


def logistic_classes(starts, X, labels, second_moment, center, *, row_norm, scales, dtype, isa, **clip):
    (n, d), (columns, work) = X.shape, rows_of(X, isa, dtype)
    out = np.empty((len(center), n)), np.empty(n), np.empty(n)
    # A center of zeros may be NULL.
    state = second_moment, center if center.any() else None
    settings = row_norm, 1.0, *scales, clip["clip_norm"], clip["spacing"], clip["grid"], True
    native.logistic_classes(d, *columns, labels, starts, *state, *settings, work, *out, isa=isa)
    return out


def classes_compare(ours, twin, precision):
    # c differs by the order of d^2 additions, <xi> and the factors with it.
    for a, b in zip(ours, twin, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13 * np.abs(b).max())


def pg_mean_arguments(rng, size):
    c = np.concatenate([[0.0], 2.0 ** rng.uniform(-40, 40, size)])
    yield (c,), {}
    yield (c,), {"b": 3}


def shapes(size):
    return [(5, size, 6), (5, 20, size), (size, 9, 5)]


def sbn_pg_arguments(rng, size):
    for shape in shapes(size):
        p = network(rng, *shape)
        for n_sweeps in (0, 1, 6):
            yield (), {**p, "n_sweeps": n_sweeps}


def sbn_quadratic_arguments(rng, size):
    for shape in shapes(size):
        p = network(rng, *shape)
        gram = 0.25 * p["w"].T @ p["w"]
        for n_sweeps in (0, 1, 6):
            yield (p["y"], p["w"], gram, p["b"] - 0.5 * np.diag(gram), p["start"]), {"n_sweeps": n_sweeps}


def sbn_compare(ours, twin, precision):
    # Sums over J terms round by about J^(1/2) units in the last place (2^-24, 2^-53); the sweeps are a contraction for
    # these weights, so errors do not build up.
    tolerance = 3e-5 if precision == SINGLE else 1e-12
    for a, b in zip(ours, twin, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def units(rng, n, m, low, high):
    return rng.integers(low, high, (n, m), endpoint=True).astype(float)


def sbn_cross_arguments(rng, size):
    for n, n_visible, n_hidden in shapes(size):
        y = (rng.random((n, n_visible)) < 0.3).astype(np.uint8)
        yield (y, units(rng, n, n_hidden, -(2**31) + 1, 2**31 - 1)), {}


def sbn_gram_arguments(rng, size):
    for n, _, n_hidden in shapes(size):
        yield (units(rng, n, n_hidden, -(2**20), 2**20),), {}


def sbn_visible_norms_arguments(rng, size):
    yield ((rng.random((20, size)) < 0.4).astype(np.uint8), rng.random(size)), {}


def sbn_clip_compare(ours, twin, precision):
    np.testing.assert_allclose(ours[1], twin[1], rtol=1e-13)
    # Norms that round apart move a truncation by at most one step.
    assert np.abs(ours[0] - twin[0]).max() <= 1 and (ours[0] == twin[0]).mean() > 0.9
    np.testing.assert_array_equal(ours[0], np.trunc(ours[0]))


def chacha20_fill(n_bytes, key, *, nonce, counter, isa):
    out = np.empty(n_bytes, dtype=np.uint8)
    native.chacha20_fill(native.Key(key), nonce, counter, out, isa)
    return out


def chacha20_fill_arguments(rng, size):
    for n_bytes in (0, size, 8 * size + 1):
        yield (n_bytes, KEY), {"nonce": bytes(range(12)), "counter": 7}


def gaussian_arguments(rng, size):
    for scale in (0.3, 2.0**23):
        yield (scale, size), {"unsafe_test_key": KEY}


def symmetric_arguments(rng, size):
    for form in ("orthonormal", "analyze_gauss"):
        yield (np.zeros((size, size), np.int64), 2.0**22.3), {"form": form, "unsafe_test_key": KEY}


def gaussian_compare(ours, twin, precision):
    # The twin rounds a float64 within 2^-46 scales of the truth: once in a million entries it may differ by 1.
    assert np.abs(ours - twin).max() <= 1 and (ours != twin).sum() <= 2


def on_a_copy(add):
    def added(sums, scale, **options):
        out = sums.copy()
        assert add(out, scale, **options) is None
        return out

    return added


def add_arguments(rng, size):
    yield (rng.integers(-(2**40), 2**40, size), 2.0**23), {"unsafe_test_key": KEY}


def chacha20_words(n, key, first, isa=None):
    out = np.empty(n, dtype=np.uint64)
    native.chacha20_words(native.Key(key), first, out, isa)
    return out


def words_arguments(rng, size):
    # 2^35 elements are 2^32 blocks: there the second word of the block counter begins.
    for first in (0, size, 2**35 - 3, 2**45 + 5):
        yield (size, KEY, first), {}


def exact_arguments(rng, size):
    """Yield words of the key's own pairs. With U near 0 and near 1."""
    u, v = reference.chacha20_words(2 * size, KEY).reshape(2, size)
    u[:2] = [2**20, 2**64 - 2**30][: len(u)]
    for scale in (0.3, 2.0**23):
        yield (u.tolist(), v.tolist(), scale), {}


def every_pair(exact):
    """Make a function of one element draw both of each pair."""
    return lambda us, vs, scale, **options: np.array(
        [[exact(u, v, 16 * i + k, scale, **options) for k in (0, 8)] for i, (u, v) in enumerate(zip(us, vs))]
    )


@every_pair
def gaussian_exact(u, v, index, scale, isa):
    return native.gaussian_exact(u, v, native.Key(KEY), index, scale, isa=isa)


def clip_arguments(rng, size):
    values = rng.normal(size=(150, size)) * rng.choice([1e-200, 0.01, 1.0, 30.0, 1e200], (150, 1))
    values[[3, 77, 149], rng.integers(0, size, 3)] = math.nan, math.inf, -1e308
    starts = np.array([0, 1, 1, 2, 3, 40, 41, 130, *range(131, 151)])
    for nonnegative, spacing in ((False, 2.0**-29), (True, 2.0**-29), (False, 0.5)):
        yield (values, starts), {"clip": 1.7, "bound": 2.5, "spacing": spacing, "nonnegative": nonnegative}


def clip_units(values, starts, *, clip, bound, spacing, nonnegative, isa):
    unit, carry = np.zeros(1, np.int64), np.zeros(values.shape[1])
    sums, counts = np.full(values.shape[1], 5), np.array([7, 7])
    for first in range(0, len(values), 50):
        rows = np.full((values.shape[1], 64), math.nan)
        rows[:, :50] = values[first : first + 50].T
        call = (first, first + 50, starts, rows, unit, carry, counts, sums, isa)
        native.clip_units(clip, bound, spacing, nonnegative, *call)
    return sums - 5, counts - 7  # they are added to


def mixture_of(rng, size):
    """Make records of every length, three of them not usable, and components far from each other and near."""
    n_components, d = 1 + size % 11, size
    records = rng.normal(size=(150, d)) * 10.0 ** rng.uniform(-3, 2, (150, 1)) / math.sqrt(d)
    records[[3, 77, 149], rng.integers(0, d, 3)] = math.nan, -math.inf, 1e200
    for variance in (0.25, 1e-3):
        means = rng.normal(size=(n_components, d)) / math.sqrt(4 * d)
        constant = np.log(rng.dirichlet(np.ones(n_components))) - (means**2).sum(axis=1) / (2 * variance)
        yield records, constant, means / variance, 0.4


def mixture_rows_arguments(rng, size):
    for records, *density in mixture_of(rng, size):
        for n in (0, 1, 9, 150):
            yield (records[:n], *density), {}


def mixture_rows(records, constant, linear, weight, isa):
    values = np.full((linear.size + len(linear) + 1, -(-len(records) // 8) * 8), 7.0)
    native.mixture_rows(records, constant, linear, weight, values, isa)
    rows = values[:, : len(records)].T
    return np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, math.nan)


def mixture_units_arguments(rng, size):
    """Yield units of no, one and several rows, which parts of 8, 24 and 128 rows end in other places than units."""
    starts = np.array([0, 1, 1, 2, 3, 40, 41, 130, *range(131, 151)])
    for records, *density in mixture_of(rng, size):
        for nonnegative, spacing, clip in ((False, 2.0**-29, 1.5), (True, 2.0**-29, 0.7), (False, 2.0**-4, 1.5)):
            bounds = {"clip": clip, "bound": 1.0, "spacing": spacing, "nonnegative": nonnegative}
            yield (records, starts, *density), bounds


def mixture_units(records, starts, *density, clip, bound, spacing, nonnegative, isa):
    results = []
    for together in (8, 24, 128):
        size = density[1].size + len(density[1]) + 1
        work, carry = np.full((size, together), math.nan), np.full(size, math.nan)
        sums, counts = np.full(size, 5), np.array([7, 7])
        call = (starts, records, *density, work, carry, counts, sums, isa)
        native.mixture_units(clip, bound, spacing, nonnegative, *call)
        results.append((sums - 5, counts - 7))  # they are added to
    for one in results:
        np.testing.assert_equal(one, results[0])  # however many rows are taken together
    return results[0]


def flagged_arguments(rng, size):
    """Choose a scale that flags an eighth of all draws."""
    for first in (0, 777):
        yield (20 * size, KEY, 2.0**38, first), {}


def gaussian_flagged(n, key, scale, first, isa):
    indices = np.empty(n, dtype=np.int64)
    return indices[: native.gaussian_flagged(native.Key(key), first, n, scale, indices, isa)]


def flagged_compare(ours, twin, precision):
    # The two sum up float64 errors of 2^-49 scales: draws that are as near to the guard, 1 in 300, go either way.
    assert len(np.setxor1d(ours, twin)) <= 3 + len(twin) // 40


def check_arguments(rng, size):
    """Yield entries on the limit and one beyond it."""
    for limit in (0, 5, 2**63 - 2, 2**63 - 1):
        for entry in (limit, -limit, min(limit + 1, 2**63 - 1), max(-limit - 1, -(2**63)), -(2**63)):
            x = np.zeros(size, dtype=np.int64)
            x[rng.integers(size)] = entry
            yield (limit, x), {}


def symmetric_check_arguments(rng, size):
    """Yield odd and large entries in checked rows and others."""
    first, last = sorted(rng.integers(0, size + 1, 2))
    for change in (0, 1, 2**40):
        matrix = rng.integers(-(2**30), 2**30, (size, size))
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        i, j = rng.integers(0, size, 2)
        matrix[i, j] += change
        if change > 1:
            matrix[j, i] = matrix[i, j]
        yield (int(first), int(last), 2**39, matrix), {}


def verdict(check):
    """Make a check return 1 for its exception and 2 for False."""

    def judged(*args, **options):
        try:
            return np.array([2 if check(*args, **options) is False else 0])
        except OverflowError:
            return np.array([1])

    return judged


BOTH = (SINGLE, DOUBLE)
REGISTRY = {
    # The order of at most 129 additions of positive numbers, and in float32 one rounding more.
    "lda_table": Case(table_arguments, near(129 * 2.0**-53, single=2.0**-23, atol=1e-38), BOTH),
    "lda_gather": Case(gather_arguments, equal),
    "lda_collapsed": Case(collapsed_arguments, units_compare, BOTH),
    "lda_estep": Case(lda_arguments, lda_compare, BOTH),
    "lda_units": Case(units_arguments, units_compare, BOTH),
    "unit_words": Case(unit_words_arguments, equal),
    "word_histogram": Case(histogram_arguments, equal),
    "split_words": Case(split_arguments, equal),
    # Sums of at most 129 products above 0, in float32.
    "word_ratios": Case(word_ratio_arguments, near((129 / 8 + 4) * 2.0**-23)),
    "csv_cells": Case(cell_arguments, cell_compare),
    "token_numbers": Case(token_arguments, equal),
    "shrink_means": Case(shrink_arguments, shrink_compare, (SINGLE,), (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 50)),
    "blend_release": Case(blend_arguments, blend_compare, BOTH),
    "noise_sums": Case(noise_arguments, noise_compare),
    # Rounded to float32, whose least normal number is 1e-38.
    "noise_units": Case(noise_units_arguments, near(1e-7, atol=1e-38), (SINGLE,)),
    # float64, then rounded to the table's precision.
    "table_parameters": Case(parameter_arguments, near(1e-14, 1e-13, single=(1e-7, 1e-13)), BOTH),
    "table_shares": Case(rows_arguments, shares_compare, BOTH),
    # float64 sums in another order, of shares in the table's precision.
    "table_spread": Case(spread_arguments, near(1e-13, single=2e-7), BOTH),
    # Exponents down to -80, made in float64 and rounded to float32, are off by up to 80 / 2^24; below that they are
    # capped (kernels.toml). Sums of words may be as small as e^-80.
    "word_masses": Case(mass_arguments, near(6e-6, atol=(0, 1e-24, 1e-34)), sizes=(*SIZES[:11], 33)),
    # float64, systems of up to 32 factors: 5e-12 was seen. The result is rounded to float32.
    "topic_ratios": Case(ratio_arguments, near(1e-7), sizes=(1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 50)),
    "logistic_classes": Case(classes_arguments, classes_compare, BOTH, ROWS),
    # c differs by the order of d^2 additions, <xi>, the norm and the factors with it; an integer that truncates apart
    # can cost or spare a step of 2^-20, of a unit's too.
    "logistic_weights": Case(weight_arguments, near(1e-5, 1e-5, 1e-12, 1e-11, atol=1e-12), sizes=ROWS),
    "logistic_accumulate": Case(accumulate_arguments, equal, sizes=ROWS),
    "logistic_units": Case(logistic_units_arguments, near(1e-5), BOTH, ROWS),
    # The twin's series is cut at c^6/13440, below 1e-16 of 1/4 in its range; tanh and a division give 4 ulp.
    "pg_mean": Case(pg_mean_arguments, near(1e-15)),
    "sbn_pg": Case(sbn_pg_arguments, sbn_compare, BOTH, tuple(SIZES[:-3])),
    "sbn_quadratic": Case(sbn_quadratic_arguments, lambda a, b, p: sbn_compare([a], [b], p)),
    "sbn_clip": Case(clipping, sbn_clip_compare, sizes=tuple(SIZES[:-3])),
    "sbn_visible_norms": Case(sbn_visible_norms_arguments, near(1e-12)),  # the order of at most 129 additions
    "sbn_cross": Case(sbn_cross_arguments, equal),
    "sbn_gram": Case(sbn_gram_arguments, equal),
    # Norms differ by the order of at most 129 additions: once in 10^6 entries one is truncated apart, by one step.
    "clip_units": Case(clip_arguments, near(0, 0, atol=(1, 0))),
    # A log of up to 10^3 is off by so many roundings of 10^-16, times the order of at most 129 additions. Below 1e-290
    # the exponential of a log below -700 loses digits.
    "mixture_rows": Case(mixture_rows_arguments, near(1e-10, atol=1e-290)),
    # Once in 10^4 entries one is truncated apart, by one step.
    "mixture_units": Case(mixture_units_arguments, near(0, 0, atol=(2, 0))),
    "chacha20_fill": Case(chacha20_fill_arguments, equal),
    "chacha20_words": Case(words_arguments, equal),
    "gaussian_exact": Case(exact_arguments, gaussian_compare, sizes=(1, 7, 129)),
    "gaussian_flagged": Case(flagged_arguments, flagged_compare),
    "int64_check": Case(check_arguments, equal),
    "symmetric_check": Case(symmetric_check_arguments, equal),
    "rounded_gaussian": Case(gaussian_arguments, gaussian_compare),
    "add_rounded_gaussian": Case(add_arguments, gaussian_compare),
    "symmetric_gaussian": Case(symmetric_arguments, gaussian_compare),
}
#: Tested in test_psd.py: LAPACK's work, which has no instruction set of ours.
WITHOUT_INSTRUCTION_SET = {"floor_spectrum", "psd_project"}
#: Bits that the operating system draws anew: tests/capi/consumers/errors.c sees the call succeed and fail.
WITHOUT_TWIN = {"os_random"}
#: The kernels without an entry of the twin's form: functions of their names, above and in the helpers.
WRITTEN = {**vars(inputs), **vars(sums), **globals()}
OURS = {name: WRITTEN[name] for name in REGISTRY if name in WRITTEN} | {
    "int64_check": verdict(native.int64_check),
    "symmetric_check": verdict(native.symmetric_check),
    "add_rounded_gaussian": on_a_copy(kernels.add_rounded_gaussian),
    "symmetric_gaussian": on_a_copy(kernels.symmetric_gaussian),
}
TWINS = {
    "logistic_classes": dense(reference.logistic_classes),
    "logistic_units": dense(reference.logistic_units),
    "logistic_weights": dense(reference.logistic_weights),
    "logistic_accumulate": dense(reference.logistic_accumulate),
    "gaussian_exact": every_pair(reference.gaussian_exact),
    "int64_check": verdict(reference.int64_check),
    "symmetric_check": verdict(reference.symmetric_check),
    "add_rounded_gaussian": on_a_copy(reference.add_rounded_gaussian),
    "symmetric_gaussian": on_a_copy(reference.symmetric_gaussian),
}


def test_every_twin_is_registered():
    assert set(REGISTRY) | WITHOUT_INSTRUCTION_SET == set(reference.__all__)
    assert set(reference.__all__) - set(OURS) <= set(kernels.__all__)


def without_twin(declared):
    """List the kernels without a twin; sizes and sentences are no computation."""
    computing = {kernel["name"] for kernel in declared if "returns" not in kernel}
    assert WITHOUT_TWIN <= computing
    return computing - WITHOUT_TWIN - set(reference.__all__)


def test_every_kernel_has_a_twin():
    assert without_twin(KERNELS) == set()
    assert without_twin([*KERNELS, {"name": "new"}, {"name": "new_workspace", "returns": "int64_t"}]) == {"new"}


@pytest.mark.parametrize("name", REGISTRY)
def test_kernel_matches_its_twin(name):
    case = REGISTRY[name]
    ours, twin = OURS.get(name) or getattr(kernels, name), TWINS.get(name) or getattr(reference, name)
    for size in case.sizes:
        for args, kwargs in case.arguments(np.random.default_rng(size), size):
            expected = twin(*args, **kwargs)
            for precision in case.precisions:
                options = {"dtype": precision} if case.precisions == BOTH else {}
                for isa in ISAS:
                    try:
                        case.compare(ours(*args, **kwargs, **options, isa=isa), expected, precision)
                    except AssertionError as error:
                        raise AssertionError(f"{name}, size {size}, {precision}, {isa}, {kwargs}: {error}") from None


def test_mixtures_have_the_same_bits_on_every_instruction_set():
    """No operation is fused, and none is a vector's own: a unit may be summed up on any processor."""
    for size in SIZES:
        for name in ("mixture_rows", "mixture_units"):
            for args, kwargs in REGISTRY[name].arguments(np.random.default_rng(size), size):
                found = [bits(OURS[name](*args, **kwargs, isa=isa)) for isa in ISAS]
                assert all(one == found[0] for one in found), (name, size)


def test_a_wrong_result_is_seen():
    """Each comparison fails for a slightly larger error than it allows."""
    for name, case in REGISTRY.items():
        twin = TWINS.get(name) or getattr(reference, name)
        args, kwargs = list(case.arguments(np.random.default_rng(9), 9))[-1]
        expected = twin(*args, **kwargs)
        parts = list(expected) if isinstance(expected, tuple) else [expected]
        if isinstance(parts[0], list):
            first = [*parts[0], []]  # one row more
        else:
            first = np.add(parts[0], 2 + np.abs(parts[0]), dtype=parts[0].dtype, casting="unsafe")
        wrong = [first, *parts[1:]]
        made = wrong[0] if len(parts) == 1 else tuple(wrong)
        if hasattr(expected, "_fields"):
            made = type(expected)(*wrong)
        with pytest.raises(AssertionError):
            case.compare(made, expected, case.precisions[-1])


def bits(result):
    if isinstance(result, (tuple, list)):
        return [bits(part) for part in result]
    return None if result is None else (np.shape(result), np.asarray(result).tobytes())


def test_kernels_give_the_same_bits_to_many_threads_at_once():
    """Kernels keep nothing between calls: shared state would show among eight threads, more so without a lock."""
    jobs = []
    for name, case in REGISTRY.items():
        ours = OURS.get(name) or getattr(kernels, name)
        for size in (3, 33):
            if size in case.sizes:
                for args, kwargs in case.arguments(np.random.default_rng(size), size):
                    options = {"dtype": SINGLE} if case.precisions == BOTH else {}
                    jobs.append((name, ours, args, {**kwargs, **options, "isa": None}))
    together = threading.Barrier(8)

    def work(number):
        together.wait()
        order = np.roll(np.arange(len(jobs)), -number * len(jobs) // 8)
        return {int(k): bits(jobs[k][1](*jobs[k][2], **jobs[k][3])) for k in order}

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(8)))
    for k, (name, ours, args, kwargs) in enumerate(jobs):
        alone = bits(ours(*args, **kwargs))
        assert all(one[k] == alone for one in found), (name, kwargs)


def test_import_is_light():
    # A bare package in the place of vips_fast, which imports the models.
    code = (
        f"import sys, types; package = types.ModuleType('vips_fast'); package.__path__ = {list(vips_fast.__path__)!r}; "
        "sys.modules['vips_fast'] = package; import vips_fast.kernels; "
        "print([m for m in ('numba', 'scipy.special', 'scipy.linalg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "wrong",
    [
        *(dict(share_floor=bad) for bad in (-0.1, 1e-7, 1.5, np.nan)),
        dict(share_floor=0.1, clip_norm=None),
        dict(word_clip=-1.0),
        dict(word_weight=np.full(200, 1e-7)),
        dict(word_weight=np.ones(200), clip_norm=None),
    ],
)
def test_weights_of_units_out_of_range(wrong):
    args, settings = next(units_arguments(np.random.default_rng(0), 30))
    good = {**settings, "clip_norm": 6.0, "word_clip": 2.0, "dtype": SINGLE, "isa": None}
    assert np.isfinite(lda_units(*args, **{**good, "share_floor": 1e-6})[0]).all()
    with pytest.raises(ValueError, match="a parameter is out of its range"):
        lda_units(*args, **{**good, **wrong})
