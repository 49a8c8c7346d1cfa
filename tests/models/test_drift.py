"""Words that move within planted topics are found.

None is invented, and smoothing helps.
"""

import copy

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation, verify
from vips_fast.cli.main import main
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models import estimator
from vips_fast.models.lda import LdaOptions, drift
from vips_fast.report import html_report

K, EACH, PERIODS, PERSONS, LENGTH = 3, 14, 6, 1500, 25
V = K * EACH
#: In these topics the first word gives its share to the second, period by period.
MOVING = (0, 2)


def topics(period):
    """Plant topics with words of their own."""
    out, rng = np.zeros((K, V)), np.random.default_rng(5)
    for k in range(K):
        own = rng.dirichlet(np.full(EACH, 3.0))
        if k in MOVING:
            moved = 0.12 * period / (PERIODS - 1)
            own = np.array([0.14 - moved, 0.02 + moved, *(0.84 * own[2:] / own[2:].sum())])
        out[k, k * EACH : (k + 1) * EACH] = own
    return out


def month(period, rng):
    theta = rng.dirichlet(np.full(K, 0.1), PERSONS)
    return np.array([rng.multinomial(LENGTH, one) for one in theta @ topics(period)])


def chain(rng, decay=0.0, part=False, periods=PERIODS, noise=4.0, **settings):
    """Fit topics to the first period, then call for each other."""
    model = LatentDirichletAllocation(
        K, doc_length=LENGTH, noise_multiplier=noise, n_steps=12, random_state=0, **settings
    )
    models = [model.fit(month(0, rng), groups=np.arange(PERSONS))]
    for period in range(1, periods):
        model = copy.deepcopy(models[-1]).set_params(options=LdaOptions(learning_decay=decay))
        named = {"part": f"month {period}"} if part else {}
        models.append(model.partial_fit(month(period, rng), groups=np.arange(PERSONS), n_records=PERSONS, **named))
    return models


@pytest.fixture
def exact(monkeypatch):
    """Note the sums before their noise, and seed the noise."""
    seen, add_noise = [], GaussianMechanism.add_noise

    def noted(self, sums, *rest):
        seen.append(sums.copy())
        add_noise(self, sums, *rest)

    monkeypatch.setattr(GaussianMechanism, "add_noise", noted)
    keys = np.random.default_rng(3)
    monkeypatch.setattr(estimator, "SystemRandomness", lambda: KeyedRandomness(keys.bytes(32)))
    return seen


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_planted_words_are_found_and_none_is_invented(exact, decay):
    covered, wrong, errors, rng = [], [], [], np.random.default_rng(0)
    steps = np.arange(1, PERIODS) - PERIODS / 2
    for _ in range(6):
        exact.clear()
        models = chain(rng, decay)
        # The first period is an average of several releases, of which no exact sum is known; the others are one each.
        restored = [model._restored() for model in models[:-1]]
        scales = [
            np.sqrt(one._table[:, : one.n_topics] + one._scales.floor) / one._scales.weight[:, None] for one in restored
        ]
        sums = np.array([s * scale for s, scale in zip(exact[1 - PERIODS :], scales, strict=True)])
        truth = np.moveaxis(sums / sums.sum(axis=1, keepdims=True), 1, 2)
        smooth, rough = (drift(models, smooth=one) for one in (True, False))
        covered.append((smooth.low[1:] <= truth) & (truth <= smooth.high[1:]))
        errors.append([((one.shares[1:] - truth) ** 2).mean() for one in (smooth, rough)])
        of = {k: int(models[-1].components_[:, k * EACH].argmax()) for k in MOVING}
        moved = set(smooth.moved())
        assert {(of[k], k * EACH + j) for k in MOVING for j in (0, 1)} <= moved
        assert all(smooth.change[of[k], k * EACH] < 0 < smooth.change[of[k], k * EACH + 1] for k in MOVING)
        if decay == 0.0:
            rest = drift(models[1:], smooth=False)
            slope = np.einsum("t,tkv->kv", steps / (steps @ steps), truth)
            wrong.append(((slope < rest.change_low) | (slope > rest.change_high)).any())
    assert 0.86 <= np.mean(covered) <= 0.94
    assert np.sum(wrong) <= 3
    better, alone = np.mean(errors, axis=0)
    assert better < 0.7 * alone


def test_topics_that_do_not_move_list_no_word(exact, monkeypatch):
    """Deal each period the same documents.

    Only the noise differs.
    """
    same = month(0, np.random.default_rng(1))
    monkeypatch.setattr(f"{__name__}.month", lambda period, rng: same)
    found = [len(drift(chain(np.random.default_rng(0), noise=9.0)[1:]).moved()) for _ in range(6)]
    assert sum(number > 0 for number in found) <= 3


def test_periods_as_parts_cost_one_and_without_parts_all(tmp_path):
    rng = np.random.default_rng(0)
    every, parts = (chain(rng, part=part)[-1] for part in (False, True))
    assert parts.privacy_.epsilon < 0.95 * every.privacy_.epsilon
    assert "only one of the" in parts.privacy_.statement() and "part" not in every.privacy_.statement()


def test_a_page_shows_the_words_that_moved(exact, tmp_path, capsys):
    models = chain(np.random.default_rng(0))
    words = [f"w{v}" for v in range(V)]
    page = html_report(models[-1], earlier=models[:-1], periods=["a", "b", "c", "d", "e", "f"], words=words)
    assert 'id="drift"' in page and page.count("points from one period to the next") >= 4
    assert "W0 in topic" in page and "Rises by" in page and "Falls by" in page
    for name, model in zip("abcdef", models, strict=True):
        model.save(tmp_path / name)
    more = [word for name in "abcde" for word in ("--earlier", str(tmp_path / name))]
    assert main(["report", str(tmp_path / "f"), *more, "--out", str(tmp_path / "page.html")]) == 0
    assert "#0 in topic" in (tmp_path / "page.html").read_text()
    loaded = [LatentDirichletAllocation.load(tmp_path / name) for name in "abcdef"]
    assert np.array_equal(drift(loaded).shares, drift(models).shares)
    rows = drift(models, [*"abcdef"]).rows()
    assert rows[0] == ["topic", "word", "period", "share", "low", "high"] and len(rows) % 6 == 1
    with pytest.raises(ValueError, match="only topics are followed"):
        from vips_fast import TopicTables

        tables = TopicTables({"a": [0]}, noise_multiplier=1.0).fit(np.full((50, 2), 0.5), np.zeros(50, int))
        html_report(tables, earlier=[tables])


def test_a_period_that_is_counted_twice_or_out_of_order_is_refused(tmp_path):
    models = chain(np.random.default_rng(0), periods=3)
    for wrong, said in (
        (models[:1], "expected two or more"),
        ([models[0], models[0]], "number 2 does not continue the one before"),
        ([models[1], models[0]], "number 2 does not continue the one before"),
        ([models[0], models[2], models[1]], "number 3 does not continue the one before"),
        ([chain(np.random.default_rng(1), periods=1)[0], models[1]], "number 2 does not continue"),
    ):
        with pytest.raises(ValueError, match=said):
            drift(wrong)
    with pytest.raises(ValueError, match="periods: 2; expected two or more, with a name for each"):
        drift(models, ["a", "b"])
    with pytest.raises(ValueError, match="level=1"):
        drift(models, level=1)
    plain = copy.deepcopy(models[0]).set_params(options=None)
    plain.partial_fit(month(1, np.random.default_rng(0)), groups=np.arange(PERSONS), n_records=PERSONS)
    with pytest.raises(ValueError, match=r"expected LdaOptions\(learning_decay="):
        drift([models[0], plain])


def test_the_chain_verifies(tmp_path):
    rng = np.random.default_rng(0)
    model = LatentDirichletAllocation(K, doc_length=LENGTH, noise_multiplier=4.0, n_steps=3)
    model.fit(month(0, rng), transcript=tmp_path / "t").set_params(options=LdaOptions(learning_decay=0.0))
    model.partial_fit(month(1, rng), n_records=PERSONS, transcript=tmp_path / "t").save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t").ok
