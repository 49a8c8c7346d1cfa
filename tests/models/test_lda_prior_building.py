"""Public priors built from documents and from vectors, and their places."""

import numpy as np
import pytest

from vips_fast import load_prior, prior_from_documents, prior_from_vectors
from vips_fast.data.vocabulary import word_frequencies
from vips_fast.models.lda import prior_file, store_prior

WORDS = "cat dog cow hen pig fox bed sofa door lamp desk table chair one two six".split()
GROUP = np.repeat([0, 1, 2], [6, 7, 3])


def corpus(seed=0, n=300):
    """Draw documents about one of three groups of words. One word in ten is from all; the last word never occurs."""
    rng = np.random.default_rng(seed)
    topics = np.stack([np.where(group == GROUP, 1.0, 0.0) for group in range(3)])
    topics[:, -1] = 0.0
    topics = 0.9 * topics / topics.sum(axis=1, keepdims=True) + 0.1 / 15 * (np.arange(16) < 15)
    return np.stack([rng.multinomial(30, topics[d % 3]) for d in range(n)])


def vectors(seed=0):
    rng = np.random.default_rng(seed)
    return np.eye(3)[GROUP] * rng.uniform(0.5, 9, (16, 1)) + 0.1 * rng.normal(size=(16, 3)) + 0.4


def check_topics(prior, groups=GROUP):
    """Check that each group of words has a topic. Ratios are above 1 for its words and below 1 for others."""
    np.testing.assert_allclose(prior.weights @ prior.ratios, 1.0, rtol=1e-5)
    found = {prior.ratios[:, groups == group].mean(axis=1).argmax() for group in range(3)}
    assert len(found) == 3
    for group in range(3):
        topic = prior.ratios[prior.ratios[:, groups == group].mean(axis=1).argmax()]
        assert topic[groups == group].min() > 1.1 and topic[(groups != group) & (groups >= 0)].max() < 0.8


def test_topics_of_documents():
    prior = prior_from_documents(corpus(), WORDS, 3, name="an example")
    groups = np.where(np.arange(16) < 15, GROUP, -1)
    check_topics(prior, groups)
    np.testing.assert_allclose(prior.ratios[:, -1], 1.0, rtol=1e-5)  # the word that never occurs
    np.testing.assert_allclose(sorted(prior.weights), 1 / 3, atol=0.05)
    frequencies = word_frequencies(WORDS, "en")
    np.testing.assert_allclose(prior.frequencies, frequencies / frequencies.sum())
    assert prior.name == "an example" and prior.language == "en"
    assert prior_from_documents(corpus(), WORDS, 3).digest == prior.digest
    own = prior_from_documents(corpus(), WORDS, 3, language="")
    shares = corpus().sum(axis=0) + 1.0
    np.testing.assert_allclose(own.frequencies, shares / shares.sum())


def test_a_word_of_few_occurrences_has_ratios_near_one():
    counts = corpus()
    rare = counts.copy()
    rare[:, 0] = 0
    rare[0, 0] = 1
    often, seldom = (prior_from_documents(X, WORDS, 3).ratios[:, 0] for X in (counts, rare))
    assert np.abs(np.log(seldom)).max() < 0.3 < np.log(often.max())


def test_clusters_of_vectors():
    check_topics(prior := prior_from_vectors(vectors(), WORDS, 3))
    assert prior_from_vectors(vectors(), WORDS, 3).digest == prior.digest
    # Lengths do not count, and a word without a vector has no topic.
    longer = vectors() * np.random.default_rng(1).uniform(0.1, 9, (16, 1))
    np.testing.assert_allclose(prior_from_vectors(longer, WORDS, 3).ratios, prior.ratios, rtol=1e-4)
    some = vectors()
    some[2], some[9] = np.nan, 0.0
    partial = prior_from_vectors(some, WORDS, 3)
    np.testing.assert_allclose(partial.ratios[:, [2, 9]], 1.0, rtol=1e-5)
    check_topics(partial, np.where(np.isin(np.arange(16), [2, 9]), -1, GROUP))


def test_clusters_of_words_with_the_same_vector():
    alike = np.repeat(np.eye(3)[:2], 8, axis=0)
    prior = prior_from_vectors(alike, WORDS, 4)
    assert prior.n_topics == 4 and np.isfinite(prior.ratios).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prior_from_documents(corpus(), WORDS[:15], 3), "X_public: 16 columns; expected 15"),
        (lambda: prior_from_documents(corpus(), WORDS, 1), "n_topics"),
        (lambda: prior_from_documents(corpus(), WORDS, 3, language="zz"), "language 'zz': the package wordfreq"),
        (lambda: prior_from_vectors(vectors(), WORDS[:15], 3), r"float64 of shape \(16, 3\); .* \(15, d\)"),
        (lambda: prior_from_vectors(np.ones((16, 3), int), WORDS, 3), "vectors: int64"),
        (lambda: prior_from_vectors(np.full((16, 3), np.nan), WORDS, 3), "of 0 words; expected at least 3"),
        (lambda: prior_from_vectors(vectors(), [f"qzx{v}" for v in range(16)], 3), "knows none of the 16 words"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_frequencies_of_unknown_words_are_below_all_others():
    found = word_frequencies(["the", "qzxqzx", "aardvark"], "en")
    assert found[0] > 0.01 and found[1] == found[2] / 2 > 0


def test_the_stored_prior_of_a_language(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = prior_file("en")
    assert path == tmp_path / "vips_fast" / "built-en.prior"
    monkeypatch.setattr("vips_fast.models.lda.prior_building.packaged_model", lambda: None)
    with pytest.raises(ValueError, match="no public topics of this language are stored; .*--language en"):
        load_prior("public:en")
    prior = prior_from_vectors(vectors(), WORDS, 3)
    assert store_prior(prior, "en") == path
    prior.save(saved := tmp_path / "prior.npz")
    assert load_prior("public:en").digest == load_prior(saved).digest == load_prior(str(saved)).digest == prior.digest
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(prior_file("pt-BR")) == "/home/somebody/.cache/vips_fast/built-pt-BR.prior"
    for language in ("", "../x", "e", "en/"):
        with pytest.raises(ValueError, match="expected a code such as en"):
            prior_file(language)
    with pytest.raises(FileNotFoundError):
        load_prior(tmp_path / "nowhere.npz")


def test_stop_words_make_no_topic():
    """Stop words take no part in topics or weights. Their ratios follow the documents, or the vectors, all the same."""
    stop = ["bed", "sofa", "one"]
    groups = np.where(np.isin(WORDS, [*stop, "six"]), -1, GROUP)
    more = corpus()
    more[:, WORDS.index("one")] = 20  # equally often in all documents
    prior = prior_from_documents(more, WORDS, 3, stop_words=stop, random_state=1)
    check_topics(prior, groups)
    furniture = prior.ratios[:, WORDS.index("lamp")].argmax()
    assert prior.ratios[furniture, [WORDS.index("bed"), WORDS.index("sofa")]].min() > 1.5
    np.testing.assert_allclose(prior.ratios[:, WORDS.index("one")] * prior.weights, 1 / 3, atol=0.05)
    # The word "one" is the commonest by far, and would have most of the weight.
    found, plain = (prior_from_vectors(vectors(), WORDS, 3, stop_words=some, random_state=1) for some in (stop, ()))
    check_topics(found, groups)
    numbers = found.ratios[:, WORDS.index("two")].argmax()
    assert found.ratios[numbers, WORDS.index("one")] > 1.1 and found.weights[numbers] < plain.weights.max()
    with pytest.raises(ValueError, match="of 1 words; expected at least 2"):
        prior_from_vectors(vectors(), WORDS, 2, stop_words=WORDS[1:])
