"""Private search for settings; one statement covers all its runs.

`PrivateSearch` draws a random number of runs. Each takes one of the candidate settings at random, is fitted with noise
of its own, and gets a score. Only the best is published (Papernot & Steinke 2022).

*Theorem.* Let z be the noise multiplier of the runs, T their releases, z_s the score's. The published model is
(epsilon, delta)-private by accountant "rdp" for RepeatAndSelectEvent(run). Here run is the composition of the score's
GaussianEvent(z_s) and of the T sampled releases; without a private score it is only these.

*Proof.* One run, Q, publishes its candidate, its model and its score, ordered by the score and among equal scores by a
coin. The candidate is drawn without the data, and all candidates have the same event; others are refused before
anything is spent. So that event bounds Q's releases for each candidate, and the choice is a function of coins. Units
are divided once for all runs: one share is fitted to, the score is about the other. Under "add or remove" a coin
divides each unit, under "replace one" a permutation of their places does. These coins have one law on both data sets.
Given them, the same other units are in each share. The score is a sum of numbers in [0, 1], one a unit. It is truncated
to a lattice and released with Gaussian noise of sensitivity 1 (`GaussianMechanism`), after its model. The composition
bounds both, although a unit is in only one of the shares. A call for each unit computes its number from its own rows
and the released model only. Every run draws its noise, its minibatches and its candidate anew. So given the division
the runs are independent repetitions of Q, and `vips_fast.accounting.selection` bounds the best of a random number of
them. A Renyi divergence is quasi-convex, so the
bound holds for the mixture over divisions.

Never show the number of runs, nor the other runs' models, ledgers and scores: they are not released. The duration of a
search roughly tells the number; like the duration of every fit it is for the operator and not covered. A killed search
has spent its epsilon: it is charged whole before the first run, cannot be resumed, and has no transcript.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np

from ..accounting import (
    ComposedEvent,
    GaussianEvent,
    PrivacyEvent,
    RepeatAndSelectEvent,
    epsilon,
    renyi_divergence,
    rounded_up,
)
from ..accounting.calibration import noise_for
from ..checks import check_choice, check_number
from ..data.groups import group_codes
from ..data.shards import ShardedCorpus
from ..data.types import Column, Data
from ..data.vocabulary import carried_purchase
from ..engine.budget import Budget
from ..engine.ledger import Ledger
from ..engine.randomness import KeyedRandomness, Randomness, SystemRandomness
from ..engine.request import RunForecast, RunSchedule
from ..engine.result import FitResult, Public
from ..engine.sampling import Sampler, check_steps, run_event
from ..engine.statement import Privacy
from ..mechanisms import GaussianMechanism
from ..mechanisms.selection import number_of_runs
from .estimator import PrivateEstimator
from .family import family_of, resolve
from .fitted import NotFittedError
from .forecast import tell
from .repeats import uncounted_fit
from .scores import Score, Scorer
from .settings import unit_name

#: What all runs have in common, so that they have one event.
SCHEDULE = frozenset(
    {
        "sampling",
        "relation",
        "batch_size",
        "n_steps",
        "n_records",
        "epsilon",
        "target_attack_success",
        "delta",
        "noise_multiplier",
        "private",
        "rows_per_group",
        "callback",
    }
)
_SAMPLINGS = ("poisson", "full", "without_replacement")
#: Ratio of the Renyi divergences of the private score and a run, at an order, if the score's noise is not given.
_SCORE_SHARE, _SHARE_ORDER = 0.2, 8.0

E = TypeVar("E", bound=PrivateEstimator)


class SearchError(RuntimeError):
    """A search ended after its charge. The search's epsilon is spent."""


class NoRunError(SearchError):
    """A Poisson number of runs was 0."""


class PrivateSearch(Generic[E]):
    """Private search for settings; the guarantee includes the choice.

    Parameters
    ----------
    estimator : PrivateEstimator
        Its settings hold for every run, except for the candidates'. Its target, or noise, and its delta hold for the
        whole search. Minibatches are drawn by "poisson", "full" or "without_replacement".
    candidates : mapping of str to sequences, or sequence of mappings
        Values to try in all combinations, or the combinations themselves. Any parameters of the estimator that do not
        change the event of a run; `SCHEDULE` lists those that may not differ. All are public.
    mean_runs : float
        Mean of the random number of runs, at least 1 (Poisson: above 0).
    shape : float or None
        Of the truncated negative binomial distribution: 1 is geometric, 0 logarithmic. Less spends less on the worst
        case and has a longer tail. None is the Poisson distribution, which may draw no run.
    score : {"private", "public"}
        Score of the runs: a noised score of held-out units, or the score of public data.
    held_out : float
        Share of held-out units for a private score, in (0, 1).
    scorer : callable(model, X, y) or None
        Gives a number for the rows of one unit (private) or for all rows (public), only from the model and these rows;
        larger is better. An error about a private unit, or anything but a number, counts as the least of the range.
        None is the mean log-likelihood of the labels (`BayesianLogisticRegression`), the variational bound per word
        (`LatentDirichletAllocation`) and the pixel accuracy (`SigmoidBeliefNetwork`).
    score_range : (float, float) or None
        Numbers of a private score are cut to this interval, which is public; the narrower, the less noise. None is
        (-2, 0), (-5/4 ln V, -1/2 ln V) for V words, and (0, 1). Needed with a ``scorer``.
    score_noise : float or None
        Noise of a private score over the width of ``score_range``, for the sum over units. None takes a fifth of a
        run's Renyi divergence for it.

    Attributes
    ----------
    best_estimator_ : PrivateEstimator
        The chosen model; its ledger and statement cover the whole search.
    best_params_ : dict
    best_score_ : float
        Noised if it is private; in the units of the scorer.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import BayesianLogisticRegression, PrivateSearch
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = BayesianLogisticRegression(epsilon=2.0, n_steps=2, classes=[0, 1])
    >>> search = PrivateSearch(model, {"row_norm": [0.5, 1.0]}, mean_runs=2)
    >>> search.check()  # the candidates, all combinations
    [{'row_norm': 0.5}, {'row_norm': 1.0}]
    >>> best = search.fit(X, y).best_estimator_
    >>> best.row_norm == search.best_params_["row_norm"], search.privacy_.epsilon <= 2.0
    (True, True)
    """

    def __init__(
        self,
        estimator: E,
        candidates: Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]],
        *,
        mean_runs: float = 10.0,
        shape: float | None = 1.0,
        score: str = "private",
        held_out: float = 0.2,
        scorer: Scorer | None = None,
        score_range: tuple[float, float] | None = None,
        score_noise: float | None = None,
    ) -> None:
        self.estimator, self.candidates = estimator, candidates
        self.mean_runs, self.shape, self.score, self.held_out = mean_runs, shape, score, held_out
        self.scorer, self.score_range, self.score_noise = scorer, score_range, score_noise
        self._names = estimator.get_params(deep=False).keys() if isinstance(estimator, PrivateEstimator) else ()
        self._test_key: bytes | None = None
        self._best: tuple[E, dict[str, Any], float] | None = None

    def set_unsafe(self, *, test_key: bytes | None = None) -> Self:
        """Set a known key as `PrivateEstimator.set_unsafe`: NOT PRIVATE, for tests."""
        if isinstance(self.estimator, PrivateEstimator):
            self._unfitted({}).set_unsafe(test_key=test_key)  # refuses another type than a key
        self._test_key = test_key
        return self

    # ------------------------------------------------------------ settings

    def _unfitted(self, settings: Mapping[str, Any]) -> E:
        return type(self.estimator)(**{**self._given(), **settings, "callback": None})

    def _given(self) -> dict[str, Any]:
        """List the estimator's own settings."""
        return {name: getattr(self.estimator, name) for name in self._names}

    def _tried(self) -> list[dict[str, Any]]:
        """Return the candidates, checked."""
        given = self.candidates
        if isinstance(given, Mapping):
            values = [list(one) for one in given.values()]
            tried = [dict(zip(given, one, strict=True)) for one in itertools.product(*values)]
        else:
            tried = [dict(one) for one in given]
        if not tried:
            raise ValueError("candidates: expected at least one")
        known = self._given()
        for one in tried:
            for name in one:
                if name not in known or name in SCHEDULE:
                    raise ValueError(
                        f"candidates: {name!r} is not to be searched; expected parameters of "
                        f"{type(self.estimator).__name__} but for {', '.join(sorted(SCHEDULE))}"
                    )
            self._unfitted(one)._check_parameters()
        return tried

    def check(self) -> list[dict[str, object]]:
        """List all combinations; ValueError or TypeError for unsuitable settings."""
        if not isinstance(self.estimator, PrivateEstimator):
            raise TypeError(f"estimator: expected a private estimator, got {type(self.estimator).__name__}")
        if not self.estimator.private or self.estimator.noise_multiplier == 0 or self.estimator._taints():
            raise ValueError("estimator: expected one whose fits are private")
        RepeatAndSelectEvent(GaussianEvent(1.0), self.mean_runs, self.shape)  # refuses unknown distributions
        check_choice("score", self.score, ("private", "public"))
        check_number("held_out", self.held_out, 0, 1, low_open=True, high_open=True)
        check_number("score_noise", self.score_noise, 0, math.inf, low_open=True, high_open=True, optional=True)
        if self.score_range is not None:
            low, high = self.score_range
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(f"score_range={self.score_range!r}: expected two numbers, the first below the second")
        elif self.scorer is not None and self.score == "private":
            raise ValueError("score_range=None: expected the public range of a private scorer")
        return self._tried()

    def _judged(self, n_features: int) -> tuple[Scorer, tuple[float, float]]:
        """Scorer and range."""
        known = default_scorer(self.estimator, n_features) if self.scorer is None else (self.scorer, (-1.0, 1.0))
        return known[0], known[1] if self.score_range is None else self.score_range

    # ----------------------------------------------------------------- plan

    def _score_noise(self, run: PrivacyEvent) -> float:
        """Choose the noise of the score; it rises with the run's noise."""
        if self.score_noise is not None:
            return float(self.score_noise)
        of_run = float(renyi_divergence(run, _SHARE_ORDER))
        # A Gaussian's divergence is order / (2 z^2).
        return math.sqrt(_SHARE_ORDER / (2.0 * _SCORE_SHARE * min(max(of_run, 1e-9), 1e3)))

    def event(self, sampler: Sampler, n_steps: int, noise_multiplier: float) -> RepeatAndSelectEvent:
        """Make the event of the whole search from steps and noise multiplier."""
        run: PrivacyEvent = run_event(sampler, noise_multiplier, n_steps)
        if self.score == "private":
            run = ComposedEvent((GaussianEvent(self._score_noise(run), sampler.relation), run))
        return RepeatAndSelectEvent(run, self.mean_runs, self.shape)

    def _drawn(self, one: Mapping[str, Any], public: Public) -> RunSchedule:
        """Make the schedule of a run."""
        run = self._unfitted(one)
        schedule = run._schedule(public, run._terms)
        assert schedule is not None, "the columns of the data are known"
        return schedule

    def _schedule(self, tried: list[dict[str, Any]], public: Public) -> tuple[Sampler, int]:
        """Find the runs' sampler and steps; ValueError if candidates differ."""
        n_steps = self._drawn(tried[0], public).n_steps
        # With the steps given, as all runs have them, so that none draws the minibatches that suit its own.
        sampler, *others = (self._drawn({**one, "n_steps": n_steps}, public).sampler for one in tried)
        for other in others:
            if other.event(1.0) != sampler.event(1.0):
                raise ValueError("candidates: expected settings with which all runs draw their minibatches alike")
        if sampler.name not in _SAMPLINGS:
            raise ValueError(
                f"sampling={sampler.name!r}: expected one of {', '.join(_SAMPLINGS)} in a search; no Renyi bound of "
                "others is known here"
            )
        check_steps(sampler, n_steps)
        return sampler, n_steps

    def _noise(self, make: Callable[[float], PrivacyEvent], delta: float, budget: Budget | None) -> float:
        z, target, terms = self.estimator.noise_multiplier, self.estimator.epsilon, self.estimator._terms
        if z is None:
            if not terms.targeted and budget is not None:
                return budget.noise_multiplier(make, 1)
            return noise_for(make, terms.target(delta))
        if target is not None and (would := epsilon(make(float(z)), delta)) > target:
            raise ValueError(
                f"noise_multiplier={z:g} gives the search epsilon = {rounded_up(would)} at delta = {delta:g}: expected "
                f"at most epsilon={rounded_up(target)}"
            )
        return float(z)

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Data,
        y: Column | None = None,
        *,
        groups: Column | None = None,
        unit: str | None = None,
        inputs: Mapping[str, str] | None = None,
        budget: str | Path | Budget | None = None,
        X_public: Data | None = None,
        y_public: Column | None = None,
        on_forecast: Callable[[RunForecast], None] | None = None,
    ) -> Self:
        """Search; afterwards ``best_estimator_`` is the chosen model.

        X and y are as the estimator's ``fit`` takes them, in memory; ``groups``, ``unit``, ``inputs`` and ``budget``
        are as in `vips_fast.models.parameters.Rows`. ``X_public`` and ``y_public`` give the score of runs with
        ``score="public"``: they have to be public, which nothing here can check. The budget is charged once, for the
        whole search, before the first run. ``on_forecast`` is called before that with the forecast of the best
        candidate, and may raise. None logs it, or warns with a `vips_fast.models.lda.HopelessWarning` if not even that
        candidate has prospects.

        Raises ValueError or TypeError, before anything is spent, if a setting or the data are unusable or the search
        does not fit the budget. Raises NoRunError, after it, if a Poisson number of runs is 0, and SearchError if a run
        failed.
        """
        tried = self.check()
        if isinstance(X, ShardedCorpus):
            raise TypeError("X: expected data in memory, not shards")
        if carried_purchase(X) is not None:
            raise ValueError("X: its columns come from a vocabulary purchase; expected public columns in a search")
        if (self.score == "public") != (X_public is not None):
            raise ValueError("X_public: expected with score='public', and only then")
        base, payer = self.estimator, None if budget is None else Budget.of(budget)
        rows, (n_rows, n_features) = _rows_of(X), _shape(X)
        called = unit_name(groups, unit, base.sampling)
        codes = np.arange(n_rows) if groups is None else group_codes(groups, n_rows, base.invalid)
        n_units = int(codes.max(initial=-1)) + 1
        n_records = int(base.n_records or max(n_units, 1))
        n_fitted = max(1, n_records - (round(self.held_out * n_records) if self.score == "private" else 0))
        scorer, (low, high) = self._judged(n_features)
        public = Public(n_features=n_features, n_records=n_fitted, seed=0, unit=called)
        sampler, n_steps = self._schedule(tried, public)
        delta = base.delta or (base._terms.usual_delta(n_records) if payer is None else payer.delta)
        if payer is not None:
            payer.check_plan(sampler.relation, called, float(delta))
        z = self._noise(lambda noise: self.event(sampler, n_steps, noise), float(delta), payer)
        event = self.event(sampler, n_steps, z)
        common: dict[str, Any] = {"n_steps": n_steps, "noise_multiplier": z, "delta": float(delta)}
        common |= {"epsilon": None, "target_attack_success": None}
        whose: dict[str, Any] = {} if groups is None else {"unit": called}
        forecasts: list[RunForecast | None] = []
        for one in tried:
            # Refuses settings and data that no run could use, before anything is spent. The labels are public.
            own = {"n_records": base.n_records if sampler.name == "without_replacement" else n_records}
            prospective = self._unfitted({**one, **common, **own})
            stage = prospective.prepare(X, y, groups=groups, inputs=inputs, **whose)
            seen, drawn = stage.public, RunSchedule(stage.plan.sampler, n_steps, n_steps, noise_multiplier=z)
            fewer = replace(seen, n_records=n_fitted)  # the data of a run's fit
            forecasts.append(prospective._forecast(fewer, drawn, stage.model))
        if (forecast := _best_forecast(tried, forecasts)) is not None:
            tell(forecast, on_forecast, 2)
        if seen.classes is not None and "classes" in base.get_params(deep=False):
            common["classes"] = seen.classes.tolist()
        facts = self._charge(payer, event, None)
        uncounted = payer is None and self._test_key is None
        with uncounted_fit("PrivateSearch", None, None) if uncounted else nullcontext():
            randomness: Randomness = SystemRandomness() if self._test_key is None else KeyedRandomness(self._test_key)
            fitted = np.ones(n_units, dtype=bool)
            if self.score == "private":
                fitted = _division(n_units, self.held_out, sampler.relation, randomness)
            held = _units(codes, ~fitted)
            inside = np.flatnonzero(np.append(fitted, False)[codes])  # a row of nobody has the number -1
            common["n_records"] = None if sampler.name == "without_replacement" else n_fitted
            run = {"X": rows(inside), "y": None if y is None else np.asarray(y)[inside], "inputs": inputs}
            if groups is not None:
                run |= {"groups": codes[inside], **whose}

            def judge(model: PrivateEstimator, number: int) -> float:
                if self.score == "public":
                    return float(scorer(model, X_public, y_public))
                labels = None if y is None else np.asarray(y)
                each = (_scored(scorer, model, rows(one), None if labels is None else labels[one]) for one in held)
                units = ((min(max(s, low), high) - low) / (high - low) for s in each)
                # The very event that is charged says how much noise there is.
                noise = cast(GaussianEvent, cast(ComposedEvent, event.event).events[0]).noise_multiplier
                total = _noised(units, noise, randomness.noise_key(number))
                return low + (high - low) * total / (self.held_out * n_records)

            with _unheard():
                try:
                    found = self._runs(tried, common, run, judge, randomness)
                except Exception as error:
                    # Its own text may tell of a private record.
                    what = f"a run of the search failed ({type(error).__name__}); its epsilon is spent"
                    raise SearchError(what) from None
        if found is None:
            raise NoRunError("the search drew no run, and publishes nothing; its epsilon is spent")
        model, params, score = found
        self._best = (self._published(model, event, score, len(tried), n_records, facts), params, score)
        return self

    def _charge(self, budget: Budget | None, event: PrivacyEvent, part: str | None) -> dict[str, str] | None:
        """Charge the whole search; return its record for the ledger."""
        if budget is None:
            return None
        if self._test_key is not None:
            raise ValueError(f"budget {budget.path}: expected None with a known key")
        with budget.reserve(event, 1, what=f"PrivateSearch {type(self.estimator).__name__}", part=part) as held:
            held.release()
            return {"dataset": budget.dataset, "budget": budget.identity, "run": held.run, "head": held.head}

    def _runs(
        self,
        tried: list[dict[str, Any]],
        common: Mapping[str, Any],
        data: Mapping[str, Any],
        judge: Callable[[PrivateEstimator, int], float],
        randomness: Randomness,
    ) -> tuple[E, dict[str, Any], float] | None:
        """Find the best of a random number of runs, settings and score."""
        best: tuple[E, dict[str, Any], float] | None = None
        high, low = (int(word) for word in randomness.words(2, "number of runs", 0))
        for number in range(number_of_runs(self.mean_runs, self.shape, (high << 64) | low)):
            word = int(randomness.words(1, "candidate", number)[0])
            params = tried[word * len(tried) >> 64]
            model = self._unfitted({**common, **params})
            if self._test_key is not None:
                key = hashlib.blake2b(b"run %d" % number, key=self._test_key, digest_size=32).digest()
                model.set_unsafe(test_key=key)
            model._fit(data["X"], data["y"], **{k: v for k, v in data.items() if k not in ("X", "y")})
            score = judge(model, number)
            if best is None or score > best[2]:
                best = (model, params, score)
        return best

    def _published(
        self,
        model: E,
        event: RepeatAndSelectEvent,
        score: float,
        n_candidates: int,
        n_records: int,
        facts: dict[str, str] | None,
    ) -> E:
        """Give the chosen model the ledger of the search."""
        result, ledger = model._fitted(), Ledger()
        plan: dict[str, Any] = dict(result.ledger.plan or {})
        searched = {
            "candidates": n_candidates,
            "mean_runs": float(self.mean_runs),
            "score": self.score,
            "best_score": score,
            "shape": None if self.shape is None else float(self.shape),
            "held_out": float(self.held_out) if self.score == "private" else 0.0,
        }
        risk = self.estimator._terms.target_attack_success
        by_risk = {} if risk is None else {"attack_success": risk}
        ledger.open(plan | {"n_records": n_records, "search": searched} | by_risk)
        for reason in result.ledger.taints:
            ledger.taint(reason)
        if facts is not None:
            ledger.charge_to(facts)
        ledger.intend(event, clip_norm=plan["clip_norm"], sensitivity=plan["sensitivity"])
        chosen = type(model)._from_settings(result.settings)
        chosen._result = FitResult.make(
            result.kind, result.settings, result.public, result.n_steps, result.arrays, result.state, ledger
        )
        return chosen

    # ------------------------------------------------------------ read-outs

    def _found(self) -> tuple[E, dict[str, Any], float]:
        if self._best is None:
            raise NotFittedError("This PrivateSearch instance is not fitted yet: call fit first")
        return self._best

    @property
    def best_estimator_(self) -> E:
        """The chosen model."""
        return self._found()[0]

    @property
    def best_params_(self) -> dict[str, object]:
        """Its candidate."""
        return dict(self._found()[1])

    @property
    def best_score_(self) -> float:
        """Its score, noised if it is private."""
        return self._found()[2]

    @property
    def privacy_(self) -> Privacy:
        """The guarantee of the whole search."""
        return self.best_estimator_.privacy_


# ------------------------------------------------------------------- scores


def default_scorer(estimator: PrivateEstimator, n_features: int) -> Score:
    """Find the scorer of an estimator's family, and its range; else ValueError."""
    path = family_of(estimator).scorer
    found: Score | None = resolve(path)(estimator, n_features) if path else None
    if found is None:
        raise ValueError(f"scorer=None: expected a callable, as {type(estimator).__name__} has none of its own")
    return found


def _scored(scorer: Scorer, model: PrivateEstimator, X: Any, y: Any) -> float:
    """Score a unit; minus infinity replaces errors, which could reveal a record."""
    try:
        score = float(scorer(model, X, y))
    except Exception:
        return -math.inf
    return score if score == score else -math.inf


def _noised(units: Iterator[float], noise_multiplier: float, key: bytes | None) -> float:
    """Sum numbers in [0, 1], exactly on the noise's lattice, with noise."""
    mechanism = GaussianMechanism(noise_multiplier, 1.0, 1.0)
    total = sum(math.trunc(one / mechanism.spacing) for one in units)
    sums = np.array([total], dtype=np.int64)
    mechanism.add_noise(sums, key)
    return float(sums[0]) * mechanism.spacing


# --------------------------------------------------------------------- data


def _division(n_units: int, held_out: float, relation: str, randomness: Randomness) -> np.ndarray:
    """Draw the units to fit to; see the module."""
    words = randomness.words(n_units, "held out", 0)
    if relation == "replace_one":
        fitted = np.ones(n_units, dtype=bool)
        fitted[np.argsort(words, kind="stable")[: round(held_out * n_units)]] = False
        return fitted
    return np.asarray(words >= np.uint64(math.floor(math.ldexp(held_out, 64))))


def _units(codes: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """Rows of each of the chosen units."""
    rows = np.argsort(codes, kind="stable")
    rows = rows[np.count_nonzero(codes < 0) :]
    ends = np.cumsum(np.bincount(codes[codes >= 0], minlength=len(chosen)))
    starts = np.diff(ends, prepend=0)
    return [rows[end - n : end] for end, n, one in zip(ends, starts, chosen, strict=True) if one]


def _shape(X: Any) -> tuple[int, int]:
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X has shape {shape}: expected two dimensions")
    return int(shape[0]), int(shape[1])


def _rows_of(X: Any) -> Callable[[np.ndarray], Any]:
    """Rows of X by their numbers."""
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        return lambda which: matrix[which]
    if hasattr(X, "iloc"):
        return lambda which: X.iloc[which]
    array = np.asarray(X)
    return lambda which: array[which]


def _best_forecast(tried: Sequence[Mapping[str, Any]], forecasts: Sequence[RunForecast | None]) -> RunForecast | None:
    """Find the best candidate's forecast; None unless all have one."""
    known = [one for one in forecasts if one is not None]
    if len(known) < len(tried):
        return None
    best = max(range(len(tried)), key=lambda place: known[place].gain)
    settings = ", ".join(f"{name}={value}" for name, value in tried[best].items())
    text = f"search: the best of {len(tried)} candidates is {settings}; {known[best].text}"
    return replace(known[best], text=text)


@contextmanager
def _unheard() -> Iterator[None]:
    """Hide the runs' log lines and warnings: they would tell the number."""
    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    # A filter of a logger does not hold for those below it. All were made when their modules were imported.
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] == "vips_fast"]
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(others)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)
