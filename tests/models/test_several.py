"""Lists of what is clear, on data where nothing is.

Each reading takes the largest of many noised numbers. With pure noise it may list something in at most one fit of ten,
as `vips_fast.models.several` states.
"""

import re
import warnings

import numpy as np
import pytest
from scipy.stats import binom

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PublicPrior, TopicTables
from vips_fast.engine.gain import FoundGain, Score
from vips_fast.models.several import ERROR
from vips_fast.models.verdict import Verdict
from vips_fast.report.part import part_of
from vips_fast.report.parts.coefficients import effect_lines

FITS = 20
#: No more lists of noise than this, but by a chance of 1e-6.
MOST = int(binom.isf(1e-6, FITS, ERROR))
V = 62


def same_two_words(n):
    X = np.zeros((n, V), dtype=int)
    X[:, :2] = 10
    return X


def topics(rng, k=10, **more):
    """Words that are in no record, among the first ones of topics."""
    model = LatentDirichletAllocation(k, doc_length=20, epsilon=2.0, delta=1e-5, **more).fit(same_two_words(300))
    learned = part_of(model).learned(model, [f"w{v}" for v in range(V)], 10)
    shown = {
        word for topic in learned.topics for word, bar in zip(topic.words, topic.bars.rows, strict=True) if not bar.weak
    }
    return bool(shown - {"w0", "w1"})


def public_topics(rng):
    ratios = np.where(np.arange(V) < V // 2, [[5.0], [0.2]], [[0.2], [5.0]])
    prior = PublicPrior([f"w{v}" for v in range(V)], ratios, [1, 1], np.ones(V), "a test")
    return topics(rng, 2, public_prior=prior)


def effects(rng):
    X, y = rng.uniform(-1, 1, (2000, 20)) / 20**0.5, rng.permutation(2000) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLogisticRegression(epsilon=4.0, delta=1e-5, row_norm=1.0, n_steps=5).fit(X, y)
    said = "\n".join(effect_lines(model, [f"x{j}" for j in range(20)]))
    listed = any(re.match(r" +\d", line) for line in said.split("\n"))
    assert listed == any(one.clear for one in model.effects())
    return listed


def tables(rng):
    """The largest shares of 60 cells that are all alike: whether an interval misses the truth."""
    by = {"ward": [f"w{g}" for g in range(10)]}
    y = {"ward": rng.choice(by["ward"], 3000)}
    model = TopicTables(by, noise_multiplier=4.0, delta=1e-5).fit(np.full((3000, 6), 1 / 6), y)
    ends = re.findall(r"\(([\d.]+)% to ([\d.]+)%\)", part_of(model).shown(model, None))
    assert ends
    return any(not float(low) <= 100 / 6 <= float(high) for low, high in ends)


def gain(rng):
    score = Score(rng.normal(0, 0.05, 5), 0.05 * 2**0.5, 5.0, 0.0, 0.0)
    found = score.found(score.best())
    return Verdict.of_columns(found, "record").worth == "useful"


def topics_gain(rng):
    low, high = np.sort(rng.normal(0, 0.05) + np.array([-1.0, 1.0]) * 1.6449 * 0.05)
    return Verdict.of_topics(FoundGain(float(low + high) / 2, float(low), float(high)), "person").worth == "useful"


READINGS = {
    "topics": topics,
    "public topics": public_topics,
    "effects": effects,
    "tables": tables,
    "gain": gain,
    "gain of topics": topics_gain,
}


@pytest.mark.parametrize("name", READINGS)
def test_pure_noise_is_seldom_clear(name):
    wrong = sum(READINGS[name](np.random.default_rng(seed)) for seed in range(FITS))
    assert wrong <= MOST
