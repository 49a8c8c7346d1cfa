"""Topics of words and vectors.

What they find, and how they meet the words' own model.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, PublicPrior, PublicVectors, VectorTopics, verify
from vips_fast.models.clusters.knowledge import GRID
from vips_fast.models.clusters.model import COUNT, vector_sums

K, D = 4, 16
WORDS = [f"word{v}" for v in range(40)]


def knowledge(**other):
    """Public words in K groups, and prototypes without information.

    Each group has a direction.
    """
    frame = np.eye(D)
    known = dict(projection=frame[:, :8], prototypes=frame, weights=np.ones(D), words=WORDS, name="a test")
    return PublicVectors(**{**known, "word_vectors": frame[np.arange(40) % K], **other})


def prior():
    """Topics of those groups."""
    ratios = np.ones((K, 40))
    ratios[np.arange(40) % K, np.arange(40)] = 30.0
    return PublicPrior(WORDS, ratios, np.ones(K), 1.0 / (3.0 + np.arange(40)), "a test")


def records(n, seed=0, apart=0.9):
    """(counts, vectors, topics).

    A document has words of its topic, and a vector near a direction between two.
    """
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    topics = prior().topics()
    X = sp.csr_array(np.array([rng.multinomial(20, 0.7 * topics[k] + 0.3 * topics.mean(axis=0)) for k in z]))
    centers = apart * np.eye(D)[:K] + 0.3 * np.eye(D)[K : 2 * K]
    return X.astype(np.int32), centers[z] + 0.15 * rng.standard_normal((n, D)), z


def fitted(n=4000, **settings):
    X, y, _ = records(n)
    common = dict(public=knowledge(), public_prior=prior(), doc_length=20, epsilon=4.0, random_state=0)
    return VectorTopics(K, **{**common, **settings}).fit(X, y)


def agreement(found, z):
    """Return the share of documents with their kind's topic.

    It is the one that most of their kind have.
    """
    return np.mean([np.bincount(found[z == k]).max() / (z == k).sum() for k in range(K)])


@pytest.mark.parametrize("with_prior", [True, False])
def test_topics_are_found_and_centers_move(with_prior):
    model = fitted(**({} if with_prior else {"public_prior": None}))
    X, y, z = records(1000, seed=1)
    found = model.predict(X, y)
    assert agreement(found, z) > 0.95 and len(set(found)) == K
    # Each center has come from its words' direction to the mean of its vectors.
    order = [int(np.bincount(found[z == k]).argmax()) for k in range(K)]
    aim = np.array([y[z == k, :8].mean(axis=0) for k in range(K)])
    assert np.abs(model.centers_[order] - aim).max() < 0.1
    assert np.abs(model.vector_shares_ - 1 / K).max() < 0.05
    shares = model.transform(X, y)
    assert shares.shape == (1000, K) and np.allclose(shares.sum(axis=1), 1.0)
    assert np.allclose(model.transform(X).sum(axis=1), 1.0)
    assert model.found_gain_ is not None and model.privacy_.private


def test_a_start_from_public_words_costs_nothing():
    """A noisy step of few documents leaves the public centers.

    These tell topics apart.
    """
    X, y, z = records(50)
    model = VectorTopics(K, public=knowledge(), public_prior=prior(), doc_length=20, epsilon=0.05, n_steps=3)
    assert agreement(model.fit(X, y).predict(X, y), z) > 0.9


def test_words_are_those_of_the_topic_model_at_their_share_of_the_clip():
    """Without noise the words' releases are those of topics without vectors."""
    X, y, _ = records(400)
    common = dict(doc_length=20, noise_multiplier=0.0, n_steps=3, sampling="full", random_state=0, delta=1e-5)
    key = b"k" * 32
    plain = LatentDirichletAllocation(K, **common).set_unsafe(test_key=key).fit(X)
    model = VectorTopics(K, public=knowledge(), **common).set_unsafe(test_key=key).fit(X, y)
    assert np.allclose(model.components_, plain.components_, rtol=1e-3, atol=1e-3)


def test_the_clip_is_shared():
    X, y, _ = records(200)
    for share in (0.1, 0.5, 0.9):
        model = VectorTopics(K, public=knowledge(), doc_length=20, epsilon=1.0, vector_share=share)
        stage = model.prepare(X, y)
        inner, whole = stage.model, stage.plan.mechanism.clip_norm
        words = getattr(inner, "model", inner).words.clip
        assert words == pytest.approx(whole * (1 - share) ** 0.5)
        assert inner.sensitivity("add_remove") == whole
        assert inner.sensitivity("replace_one") == pytest.approx(whole * (2 + 2 * share) ** 0.5)


def test_sums_of_vectors_are_the_obvious_ones():
    rng = np.random.default_rng(0)
    unit, topic = np.sort(rng.integers(0, 7, 30)), rng.integers(0, 3, 30)
    x = np.trunc(GRID * rng.normal(size=(30, 5)) / 5)
    cells, values = vector_sums(unit, topic, x, 7, 3)
    made, wanted = np.zeros((7, 3 * 6)), np.zeros((7, 3, 6))
    keys = np.unique(unit * 3 + topic)
    for u, own, value in zip(keys // 3, cells, values, strict=True):
        np.add.at(made[u], own, value)
    for i in range(30):
        wanted[unit[i], topic[i]] += np.append(COUNT, x[i] / GRID)
    norms = np.sqrt((wanted**2).sum(axis=(1, 2)))
    wanted /= np.maximum(norms, 1.0)[:, None, None]
    assert norms.max() > 1 and np.allclose(made, wanted.reshape(7, -1), rtol=1e-6)
    assert (np.linalg.norm(made, axis=1) <= 1.0).all()


def test_documents_without_words_or_a_finite_vector_contribute_nothing():
    X, y, _ = records(300)
    options = dict(public=knowledge(), doc_length=20, noise_multiplier=1.0, n_records=300, sampling="full", n_steps=3)

    def sums(X, y):
        model = VectorTopics(K, invalid="drop", random_state=0, **options).set_unsafe(test_key=b"k" * 32)
        return model.fit(X, y).components_.tobytes()

    bad = y[:2].copy()
    bad[0, 0], bad[1] = np.nan, np.inf
    more = sp.vstack([X, X[:2]]).tocsr(), np.vstack([y, bad])
    assert sums(*more) == sums(X, y)
    empty = sp.vstack([X, sp.csr_array((2, 40), dtype=np.int32)]).tocsr(), np.vstack([y, y[:2]])
    assert sums(*empty) == sums(X, y)


def test_saved_and_verified(tmp_path):
    X, y, _ = records(2000)
    settings = dict(public=knowledge(), public_prior=prior(), doc_length=20, epsilon=4.0, random_state=0)
    model = VectorTopics(K, **settings).fit(X, y, transcript=tmp_path / "log", groups=np.arange(2000) // 2)
    model.save(tmp_path / "model")
    again = VectorTopics.load(tmp_path / "model")
    assert np.array_equal(again.predict(X, y), model.predict(X, y)) and again.public == knowledge()
    assert again.public_prior == prior()
    assert verify(tmp_path / "model", tmp_path / "log")
    assert str(again._fitted().settings["public_prior_source"]).count("a test (") == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(public=None), "public: expected PublicVectors"),
        (dict(vector_share=1.0), "vector_share=1.0"),
        (dict(vector_share=0.0), "vector_share=0.0"),
        (dict(public=knowledge(words=[f"w{v}" for v in range(40)])), "public_prior: other words"),
        (dict(public=knowledge(words=WORDS[:39], word_vectors=np.eye(39, D)), public_prior=None), "X has 40 columns"),
        (dict(y=None), "y=None: expected sentence vectors"),
        (dict(y=np.ones((10, D))), "y has 10 rows: expected 4000"),
        (dict(y=np.ones((4000, 3))), "y has shape"),
        (dict(y=np.full((4000, D), np.nan)), "y: expected finite numbers"),
    ],
)
def test_refused_before_anything_is_spent(wrong, message):
    X, y, _ = records(4000)
    given = {"y": y, **{name: value for name, value in wrong.items() if name == "y"}}
    settings = {name: value for name, value in wrong.items() if name != "y"}
    common = dict(public=knowledge(), public_prior=prior(), doc_length=20, epsilon=4.0)
    model = VectorTopics(K, **{**common, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, given["y"])
    assert not hasattr(model, "ledger_")
