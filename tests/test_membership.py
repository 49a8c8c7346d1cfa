"""The membership attack. Its arithmetic, its finds without privacy, and private topics within their claim."""

import numpy as np
import pytest
from membership import (
    ShadowFits,
    ShadowModels,
    invented_documents,
    likelihood_ratios,
    log_likelihoods,
    measure,
    membership_attack,
)
from scipy import sparse, stats

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import GaussianEvent, gaussian_noise_multiplier
from vips_fast.engine.sampling import KeyedRandomness
from vips_fast.models.lda import LdaOptions

COMMON = dict(n_steps=3, sampling="full", random_state=0, n_jobs=1, options=LdaOptions(max_doc_update_iter=8))
OPEN = LatentDirichletAllocation(6, private=False, doc_length=None, **COMMON)


class Keyed(LatentDirichletAllocation):
    """Noise of known keys, another for each fit. So a test gives the same result each time."""

    fits = 0

    def _randomness(self, public):
        Keyed.fits += 1
        return KeyedRandomness(np.random.default_rng(Keyed.fits).bytes(32))


def leaving(z):
    Keyed.fits = 0
    return Keyed(6, noise_multiplier=z, doc_length=60, **COMMON)


@pytest.fixture(scope="module")
def documents():
    return invented_documents(120, 200, 40)


def test_scores_are_leave_one_out_likelihood_ratios():
    rng = np.random.default_rng(0)
    for n_models, common in ((64, False), (20, True)):
        members = rng.random((n_models, 5)) < 0.5
        statistics = -500.0 + rng.standard_normal((n_models, 5)) * [1, 2, 3, 4, 5] + 3.0 * members
        shadows = ShadowModels(statistics.astype(np.float32), members)
        scores = likelihood_ratios(shadows)
        s = shadows.statistics.astype(float)
        for model, d in [(0, 0), (7, 3), (n_models - 1, 4)]:
            others = np.arange(n_models) != model
            inside, outside = s[others & members[:, d], d], s[others & ~members[:, d], d]
            spread = [inside.std(ddof=1), outside.std(ddof=1)]
            if common:
                squares = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
                spread = [(squares / (n_models - 3)) ** 0.5] * 2
            x = s[model, d]
            ratio = stats.norm.logpdf(x, inside.mean(), spread[0]) - stats.norm.logpdf(x, outside.mean(), spread[1])
            assert scores[model, d] == pytest.approx(ratio, rel=1e-6)
    # A document that no model moves, and one that is always in, tell nothing.
    members[:, 1] = True
    statistics[:, 0] = -1.0
    scores = likelihood_ratios(ShadowModels(statistics.astype(np.float32), members))
    assert np.isnan(scores[:, :2]).all() and np.isfinite(scores[:, 2:]).all()


def test_log_likelihoods_are_those_of_the_documents(documents):
    model = LatentDirichletAllocation(**{**OPEN.get_params()}).fit(documents)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    dense = documents.toarray()
    expected = (dense * np.log(model.transform(documents) @ topics)).sum(axis=1)
    assert np.allclose(log_likelihoods(model, documents), expected, rtol=1e-10)
    empty = sparse.csr_array((2, 200), dtype=np.int32)
    assert (log_likelihoods(model, empty) == 0).all()


def test_rates_and_intervals():
    """Scores of known laws. The curve is the normal one, and a claim just below it is refuted."""
    rng = np.random.default_rng(3)
    members = rng.random((200, 300)) < 0.5
    scores = rng.standard_normal(members.shape) + 1.0 * members
    shadows = ShadowModels(np.zeros(members.shape, np.float32), members, 2.0)
    honest = measure(scores, shadows, GaussianEvent(1.0))
    for point, rate in zip(honest.points, (0.001, 0.01), strict=True):
        allowed = stats.norm.cdf(stats.norm.ppf(rate) + 1.0)
        assert point.claimed == pytest.approx(allowed) and point.low <= point.true_positive_rate <= point.high
        assert abs(point.true_positive_rate - allowed) < 5 * (allowed / 30_000 + (10 * rate) ** 2 / (rate * 3e4)) ** 0.5
    assert honest.passed and honest.area == pytest.approx(stats.norm.cdf(0.5**0.5), abs=0.01)
    false, true = honest.curve
    assert (np.diff(false) >= 0).all() and (np.diff(true) >= 0).all() and false[-1] == true[-1] == 1
    # The fault of the root of two.
    assert not measure(scores, shadows, GaussianEvent(2.0**0.5)).passed
    assert "BEYOND THE CLAIM" in str(measure(scores, shadows, GaussianEvent(2.0**0.5)))
    with pytest.raises(ValueError, match="scores"):
        measure(np.full(members.shape, np.nan), shadows, None)


def test_what_models_share_widens_the_interval():
    """All documents of a model move together. 200 models count like 200 trials, however many documents."""
    rng = np.random.default_rng(4)
    members = rng.random((200, 300)) < 0.5
    scores = 0.01 * rng.standard_normal(members.shape) + rng.standard_normal((200, 1))
    shadows = ShadowModels(np.zeros(members.shape, np.float32), members)
    (point,) = measure(scores, shadows, None, rates=(0.1,)).points
    assert point.high - point.low > 2 * 1.5 * (0.1 * 0.9 / 200) ** 0.5


def test_topics_without_privacy_tell_who_was_there_and_private_ones_do_not(documents):
    leaky = membership_attack(OPEN, documents, n_models=16)
    assert leaky.passed and leaky.area > 0.8 and leaky.points[1].low > 0.1
    private = membership_attack(leaving(gaussian_noise_multiplier(1.0, 1e-5) * 3**0.5), documents, n_models=16)
    print(leaky, private, sep="\n")
    assert private.passed and abs(private.area - 0.5) < 0.06
    assert private.points[1].claimed == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.01) + 0.27), rel=0.1)


def test_noise_that_is_missing_is_found(documents):
    """Fits without noise, under the claim of fits with it."""
    claim = ShadowFits(leaving(5.0), documents).event
    fits = ShadowFits(OPEN, documents)
    shadows = fits.make(range(24))
    assert fits.event is None
    assert not measure(likelihood_ratios(shadows), shadows, claim).passed


def test_models_are_the_same_whatever_was_made_before(documents):
    fits = ShadowFits(OPEN, documents, random_state=3)
    whole, part = fits.make(range(3)), ShadowFits(OPEN, documents, random_state=3).make(range(2, 3))
    assert np.array_equal(whole.members[2:], part.members) and np.array_equal(whole.statistics[2:], part.statistics)
    assert not np.array_equal(whole.members[0], whole.members[1])
    assert not np.array_equal(ShadowFits(OPEN, documents).make(range(1)).members, whole.members[:1])


def test_the_noise_is_chosen_once_for_half_of_the_documents(documents):
    target = LatentDirichletAllocation(6, epsilon=2.0, doc_length=40, **COMMON)
    fits = ShadowFits(target, documents)
    own = LatentDirichletAllocation(**{**target.get_params(), "n_records": 60}).fit(documents[:60])
    assert fits.event.leaves() == own.ledger_.event().leaves()
    # A fit draws its own noise.
    assert not np.array_equal(fits.make(range(1)).statistics, fits.make(range(1)).statistics)


@pytest.mark.slow
def test_a_larger_attack():
    """128 models on 400 documents. The leak is plain, and at each epsilon the private topics are within their claim."""
    X = invented_documents(400, 800, 60)
    leaky = membership_attack(OPEN, X, n_models=128)
    print(leaky)
    assert leaky.points[0].low > 0.2
    for epsilon in (8.0, 1.0):
        report = membership_attack(leaving(gaussian_noise_multiplier(epsilon, 1e-5) * 3**0.5), X, n_models=128)
        print(report)
        assert report.passed and report.points[0].true_positive_rate < leaky.points[0].low / 10
