"""Clusters of documents from public prototypes. Exact vectors, noise, files, and bad input."""

import numpy as np
import pytest

from vips_fast import DocumentClusters, LatentDirichletAllocation, PublicVectors, public_vectors, verify
from vips_fast.models.mixture import GRID
from vips_fast.report import html_report

D, WORDS = 6, ["cough", "wheel", "rent", "music"]


def knowledge(**change):
    fields = dict(projection=np.eye(D, 4), prototypes=np.eye(D), weights=np.ones(D), words=WORDS)
    return PublicVectors(**{**fields, "word_vectors": np.eye(4, D), "name": "a test", **change})


def documents(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    return np.eye(D)[z] + 0.5 * np.eye(D)[2] + 0.1 * rng.normal(size=(n, D)), z


def fitted(X, **settings):
    common = dict(epsilon=4.0, random_state=0, sampling="full")
    return DocumentClusters(2, public=knowledge(), **{**common, **settings}).fit(X)


def test_clusters_shares_and_words_in_spite_of_noise():
    X, z = documents()
    model = fitted(X, epsilon=8.0)
    found = model.predict(X)
    first = (found == z).mean()
    assert max(first, 1 - first) > 0.99
    np.testing.assert_allclose(model.weights_, 0.5, atol=0.05)
    assert [words[0] for words in model.keywords(1)] == (["cough", "wheel"] if first > 0.5 else ["wheel", "cough"])
    # The centers leave the prototypes for where the documents are.
    np.testing.assert_allclose(model.means_[:, 2], 0.5 / np.sqrt(1.25), atol=0.1)
    short = fitted(0.5 * X / np.sqrt(1.25), epsilon=8.0)
    np.testing.assert_allclose(np.linalg.norm(short.means_, axis=1), 0.5, atol=0.1)
    assert "a test" in html_report(model) and model.verdict_.worth == "useful"
    assert not DocumentClusters(2, public=knowledge(), private=False, random_state=0).fit(X).verdict_.text
    with pytest.raises(ValueError, match="X: expected finite values.*leave such records out$"):
        model.predict(np.full((1, D), np.nan))


def test_the_forecast_is_the_noise_of_a_share():
    """Shares of sums without shrinkage, over known keys."""
    X, _ = documents(400)
    settings = dict(epsilon=0.5, sampling="full", n_steps=4)
    spread, told = [], []
    for k in range(40):
        model = DocumentClusters(2, public=knowledge(), random_state=0, **settings).set_unsafe(test_key=bytes([k]) * 32)
        spread.append(model.fit(X, on_forecast=told.append).average_[0] / (4.0 * 4) ** -0.25)
    said = float(told[0].text.partition("about ")[2].partition("%")[0]) / 100
    assert said == pytest.approx(np.std(spread), rel=0.35)


def test_where_noise_hides_them_clusters_stay_public():
    X, _ = documents(30)
    told = []
    model = DocumentClusters(2, public=knowledge(), epsilon=0.1, random_state=0).set_unsafe(test_key=bytes(32))
    model.fit(X, on_forecast=told.append)
    public = DocumentClusters(2, public=knowledge()).start(4, np.random.default_rng(0))
    np.testing.assert_allclose(model.means_, public[4], atol=0.02)
    np.testing.assert_allclose(model.weights_, public[3], atol=0.15)
    assert all(model.keywords(1)) and "What helps: more records or a larger epsilon" in told[0].text
    # Any share lies within .5 of a half: more noise tells of none, and the shell refuses it.
    assert told[0].text.startswith("forecast: mostly noise; no cluster's share") and told[0].warning
    DocumentClusters(2, public=knowledge(), epsilon=1.0).fit(X, on_forecast=told.append)
    assert "only the shares of public clusters can be told" in told[1].text and not told[1].warning


def test_a_document_has_the_same_bits_in_any_company():
    frame = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0][:, :4]
    known, rng = knowledge(projection=frame), np.random.default_rng(0)
    X = rng.normal(size=(64, D)) * 10.0 ** rng.uniform(-3, 3, (64, 1))
    together = known.project(X)
    for i in range(0, 64, 7):
        np.testing.assert_array_equal(known.project(X[i : i + 1])[0], together[i])
        np.testing.assert_array_equal(known.project(np.asfortranarray(X[i:]))[0], together[i])
    exact = X @ known.projection
    exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1.0)
    np.testing.assert_allclose(together / GRID, exact, atol=1e-4)
    assert (np.linalg.norm(together, axis=1) <= GRID).all()
    np.testing.assert_array_equal(DocumentClusters(2, public=known).records(X) * GRID, together)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(prototypes=np.ones((2, 3))), "prototypes: shape"),
        (dict(weights=np.zeros(D)), "weights: expected numbers above 0"),
        (dict(words=["a"] * 4), "3 of 4 are repeated"),
        (dict(projection=np.full((D, 4), np.inf)), "projection: shape"),
        (dict(projection=np.ones((D, 7))), r"projection: shape \(6, 7\)"),
    ],
)
def test_bad_public_knowledge_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        knowledge(**change)


def test_public_vectors_of_documents():
    rng = np.random.default_rng(0)
    rows = np.eye(3, D)[np.arange(90) % 3] * (1 + np.arange(90)[:, None]) + 0.01 * rng.normal(size=(90, D))
    known = public_vectors(rows, WORDS, np.eye(4, D), n_prototypes=3, n_directions=2)
    np.testing.assert_allclose(np.sort((known.prototypes @ np.eye(3, D).T).argmax(axis=1)), [0, 1, 2])
    np.testing.assert_allclose(known.weights, 1 / 3)
    # Lengths along the directions that documents differ in stay.
    apart = known.project(np.eye(3, D)) / GRID
    np.testing.assert_allclose(np.linalg.norm(apart[0] - apart[1]), np.sqrt(2), atol=0.02)
    with pytest.raises(ValueError, match="documents: shape"):
        public_vectors(np.ones((1, D)), WORDS, np.eye(4, D))


def test_topics_after_clusters_have_one_statement(tmp_path):
    X, z = documents(2000)
    clusters, y = fitted(X, epsilon=1.0), np.eye(4, dtype=int)[z]
    topics = LatentDirichletAllocation(2, doc_length=20, epsilon=2.0, delta=1e-5, n_steps=3)
    privacy = topics.fit(y, after=clusters, transcript=tmp_path / "t").privacy_
    topics.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t").ok
    # Of the target of the topics alone: test_tables.py.
    assert 2.0 < privacy.epsilon < 3.0 and not privacy.vocabulary and privacy.earlier_fit
    # Nobody bought the words: they are still assumed to be public.
    assert "the vocabulary or the columns" in privacy.statement()
    assert "each earlier one that it includes" in privacy.statement()
    assert "The vocabulary is included" not in str(privacy)
    other = fitted(X, noise_multiplier=5.0, epsilon=None, options={"relation": "replace_one"})
    with pytest.raises(ValueError, match="about one record .replace_one., this one"):
        LatentDirichletAllocation(2, doc_length=20, epsilon=9.0, n_steps=3).fit(y, after=other)


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_documents_without_clusters_are_never_useful(n):
    """Vectors in all directions. Releases move centers, which says nothing."""
    fixed = np.random.default_rng(0)
    prototypes, words = (v / np.linalg.norm(v, axis=1)[:, None] for v in fixed.standard_normal((2, 40, 24)))
    projection = np.linalg.qr(fixed.standard_normal((24, 16)))[0]
    public = PublicVectors(projection, prototypes, np.full(40, 1 / 40), [f"w{v}" for v in range(40)], words, "none")
    worth = set()
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((n, 24))
        X /= np.linalg.norm(X, axis=1)[:, None]
        model = DocumentClusters((1, 2, 5)[seed % 3], public=public, epsilon=(2.0, 8.0)[seed % 2], random_state=0)
        worth.add(model.set_unsafe(test_key=seed.to_bytes(32)).fit(X).verdict_.worth)
    assert worth <= {"no better", "unclear"}
