"""The topic model as a user meets it."""

import math
import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling
from scipy.special import digamma

from vips_fast import LatentDirichletAllocation
from vips_fast.kernels import reference
from vips_fast.kernels.lda import scaled_table
from vips_fast.models.lda import LdaOptions
from vips_fast.models.lda.planning import default_clip, usual_length
from vips_fast.models.lda.score import proportions_prior


def corpus(n_docs=400, n_words=60, n_topics=4, length=40, seed=0):
    """Documents that use two of a few topics with disjoint words. Topics are easy to find."""
    rng = np.random.default_rng(seed)
    block = n_words // n_topics
    rows = np.zeros((n_docs, n_words), dtype=np.int64)
    for row in rows:
        for k in rng.choice(n_topics, 2, replace=False):
            np.add.at(row, k * block + rng.integers(0, block, length // 2), 1)
    return sp.csr_array(rows)


def average(model):
    return model._result.state["average"].T


def test_non_private_fit_finds_the_topics():
    X = corpus()
    # Variational Bayes often ends in a local optimum: the best of six public starts is meant.
    numerics = LdaOptions(dtype="float64", topic_word_prior=0.1)
    options = dict(private=False, n_steps=60, doc_length=40, options=numerics)
    fits = [LatentDirichletAllocation(4, random_state=r, **options).fit(X) for r in range(6)]
    model = max(fits, key=lambda fit: fit.score(X))
    top = [frozenset((np.argsort(-row)[:15] // 15).tolist()) for row in model.components_]
    assert sorted(top, key=min) == [frozenset([k]) for k in range(4)]
    assert not model.privacy_.private and math.isinf(model.privacy_.epsilon)
    assert "NOT PRIVATE" in model.privacy_.statement()


def test_one_noiseless_step_is_the_reference_e_step():
    words = np.random.default_rng(0).integers(0, 60, 50)
    X = sp.csr_array((np.full(50, 7), words, np.arange(51)), shape=(50, 60))
    how = dict(n_steps=1, sampling="full", noise_multiplier=0, doc_length=40, clip=0.2, random_state=0)
    options = LdaOptions(dtype="float64", word_clip=1, topic_mean="geometric")
    model = LatentDirichletAllocation(3, options=options, **how).fit(X)
    assert model.privacy_.taints == ("noise_multiplier=0",)
    lam = np.random.default_rng(0).gamma(20.0, 0.05, (60, 3)).T
    beta = np.exp(digamma(lam) - digamma(lam.sum(axis=1, keepdims=True)))
    stop = dict(tol=0.0, word_tol=0.01)
    twin = reference.lda_estep(X.indptr, X.indices, np.full(50, 40), beta, 1 / 3, **stop, clip_norm=8.0)
    # 2^-27 of the clip norm: the lattice step of each of 50 contributions.
    np.testing.assert_allclose(average(model) * 50, twin.sstats, atol=50 * 8 * 2.0**-27)
    np.testing.assert_allclose(model.components_, 1 / 3 + average(model) * 50, rtol=1e-12)


def test_empty_minibatch_is_noised_and_charged():
    X = corpus(30)
    model = LatentDirichletAllocation(2, n_steps=30, batch_size=0.02, noise_multiplier=1.0, doc_length=40).fit(X)
    assert len(model.ledger_) == 30 and model.privacy_.epsilon > 0


def test_paper_update_keeps_statistics_non_negative():
    # Noise of five times the statistics: some of the 180 entries are below 0 for certain (all but 10^-40).
    options = dict(n_steps=3, doc_length=40, noise_multiplier=20.0)
    model = LatentDirichletAllocation.paper(3, **options).fit(corpus())
    assert average(model).min() >= 0 and model.components_.min() >= 1 / 3
    ours = LatentDirichletAllocation(3, **options).fit(corpus())
    assert average(ours).min() < 0 and ours.components_.min() >= 1 / 3


def test_noise_level_of_the_average_is_tracked():
    # On words that never occur the average is only noise: its spread must be the tracked sd, entry by entry.
    X = sp.csr_array((300, 4000), dtype=np.int64)
    model = LatentDirichletAllocation(5, n_steps=6, doc_length=40, noise_multiplier=3.0).fit(X)
    sd = model._result.state["average_noise"].T
    # Words' masses and topics' shares are noise too, so that entries' noise differs by their scales; 20,000 draws: the
    # sample sd is within 5 / sqrt(2 * 20,000) = 2.5 %.
    assert (np.ptp(sd, axis=0) > 0).all() and (np.ptp(sd, axis=1) > 0).all()
    assert (average(model) / sd).std() == pytest.approx(1.0, rel=0.025)


@pytest.mark.parametrize("make", [LatentDirichletAllocation, LatentDirichletAllocation.paper])
def test_the_prior_of_words_is_added_to_what_was_counted(make):
    X = corpus(300)
    numerics = dict(dtype="float64", learning_decay=0.7, learning_offset=1.0, topic_word_prior=2.5)
    options = dict(private=False, n_steps=3, sampling="full", doc_length=40, options=numerics)
    model = make(4, random_state=0, **options).fit(X)
    # The first step forgets the start: every word of every document is counted once.
    assert model.components_.sum() == pytest.approx(2.5 * 4 * 60 + 300 * 40, rel=1e-6)
    assert (model.components_ >= 2.5 * (1 - 1e-12)).all()


@pytest.mark.parametrize("how", [{}, {"mean_change_tol": 0.5}, {"max_doc_update_iter": 2}])
@pytest.mark.parametrize("private", [True, False])
def test_read_outs_iterate_to_the_end_whatever_the_fit_does(private, how):
    X, noise = corpus(80), {"noise_multiplier": 0.1, "doc_length": 40} if private else {}
    model = LatentDirichletAllocation(8, private=private, n_steps=3, random_state=0, options=LdaOptions(**how), **noise)
    model.fit(X)
    found = model.perplexity(X)
    model.set_params(options=LdaOptions(mean_change_tol=1e-9, max_doc_update_iter=3000, dtype="float64"))
    assert found == pytest.approx(model.perplexity(X), rel=2e-3)


def test_score_against_scikit_learn():
    decomposition = import_module("sklearn.decomposition")
    X = corpus(80)
    numerics = dict(dtype="float64", mean_change_tol=1e-9, max_doc_update_iter=3000)
    prior = LdaOptions(doc_topic_prior=1 / 3)
    model = LatentDirichletAllocation(3, private=False, n_steps=5, random_state=0, options=prior).fit(X)
    model.set_params(options=LdaOptions(topic_mean="geometric", **numerics))
    theirs = decomposition.LatentDirichletAllocation(3, mean_change_tol=1e-9, max_doc_update_iter=3000)
    theirs._init_latent_vars(60, dtype=np.float64)
    theirs.components_ = model.components_
    theirs.exp_dirichlet_component_ = np.exp(model._log_topics("geometric"))
    theirs.n_features_in_ = 60
    bound = theirs._approx_bound(sp.csr_matrix(X.astype(float)), theirs._unnormalized_transform(X.astype(float)), False)
    # Theirs adds the topics' own term, -KL(q(beta) || p(beta)), which Eq. 32 leaves out.
    from scipy.special import gammaln

    lam, eta = model.components_, 1 / 3
    elog = digamma(lam) - digamma(lam.sum(axis=1, keepdims=True))
    topics = ((eta - lam) * elog + gammaln(lam) - gammaln(eta)).sum()
    topics += (gammaln(eta * 60) - gammaln(lam.sum(axis=1))).sum()
    assert model.score(X) == pytest.approx(bound - topics, rel=1e-6)


@pytest.mark.parametrize("wrong", [np.nan, -2.0, 1.5])
def test_bad_data_spends_nothing(wrong):
    """What else no count can be: tests/data/test_counts.py."""
    X, model = corpus(20).astype(np.float64), LatentDirichletAllocation(2, n_steps=1, doc_length=40)
    X.data[3] = wrong
    with pytest.raises(ValueError, match="X"):
        model.fit(X)
    assert not hasattr(model, "ledger_")


def test_what_is_left_to_the_defaults_of_a_private_fit_is_what_it_was():
    """Defaults of fits without privacy change no private bit."""
    X, options = corpus(), dict(n_steps=3, noise_multiplier=2.0, random_state=0)
    few = usual_length(X.shape[1]) ** 0.9
    numerics = LdaOptions(topic_mean="arithmetic", word_clip=0.3, word_scale=0.25, distinct_words=few)
    said = dict(clip=default_clip(200), doc_length=80, sampling="poisson", batch_size=400, options=numerics)
    left, named, other = (
        LatentDirichletAllocation(3, **options, **more).set_unsafe(test_key=b"x" * 32).fit(X)
        for more in ({}, said, {**said, "options": LdaOptions(topic_mean="geometric")})
    )
    np.testing.assert_array_equal(left.components_, named.components_)
    assert not np.array_equal(other.components_, named.components_)
    for start in ({}, {"topic_mean": "geometric"}):
        paper = LatentDirichletAllocation.paper(3, private=False, batch_size=100, options=start)
        assert paper.fit(X).privacy_.taints == ("fitted with private=False",)
        assert paper._model_settings(paper._result.public, None).options.topic_mean == "geometric"
        assert paper._model_settings(paper._result.public, None).doc_length == 500


def test_a_fit_without_privacy_takes_whole_documents_in_epochs():
    X = corpus(600)
    X = sp.csr_array(sp.vstack([X[:300], X[300:] * 3]))
    seen = []
    model = calling(LatentDirichletAllocation(4, private=False, random_state=0), seen.append).fit(X)
    assert model.ledger_.plan["sampling"] == "random_allocation" and model.ledger_.plan["batch_size"] == 300
    assert model.n_steps_ == len(seen) == 40
    # The mean over an epoch is the mean of all documents' words, 80; steps' sizes differ by chance.
    whole = LatentDirichletAllocation(4, private=False, batch_size=600, n_steps=1, random_state=0).fit(X)
    assert average(whole).sum() == pytest.approx(80.0, rel=1e-6)
    # An epoch may be left before its end, since no event is charged for it.
    assert LatentDirichletAllocation(4, private=False, n_steps=3).fit(X).n_steps_ == 3
    with pytest.raises(ValueError, match="n_steps=3: expected a multiple of 2"):
        LatentDirichletAllocation(4, noise_multiplier=0.0, sampling="random_allocation", batch_size=300, n_steps=3).fit(
            X
        )
    poisson = LatentDirichletAllocation(4, private=False, options={"relation": "add_remove"}, n_steps=1).fit(X)
    assert poisson.ledger_.plan["sampling"] == "poisson"


def test_topics_are_read_out_by_either_mean():
    X = corpus(100)
    arithmetic, geometric = (LdaOptions(topic_mean=name, dtype="float64") for name in ("arithmetic", "geometric"))
    model = LatentDirichletAllocation(3, private=False, n_steps=4, random_state=0, options=arithmetic).fit(X)
    share = model.components_ / model.components_.sum(axis=1, keepdims=True)
    alpha = proportions_prior(3**0.5, model.components_.sum(axis=1))
    twin = reference.lda_estep(X.indptr, X.indices, X.data.astype(float), share, alpha, tol=1e-3)
    np.testing.assert_allclose(model.transform(X), twin.gamma / twin.gamma.sum(axis=1, keepdims=True), atol=1e-6)
    first = model.score(X)
    model.set_params(options=geometric)
    assert model.score(X) < first  # by Jensen's inequality, entry by entry
    model.set_params(options=LdaOptions(dtype="float64"))
    assert model.score(X) == first


@pytest.mark.parametrize(
    ("mean", "groups"), [("arithmetic", None), ("arithmetic", np.arange(60) // 2), ("geometric", None)]
)
def test_short_documents_have_collapsed_updates_without_privacy(mean, groups):
    """Of up to 32 different words, and if no bound is asked for; the first step's topics are those of its start."""
    X = sp.csr_array(np.random.default_rng(0).poisson(np.repeat([0.1, 2.0], 30)[:, None], (60, 60)))
    numerics = LdaOptions(topic_mean=mean, dtype="float64", mean_change_tol=1e-9, max_doc_update_iter=1000)
    options = dict(private=False, n_steps=1, sampling="full", random_state=0, options=numerics)
    one = LatentDirichletAllocation(3, **options).fit(X, groups=groups)
    lam = np.random.default_rng(0).gamma(100.0, 0.01, (60, 3)).T
    log = np.log if mean == "arithmetic" else digamma
    share = np.exp(log(lam) - log(lam.sum(axis=1, keepdims=True)))
    short = 30 if mean == "arithmetic" else 0
    assert np.diff(X.indptr)[:short].max(initial=0) <= 32 < np.diff(X.indptr)[30:].min()
    few, many = X[:short], X[short:]
    expected = reference.lda_estep(many.indptr, many.indices, many.data, share, 1 / 3, tol=1e-9, max_iter=1000).sstats
    if short:
        more = reference.lda_collapsed(few.indptr, few.indices, few.data, share, 1 / 3, n_rounds=2, spacing=2.0**-40)
        expected += more[0].T
    n = 60 if groups is None else 30
    np.testing.assert_allclose(average(one) * n, expected, atol=1e-4)


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_the_e_step_of_a_fit_has_the_table_of_its_topics(mean):
    """Rows of proportions to the topics add up to 1. Word by word; gamma starts from sums of rows."""
    options = LdaOptions(topic_mean=mean, dtype="float64")
    X = np.random.default_rng(2).poisson(0.3, (50, 300))
    model = LatentDirichletAllocation(9, private=False, doc_length=40, n_steps=2, random_state=0, options=options)
    inner = model.fit(X)._restored()
    elog = model._log_topics(mean)
    expected = scaled_table(np.exp(elog - elog.max(axis=0)), np.float64)
    np.testing.assert_allclose(inner._table, expected, rtol=1e-9, atol=1e-30)
    np.testing.assert_allclose(inner._table.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_a_fit_holds_its_corpus_once(dtype):
    """And an import leaves the garbage collector off where it is; in the next test it is on."""
    # 24 million counts: a copy of them in any type that could hold them, or of their columns, is 23 to 184 MiB.
    program = f"""
import gc, resource
import numpy as np, scipy.sparse as sp
gc.disable()
from vips_fast import LatentDirichletAllocation
assert not gc.isenabled()
gc.enable()
K, V, D = 3, 1000, 80_000
X = sp.csr_array((D, V), dtype="{dtype}")
X.data, X.indices = np.ones(D * 300, dtype="{dtype}"), np.tile(np.arange(300, dtype=np.int32), D)
X.indptr = np.arange(0, D * 300 + 1, 300, dtype=np.int32)
fit = lambda X: LatentDirichletAllocation(K, n_steps=1, batch_size=50, noise_multiplier=1.0, doc_length=50).fit(X)
fit(X[:100])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
fit(X)
print((peak() - before) / 2**20)
"""
    used = float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert used <= 20


def test_read_outs_are_of_the_last_fit_and_in_no_pickle():
    X, how = corpus(40), dict(private=False, n_steps=2, doc_length=None)
    model = LatentDirichletAllocation(3, random_state=0, **how).fit(X)
    plain = pickle.dumps(model)
    first = model.transform(X)
    assert pickle.dumps(model) == plain and np.array_equal(pickle.loads(plain).transform(X), first)
    again = model.set_params(random_state=1).fit(X).transform(X)
    assert np.array_equal(again, LatentDirichletAllocation(3, random_state=1, **how).fit(X).transform(X))
    assert not np.array_equal(again, first)


def test_a_planned_fit_imports_no_more_than_it_needs():
    """scipy.optimize, scipy.linalg and scikit-learn take longer to import than a small fit takes."""
    script = (
        "import gc, sys, numpy as np; from vips_fast import LatentDirichletAllocation as Lda; "
        "assert 'scipy.special' not in sys.modules and gc.isenabled(); "
        "Lda(3, epsilon=2.0, delta=1e-5, random_state=0).fit(X := np.ones((50, 9), int)).transform(X); "
        "print([name for name in ('scipy.optimize', 'scipy.linalg', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
