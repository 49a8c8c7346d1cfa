"""A public prior: topics as ratios, word frequencies, files, restriction to a vocabulary, builders and places."""

import numpy as np
import pytest

from vips_fast import (
    LatentDirichletAllocation,
    PublicPrior,
    load_prior,
    prior_from_documents,
    prior_from_vectors,
    verify,
)
from vips_fast.data.vocabulary import word_frequencies
from vips_fast.models.lda import prior_file, store_prior

WORDS = [f"w{v}" for v in range(40)]


def a_prior(seed=0, n_topics=3, words=WORDS, **more):
    rng = np.random.default_rng(seed)
    ratios = rng.gamma(1.0, 1.0, (n_topics, len(words))) + 0.01
    return PublicPrior(words, ratios, rng.uniform(1, 2, n_topics), rng.uniform(1, 9, len(words)), "a test", **more)


def test_numbers_are_brought_to_their_scale():
    prior = a_prior()
    np.testing.assert_allclose(prior.weights @ prior.ratios, 1.0, rtol=1e-6)
    assert prior.weights.sum() == pytest.approx(1) and prior.frequencies.sum() == pytest.approx(1)
    np.testing.assert_allclose(prior.topics().sum(axis=1), 1.0)
    used = prior.frequencies * prior.ratios[1]
    np.testing.assert_allclose(prior.topics()[1], used / used.sum(), rtol=1e-5)


def test_a_file_gives_the_same_prior(tmp_path):
    prior = a_prior(language="de")
    prior.save(tmp_path / "prior.npz")
    again = PublicPrior.load(tmp_path / "prior.npz")
    assert again.digest == prior.digest and again.words == prior.words and again.language == "de"
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "prior.npz").read_bytes()


def test_the_digest_is_of_everything_but_the_name():
    prior = a_prior()
    digests = {
        prior.digest,
        a_prior(1).digest,
        a_prior(language="de").digest,
        PublicPrior(WORDS[::-1], prior.ratios, prior.weights, prior.frequencies, "a test").digest,
    }
    assert len(digests) == 4
    assert PublicPrior(prior.words, prior.ratios, prior.weights, prior.frequencies, "another").words == prior.words


def test_words_that_a_prior_does_not_know_are_ordinary():
    prior = a_prior()
    few = prior.restricted_to([*WORDS[5:25], "unknown"])
    # Ratios to the whole text stay as they are: brought to a mean of 1, they had it already.
    np.testing.assert_allclose(few.ratios[:, :20], prior.ratios[:, 5:25], rtol=1e-5)
    np.testing.assert_allclose(few.ratios[:, 20], 1.0, rtol=1e-5)
    assert few.frequencies[20] == pytest.approx(np.median(few.frequencies[:20]))
    assert prior.restricted_to([*WORDS[5:25], "unknown"]) is few  # frozen, so one is enough
    with pytest.raises(ValueError, match="knows 10 of 40 words"):
        prior.restricted_to([*WORDS[:10], *(f"x{v}" for v in range(30))])


def test_topics_of_a_part_of_a_priors_words_follow_from_their_releases(tmp_path):
    """Columns chosen by number are in Fortran's order, whose sums differ from the saved prior's."""
    words = [f"w{v}" for v in range(400)]
    prior = a_prior(n_topics=20, words=words).restricted_to(words[::-2])
    counts = np.random.default_rng(0).poisson(prior.topics()[np.arange(600) % 20] * 40)
    model = LatentDirichletAllocation(20, epsilon=2.0, public_prior=prior, n_steps=6, doc_length=40, random_state=0)
    model.fit(counts, transcript=tmp_path / "releases").save(tmp_path / "model")
    assert prior.ratios.flags.c_contiguous and verify(tmp_path / "model", tmp_path / "releases").ok


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", words=np.array(WORDS))
    with pytest.raises(ValueError, match="has no array 'public_prior'"):
        PublicPrior.load(tmp_path / "other.npz")
    prior = a_prior()
    arrays = {name: getattr(prior, name) for name in ("ratios", "weights", "frequencies", "name", "language")}
    np.savez(tmp_path / "bad.npz", public_prior=1, words=np.array(WORDS[:5]), **arrays)
    with pytest.raises(ValueError, match=r"bad\.npz: public prior of 3 topics and 5 words"):
        PublicPrior.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "later.npz", public_prior=2, words=np.array(WORDS), **arrays)
    with pytest.raises(ValueError, match="another version"):
        PublicPrior.load(tmp_path / "later.npz")


NAMED = "cat dog cow hen pig fox bed sofa door lamp desk table chair one two six".split()
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
    np.testing.assert_allclose(prior.weights @ prior.ratios, 1.0, rtol=1e-5)
    found = {prior.ratios[:, groups == group].mean(axis=1).argmax() for group in range(3)}
    assert len(found) == 3
    for group in range(3):
        topic = prior.ratios[prior.ratios[:, groups == group].mean(axis=1).argmax()]
        assert topic[groups == group].min() > 1.1 and topic[(groups != group) & (groups >= 0)].max() < 0.8


def test_topics_of_documents():
    prior = prior_from_documents(corpus(), NAMED, 3, name="an example")
    groups = np.where(np.arange(16) < 15, GROUP, -1)
    check_topics(prior, groups)
    np.testing.assert_allclose(prior.ratios[:, -1], 1.0, rtol=1e-5)  # the word that never occurs
    np.testing.assert_allclose(sorted(prior.weights), 1 / 3, atol=0.05)
    frequencies = word_frequencies(NAMED, "en")
    np.testing.assert_allclose(prior.frequencies, frequencies / frequencies.sum())
    assert prior.name == "an example" and prior.language == "en"
    assert prior_from_documents(corpus(), NAMED, 3).digest == prior.digest
    own = prior_from_documents(corpus(), NAMED, 3, language="")
    shares = corpus().sum(axis=0) + 1.0
    np.testing.assert_allclose(own.frequencies, shares / shares.sum())


def test_a_word_of_few_occurrences_has_ratios_near_one():
    counts = corpus()
    rare = counts.copy()
    rare[:, 0] = 0
    rare[0, 0] = 1
    often, seldom = (prior_from_documents(X, NAMED, 3).ratios[:, 0] for X in (counts, rare))
    assert np.abs(np.log(seldom)).max() < 0.3 < np.log(often.max())


def test_clusters_of_vectors():
    check_topics(prior := prior_from_vectors(vectors(), NAMED, 3))
    assert prior_from_vectors(vectors(), NAMED, 3).digest == prior.digest
    # Lengths do not count, and a word without a vector has no topic.
    longer = vectors() * np.random.default_rng(1).uniform(0.1, 9, (16, 1))
    np.testing.assert_allclose(prior_from_vectors(longer, NAMED, 3).ratios, prior.ratios, rtol=1e-4)
    some = vectors()
    some[2], some[9] = np.nan, 0.0
    partial = prior_from_vectors(some, NAMED, 3)
    np.testing.assert_allclose(partial.ratios[:, [2, 9]], 1.0, rtol=1e-5)
    check_topics(partial, np.where(np.isin(np.arange(16), [2, 9]), -1, GROUP))
    alike = prior_from_vectors(np.repeat(np.eye(3)[:2], 8, axis=0), NAMED, 4)  # fewer vectors than topics
    assert alike.n_topics == 4 and np.isfinite(alike.ratios).all()


def changed(**change):
    fields = {name: getattr(a_prior(), name) for name in ("words", "ratios", "weights", "frequencies", "name")}
    return lambda: PublicPrior(**{**fields, **change})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (changed(ratios=np.zeros((3, 40))), "ratios: expected finite numbers > 0"),
        (changed(ratios=np.ones((2, 40))), "ratios: float64 of shape"),
        (changed(weights=np.array([1.0, np.nan, 1.0])), "weights: expected finite"),
        (changed(frequencies=np.ones(39)), "frequencies: float64 of shape"),
        (changed(words=["same"] * 40), "39 of 40 are repeated"),
        (changed(words=WORDS[:4]), "3 topics and 4 words"),
        (lambda: a_prior().restricted_to(WORDS[:15]), "15 words: expected at least 16, or a number of topics"),
        (lambda: prior_from_documents(corpus(), NAMED[:15], 3), "X_public: 16 columns; expected 15"),
        (lambda: prior_from_documents(corpus(), NAMED, 1), "n_topics"),
        (lambda: prior_from_documents(corpus(), NAMED, 3, language="zz"), "language 'zz': the package wordfreq"),
        (lambda: prior_from_vectors(vectors(), NAMED[:15], 3), r"float64 of shape \(16, 3\); .* \(15, d\)"),
        (lambda: prior_from_vectors(np.ones((16, 3), int), NAMED, 3), "vectors: int64"),
        (lambda: prior_from_vectors(np.full((16, 3), np.nan), NAMED, 3), "of 0 words; expected at least 3"),
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
    monkeypatch.setattr("vips_fast.models.lda.prior.packaged_model", lambda: None)
    with pytest.raises(ValueError, match="no public topics of this language are stored; .*--language en"):
        load_prior("public:en")
    prior = prior_from_vectors(vectors(), NAMED, 3)
    assert store_prior(prior, "en") == path
    prior.save(saved := tmp_path / "prior.npz")
    assert load_prior("public:en").digest == load_prior(saved).digest == load_prior(str(saved)).digest == prior.digest
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(prior_file("pt-BR")) == "/home/somebody/.cache/vips_fast/built-pt-BR.prior"
    for language in ("", "../x", "e", "en/"):
        with pytest.raises(ValueError, match="expected a code, such as en"):
            prior_file(language)
    with pytest.raises(FileNotFoundError):
        load_prior(tmp_path / "nowhere.npz")


def test_stop_words_make_no_topic():
    """Stop words take no part in topics or weights. Their ratios follow the documents, or the vectors, all the same."""
    stop = ["bed", "sofa", "one"]
    groups = np.where(np.isin(NAMED, [*stop, "six"]), -1, GROUP)
    more = corpus()
    more[:, NAMED.index("one")] = 20  # equally often in all documents
    prior = prior_from_documents(more, NAMED, 3, stop_words=stop, random_state=1)
    check_topics(prior, groups)
    furniture = prior.ratios[:, NAMED.index("lamp")].argmax()
    assert prior.ratios[furniture, [NAMED.index("bed"), NAMED.index("sofa")]].min() > 1.5
    np.testing.assert_allclose(prior.ratios[:, NAMED.index("one")] * prior.weights, 1 / 3, atol=0.05)
    # The word "one" is the commonest by far, and would have most of the weight.
    found, plain = (prior_from_vectors(vectors(), NAMED, 3, stop_words=some, random_state=1) for some in (stop, ()))
    check_topics(found, groups)
    numbers = found.ratios[:, NAMED.index("two")].argmax()
    assert found.ratios[numbers, NAMED.index("one")] > 1.1 and found.weights[numbers] < plain.weights.max()
    with pytest.raises(ValueError, match="of 1 words; expected at least 2"):
        prior_from_vectors(vectors(), NAMED, 2, stop_words=NAMED[1:])
