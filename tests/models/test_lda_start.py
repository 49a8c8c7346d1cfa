"""A run that starts with fewer topics.

The topics that take part and that split, and nothing else changes.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.models.lda.model import LdaModel, LdaSettings
from vips_fast.models.lda.planning import first_topics, spread, start_steps
from vips_fast.models.lda.records import Documents

V, K, J, STEPS = 120, 9, 3, 2


def model(start=STEPS, n_threads=1):
    settings = LdaSettings(K, 0.1, 0.1, doc_length=50, clip=5.0, clips=True, start_steps=start, n_threads=n_threads)
    return LdaModel(settings, Public(V, 1000, seed=3))


def release(step, sd=0.01):
    rng = np.random.default_rng(step)
    values = rng.gamma(0.3, 1 / 0.3, (V, K)) / np.arange(1, V + 1)[:, None] + sd * rng.normal(size=(V, K))
    return Release(step, np.rint(values * 2**20).astype(np.int64), 2.0**-20, sd)


def test_rules():
    assert [start_steps(n, 50) for n in (1, 5, 6, 12, 20, 40)] == [0, 0, 1, 2, 3, 3]
    assert start_steps(20, 7) == 0 < start_steps(20, 8)
    assert [first_topics(k) for k in (8, 9, 50)] == [2, 3, 13]


@pytest.mark.parametrize("columns", [1, 3, 4, 9])
def test_copies_share_what_they_are_copies_of(columns):
    topics = np.random.default_rng(0).random((V, columns))
    copies = spread(topics, K)
    together = np.zeros_like(topics)
    for k in range(K):
        together[:, k % columns] += copies[:, k]
    assert copies.shape == (V, K)
    np.testing.assert_allclose(together, topics, rtol=1e-12)


def test_only_those_that_began_take_part_until_they_are_split():
    corpus = Documents(sp.csr_array(np.random.default_rng(1).integers(0, 3, (20, V))), "raise", "LdaModel")
    block, ours, seen = corpus.block(np.arange(20)), model(), []
    ours._spacing = 2.0**-20
    for step in range(STEPS + 1):
        sums = np.zeros((V, K), dtype=np.int64)
        ours.contribute(block, np.arange(20, dtype=np.uint64), sums, {})
        seen.append((ours._table[:, :K] > 0).any(axis=0))
        assert (sums[:, seen[-1]] > 0).any() and not sums[:, ~seen[-1]].any()
        ours.update(release(step))
    assert all(taking[:J].all() and not taking[J:].any() for taking in seen[:STEPS])
    assert seen[STEPS].all()


def test_the_average_goes_on_from_shares_of_what_was_released():
    ours = model()
    for step in range(STEPS):
        ours.update(release(step))
    before = ours.state()
    scale = np.sqrt(ours._table[:, : ours.n_topics] + ours._scales.floor) / ours._scales.weight[:, None]
    assert before["average"].shape == (V, J) and ours.result()["components"].shape == (K, V)
    ours.update(release(STEPS))
    after, rate = ours.state(), 2.0**-ours._schedule.decay
    values = (1 - rate) * spread(before["average"], K) + rate * release(STEPS).values * scale
    np.testing.assert_allclose(after["average"], values, rtol=1e-9, atol=1e-15)
    noise = np.hypot((1 - rate) * spread(before["average_noise"], K), rate * 0.01 * scale)
    np.testing.assert_allclose(after["average_noise"], noise, rtol=1e-12)


def test_entries_of_topics_that_take_no_part_are_not_read():
    """They are only noise, and look like words of the copies."""
    ours, other = model(), model()
    for step in range(STEPS + 1):
        one = release(step)
        ours.update(one)
        units = one.units.copy()
        if step < STEPS:
            units[:, J:] += 12345
        other.update(Release(step, units, one.scale, one.noise_sd))
    assert ours.result()["components"].tobytes() == other.result()["components"].tobytes()


@pytest.mark.parametrize("at", range(1, STEPS + 3))
def test_a_restored_model_goes_on_with_the_same_bits(at):
    ours, other = model(), model(n_threads=3)
    for step in range(at):
        ours.update(release(step))
    other.restore(ours.state())
    assert other._table.tobytes() == ours._table.tobytes()
    for step in range(at, STEPS + 3):
        for each in (ours, other):
            each.update(release(step))
    assert [a.tobytes() for a in other.state().values()] == [a.tobytes() for a in ours.state().values()]
    assert ours.result()["components"].tobytes() == other.result()["components"].tobytes()


def test_a_state_that_says_where_no_start_can_stand_is_refused():
    ours = model()
    ours.update(release(0))
    for wrong in ([1.0, 2.0], [2.0, -1.0], [2.0, 0.5]):
        with pytest.raises(ValueError, match="start_steps"):
            model().restore({**ours.state(), "start_steps": np.array(wrong)})
    with pytest.raises(ValueError, match="average"):
        model().restore({**ours.state(), "start_steps": np.zeros(2)})


def test_who_starts_with_all_topics():
    rng = np.random.default_rng(2)
    X = sp.csr_array(rng.integers(0, 3, (60, 30)))
    settings = dict(noise_multiplier=1.0, n_steps=6, delta=1e-5, doc_length=20)

    def steps(estimator, **changed):
        return estimator(K, **{**settings, **changed})._model(Public(30, 60, 0)).state()["start_steps"][0]

    ours = LatentDirichletAllocation
    assert steps(ours) == 1
    assert steps(ours, noise_multiplier=0.0) == steps(ours.paper) == steps(ours, n_steps=5) == 0
    # One call may be all: it is a release about all topics.
    calls = ours(K, **settings).partial_fit(X)
    assert calls._fitted().state["average"].shape == (30, K)
    # After a fit, a call continues from its end.
    fitted = ours(K, **settings).fit(X)
    assert fitted.partial_fit(X)._fitted().state["start_steps"].tolist() == [1.0, 1.0]
