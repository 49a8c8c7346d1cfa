"""The plan is a function of public numbers. Its figures equal a fit's."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from peers.perplexity import predictive_perplexity, split_words

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.engine.model import Schedule, averaged_variance
from vips_fast.engine.result import Public
from vips_fast.models.lda import LdaOptions, estimator
from vips_fast.models.lda.planning import default_batch_size, default_clip, fitting_prior, soft_steps, usual_length


def expected_batch(model, public):
    return model._schedule(public, model._terms).sampler.expected_batch_size


def noise_sd(model):
    """Of an entry. All alike, since the fits below have no scales of words."""
    (sd,) = set(model._fitted().state["average_noise"].ravel())
    return sd


def test_topics_are_soft_in_a_fifth_of_a_whole_private_run(monkeypatch):
    assert [soft_steps(n_steps) for n_steps in (1, 4, 5, 20, 60)] == [0, 0, 1, 4, 12]
    X, model, seen = np.random.default_rng(0).poisson(0.5, (300, 40)), estimator.LdaModel, []

    def noted(settings, public):
        seen.append(settings.soft_steps)
        return model(settings, public)

    monkeypatch.setattr(estimator, "LdaModel", noted)
    private = LatentDirichletAllocation(3, doc_length=20, noise_multiplier=9.0, n_steps=20)
    plain = LatentDirichletAllocation(3, doc_length=20, private=False, n_steps=20)
    for fit, soft in ((private.fit, 4), (private.partial_fit, 0), (plain.fit, 0)):
        seen.clear()
        fit(X)
        assert max(seen) == soft


def test_plan_is_what_the_estimator_does():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.5, (300, 40)))
    planned = plan(300, 40, 3, doc_length=20, epsilon=2.0, delta=1e-5)
    flat = LdaOptions(word_scale=0, measure_gain=False)
    model = LatentDirichletAllocation(3, doc_length=20, epsilon=2.0, delta=1e-5, options=flat).fit(X)
    assert model.privacy_.noise_multiplier == pytest.approx(planned.noise_multiplier, rel=2e-3)
    assert model.privacy_.runs[-1].batch_size == planned.batch_size == 300
    assert model.n_steps_ == planned.n_steps
    # 15 % of the steps count words, because the noise does not hide their masses.
    steps = planned.n_steps - round(0.15 * planned.n_steps)
    average = averaged_variance(Schedule(1.0, planned.learning_decay), steps) ** 0.5
    sd = planned.noise_multiplier * planned.clip * 20 / 300 * average
    assert noise_sd(model) == pytest.approx(sd, rel=2e-3)
    again = LatentDirichletAllocation(3, doc_length=20, epsilon=2.0, delta=1e-5, **planned.parameters())
    assert again.fit(X).privacy_.noise_multiplier == pytest.approx(model.privacy_.noise_multiplier, rel=2e-3)


def test_the_estimator_takes_the_minibatch_of_the_plan():
    public = Public(7702, 400_000, seed=0)
    for settings in (
        dict(epsilon=2.38),
        dict(noise_multiplier=20.0, n_steps=20),
        dict(epsilon=2.38, sampling="random_allocation"),
        {},
    ):
        planned = plan(400_000, 7702, 50, delta=1e-4, **settings)
        model = LatentDirichletAllocation(50, delta=1e-4, **settings)
        schedule = model._schedule(public, model._terms)
        assert (schedule.sampler.expected_batch_size, schedule.n_steps) == (planned.batch_size, planned.n_steps)
    # Before a budget has said the noise as after it.
    for settings in ({}, dict(noise_multiplier=20.0)):
        assert expected_batch(LatentDirichletAllocation(50, **settings), public) == 100_000
    full = LatentDirichletAllocation(50, epsilon=0.3, sampling="full")
    assert expected_batch(full, public) == 400_000


def test_rules():
    assert default_batch_size(1000) == 1000 and default_batch_size(160_000) == 100_000
    assert default_batch_size(400_000) == 100_000
    assert default_clip(500) == pytest.approx(0.034, abs=5e-4) and default_clip(1) <= 1
    assert default_clip(None) == default_clip(200)
    assert [round(usual_length(words)) for words in (1, 500, 2000, 5000, 10**6)] == [8, 10, 18, 24, 40]
    big = plan(400_000, 7702, 50, doc_length=500, epsilon=2.38, delta=1e-4)
    small = plan(400_000, 7702, 50, doc_length=500, epsilon=0.3, delta=1e-4)
    assert big.learning_decay == 0.5 and small.learning_decay == 0.7
    assert (big.n_steps, big.batch_size) == (60, 100_000) and (small.n_steps, small.batch_size) == (30, 200_000)
    # Given settings stay, and few records are all in each step.
    noisy = dict(doc_length=500, epsilon=0.3, delta=1e-4)
    for given in (dict(n_steps=20), dict(batch_size=100_000), dict(noise_multiplier=small.noise_multiplier)):
        assert plan(400_000, 7702, 50, **(noisy | given)).batch_size == 100_000
    few = plan(97_750, 7702, 50, **noisy)
    assert (few.n_steps, few.batch_size) == (20, 97_750)
    # Fifteen uses of each record, within 40 to 60 steps, where the statistics are clear.
    clear = dict(doc_length=500, epsilon=4.0, delta=1e-4)
    steps = [plan(n, 7702, 50, **clear).n_steps for n in (97_750, 300_000, 2_000_000)]
    assert steps == [40, 45, 60]
    assert plan(400_000, 7702, 50, **clear, n_steps=7).n_steps == 7
    assert big.signal_to_noise > small.signal_to_noise > 0
    assert math.isinf(plan(100, 10, 2, noise_multiplier=0.0).signal_to_noise)


def test_fewer_topics_where_the_noise_is_large():
    def topics(**settings):
        return plan(97_750, 7702, None, **{**dict(doc_length=100, delta=1e-4), **settings}).n_components

    found = [topics(epsilon=epsilon) for epsilon in (0.01, 0.3, 1.0, 2.0)]
    assert found == sorted(found) and found[0] == 5 and found[-1] == 50 and 10 < found[1] < 25 < found[2] <= 50
    assert topics(noise_multiplier=0.0) == 50
    planned = plan(97_750, 7702, None, doc_length=100, epsilon=0.3, delta=1e-4)
    assert planned == plan(97_750, 7702, found[1], doc_length=100, epsilon=0.3, delta=1e-4)
    # Chosen together with the words that are purchased.
    assert 5 <= plan(97_750, None, None).n_components < 50 and plan(97_750, None, 7).n_components == 7


@pytest.mark.parametrize(
    "name, value", [("n_records", 0), ("n_features", 1.5), ("n_components", 0), ("batch_size", 101), ("epsilon", 0.0)]
)
def test_bad_numbers_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        plan(**{**dict(n_records=100, n_features=10, n_components=2), name: value})


def test_short_documents_are_fitted_with_a_larger_prior():
    assert [fitting_prior(length, 5) for length in (None, 30, 11, 10, 4)] == [0.2, 0.2, 0.2, 0.4, 1.0]
    assert fitting_prior(8, 2) == 0.5 and fitting_prior(1, 50) == 2.0


def short_documents(n, seed):
    """Documents of 3 to 7 words, each of one of six topics."""
    rng, topics = np.random.default_rng(seed), np.random.default_rng(5).dirichlet(np.full(2000, 0.05), 6)
    common = 1.0 / np.arange(1, 2001)
    shares = 0.5 * topics + 0.5 * common / common.sum()
    lengths, z = rng.integers(3, 8, n), rng.integers(0, 6, n)
    return sp.csr_array(np.array([rng.multinomial(m, shares[k]) for m, k in zip(lengths, z, strict=True)], np.int32))


def test_without_a_length_short_documents_lose_little(monkeypatch):
    """The histogram's norm is below that of a usual document."""
    X, (given, asked), found = short_documents(3000, 0), split_words(short_documents(600, 1), 0), []
    for norm in (estimator.UNKNOWN_NORM, 1.0):
        monkeypatch.setattr(estimator, "UNKNOWN_NORM", norm)
        model = LatentDirichletAllocation(6, epsilon=4.0, delta=1e-6, n_records=3000, random_state=0)
        model.set_unsafe(test_key=bytes(32)).fit(X)
        found.append(predictive_perplexity(model.transform(given), model.components_, asked))
    assert found[0] < 0.98 * found[1]


def test_without_privacy_the_weights_of_topics_decide_the_read_outs_prior():
    how = dict(private=False, random_state=0, n_steps=10)
    model = LatentDirichletAllocation(30, **how).fit(short_documents(500, 0))
    alpha, weights = model._fitted_alpha(), model.components_.sum(axis=1)
    assert alpha.sum() == pytest.approx(30**0.5) and (np.argsort(alpha) == np.argsort(weights)).all()
    given = LdaOptions(doc_topic_prior=0.3)
    assert LatentDirichletAllocation(6, options=given, **how).fit(short_documents(500, 0))._fitted_alpha() == 0.3
    empty = LatentDirichletAllocation(6, **how).fit(sp.csr_array((500, 2000), dtype=np.int32))
    assert np.isfinite(empty._fitted_alpha()).all()
