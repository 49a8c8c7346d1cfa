"""LDA E-step: kernel against reference, scikit-learn and the paper's example. Purity and exactness."""

from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from inputs import topics
from scipy.special import digamma, gammaln

from vips_fast.kernels import lda_estep, native, reference
from vips_fast.kernels.reference import lda as twin_module

ISAS = native.isas_available()


def documents(rng, n_docs, n_words, max_words, max_count=5):
    rows = []
    for d in range(n_docs):
        size = 0 if d % 7 == 3 else int(rng.integers(1, min(max_words, n_words) + 1))
        row = np.zeros(n_words, dtype=np.int64)
        row[rng.choice(n_words, size, replace=False)] = rng.integers(1, max_count + 1, size)
        rows.append(row)
    return sp.csr_array(np.array(rows))


def call(X, beta, alpha, **options):
    return lda_estep(X.indptr, X.indices, X.data, beta, alpha, **options)


@pytest.mark.parametrize("isa", ISAS)
def test_degenerate_shapes(isa):
    one = call(sp.csr_array(np.array([[3]])), np.ones((1, 1)), 0.5, isa=isa, dtype="float64")
    assert one.gamma[0, 0] == pytest.approx(3.5) and one.sstats[0, 0] == pytest.approx(3.0)
    empty = call(sp.csr_array((3, 5), dtype=np.int64), np.ones((2, 5)), 0.5, isa=isa)
    np.testing.assert_array_equal(empty.gamma, 0.5)
    assert not empty.sstats.any() and not empty.n_iter.any() and not empty.norms.any()
    none = call(sp.csr_array((0, 5), dtype=np.int64), np.ones((2, 5)), 0.5, isa=isa)
    assert none.gamma.shape == (0, 2) and none.sstats.shape == (2, 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_counts(dtype):
    rng = np.random.default_rng(5)
    X = sp.csr_array(np.array([[10**9, 1, 0, 7], [0, 1, 1, 0]]))
    beta = topics(rng, 3, 4)
    ours = call(X, beta, 0.3, dtype=dtype)
    # At 10^9 words float32 rounds cannot resolve changes below the stop rule, nor when a hundredth of a word leaves.
    twin = reference.lda_estep(X.indptr, X.indices, X.data, beta, 0.3)
    rtol, atol = (1e-5, 1e-2) if dtype == "float32" else (1e-9, 1e-3)
    np.testing.assert_allclose(ours.sstats, twin.sstats, rtol=rtol, atol=atol)
    np.testing.assert_allclose(ours.sstats.sum(axis=0), X.sum(axis=0), rtol=1e-6, atol=1e-5)


def test_repeated_and_unsorted_words_are_the_sum():
    rng = np.random.default_rng(2)
    beta = topics(rng, 6, 9)
    messy = lda_estep([0, 5], [7, 2, 7, 0, 2], [1, 2, 3, 4, 5], beta, 0.2, clip_norm=3.0)
    clean = lda_estep([0, 3], [0, 2, 7], [4, 7, 4], beta, 0.2, clip_norm=3.0)
    for a, b in zip(messy, clean, strict=True):
        np.testing.assert_array_equal(a, b)
    # Counted apart, the repeated words would pass a bound on the norm.
    assert np.linalg.norm(messy.sstats) <= 3.0


def test_matches_scikit_learn():
    lda = import_module("sklearn.decomposition._lda")
    rng = np.random.default_rng(1)
    X = documents(rng, 60, 120, 60)
    X = X[np.diff(X.indptr) > 0]
    beta = topics(rng, 15, 120)
    # scikit-learn starts from gamma = 1 (no random state), which a stop at 1e-10 forgets.
    matrix = sp.csr_matrix(X.astype(float))
    theirs_gamma, theirs = lda._update_doc_distribution(matrix, beta, 0.4, 4000, 1e-10, True, None)
    ours = call(X, beta, 0.4, tol=1e-10, max_iter=4000, dtype="float64")
    np.testing.assert_allclose(ours.gamma, theirs_gamma, rtol=1e-5, atol=1e-5)
    # Their statistics lack the factor exp(E[log beta]).
    np.testing.assert_allclose(ours.sstats, theirs * beta, rtol=1e-5, atol=1e-6)


def test_worked_example_of_eq_30():
    # N = V = K = 2, one document with s = [[1, 0], [1, 0]]: two topics share word 0. Clipped to a N = 0.2.
    result = lda_estep([0, 1], [0], [2], np.ones((2, 2)), 1.0, clip_norm=0.2, dtype="float64")
    assert result.norms[0] == pytest.approx(np.sqrt(2.0))
    np.testing.assert_allclose(result.sstats, 0.2 / np.sqrt(2.0) * np.array([[1, 0], [1, 0]]), rtol=1e-8)
    assert np.linalg.norm(result.sstats) <= 0.2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("isa", ISAS)
def test_same_bits_for_any_threads_order_and_company(isa, dtype):
    rng = np.random.default_rng(9)
    X = documents(rng, 400, 300, 250)
    beta = topics(rng, 12, 300)
    options = dict(clip_norm=20.0, dtype=dtype, isa=isa)
    one = call(X, beta, 0.1, **options)
    for a, b in zip(one, call(X, beta, 0.1, n_threads=3, **options), strict=True):
        np.testing.assert_array_equal(a, b)
    order = rng.permutation(400)
    shuffled = call(X[order], beta, 0.1, **options)
    np.testing.assert_array_equal(shuffled.gamma, one.gamma[order])
    np.testing.assert_array_equal(shuffled.sstats, one.sstats)
    # The sum of contributions computed one by one is exactly the sum.
    alone = sum(call(X[[d]], beta, 0.1, **options).sstats for d in range(40))
    np.testing.assert_array_equal(alone, call(X[:40], beta, 0.1, **options).sstats)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stored_zeros_change_no_bit(isa, dtype):
    # The counts are fractions, as in scaled documents: their sum depends on its order.
    rng = np.random.default_rng(7)
    X = documents(rng, 40, 60, 50).astype(np.float64)
    X.data *= rng.uniform(0.1, 3.0, len(X.data))
    full = X.toarray()
    everywhere = np.tile(np.arange(60), 40), full.ravel()
    options = dict(exp_elog_beta=topics(rng, 5, 60), alpha=0.1, clip_norm=8.0, dtype=dtype, isa=isa)
    plain = lda_estep(X.indptr, X.indices, X.data, **options)
    stored = lda_estep(np.arange(0, full.size + 1, 60), *everywhere, **options)
    for name in ("gamma", "sstats", "n_iter", "norms"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(plain, name))


@pytest.mark.parametrize("isa", ISAS)
def test_a_stop_by_words_follows_each_document(isa):
    rng = np.random.default_rng(17)
    X, beta = documents(rng, 40, 60, 50), topics(rng, 5, 60)
    options = dict(clip_norm=8.0, dtype="float64", isa=isa)
    found = call(X, beta, 0.1, tol=0.0, word_tol=0.05, **options)
    apart = [call(X[[d]], beta, 0.1, tol=0.05 * X[[d]].sum() / 5, **options) for d in range(X.shape[0])]
    np.testing.assert_array_equal(found.gamma, np.concatenate([one.gamma for one in apart]))
    np.testing.assert_array_equal(found.sstats, sum(one.sstats for one in apart))
    twin = reference.lda_estep(X.indptr, X.indices, X.data, beta, 0.1, tol=0.0, word_tol=0.05, clip_norm=8.0)
    np.testing.assert_array_equal(found.n_iter, twin.n_iter)
    # The farther of both stops, and all rounds without any.
    np.testing.assert_array_equal(call(X, beta, 0.1, tol=1e-9, word_tol=0.05, **options).gamma, found.gamma)
    endless = call(X, beta, 0.1, tol=0.0, word_tol=0.0, max_iter=30, **options).n_iter
    assert set(endless[X.sum(axis=1) > 0]) == {30} and found.n_iter.max() < 30


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_contribution_never_exceeds_the_clip_norm(isa, dtype):
    rng = np.random.default_rng(4)
    X = documents(rng, 200, 500, 400, max_count=50)
    beta = topics(rng, 10, 500)
    for clip in (0.1, 1.0, 33.3, 1000.0):
        spacing = 2.0 ** (np.floor(np.log2(clip)) - 22)
        limit = int(np.floor(clip / spacing)) ** 2
        for d in range(0, 200, 5):
            q = call(X[[d]], beta, 0.1, clip_norm=clip, spacing=spacing, isa=isa, dtype=dtype).sstats / spacing
            assert (q == np.rint(q)).all()
            assert sum(int(x) ** 2 for x in q[q != 0]) <= limit


def test_an_extrapolation_that_leads_too_far_is_taken_back(monkeypatch):
    # Found by search among small documents: after it gamma moves more than four times as far as before.
    X, alpha = sp.csr_array(np.array([[1, 2]])), 0.18
    beta = np.array([[0.564, 0.438], [0.995, 0.007], [0.019, 0.983]])

    def twin():
        return reference.lda_estep(X.indptr, X.indices, X.data, beta, alpha, tol=0, max_iter=30).gamma

    gamma = twin()
    for isa in ISAS:
        for dtype in ("float32", "float64"):
            ours = call(X, beta, alpha, tol=0, max_iter=30, dtype=dtype, isa=isa).gamma
            np.testing.assert_allclose(ours, gamma, atol=1e-4)
    monkeypatch.setattr(twin_module, "FARTHEST", np.inf)
    assert np.abs(twin() - gamma).max() > 0.4


def document_bounds(X, beta, alpha, gamma):
    """Each document's variational bound at gamma, up to a constant."""
    e = digamma(gamma)
    for d in range(X.shape[0]):
        row = X[[d]]
        words = row.data @ np.log(np.exp(e[d]) @ beta[:, row.indices])
        theta = -(gamma[d] - alpha) @ e[d] + gammaln(gamma[d]).sum() - gammaln(gamma[d].sum())
        yield (words + theta) / row.data.sum()


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_topics_that_leave_cost_nothing(alpha, monkeypatch):
    rng = np.random.default_rng(3)
    beta = rng.dirichlet(np.full(300, 0.05), 20) + 1e-6
    shares = rng.dirichlet(np.full(20, 0.1), 60) @ beta
    X = sp.csr_array(np.array([rng.multinomial(n, p / p.sum()) for n, p in zip([10, 100, 500] * 20, shares)]))
    left = call(X, beta, alpha, dtype="float64").gamma
    monkeypatch.setattr(twin_module, "FEW_WORDS", 0.0)
    stayed = reference.lda_estep(X.indptr, X.indices, X.data, beta, alpha).gamma
    assert (left == alpha).mean() > (stayed < alpha * (1 + 1e-9)).mean() + 0.02
    lost = np.array([*document_bounds(X, beta, alpha, stayed)]) - [*document_bounds(X, beta, alpha, left)]
    assert abs(lost.mean()) < 1e-3 and lost.max() < 0.02
    # All words keep a topic: the few words of those that left go to others.
    np.testing.assert_allclose(left.sum(axis=1), X.sum(axis=1) + 20 * alpha, rtol=1e-6)


GOOD = dict(indptr=[0, 2, 3], indices=[0, 2, 1], counts=[1, 2, 3], exp_elog_beta=np.ones((2, 3)), alpha=0.5)
#: Bad values of each argument, which the message names.
BAD = {
    "indptr": ([0, 3, 2], [1, 2, 3], [[0, 3]], [0.0, 2.0, 3.0], []),
    "indices": ([0, 3, 1], [0, -1, 1]),
    "counts": ([1, 2], [1, -2, 3], [1, np.nan, 3], [1, np.inf, 3], ["a", "b", "c"]),
    "exp_elog_beta": (np.ones(3), np.ones((0, 3)), np.array([[1, np.nan, 1]]), -np.ones((2, 3))),
    "alpha": (0.0, [1.0, 2.0, 3.0], 1e-31, np.nan),
    "tol": (-1, np.nan),
    "word_tol": (-1, np.inf),
    "max_iter": (-1, 1.5),
    "clip_norm": (0.0, np.inf, 8.9e-308, 1e300),
    "spacing": (0.3, 2.0**-80, 2.0**61),
    "dtype": ("float16",),
    "n_threads": (0,),
    "isa": ("mmx",),
}
#: A clip norm and a spacing that do not go together.
PAIRS = [(1.0, 2.0**-40), (1.0, 4.0), (8.9e-308, 2.0**-1030)]
CHANGES = [({name: bad}, name) for name, values in BAD.items() for bad in values]
CHANGES += [(dict(clip_norm=clip_norm, spacing=spacing), "spacing") for clip_norm, spacing in PAIRS]


@pytest.mark.parametrize("change, name", CHANGES)
def test_bad_input_is_named(change, name):
    with pytest.raises(ValueError, match=name):
        lda_estep(**{**GOOD, **change})
