"""The last step of a run measures the finished model. Bound, coverage, resume and options."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling
from peers.perplexity import predictive_perplexity
from priors import documents
from runs import Stop, ends, fail

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.backend import Threads
from vips_fast.engine.gain import NATS, GainScore, Score, ask, measured_gain
from vips_fast.engine.model import Release
from vips_fast.jobs.publication import verify
from vips_fast.models.lda import LdaOptions
from vips_fast.models.mixture import ColumnPrediction

V, K, N = 64, 4, 2000


def topics(measure=None, relation=None, **settings):
    settings = dict(noise_multiplier=6.0, sampling="full", n_records=N, random_state=0, n_steps=10) | settings
    options = LdaOptions(measure_gain=measure, relation=relation)
    return LatentDirichletAllocation(K, doc_length=40, options=options, **settings)


def keyed(estimator):
    return estimator.set_unsafe(test_key=bytes(32))


def test_measuring_changes_the_last_step_only(tmp_path):
    X = documents(N, V)
    on, off = (
        keyed(topics(m, epsilon=2.0, noise_multiplier=None)).fit(X, transcript=tmp_path / str(m)) for m in (None, False)
    )
    assert on.found_gain_ is not None and off.found_gain_ is None
    assert on.privacy_.noise_multiplier == off.privacy_.noise_multiplier
    assert on.privacy_.steps == off.privacy_.steps == on.n_steps_ == 10
    folders = [tmp_path / str(m) / "run-0000" for m in (None, False)]
    for step in range(10):
        ours, theirs = (np.load(folder / f"release-{step:06d}.npz")["units"] for folder in folders)
        assert np.array_equal(ours, theirs) == (step < 9)
    assert ours.shape == (5,)  # three priors of proportions


def test_a_further_step_is_not_measured():
    """What was measured is not about the topics that it makes."""
    model = topics(n_records=None).fit(documents(N, V))
    assert model.found_gain_ is not None and model.partial_fit(documents(N, V)).found_gain_ is None


def test_the_gain_is_that_of_the_topics():
    strong = keyed(topics()).fit(documents(N, V))
    assert strong.found_gain_.low > 0.2
    flat = sp.csr_array(np.random.default_rng(0).multinomial(40, np.full(V, 1 / V), N).astype(np.int32))
    none = keyed(topics()).fit(flat)
    assert measured_gain(none._fitted().state).high < 0.05 and none.found_gain_.gain < 0.03
    # Topics without a gain are read with a larger prior of proportions, about as word frequencies.
    assert none._fitted_alpha() >= 4 * strong._fitted_alpha()
    given, asked = (sp.csr_array(np.random.default_rng(n).poisson(0.5, (500, V)).astype(np.int32)) for n in (1, 2))
    masses = none.components_.sum(axis=0)
    own = -(asked @ np.log(masses / masses.sum())).sum() / asked.sum()
    assert math.log(predictive_perplexity(none.transform(given), none.components_, asked)) < own + 0.01


def test_a_score_reads_the_units_that_it_asks(monkeypatch):
    monkeypatch.setattr("vips_fast.engine.gain.JUDGES", N // 5)
    fit, read = topics().prepare(documents(N, V)), []
    fit.model.restore(fit.model.state() | {"measured_steps": np.array([9.0])})
    rows, words = np.arange(N), np.random.default_rng(0).integers(2**64, size=N, dtype=np.uint64)
    block, whole = fit.records.block, np.zeros(fit.model.fine_shape, np.int64)
    fit.model.contribute(block(rows), words, whole, {})
    monkeypatch.setattr(fit.records, "block", lambda some: read.extend(some) or block(some))
    assert np.array_equal(Threads().sum(fit.model, fit.records, rows, words), whole) and whole.any()
    assert N / 6 < len(read) < N / 4


def test_which_columns_are_predicted_is_not_decided_by_who_is_asked():
    """From 40,000 records on nobody's first column was: of a gain of 25 % 3 % were told, within a tenth of it."""
    words = np.random.default_rng(0).integers(2**64, size=40_000, dtype=np.uint64)
    words = words[ask(words, 0.2)]
    means, none = np.array([[0.5, 0.1], [-0.5, -0.1]]), np.empty(0)
    score = ColumnPrediction((none, none, none, np.full(2, 0.5), means, np.full(1, 0.01)), range(2))
    rows = np.arange(len(words))
    nats, _ = score.predict((np.tile(means[0], (len(rows), 1)), rows), words, rows)
    # With both columns known, or none, nothing is predicted.
    assert np.unique(nats, return_counts=True)[1] / len(rows) == pytest.approx([0.5, 0.25, 0.25], abs=0.03)


def test_a_usual_candidate_gives_way_if_it_gains_nothing():
    for nats, best in (((0.1, 0.2), 0), ((0.1, 9.0), 1), ((-0.1, 0.0), 1), ((-0.1, -0.2), 0)):
        assert Score(np.array(nats), 1.0, 10.0, 0.0, 0.0).best() == best
    # Without noise, for 1 % of perplexity.
    assert [Score(np.array([1.0, more]), 0.0, 10.0, 0.0, 0.0).best() for more in (1.09, 1.11)] == [0, 1]


class Plain(GainScore):
    """A score of blocks that are nats."""

    def rows(self, block, words, asked, clip):
        return self.clip_rows(block, asked, clip)


@pytest.mark.parametrize("noise", [0.0, 0.2, 5.0])
def test_the_interval_of_a_score_covers(noise):
    """Score 1,000 draws of units, with little to much noise. Up to more than the number of predictions."""
    rng, units, runs = np.random.default_rng(3), 500, 1000

    def draw(*shape):
        return 2.0 + 4.0 * rng.standard_t(5, shape)

    score = Plain()
    everyone = score.clip_rows(draw(400_000)[:, None], np.full(400_000, 0.5), 1.0).mean(axis=0)
    true = Score.read(everyone, 0.0, 1.0, 1e12, score).found().gain
    hits = 0
    for _ in range(runs):
        values = score.clip_rows(draw(units)[:, None], np.full(units, 0.5), 1.0).mean(axis=0)
        noised = values + noise * 0.1 * rng.standard_normal(3)
        found = Score.read(noised, noise * 0.1, 1.0, units, score).found()
        hits += found.low <= true <= found.high
    # 90 %, plus or minus five standard errors and two points for a clamped variance. With more noise than predictions
    # most intervals tell nothing, and hold.
    assert 0.85 < hits / runs and (hits / runs < 0.95 or noise > 1)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_run_bounds_its_score_for_its_own_neighbors(relation):
    """Units at both ends of all that has a sign; the noise is for the mechanism's sensitivity."""
    stage = topics(relation=relation).prepare(documents(N, V))
    for step in range(9):
        stage.model.update(Release(step, np.zeros(stage.model.shape, np.int64), 1e-3, 1e-3))
    score = stage.model.score
    nats = np.zeros((2, score.n_candidates)) + NATS * np.array([[1.0], [-1.0]])
    nats[:, 1:] *= 1 - score.reach
    rows = score.clip_rows(nats, np.ones(2), stage.model._bound)
    moved = np.linalg.norm(rows[0] - rows[1] if relation == "replace_one" else rows[0])
    assert 0.9 < moved / stage.plan.mechanism.sensitivity <= 1


@pytest.mark.parametrize("stop", [8, 9])
def test_a_run_resumes_before_its_score(stop, tmp_path):
    """A stop after step 9 resumes before the score. It is between the last step of the topics and the score."""

    def stops(progress):
        if progress.step == stop:
            raise Stop

    X, how = documents(N, V), dict(checkpoint=tmp_path / "run", transcript=tmp_path / "t", resume=True)
    with pytest.raises(Stop):
        calling(topics(), stops).fit(X, **how)
    model = topics().fit(X, **how)
    assert model.ledger_.lost == 0 and len(model.ledger_) == 10 and model.found_gain_.low > 0
    assert topics().fit(X, **how).found_gain_ == model.found_gain_  # the finished run, from its folder
    model.save(tmp_path / "m")
    assert LatentDirichletAllocation.load(tmp_path / "m").found_gain_ == model.found_gain_
    report = verify(tmp_path / "m", tmp_path / "t")
    assert report.ok, report.text()
    assert any(check.name == "found_gain_" for check in report.checks)


def test_a_score_that_is_lost_is_paid_for_again(tmp_path):
    """The process ends after the score's record and before its noise."""
    X, how = documents(N, V), dict(checkpoint=tmp_path / "run", resume=True)
    model = topics()
    ends(model, 10, fail)
    with pytest.raises(Stop):
        model.fit(X, **how)
    model = topics().fit(X, **how)
    assert model.ledger_.lost == 1 and len(model.ledger_) == 11 and model.found_gain_ is not None
    with pytest.raises(ValueError, match="measured_steps"):
        topics().prepare(X).model.restore({**model._fitted().state, "measured_steps": np.array([0.5])})


def test_a_run_that_cannot_pay_for_its_score_has_none(tmp_path):
    X = documents(N, V)
    how = dict(checkpoint=tmp_path / "run", resume=True)
    settings = dict(noise_multiplier=None, epsilon=2.0)
    for _ in range(2):
        model = topics(**settings)
        ends(model, 2, fail)
        with pytest.raises(Stop):  # within a step: all before it are lost
            model.fit(X, **how)
    model = topics(**settings).fit(X, **how)
    assert model.ledger_.lost and model.privacy_.epsilon <= 2.0 and model.n_steps_ < 10 and model.found_gain_ is None
