"""What a vocabulary will find, and its share of epsilon. Functions of public numbers that come true."""

import numpy as np
import pytest

from vips_fast import PrivateVocabulary, plan
from vips_fast.accounting import ComposedEvent, GaussianEvent, SelfComposedEvent, epsilon, gaussian_noise_multiplier
from vips_fast.models.vocabulary import TokenRows, plan_vocabulary
from vips_fast.models.vocabulary.model import ThresholdSampler
from vips_fast.models.vocabulary.planning import forecast


@pytest.fixture(scope="module")
def crowd():
    """4,000 persons as the forecast takes them to be. 30 of 5,000 tokens in the median."""
    rng, words = np.random.default_rng(3), (np.arange(1, 5001) + 150.0) ** -1.2
    lengths = 30 * np.exp(rng.normal(0, 1, 4000))
    held = rng.random((4000, 5000)) < -np.expm1(-lengths[:, None] * words / words.sum())
    return TokenRows(str.split).extend([" ".join(f"{k:04}" for k in np.flatnonzero(row)) for row in held])


@pytest.mark.parametrize("target", [1.0, 4.0])
@pytest.mark.parametrize("rounds", [1, 4])
def test_what_is_expected_is_found(crowd, target, rounds):
    made = plan_vocabulary(4000, target, 1e-6, tokens=30, n_words=5000, share=1.0, n_rounds=rounds, max_tokens=100)
    found = len(PrivateVocabulary(delta=1e-6, **made.parameters()).fit(crowd).vocabulary_)
    assert made.words / 1.25 < found < 1.25 * made.words and found > 20


def test_the_plan_is_what_the_vocabulary_does(crowd):
    made = plan_vocabulary(4000, 3.0, 1e-5, share=0.4)
    fitted = PrivateVocabulary(delta=1e-5, **made.parameters()).fit(crowd)
    assert fitted.privacy_.noise_multiplier == made.noise_multiplier and fitted.privacy_.epsilon <= 1.2
    assert epsilon(made.event, 1e-5) == pytest.approx(fitted.privacy_.epsilon, rel=1e-6)
    # What is left for the topics, with all their Gaussians in one.
    topics = GaussianEvent(made.extra_noise * gaussian_noise_multiplier(3.0, 1e-5), "add_remove")
    assert epsilon(ComposedEvent((made.event, topics)), 1e-5) == pytest.approx(3.0, rel=2e-3)


def test_the_split_follows_public_numbers():
    few, some, many = (plan_vocabulary(n, 1.0, 1e-6) for n in (500, 20_000, 1_000_000))
    assert few.epsilon == some.epsilon == many.epsilon == 0.5 and few.words < 20
    assert some.words < many.words and 1.1 < many.extra_noise < 1.2
    closed = plan_vocabulary(400_000, 1.0, 1e-6, tokens=300, n_words=7702)
    assert closed.token_share > 0.98
    assert plan_vocabulary(1000, 2.0, 1e-6, share=0.3).epsilon == 0.6
    assert plan_vocabulary(1_000_000, 1.0, 1e-6, max_features=300).words <= 301


def test_more_persons_and_more_epsilon_find_more():
    def words(n, z):
        return forecast(ThresholdSampler(n, 4, 300, 1e-6), z, 50.0, 10**6, 10**6)[0]

    assert words(2000, 8.0) < words(8000, 8.0) < words(32_000, 8.0)
    assert words(8000, 30.0) < words(8000, 8.0) < words(8000, 3.0)


def test_topics_are_planned_with_what_their_words_leave():
    made = plan(6652, None, 10, epsilon=2.0, delta=1e-6, doc_length=100)
    alone = plan(6652, round(made.vocabulary.words), 10, epsilon=2.0, delta=1e-6, doc_length=100, n_steps=made.n_steps)
    assert made.noise_multiplier / alone.noise_multiplier == pytest.approx(made.vocabulary.extra_noise, rel=0.02)
    topics = SelfComposedEvent(GaussianEvent(made.noise_multiplier, "add_remove"), made.n_steps)
    assert 1.99 < epsilon(ComposedEvent((made.vocabulary.event, topics)), 1e-6) <= 2.0
    # As many words as are worth most: more than the fewest and less than there are.
    assert 50 < made.vocabulary.max_features < 6400
    with pytest.raises(ValueError, match="vocab_share=0.5: expected None with a number of words"):
        plan(6652, 100, 10, vocab_share=0.5)
    for share in (0, 1.5, np.nan, "half", True):
        with pytest.raises(ValueError, match=r"vocab_share=.*: expected a number in \(0, 1\]"):
            plan(6652, None, 10, vocab_share=share)
    with pytest.raises(ValueError, match="n_records=2147483649: expected an integer"):
        plan(2**31 + 1, None, 10)
