"""Test one ledger, statement and budget for words and topics."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csr_array
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from vips_fast import LatentDirichletAllocation, PrivateVocabulary, verify
from vips_fast.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    epsilon,
)
from vips_fast.engine.budget import Budget, BudgetExceededError
from vips_fast.engine.filters import gaussian_filter_epsilon, leaked, without_leaks
from vips_fast.models.vocabulary import TokenRows

TEXTS = ["red green blue " * 3, "one two three", "red two blue", "green one"] * 100


def purchased(**options):
    return PrivateVocabulary(epsilon=3.0, delta=1e-5, max_tokens=20, **options)


def topics(**options):
    options = dict(epsilon=4.0, batch_size=200) | options
    return LatentDirichletAllocation(n_components=2, doc_length=10, n_steps=5, delta=1e-5, n_records=400, **options)


def test_one_statement_covers_both(tmp_path):
    words = purchased()
    counts = words.fit_transform(TEXTS)
    model = topics().fit(counts, after=words, transcript=tmp_path / "t", checkpoint=tmp_path / "c")
    both = ComposedEvent((words.ledger_.event(), model.ledger_.event()))
    assert 3.9 < model.privacy_.epsilon <= 4.0 and model.privacy_.vocabulary
    assert "vocabulary is included" in str(model.privacy_) and model.privacy_.steps == 5
    assert epsilon(both, 1e-5) > model.privacy_.epsilon  # the model's ledger has the vocabulary's releases already
    assert model.ledger_.plan["purchase"]["head"] == words.ledger_.head
    with pytest.warns(UserWarning, match="does not carry the purchase"):
        alone = topics(noise_multiplier=model.privacy_.noise_multiplier).fit(csr_array(counts))
    assert alone.privacy_.epsilon < 3.5 and not alone.privacy_.vocabulary
    assert epsilon(ComposedEvent((words.ledger_.event(), alone.ledger_.event())), 1e-5) == model.privacy_.epsilon
    model.save(tmp_path / "m")
    assert LatentDirichletAllocation.load(tmp_path / "m").privacy_ == model.privacy_
    assert verify(tmp_path / "m", tmp_path / "t").ok


def test_a_budget_pays_for_both_and_the_vocabulary_comes_first(tmp_path):
    def budget(name):
        Budget.create(tmp_path / name, epsilon=5.0, delta=1e-5, dataset="d", unit="record", relation="add_remove")
        return Budget(tmp_path / name)

    first = budget("first")
    words = purchased(n_records=400)
    counts = words.fit(TEXTS, budget=first).transform(TEXTS)
    assert 3.0 <= first.spent < 4.0
    model = topics(epsilon=None).fit(counts, after=words, budget=first)
    assert 4.9 < first.spent <= 5.0 and model.privacy_.epsilon < first.spent and model.privacy_.vocabulary
    with pytest.raises(BudgetExceededError):
        purchased().fit(TEXTS, budget=first)
    later = budget("later")
    with pytest.raises(ValueError, match="did not pay for the vocabulary purchase"):
        topics(epsilon=4.0).fit(counts, budget=later)
    assert later.spent == 0.0
    with pytest.warns(UserWarning, match="does not carry the purchase"):
        topics(epsilon=1.0).fit(csr_array(counts), budget=later)
    with pytest.raises(BudgetExceededError):
        purchased().fit(TEXTS, budget=later)
    assert Budget(tmp_path / "first").spent == first.spent


@pytest.mark.parametrize("kind, fits", [("gaussian", 4.0), ("renyi", 3.5)])
def test_a_target_that_words_have_spent_of_is_charged_once(tmp_path, kind, fits):
    """The topics pay for the target's rest after the words. They do not pay for all of it."""
    Budget.create(
        tmp_path / "b", 4.0, 1e-5, dataset="d", unit="record", relation="add_remove", filter=kind, purchases=1
    )
    words = PrivateVocabulary(epsilon=2.0, delta=1e-5, max_tokens=20, n_records=400)
    counts, budget = words.fit(TEXTS, budget=tmp_path / "b").transform(TEXTS), Budget(tmp_path / "b")
    with pytest.raises(BudgetExceededError):
        topics(epsilon=fits + 0.2, batch_size=400).fit(counts, after=words, budget=budget)
    model = topics(epsilon=fits, batch_size=400).fit(counts, after=words, budget=budget)
    assert fits - 0.01 < model.privacy_.epsilon <= fits and 3.9 < budget.spent <= 4.0


def test_what_was_reserved_is_given_back_where_the_texts_sets_cannot_be_made(tmp_path, monkeypatch):
    Budget.create(tmp_path / "b", epsilon=5.0, delta=1e-5, dataset="d", unit="record", relation="add_remove")
    budget, left = Budget(tmp_path / "b"), []

    def fail(*_):
        left.append(budget.left)
        raise OSError("no room")

    monkeypatch.setattr(TokenRows, "sets", fail)
    with pytest.raises(OSError, match="no room"):
        purchased().prepare(TEXTS, budget=budget)
    assert left[0] < 3.0 and budget.left == 5.0 and budget.spent == 0.0


def leak(delta):
    return ComposedEvent((GaussianEvent(8.0, "add_remove"), ApproximateDPEvent(0.0, delta, "add_remove")))


LEAK = leak(1e-6)


def of_delta(path, delta=1e-5, **options):
    options = dict(epsilon=50.0, dataset="d", unit="record", relation="add_remove", filter="gaussian") | options
    return Budget.create(path, delta=delta, **options)


def draw(budget, event, count, drawn=None):
    with budget.reserve(event, count) as run:
        for _ in range(count if drawn is None else drawn):
            run.release()


def test_leaks_share_a_pot_and_everything_else_has_the_rest(tmp_path):
    """Whatever the order and number of purchases; the delta is the filter's, and never changes."""
    budget = of_delta(tmp_path / "b")
    assert leaked({LEAK: 4}) == pytest.approx(4e-6) and leaked({LEAK: 4}) >= 4e-6
    assert without_leaks({LEAK: 4}) == {GaussianEvent(8.0, "add_remove"): 4}
    rounds = {SelfComposedEvent(LEAK, 2): 2}
    assert leaked(rounds) == leaked({LEAK: 4}) and without_leaks(rounds) == without_leaks({LEAK: 4})
    with pytest.raises(BudgetExceededError, match="no further vocabulary purchase"):
        budget.reserve(LEAK, 4)  # 4e-6 is more than the pot, even for the first
    assert budget.purchase_delta == pytest.approx(2.5e-6 / 16, rel=1e-6)
    for number in range(1, 6):
        draw(budget, leak(1.2e-7), 4, drawn=3 if number == 5 else 4)
        rest = gaussian_filter_epsilon({GaussianEvent(8.0, "add_remove"): min(4 * number, 19)}, 7.5e-6)
        assert budget.spent == pytest.approx(rest, rel=1e-9)
        assert budget.show()["purchases"]["delta_left"] == pytest.approx(2.5e-6 - 1.2e-7 * min(4 * number, 19))
    with pytest.raises(BudgetExceededError, match="purchases=N"):
        draw(budget, leak(1.2e-7), 2)
    draw(budget, leak(1.2e-7), 1)  # three of four rounds were drawn above: the rest was given back
    # More than half a share is left, which is enough for a purchase, and then less.
    assert budget.purchase_delta == pytest.approx(1e-7, rel=1e-6)
    draw(budget, leak(5e-8), 1)
    with pytest.raises(BudgetExceededError, match="5e-08 left of the delta of 2.5e-06 that 16 share"):
        _ = budget.purchase_delta
    draw(budget, PoissonSampledEvent(0.5, GaussianEvent(8.0, "add_remove")), 1)
    assert Budget(tmp_path / "b").spent == budget.spent < 50


def test_the_rule_is_fixed_ahead(tmp_path):
    first = of_delta(tmp_path / "none-first")
    draw(first, GaussianEvent(8.0, "add_remove"), 1)
    assert first.spent == gaussian_filter_epsilon({GaussianEvent(8.0, "add_remove"): 1}, 1e-5)
    with pytest.raises(BudgetExceededError, match="sets no delta apart for them, as its first run was another"):
        draw(first, leak(1e-9), 1)
    always = of_delta(tmp_path / "always", purchases=2)
    draw(always, GaussianEvent(8.0, "add_remove"), 1)
    assert always.spent == gaussian_filter_epsilon({GaussianEvent(8.0, "add_remove"): 1}, 7.5e-6)
    assert always.purchase_delta == pytest.approx(1.25e-6, rel=1e-5)
    for budget, apart in ((always, " of which 2.5e-06 is set apart for vocabulary purchases"), (first, "")):
        with pytest.raises(BudgetExceededError, match=rf"at delta = 1e-05,?{apart} \("):
            draw(budget, GaussianEvent(8.0, "add_remove"), 10**6)
    said = always.show()["purchases"]
    assert (said["number"], said["left"], said["fixed"]) == (2, 2, True)
    assert not of_delta(tmp_path / "never", purchases=0).show()["purchases"]["delta"]
    with pytest.raises(ValueError, match="purchases"):
        of_delta(tmp_path / "bad", purchases=-1)


def test_as_many_nights_as_purchases(tmp_path):
    budget = of_delta(tmp_path / "b", purchases=2)
    for left in (1, 0):
        words = purchased(n_records=400)
        counts = words.fit(TEXTS, budget=budget).transform(TEXTS)
        assert words._result.settings["threshold_delta"] == pytest.approx(1.25e-6, rel=1e-5)
        topics(epsilon=5.0).fit(counts, after=words, budget=budget)
        assert budget.show()["purchases"]["left"] == left
    spent = budget.spent
    assert leaked(without_parts(budget)) <= 2.5e-6 and spent < float("inf")
    with pytest.raises(BudgetExceededError, match="no further vocabulary purchase.*public"):
        purchased(n_records=400).fit(TEXTS, budget=budget)
    assert budget.spent == spent
    topics(epsilon=5.0).fit(counts, budget=budget)


def without_parts(budget):
    with budget._reading() as state:
        return {event: count for (_, event), count in state.rest(reserved=True).items()}


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X[np.arange(400)],
        lambda X: X[:, :],
        lambda X: X[:300][::-1],
        lambda X: X[np.arange(400) % 2 == 0],
        lambda X: X.copy(),
        lambda X: X.astype(np.int64),
        lambda X: X.tocsc(),
        lambda X: X.tocoo(),
        lambda X: pickle.loads(pickle.dumps(X)),
        lambda X: copy.deepcopy(X),
        lambda X: train_test_split(X, random_state=0)[0],
        lambda X: SelectKBest(chi2, k="all").fit_transform(X, np.arange(X.shape[0]) % 2),
        lambda X: X.multiply(2).astype(np.int32),
    ],
)
def test_counts_carry_their_purchase(change):
    words = purchased().fit(TEXTS)
    counts = change(words.transform(TEXTS))
    model = topics().fit(counts)
    assert model.privacy_.vocabulary and model.ledger_.plan["purchase"]["head"] == words.ledger_.head
    called = topics(noise_multiplier=20.0, epsilon=None, batch_size=None).set_params(n_records=None)
    called.partial_fit(counts, n_records=400).partial_fit(counts, n_records=400)
    assert called.privacy_.vocabulary and called.privacy_.epsilon > words.privacy_.epsilon


@pytest.mark.parametrize(
    "change", [lambda X: sparse.vstack([X, X]), lambda X: X.toarray(), lambda X: sparse.csr_array(X)]
)
def test_where_counts_lose_their_purchase_the_fit_warns(change):
    words = purchased().fit(TEXTS)
    counts = change(words.transform(TEXTS))
    with pytest.warns(UserWarning, match="columns, as many as a vocabulary that this process purchased"):
        model = topics().fit(counts)
    assert not model.privacy_.vocabulary
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert topics().fit(counts, after=words).privacy_.vocabulary
        topics(private=False).fit(counts)
        topics().fit(np.ones((400, counts.shape[1] + 1), int))


def test_what_does_not_compose_is_refused():
    words, other = purchased().fit(TEXTS), purchased().fit(TEXTS)
    tainted = purchased().set_unsafe(test_key=bytes(32)).fit(TEXTS)
    counts = words.transform(TEXTS)
    spent = "expected more than 3, which .* a vocabulary purchase, has spent, .*; epsilon=5.9 leaves the rest"
    people = r"purchase is about one record \(add_remove\), this one about one person"
    for options, call, message in [
        (dict(epsilon=2.9), {}, spent),
        (dict(noise_multiplier=0.4), {}, "noise_multiplier=0.4 with 5 steps gives epsilon"),
        ({}, dict(groups=np.arange(400)), people),
        ({}, dict(after=tainted), "after: expected"),
        ({}, dict(after=other), "after: is another purchase"),
    ]:
        with pytest.raises(ValueError, match=message):
            topics(**options).fit(counts, **{"after": words, **call})
    with pytest.raises(ValueError, match="a vocabulary that is not private; expected public columns"):
        topics().fit(tainted.transform(TEXTS))
    topics().fit(counts, after=words)
    calls = dict(noise_multiplier=20.0, epsilon=None, batch_size=400)
    with pytest.warns(UserWarning, match="does not carry"):
        begun = topics(**calls).partial_fit(counts.toarray())
    with pytest.raises(ValueError, match="a vocabulary purchase that the earlier calls leave out"):
        begun.partial_fit(counts)
    with pytest.raises(ValueError, match="after: expected None in later calls"):
        begun.partial_fit(counts, after=words)


def test_a_pipeline_states_the_epsilon_of_both():
    words, model = make_pipeline(purchased(), topics()).fit(TEXTS)
    assert model.ledger_.plan["purchase"]["head"] == words.ledger_.head and model.privacy_.vocabulary
    assert 3.9 < model.privacy_.epsilon <= 4.0
    with pytest.raises(ValueError, match="epsilon=5.9 leaves the rest"):
        make_pipeline(purchased(), topics(epsilon=2.9)).fit(TEXTS)
