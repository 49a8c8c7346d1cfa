"""A public prior. Topics as ratios, word frequencies, their file, their restriction to a vocabulary."""

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior, verify

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
    with pytest.raises(ValueError, match="knows 10 of 40 words"):
        prior.restricted_to([*WORDS[:10], *(f"x{v}" for v in range(30))])


def test_topics_of_a_part_of_a_priors_words_follow_from_their_releases(tmp_path):
    """Columns chosen by number have the saved prior's bits.

    They are in Fortran's order, whose sums differ from the saved prior's.
    """
    words = [f"w{v}" for v in range(400)]
    prior = a_prior(n_topics=20, words=words).restricted_to(words[::-2])
    counts = np.random.default_rng(0).poisson(prior.topics()[np.arange(600) % 20] * 40)
    model = LatentDirichletAllocation(20, epsilon=2.0, public_prior=prior, n_steps=6, doc_length=40, random_state=0)
    model.fit(counts, transcript=tmp_path / "releases").save(tmp_path / "model")
    assert prior.ratios.flags.c_contiguous and verify(tmp_path / "model", tmp_path / "releases").ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratios": np.zeros((3, 40))}, "ratios: expected finite numbers > 0"),
        ({"ratios": np.ones((2, 40))}, "ratios: float64 of shape"),
        ({"weights": np.array([1.0, np.nan, 1.0])}, "weights: expected finite"),
        ({"frequencies": np.ones(39)}, "frequencies: float64 of shape"),
        ({"words": ["same"] * 40}, "39 of 40 are repeated"),
        ({"words": WORDS[:4]}, "3 topics and 4 words"),
    ],
)
def test_bad_numbers_are_refused(change, message):
    prior = a_prior()
    fields = {name: getattr(prior, name) for name in ("words", "ratios", "weights", "frequencies", "name")}
    with pytest.raises(ValueError, match=message):
        PublicPrior(**{**fields, **change})


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
