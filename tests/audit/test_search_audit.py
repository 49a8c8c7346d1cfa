"""Audit private searches.

Honest ones pass all layers, and each layer sees a fault of its own.
"""

from functools import cache

import pytest
from mutation import mutated

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PrivateSearch, SigmoidBeliefNetwork
from vips_fast.audit import Sizes, audit
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.models import search

SIZES = Sizes(pairs=200, records=15, draws=6_000, releases=1_500, runs=250)
REGRESSION = BayesianLogisticRegression(classes=[0, 1])
REPLACE = BayesianLogisticRegression(classes=[0, 1], sampling="full", relation="replace_one")


def searched(kind=PrivateSearch, base=REGRESSION, **settings):
    return kind(base, {"invalid": ["raise", "drop"]}, **{"mean_runs": 2.0, **settings})


def failed(layer, made):
    """Names of the checks of one layer that fail."""
    report = audit(made, layers=layer, sizes=SIZES, random_state=0)
    print(report.text())
    return {check.name for check in report.layer(layer).checks if not check.passed}


@cache
def honest(layer, base=REGRESSION):
    return failed(layer, searched(base=base))


@pytest.mark.parametrize("layer", "ABCDEG")
@pytest.mark.parametrize(
    "base",
    [REGRESSION, REPLACE, LatentDirichletAllocation(2), SigmoidBeliefNetwork(2)],
    ids=["regression", "replace_one", "topics", "network"],
)
def test_searches_pass(layer, base):
    assert honest(layer, base) == set()


def test_layers_of_other_things_are_refused():
    for layers, settings, message in [
        ("H", {}, "whose contributions lie apart"),
        ("A", {"score": "public"}, "a public score is no release"),
    ]:
        with pytest.raises(ValueError, match=message):
            audit(searched(**settings), layers=layers)
    with pytest.raises(ValueError, match="rows_per_unit=3: expected None"):
        audit(searched(), layers="A", rows_per_unit=3)


class OneRun(PrivateSearch):
    """The search is stated to cost no more than the published run."""

    def _published(self, model, event, *more):
        return super()._published(model, event.event, *more)


class SameNoise(PrivateSearch):
    """All runs draw their noise from one key."""

    def _unfitted(self, settings):
        model = super()._unfitted(settings)
        model._randomness = lambda public: KeyedRandomness(b"fixed")
        return model


class KeepsRuns(PrivateSearch):
    """The other runs stay in the object."""

    def _runs(self, tried, common, data, judge, randomness):
        self.models = []

        def kept(model, number):
            self.models.append(model)
            return judge(model, number)

        return super()._runs(tried, common, data, kept, randomness)


class Rounds(PrivateSearch):
    """The score that is published is not the one that was released."""

    @property
    def best_score_(self):
        return round(super().best_score_, 1)


def changed(old, new):
    """Return a class with one piece of `fit` replaced."""
    return type("Changed", (PrivateSearch,), {"fit": mutated(PrivateSearch.fit, old, new)})


NOISE = "randomness.noise_key(number)"


@pytest.mark.parametrize(
    ("layer", "seen", "kind"),
    [
        ("A", "distance of scores", lambda: changed("low), high) - low", "low), 2 * high) - low")),
        ("A", "one share for a unit", lambda: changed("_units(codes, ~fitted)", "_units(codes, fitted | ~fitted)")),
        ("B", "one unit at a time", lambda: changed("_units(codes, ~fitted)", "_units(codes, fitted | ~fitted)")),
        ("B", "one unit at a time", lambda: changed("for one in held)", "for one in [np.concatenate(held)])")),
        ("C", "uncorrelated: two searches", lambda: changed(NOISE, "bytes([number % 256] * 32)")),
        ("C", "fresh runs", lambda: SameNoise),
        ("C", "charged", lambda: OneRun),
        ("G", "one release", lambda: OneRun),
        ("G", "statement", lambda: OneRun),
        ("G", "nothing of other runs", lambda: KeepsRuns),
        ("G", "best of the noised scores", lambda: Rounds),
    ],
)
def test_wrong_searches(layer, seen, kind):
    assert honest(layer) == set() and seen in failed(layer, searched(kind()))


def exact(units, noise_multiplier, key):
    return float(sum(units))


def half(units, noise_multiplier, key):
    return true_noised(units, 0.5 * noise_multiplier, key)


true_noised = search._noised


@pytest.mark.parametrize(
    ("layer", "seen", "noised"),
    [("C", "standard deviation", half), ("D", "noise multiplier 1", half), ("E", "delta at", exact)],
)
def test_scores_with_too_little_noise(layer, seen, noised, monkeypatch):
    assert honest(layer) == set()
    monkeypatch.setattr(search, "_noised", noised)
    assert any(name.startswith(seen) for name in failed(layer, searched()))


@pytest.mark.parametrize("unguarded", [0.0, None])
def test_an_error_of_a_scorer_is_seen(unguarded, monkeypatch):
    """A search that ends with the error, or takes a NaN."""

    def scored(scorer, model, X, y):
        try:
            return float(scorer(model, X, y))
        except ValueError:
            if unguarded is None:
                raise
            return unguarded

    monkeypatch.setattr(search, "_scored", scored)
    assert "errors of a scorer" in failed("A", searched())


def test_a_division_that_depends_on_others(monkeypatch):
    true = search._division

    def division(n_units, *more):
        return true(n_units, *more) if n_units % 2 else ~true(n_units, *more)

    monkeypatch.setattr(search, "_division", division)
    assert "division of the others" in failed("A", searched())
