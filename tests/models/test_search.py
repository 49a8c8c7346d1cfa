"""The private search.

One statement and one charge for all runs, and nothing that tells of the others.
"""

import hashlib
import json
import logging
import math
import warnings

import jsonschema
import numpy as np
import pytest
from scipy import stats

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PrivateSearch, SigmoidBeliefNetwork
from vips_fast import accounting as acc
from vips_fast.accounting.dp_events import export_event
from vips_fast.engine import sampling
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.mechanisms.selection import number_of_runs
from vips_fast.models import privacy_file, search

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(int)
COUNTS = RNG.integers(0, 4, size=(60, 8))
KEY = bytes(range(32))
NORMS = {"row_norm": [0.5, 1.0, 4.0]}


def logistic(**settings):
    return BayesianLogisticRegression(**{"epsilon": 2.0, "n_steps": 2, "random_state": 0, **settings})


def searched(candidates=NORMS, base=None, key=KEY, **settings):
    made = PrivateSearch(base or logistic(), candidates, **{"mean_runs": 3.0, **settings})
    return made if key is None else made.set_unsafe(test_key=key)


# -- the number of runs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "shape", "law"),
    [
        (10.0, 1.0, stats.geom(0.1)),
        (4.0, None, stats.poisson(4.0)),
        (7.0, 0.0, None),
        (5.0, 2.0, None),
        (1.0, 1.0, None),
    ],
)
def test_number_of_runs_is_the_inverse_of_its_distribution(mean, shape, law):
    if law is None and mean > 1:
        gamma = acc.selection.stopping_probability(mean, shape)
        law = stats.logser(1 - gamma) if shape == 0 else stats.nbinom(shape, gamma)
    for share in np.linspace(0.0005, 0.9995, 60):
        got = number_of_runs(mean, shape, int(share * 2**128))
        if mean == 1.0:
            assert got == 1
        elif shape == 2.0:
            assert got == law.ppf(law.pmf(0) + share * (1 - law.pmf(0)))  # truncated at 0
        else:
            assert got == law.ppf(share)
    assert number_of_runs(mean, shape, 0) == (0 if shape is None else 1)
    assert number_of_runs(mean, shape, 2**128 - 1) < 400 * mean


# -- the publication ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": "full"},
        {"sampling": "poisson", "batch_size": 20},
        {"sampling": "without_replacement", "batch_size": 20},
        {"sampling": "full", "relation": "replace_one"},
    ],
    ids=str,
)
def test_the_statement_is_that_of_the_whole_search(settings, tmp_path):
    base = logistic(**settings)
    found = searched(base=base, key=None).fit(X, Y)
    best, privacy = found.best_estimator_, found.privacy_
    assert 1.98 < privacy.epsilon <= 2.0 and privacy.accountant == "rdp" and privacy.n_records == 120
    (event,) = best.ledger_.event().leaves()
    assert isinstance(event, acc.RepeatAndSelectEvent) and (event.mean, event.shape) == (3.0, 1.0)
    score, run = event.event.events
    assert isinstance(score, acc.GaussianEvent) and run.count == 2
    assert acc.epsilon(event.event, privacy.delta) < 0.7 * privacy.epsilon
    assert found.best_params_["row_norm"] == best.row_norm and best.n_steps_ == 2
    assert "best of a random number (mean 3) of runs of 3 releases" in privacy.statement()
    best.save(tmp_path / "m")
    again = BayesianLogisticRegression.load(tmp_path / "m")
    assert again.privacy_ == privacy and np.array_equal(again.coef_, best.coef_)
    jsonschema.Draft202012Validator(privacy_file.schema()).validate(privacy_file.privacy_record(best._fitted()))
    if privacy.relation == "add_remove":
        assert export_event(best.ledger_.event())["event"]["class_name"] == "RepeatAndSelectDpEvent"
    # One release, and of the others nothing: neither a ledger nor a number.
    assert len(best.ledger_) == 1 and [r["kind"] for r in best.ledger_.to_dict()["records"]] == [
        "plan",
        "release",
        "close",
    ]


def files(found, folder):
    found.best_estimator_.save(folder)
    said = json.loads((folder / "model.json").read_text())
    return sorted(said), sorted(said["ledger"]["records"][0]["plan"]["search"])


@pytest.mark.parametrize("model", ["regression", "topics"])
def test_the_number_of_runs_leaves_by_no_other_door(tmp_path, monkeypatch, caplog, capsys, model):
    """One run and nine have the same log, warnings and files."""
    tell = {"callback": lambda progress: print("step")}
    seen = []
    for number in (1, 9):
        monkeypatch.setattr(search, "number_of_runs", lambda *_, n=number: n)
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "vips_fast"), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            if model == "regression":
                found = searched(base=logistic(**tell)).fit(X, Y)
            else:
                base = LatentDirichletAllocation(2, epsilon=3.0, n_steps=2, random_state=0, **tell)
                found = searched({"n_components": [2, 3]}, base=base).fit(COUNTS)
        lines = [record.getMessage() for record in caplog.records]
        shown = [str(one.message) for one in warned]
        seen.append((lines, shown, capsys.readouterr(), files(found, tmp_path / str(number))))
        assert logging.getLogger("vips_fast.engine.loop").filters == []
    assert seen[0] == seen[1]
    with caplog.at_level(logging.DEBUG, "vips_fast"):
        found.best_estimator_.fit(X if model == "regression" else COUNTS, Y if model == "regression" else None)
    assert caplog.records  # the messages of a single fit


def test_the_best_by_score_is_published(monkeypatch):
    monkeypatch.setattr(search, "number_of_runs", lambda *_: 12)
    runs, fit = [], BayesianLogisticRegression._fit

    def kept(self, *args, **kwargs):
        runs.append(fit(self, *args, **kwargs))
        return self

    monkeypatch.setattr(BayesianLogisticRegression, "_fit", kept)
    scores = iter([3.0, 1.0, 7.0, 7.0, 2.0, 0.0, 5.0, 1.0, 6.0, 1.0, 2.0, 3.0])
    found = searched(score="public", scorer=lambda model, X, y: next(scores)).fit(X, Y, X_public=X)
    assert found.best_score_ == 7.0 and len(runs) == 12
    assert np.array_equal(found.best_estimator_.coef_, runs[2].coef_)
    assert len({run.coef_.tobytes() for run in runs}) == 12  # each with noise of its own
    assert {run.row_norm for run in runs} == {0.5, 1.0, 4.0}
    # The public score is no release: the event covers only the runs, and nothing is held out.
    (event,) = found.best_estimator_.ledger_.event().leaves()
    assert isinstance(event.event, acc.SelfComposedEvent)
    assert runs[0]._fitted().public.n_records == 120


# -- the private score --------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_units_are_divided_and_judged_one_by_one(relation):
    """No row is in both shares.

    The scorer sees one unit at a time.
    """
    groups = np.repeat(np.arange(40), 3)
    marked = np.column_stack([np.repeat(np.arange(40.0), 3), X[:, :2]])
    judged, trained = set(), set()

    def scorer(model, rows, labels):
        assert len(rows) == len(labels) == 3 and len(set(rows[:, 0])) == 1
        judged.add(int(rows[0, 0]))
        return 0.5

    class Spy(BayesianLogisticRegression):
        def _fit(self, X, y=None, **how):
            trained.update(int(u) for u in X[:, 0])
            assert set(how["groups"]) == set(X[:, 0])
            return super()._fit(X, y, **how)

    base = Spy(epsilon=2.0, n_steps=1, relation=relation, sampling="full", random_state=0)
    found = searched([{}], base=base, scorer=scorer, score_range=(0.0, 1.0), held_out=0.3)
    found.fit(marked, Y, groups=groups, unit="ward")
    assert not judged & trained and judged | trained == set(range(40))
    assert found.privacy_.unit == "ward" and found.privacy_.n_records == 40
    if relation == "replace_one":
        assert len(judged) == 12


def test_the_division_of_the_others_does_not_depend_on_a_unit():
    draw = search.KeyedRandomness(KEY)
    one, other = (search._division(n, 0.3, "add_remove", draw) for n in (1000, 999))
    assert np.array_equal(one[:999], other) and abs(one.mean() - 0.7) < 0.1


def test_noise_of_the_score_is_what_is_charged(monkeypatch):
    """Each unit counts at most 1 in the noised sum.

    Whatever the scorer returns.
    """
    seen, noised = [], search._noised

    def kept(units, noise_multiplier, key):
        units = list(units)
        assert all(0.0 <= one <= 1.0 for one in units)
        seen.append(noise_multiplier)
        return noised(iter(units), noise_multiplier, key)

    monkeypatch.setattr(search, "_noised", kept)
    wild = iter([math.nan, math.inf, -math.inf, 1e300, -5.0] * 1000)
    found = searched(scorer=lambda *_: next(wild), score_range=(-1.0, 2.0)).fit(X, Y)
    (event,) = found.best_estimator_.ledger_.event().leaves()
    assert set(seen) == {event.event.events[0].noise_multiplier}
    # One draw of the mechanism: sum and noise on its lattice.
    values = [noised(iter([0.25] * 8), 0.5, hashlib.sha256(b"%d" % k).digest()) for k in range(400)]
    assert abs(np.mean(values) - 2.0) < 0.15 and 0.4 < np.std(values) < 0.6


@pytest.mark.parametrize("name", ["labels", "words"])
def test_default_scores(name):
    if name == "labels":
        model = logistic(private=False, epsilon=None).fit(X, Y)
        scorer, (low, high) = search.default_scorer(model, 3)
        each = [scorer(model, X[i : i + 1], Y[i : i + 1]) for i in range(120)]
        assert np.mean(each) == pytest.approx(np.log(model.predict_proba(X)[np.arange(120), Y]).mean())
        assert scorer(model, X[:1], np.array([7])) == -700.0 and high == 0.0
    else:
        model = LatentDirichletAllocation(2, private=False, n_steps=3, random_state=0).fit(COUNTS)
        scorer, (low, high) = search.default_scorer(model, 8)
        each = [scorer(model, COUNTS[i : i + 1], None) for i in range(60)]
        assert np.dot(each, COUNTS.sum(axis=1)) == pytest.approx(model.score(COUNTS))
        assert low <= scorer(model, np.zeros((1, 8), int), None) <= high
    assert low < min(each) < max(each) < high or name == "labels"


# -- bad records --------------------------------------------------------------------------------


BITS = RNG.integers(0, 2, size=(60, 6))
#: An estimator, good rows with labels, and rows that no fit takes.
BAD = {
    "logistic": (
        lambda: logistic(invalid="drop", classes=[0, 1]),
        X[:60],
        Y[:60],
        [[math.nan, 0, 0], [math.inf, 0, 0]],
    ),
    "labels": (lambda: logistic(invalid="drop", classes=[0, 1]), X[:60], Y[:60], [[0.0, 0, 0]] * 2),
    "topics": (
        lambda: LatentDirichletAllocation(2, doc_length=8, epsilon=2.0, n_steps=2, invalid="drop"),
        COUNTS.astype(float),
        None,
        [[-1.0] + [0] * 7, [0.5] + [0] * 7],
    ),
    "network": (
        lambda: SigmoidBeliefNetwork(2, epsilon=2.0, n_steps=2, invalid="drop"),
        BITS.astype(float),
        None,
        [[2.0] * 6, [math.nan] * 6],
    ),
}


@pytest.mark.parametrize("held_out", [0.05, 0.95])
@pytest.mark.parametrize("name", BAD)
def test_a_search_drops_bad_records_wherever_they_fall(name, held_out):
    """Bad records fall out of fits, of scores and of persons.

    Beside good rows of their person or not; a score is of the good rows.
    """
    make, rows, labels, bad = BAD[name]
    rows = np.vstack([rows, bad])
    if labels is not None:
        labels = np.append(labels, [math.nan, 7] if name == "labels" else [0, 1])
    for groups in (None, np.arange(len(rows)) // 3, [None, *range(len(rows) - 2), ""]):
        whose = {} if groups is None else {"groups": groups}
        for seed in range(4):
            key = hashlib.sha256(b"%d" % seed).digest()
            made = searched([{}], make(), key, held_out=held_out, mean_runs=1.0)
            assert math.isfinite(made.fit(rows, labels, on_forecast=lambda _: None, **whose).best_score_)
    model = make().set_params(n_records=60).set_unsafe(test_key=KEY).fit(rows, labels)
    scorer, (low, _) = search.default_scorer(model, rows.shape[1])
    good = np.arange(len(rows) - 2)
    both, alone = (
        scorer(model, rows[at], None if labels is None else labels[at]) for at in (np.arange(len(rows)), good)
    )
    assert both == alone or name == "labels"
    with pytest.raises(ValueError):
        searched([{}], make().set_params(invalid="raise")).fit(rows, labels)


def test_an_error_of_the_scorer_tells_nothing(caplog):
    """Neither of the rows of one unit nor of all.

    It is the least score.
    """

    limits = iter([1.0, -math.inf])

    def scorer(model, rows, labels):
        if rows[0, 0] > limit:
            raise ValueError(f"secret {rows[0, 0]}")
        return "3" if rows[0, 0] > 0 else None

    for limit in limits:
        base = logistic(epsilon=None, noise_multiplier=1.0)
        found = searched([{}], base, scorer=scorer, score_range=(0.0, 3.0), score_noise=1e-4, held_out=0.5).fit(X, Y)
        assert (0.1 if limit > 0 else -1e-3) < found.best_score_ < (3.0 if limit > 0 else 1e-3)
    assert "secret" not in caplog.text


def test_a_run_that_fails_is_no_refusal(monkeypatch):
    """A ValueError would claim that nothing is spent.

    It could quote a record.
    """

    class Failing(BayesianLogisticRegression):
        def _fit(self, X, y=None, **how):
            raise ValueError(f"secret {X[0, 0]}")

    base = Failing(epsilon=2.0, n_steps=2, classes=[0, 1])
    with pytest.raises(
        search.SearchError, match=r"^a run of the search failed \(ValueError\); its epsilon is spent$"
    ) as said:
        searched([{}], base=base).fit(X, Y)
    assert said.value.__suppress_context__


def test_persons_of_a_search_have_one_form():
    """Two spellings of a person are one unit.

    Rows of nobody are in no share.
    """
    judged, kept = [], [None, "1", 1.0, " 1", 2, "2.0", ""] * 10

    def scorer(model, rows, labels):
        judged.append(tuple(sorted(rows[:, 0])))
        return 0.5

    rows = np.column_stack([np.arange(70.0), X[:70, :2]])
    made = searched([{}], logistic(invalid="drop"), scorer=scorer, score_range=(0.0, 1.0), held_out=0.9, mean_runs=1.0)
    made.fit(rows, Y[:70], groups=kept)
    persons = {tuple(float(row) for row in range(70) if row % 7 in which) for which in ((1, 2, 3), (4, 5))}
    assert set(judged) <= persons and judged


# -- the budget ---------------------------------------------------------------------------------


def test_the_budget_is_charged_once_and_first(tmp_path, monkeypatch):
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="d")
    found = searched(key=None, base=logistic(epsilon=None)).fit(X, Y, budget=budget)
    (run,) = budget.show()["runs"]
    assert (run["reserved"], run["drawn"], run["what"]) == (1, 1, "PrivateSearch BayesianLogisticRegression")
    assert acc.event_from_dict(run["event"]) == found.best_estimator_.ledger_.event()
    assert 2.9 < budget.spent <= 3.0 and found.privacy_.epsilon <= budget.spent
    assert found.best_estimator_.ledger_.budget["budget"] == budget.identity
    with pytest.raises(BudgetExceededError):
        searched(key=None).fit(X, Y, budget=budget)
    # A search that ends early has spent all of it; one that cannot begin, nothing.
    other = Budget.create(tmp_path / "c", 3.0, 1e-5, dataset="d")
    monkeypatch.setattr(BayesianLogisticRegression, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    for bad in ({"row_norm": [1.0, -1.0]}, {"row_norm": []}):
        with pytest.raises(ValueError):
            searched(bad, key=None).fit(X, Y, budget=other)
    with pytest.raises(ValueError):
        searched(key=None).fit(np.full((120, 3), np.nan), Y, budget=other)
    assert other.spent == 0.0
    with pytest.raises(KeyboardInterrupt):
        searched(key=None).fit(X, Y, budget=other)
    assert other.spent > 1.9


def test_no_run_is_an_error_that_says_so():
    with pytest.raises(search.NoRunError, match="its epsilon is spent"):
        searched(mean_runs=1e-6, shape=None).fit(X, Y)


def test_topics_of_authors():
    base = LatentDirichletAllocation(2, epsilon=3.0, n_steps=2, random_state=0)
    found = searched({"n_components": [2, 3], "clip": [0.1, 1.0]}, base=base, key=None, shape=0.0)
    found.fit(COUNTS, groups=np.arange(60) // 2, unit="author")
    assert found.best_estimator_.components_.shape == (found.best_params_["n_components"], 8)
    assert found.privacy_.unit == "author" and found.privacy_.epsilon <= 3.0


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: PrivateSearch(3, NORMS), TypeError, "estimator"),
        (lambda: searched(base=logistic(private=False)), ValueError, "private"),
        (lambda: searched({"n_steps": [1, 2]}), ValueError, "'n_steps' is not to be searched"),
        (lambda: searched({"width": [1, 2]}), ValueError, "'width' is not to be searched"),
        (lambda: searched([]), ValueError, "at least one"),
        (lambda: searched(mean_runs=0.5), ValueError, "mean"),
        (lambda: searched(shape=-1.0), ValueError, "shape"),
        (lambda: searched(held_out=1.0), ValueError, "held_out"),
        (lambda: searched(score="train"), ValueError, "score"),
        (lambda: searched(score="public"), ValueError, "X_public"),
        (lambda: searched(score_range=(1.0, 0.0)), ValueError, "score_range"),
        (lambda: searched(scorer=lambda *_: 0.0), ValueError, "public range"),
        (lambda: searched(score_noise=0.0), ValueError, "score_noise"),
        (lambda: searched(base=logistic(noise_multiplier=1.0, epsilon=0.1)), ValueError, "noise_multiplier=1"),
        (lambda: searched(base=logistic(sampling="random_allocation", batch_size=60)), ValueError, "no Renyi bound"),
        (lambda: searched(base=logistic(n_trials=3.0)), ValueError, "scorer=None"),
    ],
)
def test_refused(make, error, match):
    with pytest.raises(error, match=match):
        make().fit(X, Y)


def test_a_known_key_taints_and_no_budget_pays_for_it(tmp_path):
    found = searched().fit(X, Y)
    assert not found.privacy_.private and "test_key" in found.privacy_.statement()
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="d")
    with pytest.raises(ValueError, match="known key"):
        searched().fit(X, Y, budget=budget)
    assert budget.spent == 0.0
    again = searched().fit(X, Y)
    assert np.array_equal(found.best_estimator_.coef_, again.best_estimator_.coef_)
    with pytest.raises(search.NotFittedError):
        _ = searched().best_params_


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_private_score_takes_a_fifth_of_a_runs_divergence(epsilon):
    """A run has nearly all that the choice leaves to it."""
    sampler = sampling.FullSampler(1000)
    asked = PrivateSearch(logistic(epsilon=epsilon), NORMS, mean_runs=5, shape=0)
    z = acc.calibrate_noise_multiplier(lambda noise: asked.event(sampler, 20, noise), epsilon, 1e-5)
    score, run = asked.event(sampler, 20, z).event.events
    assert acc.renyi_divergence(score, 8.0) == pytest.approx(0.2 * acc.renyi_divergence(run, 8.0), rel=1e-9)
    # The choice takes about half; the score takes about a tenth of the rest.
    whole = acc.epsilon(asked.event(sampler, 20, z).event, 1e-5)
    assert 0.85 * whole < acc.epsilon(run, 1e-5) < whole < 0.65 * epsilon
