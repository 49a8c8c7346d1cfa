"""Layer E on whole searches.

Many runs on two neighboring data sets, against the profile of the search's event.

The keys are fixed, so that nothing here fails by chance; the claims come from the very events in the ledgers.
"""

import hashlib
import math

import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression, PrivateSearch
from vips_fast import accounting as acc
from vips_fast.audit import delta_lower_bound
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models import search

EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0)
ERROR = 1e-4
#: The only record with a row, with a coefficient of its own.
X, Y = np.vstack([np.zeros((7, 1)), [[1.0]]]), np.array([0, 1] * 4)


def outcomes(made, what, n_runs):
    """Draw a number that is published.

    For searches with the record and without it.
    """
    sides = []
    for side, (rows, labels) in enumerate(((X, Y), (X[:-1], Y[:-1]))):
        found = []
        for k in range(n_runs):
            made.set_unsafe(test_key=hashlib.blake2b(b"%d/%d" % (side, k), digest_size=32).digest())
            try:
                public = {"X_public": X} if made.score == "public" else {}
                found.append(what(made.fit(rows, labels, **public)))
            except search.NoRunError:
                found.append(-math.inf)
        sides.append(np.array(found))
    return sides


def violated(sides, event):
    """List epsilons that a release exceeds.

    A threshold, chosen on the first half, shows more on the second than the event's delta.
    """
    half = len(sides[0]) // 2
    found = []
    for epsilon in EPSILONS:
        claimed, best = acc.delta(event, epsilon), (-1.0, 0.0)
        for threshold in np.unique(np.concatenate([side[:half] for side in sides])):
            gap = (sides[0][:half] > threshold).mean() - math.exp(epsilon) * (sides[1][:half] > threshold).mean()
            best = max(best, (gap, threshold))
        if delta_lower_bound(sides[0][half:], sides[1][half:], epsilon, best[1], ERROR) > claimed:
            found.append(epsilon)
    return found


class Bare(BayesianLogisticRegression):
    """A run whose one release is looked at as it is.

    The sum of the rows with the noise that is charged for.

    The regression's own arrays are of no interest, and made once.
    """

    _kept = {}

    def prepare(self, X, y=None, **how):
        known = self._kept.get(("stage", len(X)))
        return known or self._keep("stage", X, super().prepare(X, y, **how))

    def _keep(self, what, X, value):
        self._kept[what, len(X)] = value
        return value

    def _fit(self, X, y=None, **how):
        if ("result", len(X)) not in self._kept:
            self._keep("result", X, BayesianLogisticRegression(**self.get_params()).fit(X, y)._fitted())
        self._result = self._kept["result", len(X)]
        mechanism = GaussianMechanism(float(self.noise_multiplier), 1.0, 1.0)
        sums = np.array([round(float(X.sum()) / mechanism.spacing)])
        mechanism.add_noise(sums, self._test_key)
        self.released = sums[0] * mechanism.spacing
        return self


@pytest.fixture(scope="module")
def selected():
    """Run searches that select the largest release.

    It tells most.
    """
    base = Bare(noise_multiplier=0.5, n_steps=1, n_records=8, classes=[0, 1], random_state=0, fit_intercept=False)
    made = PrivateSearch(
        base, [{}], mean_runs=20.0, shape=None, score="public", scorer=lambda model, *_: model.released
    )
    sides = outcomes(made, lambda done: done.best_score_, 400)
    return sides, made.best_estimator_.ledger_.event()


def test_profile_of_a_search(selected):
    sides, event = selected
    (search_event,) = event.leaves()
    assert search_event.shape is None and not violated(sides, event)


def test_a_statement_of_one_run_is_caught(selected):
    """The mutant states one run's privacy for the whole search."""
    sides, event = selected
    (search_event,) = event.leaves()
    assert violated(sides, search_event.event)


def test_profile_of_a_search_of_whole_fits():
    base = BayesianLogisticRegression(
        noise_multiplier=0.5, n_steps=1, n_records=8, classes=[0, 1], random_state=0, fit_intercept=False
    )
    made = PrivateSearch(
        base,
        [{"row_norm": 1.0}, {"row_norm": 2.0}],
        mean_runs=4.0,
        score="public",
        scorer=lambda model, *_: float(model.coef_[0, 0]),
    )
    sides = outcomes(made, lambda done: done.best_score_, 60)
    assert not violated(sides, made.best_estimator_.ledger_.event())


def scored(n_runs):
    base = BayesianLogisticRegression(
        noise_multiplier=20.0, n_steps=1, n_records=8, classes=[0, 1], random_state=0, fit_intercept=False
    )
    made = PrivateSearch(
        base,
        [{}],
        mean_runs=1.0,
        held_out=0.7,
        score_noise=20.0,
        score_range=(0.0, 1.0),
        scorer=lambda model, rows, labels: float(rows[0, 0]),
    )
    return outcomes(made, lambda done: done.best_score_, n_runs), made.best_estimator_.ledger_.event()


def test_profile_of_a_private_score():
    assert not violated(*scored(120))


def test_a_score_without_noise_is_caught(monkeypatch):
    monkeypatch.setattr(search, "_noised", lambda units, noise_multiplier, key: sum(units))
    assert violated(*scored(120))
