"""Words that move within planted topics are found.

None is invented, and the topics of a month are nearer to the planted ones than topics that stay.
"""

import numpy as np
import pytest

from vips_fast import DriftingTopics, LatentDirichletAllocation, TopicTables, verify
from vips_fast.engine.budget import Budget
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.lda.drift import read_drift
from vips_fast.report import html_report

K, EACH, PERIODS, PERSONS, LENGTH = 3, 30, 6, 1500, 25
V, NAMES = K * EACH, [f"month {p}" for p in range(6)]
#: In these topics the first word gives its share to the second, period by period.
MOVING = (0, 2)


def topics(period):
    """Plant topics with words of their own."""
    out, rng = np.zeros((K, V)), np.random.default_rng(5)
    for k in range(K):
        own = rng.dirichlet(np.full(EACH, 3.0))
        if k in MOVING:
            moved = 0.06 * period / (PERIODS - 1)
            own = np.array([0.07 - moved, 0.01 + moved, *(0.92 * own[2:] / own[2:].sum())])
        out[k, k * EACH : (k + 1) * EACH] = own
    return out


def corpus(seed=0, moves=True):
    """Draw counts, periods, and persons who come in several periods."""
    rng, found = np.random.default_rng(seed), []
    for period in range(PERIODS):
        theta = rng.dirichlet(np.full(K, 0.1), PERSONS)
        found += [rng.multinomial(LENGTH, one) for one in theta @ topics(period if moves else 0)]
    return np.array(found), np.repeat(NAMES, PERSONS), rng.integers(0, 4000, len(found))


#: Topics of all months together.
MEAN = np.mean([topics(period) for period in range(PERIODS)], axis=0)


def fit(seed=0, given=MEAN, moves=True, **how):
    X, dates, persons = corpus(seed, moves)
    model = DriftingTopics(NAMES, topics=given, doc_length=LENGTH, **{"epsilon": 1.0, **how})
    key = np.random.default_rng(seed).bytes(32)
    return model.set_unsafe(test_key=key).fit(X, dates, groups=persons)


@pytest.fixture
def exact(monkeypatch):
    """Note the sums before their noise."""
    seen, add_noise = [], GaussianMechanism.add_noise

    def noted(self, sums, *rest):
        seen.append(sums.copy())
        add_noise(self, sums, *rest)

    monkeypatch.setattr(GaussianMechanism, "add_noise", noted)
    return seen


def test_planted_words_are_found_with_their_intervals_and_none_is_invented(exact):
    covered, invented, errors = [], 0, []
    for seed in range(8):
        model = fit(seed)
        found, scales = model.drift(), model._model(model._fitted().public).entry_scales()
        sums = exact[-1].reshape(PERIODS, V, K).transpose(0, 2, 1) * scales
        truth = sums / sums.sum(axis=2, keepdims=True)
        covered.append((found.low <= truth) & (truth <= found.high))
        moved = set(found.moved())
        planted = {(k, k * EACH + j) for k in MOVING for j in (0, 1)}
        assert planted <= moved
        assert all(found.change[k, k * EACH] < 0 < found.change[k, k * EACH + 1] for k in MOVING)
        steps = np.arange(PERIODS) - (PERIODS - 1) / 2
        slope = np.einsum("p,pkv->kv", steps / (steps @ steps), truth)
        invented += bool(((slope < found.change_low) | (slope > found.change_high)).any())
        right = np.array([topics(period) for period in range(PERIODS)])
        raw = model._fitted().arrays["sums"]
        raw = raw / raw.sum(axis=2, keepdims=True)
        errors.append([np.abs(one - right).sum(axis=2).mean() / 2 for one in (found.topics, MEAN[None], raw)])
    assert 0.86 <= np.mean(covered) <= 0.94
    assert invented <= 3
    drifting, fixed, apart = np.mean(errors, axis=0)
    assert drifting < 0.7 * fixed and drifting < 0.7 * apart
    assert np.allclose(found.topics.sum(axis=2), 1.0) and (found.topics >= 0).all()


@pytest.mark.parametrize(("epsilon", "most"), [(1.0, 0.01), (4.0, 0.016)])
def test_topics_that_do_not_move_stay_as_they_were(epsilon, most):
    """With little noise the choice of documents moves words. It does so by .02 in a month by itself."""
    found = [fit(seed, topics(0), moves=False, epsilon=epsilon).drift() for seed in range(6)]
    assert sum(bool(one.moved()) for one in found) <= 3
    assert np.mean([np.abs(one.topics - topics(0)).sum(axis=2).mean() / 2 for one in found]) < most


def test_a_months_hidden_topic_is_the_topic_given():
    model = fit(epsilon=None, noise_multiplier=2000.0)
    found = model.drift()
    assert np.allclose(found.topics, MEAN, atol=1e-5)
    assert (found.low == 0).all() and (found.high == 1).all() and not found.moved() and len(found.rows()) == 1


def test_without_noise_the_topics_are_those_of_the_documents():
    X, dates, _ = corpus()
    model = DriftingTopics(NAMES, topics=MEAN, doc_length=LENGTH, private=False).fit(X, dates)
    right = np.array([topics(period) for period in range(PERIODS)])
    assert np.abs(model.drift().topics - right).sum(axis=2).mean() / 2 < 0.05


def test_a_document_of_another_month_contributes_nothing():
    X, dates, persons = corpus()
    key = bytes(32)
    some = dates != "month 5"
    how = {"topics": MEAN, "doc_length": LENGTH, "noise_multiplier": 4.0, "n_records": 4000}
    late = dates.astype(object)
    late[~some] = "month 9"
    every, fewer = (
        DriftingTopics(NAMES, **how).set_unsafe(test_key=key).fit(*data)
        for data in ((X, late), (np.where(some[:, None], X, 0), dates))
    )
    assert np.array_equal(*(one._fitted().arrays["sums"] for one in (every, fewer)))
    assert np.abs(every._fitted().arrays["sums"][5]).mean() > 0  # a month without documents is a month of noise


def test_the_statement_is_about_persons_and_the_model_before():
    X, dates, persons = corpus()
    whose = {"groups": persons, "unit": "patient"}
    model = LatentDirichletAllocation(K, doc_length=LENGTH, noise_multiplier=12.0, n_steps=6, random_state=0)
    model.fit(X, **whose)
    drifting = DriftingTopics(NAMES, topics=model.components_, doc_length=LENGTH, epsilon=3.0)
    drifting.fit(X, dates, after=model, **whose)
    assert max(model.privacy_.epsilon, 3.0) < drifting.privacy_.epsilon <= model.privacy_.epsilon + 3.0
    assert drifting.privacy_.unit == "patient" and "part" not in drifting.privacy_.statement()
    tables = TopicTables({"month": NAMES}, epsilon=3.5).fit(model.transform(X), dates, after=drifting, **whose)
    words = [f"w{v}" for v in range(V)]
    page = html_report(model, tables=[drifting, tables], names=words)
    assert "Words of topics over time" in page and page.count("points from one period to the next") >= 4
    with pytest.raises(ValueError, match="expected fitted TopicTables or DriftingTopics"):
        html_report(model, tables=[model])


def test_a_run_is_paid_resumed_saved_and_verified(tmp_path):
    X, dates, persons = corpus()
    budget = Budget.create(tmp_path / "budget", 1.0, 1e-6, dataset="notes", unit="person")
    model = DriftingTopics(NAMES, topics=MEAN, doc_length=LENGTH, epsilon=1.0, delta=1e-6)
    model.fit(X, dates, groups=persons, budget=budget, transcript=tmp_path / "t").save(tmp_path / "m")
    assert 0.99 < Budget(tmp_path / "budget").spent <= 1.0 + 1e-9
    loaded = DriftingTopics.load(tmp_path / "m")
    assert np.array_equal(loaded.drift().topics, model.drift().topics) and verify(tmp_path / "m", tmp_path / "t").ok
    rows = loaded.drift().rows()
    assert rows[0] == ["topic", "word", "period", "share", "low", "high"] and len(rows) % PERIODS == 1 and rows[1:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"periods": "May"}, "periods='May': expected at least two different texts"),
        ({"periods": ["May", "May"]}, "expected at least two different texts"),
        ({"periods": ["May"]}, "expected at least two different texts"),
        ({"periods": [1, 2]}, "expected at least two different texts"),
        ({"topics": None}, r"topics of shape \(0,\): expected \(K, V\) weights of words"),
        ({"topics": -MEAN}, "expected .* weights of words >= 0"),
        ({"topics": 0 * MEAN}, "expected .* weights of words >= 0"),
        ({"topics": MEAN[:, 1:]}, f"X has {V} columns: expected {V - 1}"),
        ({"dates": None}, "y=None: expected the period of each row of X"),
        ({"dates": NAMES}, f"y has {PERIODS} values: expected 20"),
        ({"clip": 2}, "clip=2"),
        ({"doc_length": 0}, "doc_length=0"),
    ],
)
def test_unusable_settings_spend_nothing(tmp_path, change, message):
    budget = Budget.create(tmp_path / "budget", 1.0, 1e-6, dataset="notes", unit="record")
    how = {"periods": NAMES, "topics": MEAN, "epsilon": 1.0, "delta": 1e-6, **change}
    dates = how.pop("dates", ["month 0"] * 20)
    with pytest.raises(ValueError, match=message):
        DriftingTopics(**how).fit(np.ones((20, V), int), dates, budget=budget)
    assert Budget(tmp_path / "budget").spent == 0


def test_the_forecast_is_near_the_width_of_the_intervals_and_warns_before_it_spends(tmp_path):
    told = []
    X, dates, persons = corpus()
    model = DriftingTopics(NAMES, topics=MEAN, doc_length=LENGTH, epsilon=1.0)
    model.fit(X, dates, groups=persons, on_forecast=told.append)
    points = float(told[0].text.split("changes by ")[1].split()[0])
    found = model.drift()
    first = np.argsort(-MEAN, axis=1)[:, :10]
    width = np.take_along_axis(found.change_high - found.change_low, first, axis=1) / 2 * (PERIODS - 1)
    assert 0.6 < points / (100 * np.median(width)) < 1.6 and told[0].warning is None

    def refuse(forecast):
        raise ValueError(forecast.text)

    budget = Budget.create(tmp_path / "budget", 1.0, 1e-6, dataset="notes", unit="person")
    few = DriftingTopics(NAMES, topics=MEAN, doc_length=LENGTH, epsilon=0.5, delta=1e-6)
    with pytest.raises(ValueError, match="Use more records"):
        few.fit(X[:300], dates[:300], groups=persons[:300], budget=budget, on_forecast=refuse)
    assert Budget(tmp_path / "budget").spent == 0


def test_a_reading_takes_a_level():
    shape = (2, 1, 3)
    found = [
        read_drift(np.ones(shape), np.full(shape[1:], 0.1), np.full((1, 3), 1 / 3), ("a", "b"), ("x", "y", "z"), level)
        for level in (0.5, 0.99)
    ]
    assert (found[0].low > found[1].low).all() and (found[0].high < found[1].high).all()
    with pytest.raises(ValueError, match="level=1"):
        fit().drift(level=1)
