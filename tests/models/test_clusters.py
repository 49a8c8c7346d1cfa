"""Clusters of documents. Exact vectors, kinds of steps, noise, files, and bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling

from vips_fast import DocumentClusters, LatentDirichletAllocation, PublicVectors, public_vectors
from vips_fast.models.clusters.knowledge import GRID
from vips_fast.models.clusters.model import ClusterModel, ClusterSteps
from vips_fast.report import html_report

D, WORDS = 6, ["cough", "wheel", "rent", "music"]


def knowledge(**change):
    """Make six prototypes; the first four have a word."""
    fields = dict(projection=np.eye(D, 4), prototypes=np.eye(D), weights=np.ones(D), words=WORDS)
    return PublicVectors(**{**fields, "word_vectors": np.eye(4, D), "name": "a test", **change})


def documents(n=6000, seed=0):
    """Draw vectors near two prototypes, with words and labels."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = np.eye(D)[z] + 0.5 * np.eye(D)[2] + 0.1 * rng.normal(size=(n, D))
    return X, sp.csr_array(np.eye(4, dtype=np.int32)[z]), z


def fitted(X, y=None, **settings):
    common = dict(epsilon=4.0, random_state=0, sampling="full")
    return DocumentClusters(2, public=knowledge(), **{**common, **settings}).fit(X, y)


def test_clusters_shares_and_words_in_spite_of_noise():
    X, y, z = documents()
    model = fitted(X, y, epsilon=8.0)
    found = model.predict(X)
    assert max((found == z).mean(), (found != z).mean()) > 0.99
    np.testing.assert_allclose(model.weights_, 0.5, atol=0.05)
    assert [words[0] for words in model.keywords(1)] == (
        ["cough", "wheel"] if (found == z).mean() > 0.5 else ["wheel", "cough"]
    )
    # The centers leave the prototypes for where the documents are.
    np.testing.assert_allclose(model.means_[:, 2], 0.5 / np.sqrt(1.25), atol=0.1)
    assert "a test" in html_report(model)
    assert model.verdict_.worth == "useful"
    assert not DocumentClusters(2, public=knowledge(), private=False, random_state=0).fit(X, y).verdict_.text


@pytest.mark.parametrize("n, epsilon", [(6000, 8.0), (6000, 1.0), (400, 1.0), (150, 0.5)])
def test_the_forecast_is_the_noise_that_the_verdict_tells(n, epsilon):
    """From public numbers, before anything is spent."""
    X, y, _ = documents(n)
    model = DocumentClusters(2, public=knowledge(), epsilon=epsilon, sampling="full", random_state=0)
    said = model.prepare(X, y).forecast
    vectors, noise = model.fit(X, y)._released().worth
    assert f"noise of about {noise:.1%}" in said.text and ("can move the clusters" in said.text) == vectors
    assert ("What helps: more records" in said.text) == (not vectors or 2 * noise > 1)
    assert said.worth in ("", model.verdict_.worth)


def test_without_words_keywords_are_those_near_the_centers():
    X, _, _ = documents()
    assert {words[0] for words in fitted(X).keywords(1)} == {"cough", "wheel"}


def test_few_records_vote_only():
    X, y, _ = documents(150)
    model = fitted(X, y, epsilon=0.5)
    known = knowledge().prototypes @ knowledge().projection
    assert all(model.keywords(1))
    assert model.verdict_.worth == "weak" and "only their shares" in model.verdict_.text
    few = fitted(*documents(15)[:2], epsilon=0.5).verdict_
    assert few.worth == "noise" and "more records" in few.text
    # Each center is the mean of prototypes.
    assert ((model.means_ <= known.max() + 1e-12) & (model.means_ >= 0)).all()
    assert ClusterSteps.planned(12, 60, 30.0, 2, True) == ClusterSteps(9, 0, 3)
    assert ClusterSteps.planned(12, 60_000, 30.0, 2, True) == ClusterSteps(2, 7, 3)
    assert ClusterSteps.planned(12, 60_000, 30.0, 2, False) == ClusterSteps(2, 10, 0)
    assert ClusterSteps.planned(1, 60_000, 30.0, 2, True) == ClusterSteps(1, 0, 0)


def test_votes_that_may_be_noise_leave_the_public_clusters():
    X, _, _ = documents(30)
    model = DocumentClusters(2, public=knowledge(), epsilon=0.1, n_steps=2, random_state=0)
    model.set_unsafe(test_key=bytes(32)).fit(X)
    np.testing.assert_allclose(model.prototype_weights_, knowledge().weights, rtol=1e-12)
    unfitted = ClusterModel(public=knowledge(), n_clusters=2, n_words=0, steps=ClusterSteps(1, 0, 0), seed=0)
    np.testing.assert_allclose(model.means_, unfitted.centers, rtol=1e-12)


def test_the_verdict_tells_the_noise_in_a_share():
    X, _, _ = documents(400)
    spread = [
        DocumentClusters(2, public=knowledge(), epsilon=0.1, random_state=0, sampling="full", n_steps=4)
        .set_unsafe(test_key=bytes([k]) * 32)
        .fit(X)
        for k in range(40)
    ]
    # Votes of three of the six prototypes, as means of four releases per record.
    sums = [model._fitted().state["votes"][:3].sum() / 4 for model in spread]
    told = float(spread[0].verdict_.text.partition("about ")[2].partition("%")[0]) / 100
    assert told == pytest.approx(np.std(sums), rel=0.35)


def test_votes_average_prototypes_within_the_public_division():
    rows, rng = np.vstack([np.eye(4)[:2], np.eye(4)[:2] * 0.9 + 0.1]), np.random.default_rng(0)
    public = PublicVectors(np.eye(4), rows, np.ones(4), WORDS, np.eye(4), "a test")
    X = rows[rng.choice(4, 4000, p=[0.1, 0.1, 0.2, 0.6])]
    model = DocumentClusters(2, public=public, private=False, n_steps=1, random_state=0).fit(X)
    shares, unit = model.prototype_weights_, 0.4 * public.prototypes
    np.testing.assert_allclose(shares, [0.1, 0.1, 0.2, 0.6], atol=0.03)
    means = [shares[[k, k + 2]] @ unit[[k, k + 2]] / shares[[k, k + 2]].sum() for k in (0, 1)]
    np.testing.assert_allclose(model.means_[np.argsort(-model.means_[:, 0])], means, atol=1e-9)


def test_noise_names_no_cluster():
    rng = np.random.default_rng(0)
    words = [f"w{v}" for v in range(2000)]
    known = knowledge(words=words, word_vectors=np.eye(4, D)[np.arange(2000) % 4] + 0.01 * rng.normal(size=(2000, D)))
    X, _, z = documents(100)
    y = sp.csr_array((np.ones(100, np.int32), (np.arange(100), z)), (100, 2000))
    for seed in range(3):
        model = DocumentClusters(2, public=known, epsilon=0.5, random_state=seed).fit(X, y)
        near = known.project(known.word_vectors) @ model.means_.T
        for k, listed in enumerate(model.keywords(20)):
            best = [known.word_vectors[words.index(word)] for word in listed]
            assert len(best) and near[:, k].mean() < (known.project(np.array(best)) @ model.means_[k]).min()


def test_a_document_has_the_same_bits_in_any_company():
    known, rng = (
        knowledge(projection=np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0][:, :4]),
        np.random.default_rng(0),
    )
    X = rng.normal(size=(64, D)) * 10.0 ** rng.uniform(-3, 3, (64, 1))
    together = known.project(X)
    for i in range(0, 64, 7):
        np.testing.assert_array_equal(known.project(X[i : i + 1])[0], together[i])
        np.testing.assert_array_equal(known.project(np.asfortranarray(X[i:]))[0], together[i])
    exact = X @ known.projection
    exact /= np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1.0)
    np.testing.assert_allclose(together / GRID, exact, atol=1e-4)
    assert (np.linalg.norm(together, axis=1) <= GRID).all()
    np.testing.assert_array_equal(known.nearest(X), X.argmax(axis=1))


def test_a_stopped_fit_goes_on_and_a_saved_one_is_the_same(tmp_path):
    X, y, _ = documents(2000)

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step == 8:
            raise Stop

    settings = dict(public=knowledge(), noise_multiplier=5.0, random_state=0, sampling="full")
    folder = tmp_path / "run"
    with pytest.raises(Stop):
        calling(DocumentClusters(2, **settings), stop).fit(X, y, checkpoint=folder)
    model = DocumentClusters(2, **settings).fit(X, y, checkpoint=folder, resume=True)
    assert model.n_steps_ == 12
    model.save(tmp_path / "model")
    again = DocumentClusters.load(tmp_path / "model")
    assert again.public == knowledge() and again.keywords() == model.keywords()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("settings", "X", "y", "message"),
    [
        ({}, np.full((3, D), np.nan), None, "X: expected finite numbers"),
        ({}, np.ones((3, 4)), None, r"X has shape \(3, 4\) .* expected numbers, \(n, 6\)"),
        ({}, np.ones((3, D)), np.ones((3, 2), int), r"y has shape \(3, 2\): expected \(3, 4\)"),
        (dict(public=None), np.ones((3, D)), None, "public: expected PublicVectors"),
        (dict(n_components=7), np.ones((3, D)), None, "n_components=7: expected at most 6"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(settings, X, y, message):
    model = DocumentClusters(**{"n_components": 2, "public": knowledge(), "noise_multiplier": 5.0, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(prototypes=np.ones((2, 3))), "prototypes: shape"),
        (dict(weights=np.zeros(D)), "weights: expected numbers above 0"),
        (dict(words=["a"] * 4), "3 of 4 are repeated"),
        (dict(projection=np.full((D, 4), np.inf)), "projection: shape"),
    ],
)
def test_bad_public_knowledge_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        knowledge(**change)


def test_public_vectors_of_documents():
    rng = np.random.default_rng(0)
    rows = np.eye(3, D)[np.arange(90) % 3] * (1 + np.arange(90)[:, None]) + 0.01 * rng.normal(size=(90, D))
    known = public_vectors(rows, WORDS, np.eye(4, D), n_prototypes=3, n_directions=2)
    np.testing.assert_allclose(np.sort(known.nearest(np.eye(3, D))), [0, 1, 2])
    np.testing.assert_allclose(known.weights, 1 / 3)
    # Lengths along the directions that documents differ in stay.
    apart = known.project(np.eye(3, D)) / GRID
    np.testing.assert_allclose(np.linalg.norm(apart[0] - apart[1]), np.sqrt(2), atol=0.02)
    with pytest.raises(ValueError, match="documents: shape"):
        public_vectors(np.ones((1, D)), WORDS, np.eye(4, D))


def test_topics_after_clusters_have_one_statement():
    X, y, _ = documents(2000)
    clusters = fitted(X, epsilon=1.0)
    topics = LatentDirichletAllocation(2, doc_length=20, epsilon=2.0, delta=1e-5, n_steps=3)
    privacy = topics.fit(y, after=clusters).privacy_
    # The target is for the topics alone, the statement for both.
    assert 2.0 < privacy.epsilon < 3.0 and not privacy.vocabulary and privacy.earlier_fit
    alone = LatentDirichletAllocation(2, noise_multiplier=topics.privacy_.noise_multiplier, delta=1e-5, n_steps=3)
    assert 1.9 < alone.fit(y).privacy_.epsilon <= 2.0
    # Nobody bought the words: they are still assumed to be public.
    assert "the vocabulary or the columns" in privacy.statement()
    assert "The releases of an earlier fit" in privacy.statement() and "The vocabulary is included" not in str(privacy)


def test_clusters_after_another_relation_are_refused():
    X, y, _ = documents(200)
    clusters = fitted(X, noise_multiplier=5.0, epsilon=None, options={"relation": "replace_one"})
    topics = LatentDirichletAllocation(2, doc_length=20, epsilon=9.0, n_steps=3)
    with pytest.raises(ValueError, match="about one record .replace_one., this one"):
        topics.fit(y, after=clusters)


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_documents_without_clusters_are_never_useful(n):
    """Vectors in all directions, with words that do not go with them. Releases move centers, which says nothing."""
    fixed = np.random.default_rng(0)
    prototypes, words = (v / np.linalg.norm(v, axis=1)[:, None] for v in fixed.standard_normal((2, 40, 24)))
    projection = np.linalg.qr(fixed.standard_normal((24, 16)))[0]
    names = [f"w{v}" for v in range(40)]
    public = PublicVectors(projection, prototypes, np.full(40, 1 / 40), names, words, "none")
    moved, worth = 0, set()
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, 24))
        X /= np.linalg.norm(X, axis=1)[:, None]
        model = DocumentClusters((1, 2, 5)[seed % 3], public=public, epsilon=(2.0, 8.0)[seed % 2], random_state=0)
        verdict = model.set_unsafe(test_key=seed.to_bytes(32)).fit(X, rng.integers(0, 3, (n, 40))).verdict_
        moved += "moved the clusters, but" in verdict.text
        worth.add(verdict.worth)
    assert moved > 5 and worth <= {"weak", "noise"}
