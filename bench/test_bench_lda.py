"""W1: the LDA E-step on documents of 500 words, K = 50, stop at mean |change of gamma| < 10^-3 or 100 rounds.

With the Wikipedia counts (VIPS_FAST_DATA) the documents are articles resampled to
500 words; without them, documents simulated from random sparse topics.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma

from vips_fast.kernels import lda_estep, reference

K, ALPHA, ETA = 50, 0.02, 0.02
N_DOCS, LENGTH = 20_000, 500


def resample(X, n_docs, rng):
    """n_docs rows of X, each resampled to LENGTH words."""
    rows = []
    for d in rng.integers(0, X.shape[0], n_docs):
        lo, hi = X.indptr[d], X.indptr[d + 1]
        counts = rng.multinomial(LENGTH, X.data[lo:hi] / X.data[lo:hi].sum())
        rows.append((X.indices[lo:hi][counts > 0], counts[counts > 0]))
    indptr = np.concatenate(([0], np.cumsum([len(c) for _, c in rows])))
    out = sp.csr_array(
        (np.concatenate([c for _, c in rows]), np.concatenate([i for i, _ in rows]), indptr), shape=(n_docs, X.shape[1])
    )
    out.sort_indices()
    return out


def simulated(rng, n_words=7702):
    """Documents of few topics over a vocabulary with a Zipf-like weight."""
    weight = 1 / np.arange(10, n_words + 10)
    topics = rng.dirichlet(0.02 * n_words * weight / weight.sum(), K)
    rows = np.zeros((2000, n_words), dtype=np.int32)
    for row in rows:
        row[:] = rng.multinomial(LENGTH, rng.dirichlet(np.full(K, 0.1)) @ topics)
    return sp.csr_array(rows)


@pytest.fixture(scope="module")
def work():
    """Documents and topics that some rounds of learning have shaped."""
    import os
    from pathlib import Path

    rng = np.random.default_rng(0)
    root = Path(os.environ.get("VIPS_FAST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    source = sp.csr_array(sp.load_npz(root / "wiki" / "train.npz")) if root.is_dir() else simulated(rng)
    X = resample(source, N_DOCS, rng)
    lam = rng.gamma(100.0, 0.01, (K, X.shape[1]))
    for step in range(20):
        part = X[step * 1000 : (step + 1) * 1000]
        fit = lda_estep(part.indptr, part.indices, part.data, exp_elog(lam), ALPHA)
        rate = (1 + step) ** -0.7
        lam = (1 - rate) * lam + rate * (ETA + fit.sstats * 400)
    return X, exp_elog(lam)


def exp_elog(lam):
    return np.exp(digamma(lam) - digamma(lam.sum(axis=1, keepdims=True)))


def ours(X, beta, **options):
    return lda_estep(X.indptr, X.indices, X.data, beta, ALPHA, **options)


def scikit_learn(X, beta):
    lda = pytest.importorskip("sklearn.decomposition._lda", reason="needs scikit-learn")
    data = sp.csr_matrix(X.astype(np.float64))
    data.indices, data.indptr = data.indices.astype(np.int32), data.indptr.astype(np.int32)
    return lambda: lda._update_doc_distribution(data, beta, ALPHA, 100, 1e-3, True, np.random.RandomState(0))


def gensim(X, beta):
    """gensim's inference of a list of bags of words, or None where it is not installed."""
    try:
        from gensim.models import LdaModel
    except ImportError:
        return None
    model = LdaModel(
        id2word={i: str(i) for i in range(X.shape[1])}, num_topics=K, alpha=[ALPHA] * K, eta=ETA, iterations=100,
        gamma_threshold=1e-3, dtype=np.float64,
    )
    model.expElogbeta = beta
    bags = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist())) for a, b in zip(X.indptr[:-1], X.indptr[1:])
    ]
    return lambda: model.inference(bags, collect_sstats=True)


def test_w1_one_thread(work, paired):
    X, beta = work
    few, fewer = X[:2000], X[:100]
    peers = {
        "scikit-learn float64": scikit_learn(few, beta),
        "reference (numpy float64)": lambda: reference.lda_estep(fewer.indptr, fewer.indices, fewer.data, beta, ALPHA),
        "ours in float64": lambda: ours(few, beta, dtype="float64"),
    }
    scale = {"scikit-learn float64": 0.1, "reference (numpy float64)": 0.005, "ours in float64": 0.1}
    other = gensim(X[:1000], beta)
    if other is not None:
        peers["gensim float64"], scale["gensim float64"] = other, 0.05
    paired(
        lambda: ours(X, beta, clip_norm=50.0),
        peers,
        f"W1 E-step, {N_DOCS} documents, K = {K}, V = {X.shape[1]}, float32, clipped, one thread (peers scaled to it)",
        scale=scale,
    )


def test_w1_two_threads(work, paired):
    X, beta = work
    paired(
        lambda: ours(X, beta, clip_norm=50.0, n_threads=2),
        {"ours on one thread": lambda: ours(X, beta, clip_norm=50.0)},
        f"W1 E-step, {N_DOCS} documents, two threads",
        rounds=7,
    )


def test_w1_accuracy(work):
    """The speed counts only at this accuracy: statistics within 10^-6 of float64."""
    X, beta = work
    single, double = ours(X, beta).sstats, ours(X, beta, dtype="float64").sstats
    assert np.linalg.norm(single - double) <= 1e-6 * np.linalg.norm(double)
    few = X[:500]
    twin = reference.lda_estep(few.indptr, few.indices, few.data, beta, ALPHA)
    ours64 = ours(few, beta, dtype="float64").sstats
    assert np.linalg.norm(ours64 - twin.sstats) <= 1e-9 * np.linalg.norm(twin.sstats)
