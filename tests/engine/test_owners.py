"""What a ledger promises to owners of several records."""

import math

import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression
from vips_fast import accounting as acc
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.statement import Privacy

STEP = acc.PoissonSampledEvent(0.25, acc.GaussianEvent(3.84))
PLAN = dict(delta=1e-4, relation="add_remove", sampling="poisson", unit="record", n_records=400)
PLAN |= dict(noise_multiplier=3.84, batch_size=100.0, n_steps=20)


def stated(event=STEP, parts=(None,), taint=None, **changes):
    ledger = Ledger()
    ledger.open(PLAN | changes)
    for part in parts * 20:
        ledger.intend(event, clip_norm=1.0, sensitivity=1.0, part=part)
    if taint:
        ledger.taint(taint)
    return Privacy.of(ledger)


def test_owners_of_several_records():
    privacy = stated()
    run = acc.SelfComposedEvent(STEP, 20)
    for k in (2, 5, 10):
        assert privacy.for_group(k) == acc.epsilon(acc.group_event(run, k), 1e-4)
    assert privacy.for_group(1) == privacy.epsilon < privacy.for_group(2) < privacy.for_group(2, 1e-6)
    assert privacy.for_group(1, 1e-6) == acc.epsilon(run, 1e-6)
    said = "For someone who owns 2, 5 or 10 records, epsilon is 2.215, 6.614 or 16.11. The number"
    assert said in privacy.statement()
    # Never below the figures that they round.
    shown = privacy.statement().split("epsilon is ")[1].split(". ")[0].replace(" or", ",").split(", ")
    assert all(float(text) >= privacy.for_group(k) for text, k in zip(shown, (2, 5, 10)))


def test_statements_that_say_nothing_of_owners():
    assert "who owns" not in stated(unit="person").statement()
    empty = stated(parts=())
    assert "who owns" not in empty.statement() and empty.for_group(3) == 0.0
    tainted = stated(taint="fitted with a key of its own")
    assert tainted.for_group(2) == math.inf and "who owns" not in tainted.statement()
    # A failure with probability delta does not get rarer for owners of several records.
    objective = stated(acc.ApproximateDPEvent(0.1, 1e-5, "add_remove"))
    assert math.isinf(objective.for_group(10)) and "who owns" not in objective.statement()


def test_an_owner_may_have_records_in_every_part():
    nights = stated(parts=("monday", "tuesday"))
    assert nights.epsilon < 1.001 and "who owns" not in nights.statement()
    assert nights.for_group(2) == acc.epsilon(acc.group_event(acc.SelfComposedEvent(STEP, 40), 2), 1e-4)


@pytest.mark.parametrize("size", [0, 1.5, "2"])
def test_bad_sizes(size):
    with pytest.raises((TypeError, ValueError), match=r"^size=.*: expected an integer"):
        stated().for_group(size)


def test_the_statement_for_a_group_of_one_is_the_statement():
    """Calls that may depend on results have a share of delta, for any number of records."""
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = BayesianLogisticRegression(noise_multiplier=5.0, n_steps=2, sampling="full").fit(X, y)
    privacy = model.partial_fit(X, y).privacy_
    assert privacy.share < 1.0 and privacy.for_group(1, privacy.delta) == privacy.epsilon
    assert privacy.for_group(2) > privacy.epsilon
