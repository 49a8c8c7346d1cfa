"""Calls of ``partial_fit`` about parts of a data set. Their sums in ledgers, words, files and budgets."""

import copy
import json

import numpy as np
import pytest
from cases import CASES
from runs import Unread

from vips_fast import accounting as acc
from vips_fast.engine import filters
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.ledger import Ledger
from vips_fast.jobs.publication import verify

ALL = pytest.mark.parametrize("name", CASES)
ASSUMED = "Each record is assumed to lie in only one of the {} parts; the program does not check this."


def whole(z, relation="add_remove"):
    return acc.GaussianEvent(z, relation)


def times(event, count, delta=1e-5):
    return acc.epsilon(acc.SelfComposedEvent(event, count), delta)


def called(event, count, delta=1e-5):
    """Up to 9 equal calls that nobody planned. The odometer has a level for each number, with its share of delta."""
    return times(event, count, delta * (0.5 if count == 1 else 0.375 / (count * (count - 1))))


def private(name, **options):
    """Return an estimator of the case within its guarantee. The paper's sensitivity of the topic model is not."""
    make, data = CASES[name]
    if name == "lda-paper":
        options = {"sampling": "poisson", "batch_size": 50, **options}
    return make(**options), data


# ---------------------------------------------------------------------- models


def test_four_disjoint_parts_cost_what_one_does():
    """The figures of docs/jobs.md. 1.50 for four nights, where four calls about all records are 3.56."""
    make, data = CASES["lda"]
    parallel, sequence = (make(noise_multiplier=3.0, delta=1e-6) for _ in "ab")
    for night in range(4):
        parallel.partial_fit(*data(seed=night), part=f"2026-11-{20 + night}")
        sequence.partial_fit(*data(seed=night))
    assert parallel.privacy_.epsilon == pytest.approx(called(whole(3.0), 1, 1e-6)) == pytest.approx(1.498, abs=1e-3)
    assert sequence.privacy_.epsilon == pytest.approx(called(whole(3.0), 4, 1e-6)) == pytest.approx(3.558, abs=1e-3)
    assert ASSUMED.format(4) in str(parallel.privacy_) and "ssumed" not in str(sequence.privacy_)


@ALL
def test_parts_compose_in_parallel_and_a_part_in_sequence(name, tmp_path):
    """Parts b, a, a and all records: not the first is the worst. Files, releases and ledger each say the same."""
    estimator, data = private(name, epsilon=None)
    event = whole(2.0, "replace_one" if estimator.sampling == "without_replacement" else "add_remove")
    spent = []
    for seed, part in enumerate(("b", "a", "a", None)):
        estimator.partial_fit(*data(seed=seed), part=part, transcript=tmp_path / "t")
        spent.append(estimator.privacy_.epsilon)
    assert estimator.privacy_.private
    assert spent == [pytest.approx(called(event, count), rel=1e-9) for count in (1, 1, 2, 3)]
    assert estimator.privacy_.parts == estimator.ledger_.parts == ("b", "a")
    assert estimator.ledger_.spent == {("a", event): 2, ("b", event): 1, (None, event): 1}
    said = str(estimator.privacy_)
    assert ASSUMED.format(2) in said and ("by another of the same part" in said) == (event.relation == "replace_one")
    estimator.save(tmp_path / "m")
    back = type(estimator).load(tmp_path / "m")
    assert str(back.privacy_) == said and back.privacy_ == estimator.privacy_
    again = Ledger.from_dict(json.loads(json.dumps(back.ledger_.to_dict())))
    assert again.epsilon(1e-5) == spent[-1] and again.parts == ("b", "a")
    report = verify(tmp_path / "m", tmp_path / "t", cls=type(estimator))
    assert report.ok, report.text()
    back.partial_fit(*data(), part="c")
    assert back.privacy_.epsilon == spent[-1] and back.privacy_.parts == ("b", "a", "c")


@ALL
def test_a_fit_reads_all_records(name):
    """What is fitted to the whole counts against every part."""
    estimator, data = private(name)
    estimator.fit(*data())
    before = estimator.ledger_.event()
    event = whole(2.0, before.relation)
    for part in ("a", "b"):
        estimator.partial_fit(*data(seed=1), part=part)
        fixed, share = filters.odometer({before: 1}, {event: 1}, 1e-5)
        assert estimator.privacy_.epsilon == pytest.approx(acc.epsilon(fixed, share * 1e-5), rel=1e-9)
        assert estimator.privacy_.epsilon > acc.epsilon(acc.ComposedEvent((before, event)), 1e-5)


@ALL
def test_rows_do_not_matter_where_the_number_of_a_part_is_given(name):
    """Plan, scale and refusals come from the public number. It is the call's, or the estimator's; no row shows."""
    make, data = CASES[name]
    full = dict(sampling="full", options={"relation": "add_remove"})
    labels = {"classes": [0, 1]} if name.startswith("logistic") else {}
    for settings, call, size in (
        ({}, {"n_records": 70}, 70),
        ({"n_records": 90}, {}, 90),
        ({"n_records": 90}, {"n_records": 70}, 70),
        ({"n_records": 90, "batch_size": 80}, {}, 80),
        ({"batch_size": 80}, {"n_records": 70}, 70),
    ):
        seen = []
        for n in (0, 20, 70, 400):
            estimator = make(**full, **settings, **labels)
            stage = estimator.prepare(*(part[:n] for part in data(400)), partial=True, part="a", **call)
            seen.append((stage.plan.public(), stage.model.capacity, stage.planned.request.public.to_dict()))
            estimator.partial_fit(*(part[:n] for part in data(400)), part="a", **call)
            assert estimator.privacy_.n_records == size
        assert all(one == seen[0] for one in seen) and seen[0][0]["batch_size"] == size
    with pytest.raises(ValueError, match="batch_size=None"):
        make(**full, n_records=90).partial_fit(*data())
    with pytest.raises(ValueError, match="no rows"):
        make(**full, **labels).partial_fit(*(part[:0] for part in data()), part="a")


def test_a_target_bounds_every_part():
    make, data = CASES["own"]
    capped = make(epsilon=times(whole(2.0), 2) + 1e-6)
    for part in ("a", "b", "a", "b"):
        capped.partial_fit(*data(), part=part)
    held = capped.ledger_.head
    for part in ("a", None):
        with pytest.raises(ValueError, match="noise_multiplier=2.*expected at most epsilon"):
            capped.partial_fit(*data(), part=part)
    assert capped.ledger_.head == held
    capped.partial_fit(*data(), part="c").partial_fit(*data(), part="c")
    assert capped.privacy_.epsilon == capped.epsilon and "a limit that was reserved" in str(capped.privacy_)
    for other in (None, 9.0):  # a limit that calls may leave is no limit
        with pytest.raises(ValueError, match="the first call reserved 2.944 for all calls; expected the same"):
            capped.set_params(epsilon=other).partial_fit(*data(), part="d")


@pytest.mark.parametrize("part", ["", " ", "a ", "\ta", "a\nb", 7, b"a", ["a"], float("nan")])
def test_a_part_has_a_name(part, tmp_path):
    make, data = CASES["logistic"]
    estimator = make(n_records=200)
    with pytest.raises(ValueError, match="part=.*expected a name"):
        estimator.partial_fit(Unread(), Unread(), part=part)
    with pytest.raises(ValueError, match="part=.*expected a name"):
        Ledger().intend(whole(1.0), clip_norm=1.0, sensitivity=1.0, part=part)
    budget = Budget.create(tmp_path / "b", 3.0, 1e-5, dataset="ward7")
    if not isinstance(part, list):
        with pytest.raises(ValueError, match="part=.*expected a name"):
            budget.reserve(whole(20.0), 1, part=part)
    assert budget.show()["runs"] == [] and estimator._result is None


@pytest.mark.parametrize("n_records", [0, -1, 2.5, True, "7", 2**40])
def test_a_part_has_a_number_of_records(n_records):
    make, _ = CASES["logistic"]
    with pytest.raises(ValueError, match=r"n_records=.*expected an integer in \[1"):
        make().partial_fit(Unread(), Unread(), part="a", n_records=n_records)


# --------------------------------------------------------------------- budgets


@pytest.mark.parametrize("kind", ["gaussian", "renyi"])
def test_a_budget_keeps_an_account_for_each_part(kind, tmp_path):
    """Random charges against the filter of each part's records. Refused if and only if one would pass."""
    rng, budget = np.random.default_rng(0), Budget.create(tmp_path / "b", 2.0, 1e-6, dataset="ward7", filter=kind)
    drawn, refused = [], 0

    def filtered(part, runs):
        counts = {}
        for own, event, count in runs:
            if own in (None, part):
                counts[event] = counts.get(event, 0) + count
        if kind == "gaussian":
            return filters.gaussian_filter_epsilon(counts, 1e-6)
        return filters.renyi_filter_epsilon(counts, 1e-6, filters.renyi_orders(2.0, 1e-6))

    for _ in range(60):
        part, count = rng.choice(["a", "b", "c", None], p=[0.3, 0.3, 0.3, 0.1]), int(rng.integers(1, 4))
        z = float(rng.choice([6.0, 12.0, 30.0]))
        would = [*drawn, (part, whole(z), count)]
        fits = max(filtered(one, would) for one in "abc") <= 2.0
        try:
            with budget.reserve(whole(z), count, part=part) as held:
                for _ in range(count):
                    held.release()
            drawn = would
        except BudgetExceededError as error:
            refused += 1
            assert not fits, error
            continue
        assert fits and budget.spent == pytest.approx(max(filtered(one, drawn) for one in "abc"), rel=1e-9)
    named = {part for part, _, _ in drawn} - {None}
    assert refused > 5 and len(named) == 3
    assert budget.show()["parts"] == {one: pytest.approx(filtered(one, drawn), rel=1e-9) for one in named}
    assert Budget(tmp_path / "b").spent == copy.copy(budget).spent == budget.spent
    # In sequence they would be far above the limit: only the parts make them fit.
    assert filtered(None, [(None, event, count) for _, event, count in drawn]) > 2.5


def test_what_is_reserved_or_torn_counts_in_its_own_part(tmp_path):
    path = tmp_path / "b"
    budget = Budget.create(path, times(whole(4.0), 4, 1e-6) * 1.0001, 1e-6, dataset="ward7")
    held = {part: budget.reserve(whole(4.0), 3, part=part) for part in "ab"}
    with pytest.raises(BudgetExceededError):
        budget.check(whole(4.0), 2, part="a")
    with pytest.raises(BudgetExceededError):
        budget.check(whole(4.0), 2)
    budget.check(whole(4.0), 4, part="c")
    budget.check(whole(4.0), 1)
    held["b"].close()
    held["a"].release()
    path.write_bytes(path.read_bytes()[:-5])
    torn = Budget(path)
    assert torn.show()["parts"] == {"a": pytest.approx(times(whole(4.0), 3, 1e-6))}
    assert torn.spent == pytest.approx(times(whole(4.0), 3, 1e-6))
    torn.check(whole(4.0), 4, part="b")
    with pytest.raises(BudgetExceededError):
        torn.check(whole(4.0), 2, part="a")


@ALL
def test_a_call_about_a_part_charges_its_account(name, tmp_path):
    estimator, data = private(name)
    relation = "replace_one" if estimator.sampling == "without_replacement" else "add_remove"
    budget = Budget.create(tmp_path / "b", times(whole(2.0), 2) * 1.0001, 1e-5, dataset="ward7", relation=relation)
    other, _ = private(name)
    for part in "ab":
        estimator.partial_fit(*data(), part=part, budget=budget)
        other.partial_fit(*data(), part=part, budget=budget)
        assert budget.spent == pytest.approx(times(whole(2.0), 2), rel=1e-9)
    assert [run["part"] for run in budget.show()["runs"]] == ["a", "a", "b", "b"]
    for part in ("a", None):
        with pytest.raises(BudgetExceededError):
            estimator.partial_fit(*data(), part=part, budget=budget)
    estimator.partial_fit(*data(), part="c", budget=budget)
    # With only public numbers, a refusal comes before the data are read.
    with pytest.raises(BudgetExceededError):
        estimator.partial_fit(Unread(), Unread(), part="a", n_records=200, budget=budget)
