"""Word neighbors, as a prior of the read-out."""

import numpy as np
import pytest
from scipy import sparse

from vips_fast import LatentDirichletAllocation, nearest_words, verify, word_vectors
from vips_fast.data import load_word_vectors, save_word_vectors
from vips_fast.engine.model import Release
from vips_fast.models.lda.model import LdaModel
from vips_fast.models.lda.neighbors import ORDINARY, WordNeighbors, _unit_vectors, check_neighbors, predict_ratios
from vips_fast.models.lda.options import LdaOptions
from vips_fast.models.lda.shrinkage import ProductShrinkage

GROUP, GROUPS, K = 12, 120, 10
V = GROUP * GROUPS


def alike(seed=0, level=0.6):
    """Return noised (V, K) statistics, and their neighbors.

    The noise has sd 1; groups of words have nearly the same ratios.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(V)
    group = np.empty(V, dtype=int)
    group[order] = np.arange(V) // GROUP
    ratio = rng.gamma(0.3, 1 / 0.3, (GROUPS, K))[group] * rng.gamma(20.0, 1 / 20.0, (V, K))
    truth = rng.permutation(np.arange(1, V + 1) ** -0.8)[:, None] * ratio
    truth *= level / truth.mean()
    neighbors = np.array([[w for w in np.flatnonzero(group == group[v]) if w != v] for v in range(V)], dtype=np.int32)
    return truth, truth + rng.normal(size=truth.shape), neighbors


def read_out(noised, neighbors, n_threads=1):
    shrinkage = ProductShrinkage(K, n_threads, None if neighbors is None else WordNeighbors(neighbors))
    for _ in range(3):
        shrinkage.update(noised, np.ones((1, 1)))
    return shrinkage


# ------------------------------------------------------------------ vectors


def test_the_nearest_words_are_those_of_the_largest_cosines():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 24)) * rng.uniform(0.1, 30, (300, 1)) + 3.0
    found = nearest_words(vectors, 7)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    unit -= unit.mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    least = np.sort(cosine, axis=1)[:, -7]
    # Whole numbers of 1/2048: a cosine is off by about 1/2048, of d = 24 entries at most by 24 / 2048.
    assert (np.take_along_axis(cosine, found, 1).min(axis=1) > least - 24 / 2048).all()
    assert (np.diff(found, axis=1) > 0).all() and found.dtype == np.int32


def test_products_of_vectors_are_exact():
    """In any order, and so with any library: whole numbers below 2^24."""
    whole = _unit_vectors(np.random.default_rng(1).normal(size=(200, 400)))
    assert whole.dtype == np.float32 and (whole == np.rint(whole)).all()
    exact = whole.astype(np.int64) @ whole.T.astype(np.int64)
    assert np.abs(exact).max() < 2**24
    order = np.random.default_rng(2).permutation(400)
    np.testing.assert_array_equal(whole @ whole.T, exact)
    np.testing.assert_array_equal(whole[:, order] @ whole[:, order].T, exact)


def test_of_equally_near_words_the_first_ones_are_taken():
    vectors = np.repeat(np.eye(3), [9, 1, 1], axis=0)
    assert nearest_words(vectors, 3)[:4].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]


def test_words_without_a_vector_have_no_neighbors():
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    vectors[2], vectors[4, 0] = 0.0, np.nan
    with pytest.warns(UserWarning, match="2 of 6 words have no vector"):
        found = nearest_words(vectors, 5)
    assert (found[[2, 4]] == -1).all() and not np.isin(found, [2, 4]).any()
    assert ((found[[0, 1, 3, 5]] >= 0).sum(axis=1) == 3).all()
    with pytest.warns(UserWarning, match="5 of 6"):
        assert (nearest_words(np.where(np.arange(6)[:, None] > 0, np.nan, vectors)) == -1).all()


def test_vectors_of_words_from_public_documents():
    X = corpus()
    vectors = word_vectors(X, 5)
    assert vectors.shape == (60, 5)
    np.testing.assert_array_equal(word_vectors(X.toarray().astype(np.uint8), 5), vectors)
    # Nearly all neighbors are of the word's own topic.
    assert np.mean(nearest_words(vectors, 11) // 12 == np.arange(60)[:, None] // 12) > 0.95
    logs = np.log1p(X.toarray())
    logs /= np.maximum(np.linalg.norm(logs, axis=1, keepdims=True), 1e-9)
    want = np.linalg.svd(logs, full_matrices=False)
    np.testing.assert_allclose(vectors @ vectors.T, (want[2][:5].T * want[1][:5] ** 2) @ want[2][:5], atol=1e-9)
    X = sparse.csr_array(X.toarray() * (np.arange(60) != 7))
    assert (word_vectors(X)[7] == 0.0).all() and word_vectors(X).shape == (60, 50)


@pytest.mark.parametrize(
    "counts, message",
    [(np.ones((3, 4)) * 0.5, "X_public"), (np.ones((3, 3), dtype=int), r"n_features=50: expected .* in \[1, 2\]")],
)
def test_public_documents_that_are_none(counts, message):
    with pytest.raises(ValueError, match=message):
        word_vectors(counts)


@pytest.mark.parametrize("vectors", [np.ones(3), np.ones((3, 2), dtype=int), np.ones((2, 0)), np.ones((2, 2**16 + 1))])
def test_vectors_of_another_form(vectors):
    with pytest.raises(ValueError, match=r"vectors: .* expected floats of shape \(V, d\)"):
        nearest_words(vectors)


@pytest.mark.parametrize(
    "text, want",
    [
        ("3 2\nthe 1 2\ncat .5 -1e-3 \ndog 4 5\n", [[0.5, -1e-3], [np.nan] * 2, [4, 5]]),  # word2vec, fastText
        ("the 1 2\ncat 1 0\ncat 7 7\nthe lot 3 4\n", [[1, 0], [np.nan] * 2, [np.nan] * 2]),  # GloVe; the first counts
        ("a 1\n\ndog 2", [[np.nan], [np.nan], [2]]),
        ("un 1 2\n", [[np.nan] * 2] * 3),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_of_vectors(tmp_path, text, want, packed):
    import gzip

    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    np.testing.assert_array_equal(load_word_vectors(path, ["cat", "x", "dog"]), np.float32(want))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("cat\n", "line 1: expected a word and 1 finite numbers"),
        ("a 1 2\ncat 1\n", "line 2: expected a word and 2 finite numbers"),
        ("a 1 2\n\ncat 1 nan\n", "line 3: expected a word and 2 finite"),
        ("2 2\ncat 1 b\n", "line 2: expected"),
    ],
)
def test_files_that_hold_no_vectors(tmp_path, text, message):
    path = tmp_path / "vectors"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_word_vectors(path, ["cat"])


def test_vectors_come_back_from_a_file(tmp_path):
    path, words = tmp_path / "words.vec", ["eins", "zwei", "drei", "vier"]
    vectors = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    vectors[1], vectors[2, 0] = 0.0, np.nan
    assert save_word_vectors(path, words, vectors) == 2
    vectors[1:3] = np.nan
    np.testing.assert_array_equal(load_word_vectors(path, words), vectors)
    with pytest.raises(ValueError, match=r"vectors: shape \(4, 3\); expected \(3, d\)"):
        save_word_vectors(path, words[:3], vectors)
    np.testing.assert_array_equal(load_word_vectors(path, words), vectors)
    assert save_word_vectors(path, ["eins zwei", *words[1:]], vectors) == 1


# ----------------------------------------------------------------- read-out


def test_what_is_predicted_is_the_mean_of_the_neighbors():
    rng = np.random.default_rng(0)
    neighbors = np.array([[1, 2], [2, -1], [-1, -1], [0, 1]])
    x, base = rng.normal(size=(4, 5)) + 2.0, rng.uniform(0.1, 3.0, (4, 5))
    model = WordNeighbors(neighbors)
    evidence = [one.astype(np.float32) for one in model.evidence(x, base)]
    for ordinary in ORDINARY:
        sums = np.array([model.sums(one, 1, 4) for one in evidence])
        precision = 1 / (1 / base**2 + 1)
        want = [
            (ordinary + sum((precision * x / base)[w] for w in row if w >= 0))
            / (ordinary + sum(precision[w] for w in row if w >= 0))
            for row in neighbors[1:]
        ]
        got = predict_ratios(sums, ordinary)
        np.testing.assert_allclose(got, [np.maximum(row, 0.1) * np.ones(5) for row in want], rtol=1e-5)


def test_neighbors_help_and_others_do_no_harm():
    truth, noised, neighbors = alike()
    others = np.random.default_rng(5).permutation(V)
    wrong = np.empty_like(neighbors)
    wrong[others] = others[neighbors]
    means = [read_out(noised, given).means(0, V) for given in (None, neighbors, wrong)]
    alone, helped, misled = (((one - truth) ** 2).sum() for one in means)
    # Measured: 0.59 and 0.98; bands of entries in place of words make up the two per cent.
    assert helped < 0.7 * alone and misled < 1.01 * alone
    # A word keeps its share, whatever is predicted.
    shrinkage = read_out(noised, neighbors)
    np.testing.assert_allclose(shrinkage._predicted.sum(axis=1), shrinkage._mass, rtol=1e-5)


def test_parts_are_the_whole_and_threads_change_no_bit():
    _, noised, neighbors = alike()
    alone, several = (read_out(noised, neighbors, n) for n in (1, 3))
    whole = alone.means(0, V)
    assert np.concatenate([several.means(a, min(a + 500, V)) for a in range(0, V, 500)]).tobytes() == (whole.tobytes())
    assert alone.state().keys() == several.state().keys()
    assert all(alone.state()[name].tobytes() == several.state()[name].tobytes() for name in alone.state())
    again = ProductShrinkage(K, 2, WordNeighbors(neighbors))
    again.restore(alone.state(), noised, np.ones((1, 1)))
    assert again.means(0, V).tobytes() == whole.tobytes()


def test_intervals_and_standard_errors_go_with_it():
    truth, noised, neighbors = alike()
    sd, n = 0.05, 1000
    public = dict(n_topics=K, n_words=V, n_records=n, alpha=0.1, seed=3, start_steps=0)
    model = LdaModel(
        **public,
        doc_length=500,
        eta=0.1,
        clip=5.0,
        clips=True,
        neighbors=neighbors,
        options=LdaOptions(learning_decay=0.0, word_scale=0.0),
    )
    scale = sd / 2**20
    for step in range(3):
        # κ = 0: each release takes the place of the average before it.
        model.update(Release(step, np.rint(noised * sd / scale).astype(np.int64), scale, sd))
    assert "_neighbors" not in vars(model.contributor())  # sent to workers
    low, high = np.moveaxis((model.intervals(0.9) - 0.1) / n, 2, 0)
    inside = (low <= truth.T * sd + 1e-9) & (truth.T * sd <= high + 1e-9)
    assert 0.85 < inside.mean() < 0.97
    errors = (model.result()["components"] - 0.1) / n - truth.T * sd
    assert 0.75 < np.sqrt((model.standard_errors() ** 2).mean() / n**2 / (errors**2).mean()) < 1.1


# ---------------------------------------------------------------- estimator


#: Twelve words of each of five topics, the others of its topic being the neighbors of a word.
BLOCKS = np.array([[w for w in range(v - v % 12, v - v % 12 + 12) if w != v] for v in range(60)])


def corpus(seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.full(5, 0.1), 400) @ (np.repeat(np.eye(5), 12, axis=1) + 0.02)
    return sparse.csr_array(rng.poisson(3 * rates).astype(np.int32))


def test_a_fit_is_saved_verified_and_continued(tmp_path):
    X, prior = corpus(), BLOCKS
    settings = dict(doc_length=30, noise_multiplier=1.0, n_steps=8, random_state=1)
    model = LatentDirichletAllocation(8, word_neighbors=prior, **settings).fit(X, transcript=tmp_path / "transcript")
    plain = LatentDirichletAllocation(8, **settings).fit(X)
    assert model.privacy_.statement() == plain.privacy_.statement()
    model.save(tmp_path / "model")
    assert verify(tmp_path / "model", tmp_path / "transcript").ok
    again = LatentDirichletAllocation.load(tmp_path / "model")
    np.testing.assert_array_equal(again.word_neighbors, prior)
    np.testing.assert_array_equal(again.components_interval(), model.components_interval())
    assert again.partial_fit(X).n_steps_ == 9


def test_a_fit_goes_by_the_neighbors():
    X, new = corpus(), corpus(1)
    settings = dict(doc_length=30, noise_multiplier=4.0, n_steps=12, random_state=1)

    def perplexity(prior):
        keys = [bytes([k]) * 32 for k in range(16)]
        models = [LatentDirichletAllocation(5, word_neighbors=prior, **settings).set_unsafe(test_key=k) for k in keys]
        return np.mean([model.fit(X).perplexity(new) for model in models])

    alone, alike, nobody = (perplexity(prior) for prior in (None, BLOCKS, np.full((60, 2), -1)))
    # Measured over 40 keys: 35.1, 32.9 and 35.1, and 27.5 without privacy.
    assert alike < 0.95 * alone and 0.98 < nobody / alone < 1.02


@pytest.mark.parametrize(
    "prior, message",
    [
        (np.zeros((3, 0), dtype=int), r"int64 of shape \(3, 0\); expected integers of shape \(V, k\)"),
        (np.array([1, 2, 0]), r"int64 of shape \(3,\)"),
        (np.array([[1.0], [2.0], [0.0]]), r"float64 of shape \(3, 1\); expected integers"),
        (5, r"int64 of shape \(\)"),
        ("near", "expected integers"),
        (np.array([[1], [2], [3]]), "integers from 1 to 3; expected columns from 0 to 2"),
        (np.array([[1], [-2], [0]]), "integers from -2 to 1"),
        (np.array([[1, 2], [0, 0], [0, 1]]), "the neighbors of column 1"),
        (np.array([[1, 2], [0, 2], [0, 2]]), "the neighbors of column 2"),
        (np.arange(8).reshape(4, 2) % 3, "the neighbors of column 0|has 4 rows"),
        (np.array([[1], [2], [3], [0]]), "has 4 rows: expected 3"),
    ],
)
def test_neighbors_that_are_none(prior, message):
    X = sparse.csr_array(np.ones((20, 3), dtype=int))
    with pytest.raises(ValueError, match=f"word_neighbors.*({message})"):
        LatentDirichletAllocation(2, word_neighbors=prior, noise_multiplier=1.0, n_steps=2).fit(X)


def test_the_papers_form_has_no_read_out_for_them():
    with pytest.raises(ValueError, match="word_neighbors: an array; expected None with update='paper'"):
        LatentDirichletAllocation.paper(2, word_neighbors=BLOCKS).fit(corpus())
    check_neighbors(BLOCKS)
