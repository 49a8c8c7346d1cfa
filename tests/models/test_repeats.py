"""Test warnings of private fits whose epsilons nothing adds up, or whose rows and columns the guarantee misreads."""

import functools
import multiprocessing
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import calling
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PrivateVocabulary, TopicTables
from vips_fast.engine.budget import Budget
from vips_fast.models import caveats
from vips_fast.models.caveats import TWINS

ROOT = Path(__file__).parents[2]
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
TEXTS = ["red green blue " * 3, "one two three", "red two blue", "green one"] * 100
ADDS_UP = "same records add up, and no statement says to how much"
LEARNS = "a step of the pipeline before, learns from the records"


def model(**options):
    return BayesianLogisticRegression(n_steps=1, **{"epsilon": 1.0, "delta": 1e-5, "n_records": 200} | options)


def calls():
    return model(epsilon=None, noise_multiplier=5.0, n_records=None)


def topics(**options):
    return LatentDirichletAllocation(2, doc_length=10, n_steps=1, delta=1e-5, **{"epsilon": 4.0} | options)


@pytest.fixture(autouse=True)
def memory(fits_of_other_tests, monkeypatch):
    monkeypatch.setattr(caveats, "_fits", {})


def said(work, text):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return sum(text in str(one.message) for one in found)


def two(kind):
    return lambda: [kind().fit(X, Y) for _ in range(2)]


@pytest.mark.parametrize(
    "work",
    [
        two(model),
        two(functools.partial(model, sampling="full")),
        lambda: (model().fit(X, Y), model().fit(X.copy(), Y)),
        lambda: (one := model(), one.fit(X, Y), one.fit(X, Y)),
        lambda: (model().fit(X, Y), topics().fit(np.ones((200, 4), int))),
        lambda: cross_val_score(model(n_records=None), X, Y, cv=2),
        lambda: GridSearchCV(model(n_records=None), {"row_norm": [0.5, 1.0]}, cv=2).fit(X, Y),
        lambda: VotingClassifier([("a", model()), ("b", model())]).fit(X, Y),
        lambda: [calls().partial_fit(X, Y) for _ in range(2)],
        lambda: [PrivateVocabulary(epsilon=3.0).fit(TEXTS) for _ in range(2)],
        lambda: [make_pipeline(PrivateVocabulary(epsilon=3.0), topics()).fit(TEXTS) for _ in range(2)],
    ],
)
def test_a_second_fit_without_a_budget_warns(work):
    assert said(work, ADDS_UP) >= 1


def _after():
    words = PrivateVocabulary(epsilon=1.0, delta=1e-5).fit(TEXTS)
    counts = words.transform(TEXTS)
    one = topics().fit(counts)
    shares, wards = one.transform(counts), {"ward": ["a", "b"] * 200}
    TopicTables({"ward": ["a", "b"]}, epsilon=6.0, delta=1e-5).fit(shares, wards, after=one)
    return words, counts


def _calls():
    one = calls()
    for _ in range(3):
        one.partial_fit(X, Y)


def _refused():
    for _ in range(2):
        with pytest.raises(ValueError, match="noise_multiplier"):
            model(noise_multiplier=0.01).fit(X, Y)
    model().fit(X, Y)


def test_what_one_statement_includes_does_not_warn(tmp_path):
    Budget.create(tmp_path / "b", epsilon=9.0, delta=1e-5, dataset="d")
    paid = functools.partial(model().fit, X, Y, budget=tmp_path / "b")
    for work in (_after, _calls, _refused, two(functools.partial(model, private=False)), lambda: (paid(), paid())):
        caveats._fits.clear()
        assert said(work, ADDS_UP) == 0
    caveats._fits.clear()
    words, counts = _after()
    assert said(lambda: topics().fit(counts), ADDS_UP) == 1  # beside the first topics


def test_a_fit_that_may_have_spent_something_counts():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calling(model(), stop).fit(X, Y)
    assert said(lambda: model().fit(X, Y), ADDS_UP) == 1


OTHERS = [X, np.zeros_like(X), np.vstack([X[:-1], 9 * X[:1]]), np.repeat(X[:40], 5, axis=0)]


@pytest.mark.parametrize("second", OTHERS)
@pytest.mark.parametrize("first", OTHERS)
def test_who_is_told_depends_on_no_record(first, second):
    one = model(options={"invalid": "drop"})
    one.fit(first, Y)
    assert [said(lambda: one.fit(data, Y), ADDS_UP) for data in (second, X)] == [1, 1]


#: What a child runs. A function of this file would bring all of the file's imports with it.
FIRST_FIT = """
import warnings
import numpy as np
from vips_fast import BayesianLogisticRegression
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    BayesianLogisticRegression(n_steps=1, epsilon=1.0, delta=1e-5).fit(np.eye(60), np.arange(60) % 2)
queue.put(sum("in a worker process" in str(one.message) for one in found))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_first_fit_of_a_child_warns(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=exec, args=(FIRST_FIT, {"queue": queue}))
    child.start()
    assert queue.get(timeout=120) == 1
    child.join()


def test_the_first_fit_in_a_worker_of_dask_warns():
    import distributed

    with (
        distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.submit(said, lambda: model().fit(X, Y), "in a worker process", pure=False).result() == 1


@pytest.mark.slow
def test_a_parallel_search_of_scikit_learn_warns():
    """No two fits may be in one process: the search of scikit-learn sends them to workers, which start slowly."""
    code = """
import numpy as np
from sklearn.model_selection import cross_val_score
from vips_fast import BayesianLogisticRegression
X = np.random.default_rng(0).normal(size=(120, 2))
cross_val_score(BayesianLogisticRegression(n_steps=1, epsilon=1.0), X, (X[:, 0] > 0).astype(int), n_jobs=2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert not done.returncode and "in a worker process" in done.stderr and ADDS_UP in done.stderr


LEARNING = [
    lambda: make_pipeline(SelectKBest(k=2), model()).fit(X, Y),
    lambda: make_pipeline(StandardScaler(), Normalizer(), model()).fit(X, Y),
    lambda: make_pipeline(make_pipeline(StandardScaler()), model()).fit(X, Y),
    lambda: make_pipeline(StandardScaler(), make_pipeline(Normalizer(), model())).fit(X, Y),
    lambda: make_pipeline(ColumnTransformer([("a", StandardScaler(), [0, 1, 2])]), model()).fit(X, Y),
    lambda: make_pipeline(CountVectorizer(max_features=3), topics()).fit(TEXTS),
    lambda: cross_val_score(make_pipeline(SelectKBest(k=2), model(n_records=None)), X, Y, cv=2),
]
LEARNING_NOTHING = [
    lambda: make_pipeline(Normalizer(), FunctionTransformer(), None, model()).fit(X, Y),
    lambda: make_pipeline(ColumnTransformer([("a", Normalizer(), [0, 1, 2])]), model()).fit(X, Y),
    lambda: make_pipeline(HashingVectorizer(n_features=8, alternate_sign=False, norm=None), topics()).fit(TEXTS),
    lambda: make_pipeline(CountVectorizer(vocabulary=["red", "one"]), topics()).fit(TEXTS),
    lambda: make_pipeline(OneHotEncoder(categories=[[0, 1]]), model()).fit(Y[:, None], Y),
    lambda: make_pipeline(PrivateVocabulary(epsilon=3.0), topics()).fit(TEXTS),
    lambda: make_pipeline(StandardScaler(), model(private=False)).fit(X, Y),
    lambda: make_pipeline(PrivateVocabulary(epsilon=3.0), StandardScaler(with_mean=False)).fit(TEXTS),
    lambda: model().fit(X, Y),
]


BESIDE = "has learned as many columns as X has"


def by_hand(step, fit):
    def work():
        made = step.fit_transform(TEXTS if isinstance(step, CountVectorizer) else X, Y)
        fit(made)

    return work


LEARNED = [
    (by_hand(CountVectorizer(max_features=3), lambda counts: topics().fit(counts)), 1),
    (by_hand(CountVectorizer(max_features=3), lambda counts: topics(options={"invalid": "drop"}).fit(counts)), 0),
    (by_hand(CountVectorizer(max_features=3), lambda counts: topics().fit(np.asarray(counts.toarray())[:, :2])), 0),
    (by_hand(CountVectorizer(vocabulary=["red", "one"]), lambda counts: topics().fit(counts)), 0),
    (by_hand(SelectKBest(k=2), lambda rows: model().fit(rows, Y)), 1),
    (by_hand(make_pipeline(StandardScaler(), SelectKBest(k=2)), lambda rows: model().fit(rows, Y)), 1),
    (by_hand(SelectKBest(k=2), lambda rows: model(private=False).fit(rows, Y)), 0),
    (by_hand(Normalizer(), lambda rows: model().fit(rows, Y)), 0),
    # The pipeline says it of its own steps.
    (LEARNING[0], 0),
]


@pytest.mark.parametrize(
    "work, text, told",
    [
        *((work, LEARNS, range(1, 9)) for work in LEARNING),
        *((work, LEARNS, [0]) for work in LEARNING_NOTHING),
        *((work, BESIDE, [told]) for work, told in LEARNED),
    ],
)
def test_columns_that_a_step_of_the_caller_learned_are_told(work, text, told):
    assert said(work, text) in told


COUNTS = rng.poisson(0.2, (300, 60))
DRAWN = rng.integers(0, 300, 300)
WIDE = rng.normal(size=(300, 3))


def _labels(rows):
    return np.arange(rows.shape[0]) % 2


REPEATED = [
    WIDE[DRAWN],
    np.repeat(WIDE, 5, axis=0),
    np.tile(WIDE, (2, 1)),
    np.tile(WIDE, (50, 1)),
    WIDE[DRAWN].astype(np.float32),
    np.asfortranarray(WIDE[DRAWN]),
]
BY_CHANCE = [
    WIDE,
    rng.integers(0, 2, (300, 4)),
    np.column_stack([(rng.integers(18, 91, 300) - 54) / 36, rng.random(300) < 0.3]),
    np.round(rng.random((300, 2)), 1),
    np.vstack([WIDE[:200], np.zeros((100, 3))]),
    np.vstack([WIDE[:280], WIDE[:20]]),
]


@pytest.mark.parametrize("rows, told", [*((rows, 1) for rows in REPEATED), *((rows, 0) for rows in BY_CHANCE)])
def test_rows_that_repeat_beyond_chance_are_told(rows, told):
    assert said(lambda: model(n_records=None).fit(rows, _labels(rows)), TWINS) == told
    # The operator's warnings are off where nobody is told of records.
    assert said(lambda: model(n_records=None, options={"invalid": "drop"}).fit(rows, _labels(rows)), TWINS) == 0
    assert said(lambda: model(n_records=None).fit(rows, _labels(rows), groups=np.arange(len(rows)) // 2), TWINS) == 0


@pytest.mark.parametrize("kind", (np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_array))
@pytest.mark.parametrize(
    "rows, told",
    [
        (COUNTS[DRAWN], True),
        (np.repeat(COUNTS, 5, axis=0), True),
        (np.tile(COUNTS, (50, 1)), True),
        (COUNTS, False),
        (np.vstack([COUNTS, np.zeros_like(COUNTS)]), False),
        (np.vstack([COUNTS, np.tile(COUNTS[:1], (300, 1))]), False),
        (np.eye(2, dtype=int)[rng.integers(0, 2, (5000, 10))].reshape(5000, 20), False),
    ],
    ids=("drawn", "five times", "fifty times", "once", "blank rows", "a form letter", "answers"),
)
def test_documents_that_repeat_are_told(rows, told, kind):
    """Rows of another form than CSR are not looked at, so nothing is said of them."""
    assert said(lambda: topics().fit(kind(rows)), TWINS) == (told and kind is not sparse.csc_array)
    assert said(lambda: topics(options={"invalid": "drop"}).fit(kind(rows)), TWINS) == 0


def test_a_matrix_whose_parts_contradict_each_other_is_refused_and_does_not_crash():
    X = sparse.csr_array(np.tile(COUNTS, (2, 1)))
    X.indices[5] = 10**6
    with warnings.catch_warnings(action="error"), pytest.raises(ValueError, match="X"):
        topics().fit(X)


def test_each_fit_of_bagging_is_told():
    bag = BaggingClassifier(model(n_records=None), n_estimators=3, n_jobs=1)
    assert said(lambda: bag.fit(X, Y), TWINS) == 3


def test_the_first_sentence_is_of_this_fit_alone_and_a_budget_counts_what_it_paid_for(tmp_path):
    Budget.create(tmp_path / "b", epsilon=9.0, delta=1e-5, dataset="clinic")
    for path in (None, tmp_path / "b"):
        first = model().fit(X, Y, budget=path).privacy_.statement().partition(". ")[0]
        assert "for this fit alone (fits to the same records add up" in first
        assert ("the budget of clinic counts those that it pays for" in first) == (path is not None)
    one = calls().partial_fit(X, Y, budget=tmp_path / "b")
    assert "the budget of clinic" in one.privacy_.statement()
    one.partial_fit(X, Y)
    assert "clinic" not in one.privacy_.statement() and "for this fit alone (fits to" in one.privacy_.statement()
