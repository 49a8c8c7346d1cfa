"""Audit private searches for settings: division, score and choice.

The layers of the searched model audit the runs. Here layer A moves one unit under fixed coins. B looks at the judgment
of units, C and D at the noise of scores. E attacks the published score of whole searches, and G checks the choice.
There is no layer H: a score is one number, so no two units have entries of their own in it.
"""

import math
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..accounting import ComposedEvent, GaussianEvent, Relation, RepeatAndSelectEvent, SelfComposedEvent, delta, epsilon
from ..accounting.printing import rounded_up
from ..mechanisms import GaussianMechanism
from ..models.estimator import PrivateEstimator
from ..models.rebuild import alike
from ..models.search import NoRunError, PrivateSearch
from .adapter import Adapter, adapter_for
from .bench import Bench, Data
from .noise import law, uncorrelated
from .rebuild import STATED, fingerprint, held_values, public_attributes
from .report import Check, LayerResult
from .sizes import CONFIDENCE_ERROR, Sizes
from .statistics import delta_lower_bound, mu_interval, mu_lower_bound

#: Units of a data set; noise of a run, and of the score, in standard deviations over the sensitivity.
_UNITS, _RUN, _SCORE = 24, 30.0, 1.5
#: Most noised scores of layers C and D, and most whole searches of layer E, a side.
_MOST_SCORES, _MOST_SEARCHES = 20_000, 1_500


class _Begun(NamedTuple):
    """What a search has decided before its first run."""

    tried: list[dict[str, Any]]
    common: Mapping[str, Any]
    data: Mapping[str, Any]
    judge: Callable[[Any, int], float]


class _Watched(PrivateSearch[Any]):
    """A search that shows or stops its runs.

    It shows the inputs and releases of its runs, or ends before them.
    """

    only_begins = False
    begun: _Begun
    released: list[tuple[Any, dict[str, Any], float]]

    def _runs(self, tried: Any, common: Any, data: Any, judge: Any, randomness: Any) -> Any:
        self.begun, self.released = _Begun(tried, dict(common), dict(data), judge), []

        def kept(model: Any, number: int) -> float:
            score: float = judge(model, number)
            self.released.append((model, model.get_params(deep=False), score))
            return score

        return None if self.only_begins else super()._runs(tried, common, data, kept, randomness)


def search_adapter(search: PrivateSearch[Any], settings: dict[str, Any]) -> Adapter:
    """Make the adapter of the searched model, with the search's layers."""
    if search.score != "private":
        raise ValueError(f"score={search.score!r}: expected 'private' for an audit; a public score is no release")
    adapter = adapter_for(search.estimator, settings)
    functions = {"A": layer_a, "B": layer_b, "C": layer_c, "D": layer_d, "E": layer_e, "G": layer_g}
    adapter.layers = {name: partial(_quietly, function, search) for name, function in functions.items()}
    adapter.most_canaries = 0
    return adapter


def _quietly(layer: Callable[..., LayerResult], *arguments: Any) -> LayerResult:
    """Run a layer without warnings: its data are invented."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return layer(*arguments)


def _made(search: PrivateSearch[Any], bench: Bench, begins: bool = True, **settings: Any) -> Any:
    """Copy the search to the bench, with ``settings`` as attributes."""
    kind: Any = type(type(search).__name__, (_Watched, type(search)), {"only_begins": begins})
    made = object.__new__(kind)
    own = {name: settings.pop(name) for name in list(settings) if name in vars(search)}
    estimator = bench.whole(**{"n_steps": 2, "noise_multiplier": _RUN, "n_records": _UNITS, **settings})
    vars(made).update({**vars(search), "score_noise": _SCORE, **own, "estimator": estimator, "_best": None})
    return made


def _begin(made: Any, data: Data, key: bytes | None) -> _Begun:
    made.set_unsafe(test_key=key)
    with suppress(NoRunError):
        made.fit(**data)
    begun: _Begun = made.begun
    return begun


def _fitted(made: Any, begun: _Begun) -> Any:
    """Fit a model of the first candidate."""
    model = made._unfitted({**begun.common, **begun.tried[0]})
    return model._fit(begun.data["X"], begun.data["y"], **{k: v for k, v in begun.data.items() if k not in ("X", "y")})


def _others(bench: Bench, rng: np.random.Generator) -> list[Any]:
    adapter = bench.adapter
    company = adapter.company(adapter.small)
    return company + [adapter.generated(rng, adapter.small) for _ in range(_UNITS - 1 - len(company))]


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.todense() if hasattr(X, "todense") else X)


def _unit(X: Any, y: Any) -> bytes:
    rows = np.ascontiguousarray(_dense(X), dtype=np.float64)
    return rows.tobytes() + (b"" if y is None else np.asarray(y, dtype=np.float64).tobytes())


def _held_out(one: _Begun, two: _Begun) -> bool:
    """Tell whether two neighbors' runs are fitted to the same rows."""
    last = [_unit(begun.data["X"][-1:], _labels(begun.data, slice(-1, None))) for begun in (one, two)]
    return one.data["X"].shape[0] == two.data["X"].shape[0] and last[0] == last[1]


def _labels(data: Mapping[str, Any], rows: slice) -> Any:
    return None if data.get("y") is None else data["y"][rows]


def _scale(made: Any) -> float:
    """Return the factor from a score to a number of units."""
    return float(made.held_out * _UNITS)


def _pair(bench: Bench, records: list[Any], first: Any, second: Any) -> tuple[Data, Data]:
    last = [second] if bench.relation == Relation.REPLACE_ONE else []
    return bench.adapter.data([*records, first]), bench.adapter.data([*records, *last])


def layer_a(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Move one unit under fixed coins: the others' division, and the score."""
    most, divided, facts, crossed, held, told = 0.0, 0, 0, 0, 0, 0
    for number in range(max(60, sizes.pairs // 5)):
        records, key = _others(bench, rng), rng.bytes(32)
        if number % 2:
            first, second = (bench.adapter.generated(rng, bench.adapter.small) for _ in range(2))
        else:
            first, second = bench.adapter.worst_pair()
        pair = _pair(bench, records, first, second)
        extra = _unit(pair[0]["X"][-1:], _labels(pair[0], slice(-1, None)))
        wild = [math.inf, math.inf, -math.inf, math.nan, None][number % 5]

        def scorer(model: Any, X: Any, y: Any, extra: bytes = extra, wild: float | None = wild) -> float:
            # The range is [0, 1]; a unit without a number counts as the lowest.
            if _unit(X, y) != extra:
                return 0.0
            if wild is None:
                raise ValueError("of one unit")
            return wild

        made = _made(search, bench, scorer=scorer, score_range=(0.0, 1.0), held_out=0.5)
        one, two = (_begin(made, data, key) for data in pair)
        model = _fitted(made, one)
        facts += not (alike(one.tried, two.tried) and alike(one.common, two.common))
        a, b = (_dense(begun.data["X"]) for begun in (one, two))
        inside = not _held_out(one, two)
        n = min(len(a), len(b)) - (len(a) == len(b) and inside)
        divided += len(a) - len(b) not in (0, 1) or not np.array_equal(a[:n], b[:n])
        try:
            moved = abs(one.judge(model, 0) - two.judge(model, 0)) * _scale(made)
        except Exception:  # whatever it is, it tells of the unit
            told += 1
            continue
        crossed += inside and moved > 1e-9
        held += not inside
        most = max(most, moved)
    checks = (
        Check("public facts", facts == 0, detail="neighboring data sets give the same candidates and plan"),
        Check("division of the others", divided == 0, detail="a unit changes its own share only"),
        Check("one share for a unit", crossed == 0, detail="a unit that is fitted to moves no score"),
        Check("errors of a scorer", told == 0, detail="an error about one unit, or no number, ends no search"),
        Check("distance of scores", most <= 1 + 1e-9, most, 1.0, "units that a score moves by, whatever a scorer says"),
        # Two fifths of the scores are at the upper end, and a fit leaves out half of the units.
        Check("worst case is reached", most > 1 - 1e-6, most, 1.0, f"{held} held-out units", 2.0**-20),
    )
    return LayerResult("A", "replay of neighbors", checks)


def layer_b(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Judge units of three rows, one at a time, only held-out ones."""
    adapter = bench.adapter
    records = adapter.company(adapter.small) + [adapter.generated(rng, adapter.small) for _ in range(3 * _UNITS)]
    records = records[: 3 * _UNITS]
    data, groups = adapter.data(records), np.arange(len(records)) // 3
    rows = [slice(3 * k, 3 * k + 3) for k in range(_UNITS)]
    units = [_unit(data["X"][each], _labels(data, each)) for each in rows]
    true, bounds = search._judged(data["X"].shape[1])
    seen: list[tuple[bytes, float]] = []

    def scorer(model: Any, X: Any, y: Any) -> float:
        seen.append((_unit(X, y), value := float(true(model, X, y))))
        return value

    made = _made(search, bench, scorer=scorer, score_range=bounds)
    begun = _begin(made, {**data, "groups": groups}, rng.bytes(32))
    model = _fitted(made, begun)
    first, second = begun.judge(model, 0), begun.judge(model, 0)
    half = len(seen) // 2
    fitted = set(np.unique(begun.data["groups"]).tolist())
    rest = sorted(unit for number, unit in enumerate(units) if number not in fitted)
    alone = {
        unit: float(true(model, data["X"][each], _labels(data, each))) for unit, each in zip(units, rows, strict=True)
    }
    same = all(np.array_equal(alone.get(unit, math.inf), value, equal_nan=True) for unit, value in seen)
    checks = (
        Check(
            "one unit at a time",
            sorted(unit for unit, _ in seen[:half]) == rest,
            detail=f"{half} calls for {len(rest)} units",
        ),
        Check("alone and together", same, detail="numbers of units, asked for in any order"),
        Check("again", first == second and seen[:half] == seen[half:], detail="the same sum, later"),
    )
    return LayerResult("B", "judgment of units", checks)


def layer_c(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Test the law of a score's noise in two searches.

    The result has its event.
    """
    made = _made(search, bench, scorer=lambda *_: 0.0, score_range=(0.0, 1.0))
    records = bench.adapter.data([*_others(bench, rng), bench.adapter.worst_pair()[0]])
    n, noises = max(1_000, min(sizes.draws // 2, _MOST_SCORES // 2)), []
    for _ in range(2):
        begun = _begin(made, records, None)
        model = _fitted(made, begun)
        noises.append(np.array([begun.judge(model, number) for number in range(n)]) * _scale(made))
    mechanism = GaussianMechanism(_SCORE, 1.0, 1.0)
    whole = np.concatenate(noises) / mechanism.spacing
    off = float(np.abs(whole - np.rint(whole)).max() / (1 + np.abs(whole).max()))
    # Several runs, and the ledger of the one that is published.
    made = _made(search, bench, begins=False, mean_runs=max(4.0, search.mean_runs), shape=None)
    _run_twice(made, records)
    digests = [str(fingerprint(model._fitted().arrays)) for model, _, _ in made.released]
    checks = [
        *law(np.rint(whole).astype(np.int64), mechanism.noise_sd / mechanism.spacing),
        Check("lattice", off < 1e-9, off, 0.0, "scores are whole multiples of one power of two"),
        *uncorrelated({"two runs": (noises[0][0::2], noises[0][1::2]), "two searches": (noises[0], noises[1])}, _SCORE),
        Check("fresh runs", len(set(digests)) == len(digests), detail=f"{len(digests)} runs release different numbers"),
        Check("charged", _charged(made, _event(made, bench)), detail="the ledger holds the event of the search"),
    ]
    return LayerResult("C", "noise of a score", tuple(checks))


def _event(made: Any, bench: Bench) -> RepeatAndSelectEvent:
    """Compose the event of a search on the bench anew."""
    run = SelfComposedEvent(GaussianEvent(_RUN, bench.relation), made.estimator.n_steps)
    both = ComposedEvent((GaussianEvent(made.score_noise, bench.relation), run))
    return RepeatAndSelectEvent(both, made.mean_runs, made.shape)


def _charged(made: Any, event: RepeatAndSelectEvent) -> bool:
    return bool(made.best_estimator_.ledger_.spent == {(None, event): 1})


def _run_twice(made: Any, data: Data) -> None:
    """Search until there are two runs or more."""
    made.set_unsafe()
    made.released = []
    while len(made.released) < 2:
        with suppress(NoRunError):
            made.fit(**data)


def layer_d(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Measure the Gaussian-DP mu of one score, by a held-out unit."""
    records, checks = _others(bench, rng), []
    first, second = bench.adapter.worst_pair()
    pair = _pair(bench, records, first, second)
    extra = _unit(pair[0]["X"][-1:], _labels(pair[0], slice(-1, None)))
    n = min(sizes.releases, _MOST_SCORES)
    for z in (1.0, 3.0):
        made = _made(
            search, bench, scorer=lambda model, X, y: float(_unit(X, y) == extra), score_range=(0.0, 1.0), score_noise=z
        )
        while True:
            key = os.urandom(32)
            one, two = (_begin(made, data, key) for data in pair)
            if _held_out(one, two):
                break
        model = _fitted(made, one)
        # Each number of a run has a noise key of its own.
        sides = [np.array([begun.judge(model, k + shift) for k in range(n)]) for begun, shift in ((one, 0), (two, n))]
        mu, low, high = mu_interval(sides[0], sides[1], CONFIDENCE_ERROR)
        free, claim = mu_lower_bound(sides[0], sides[1], CONFIDENCE_ERROR), 1.0 / z
        said = f"mu in [{low:.4f}, {high:.4f}] for normal scores, at least {free:.4f} for any; {n} scores a side"
        passed = max(low, free) <= claim
        checks.append(Check(f"noise multiplier {z:g}", passed, mu, claim, said, 2 * CONFIDENCE_ERROR))
    return LayerResult("D", f"mu of one score, {n} scores a side", tuple(checks))


class _Once(PrivateEstimator):
    """An estimator that is fitted once: the attack is on the score."""

    kept: dict[Any, Any]
    _result: Any

    def _fit(self, X: Any, y: Any = None, **how: Any) -> Any:
        if X.shape[0] not in self.kept:
            super()._fit(X, y, **how)
            self.kept[X.shape[0]] = self._result
        self._result = self.kept[X.shape[0]]
        return self


def layer_e(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Attack the published scores of whole searches, against the stated profile."""
    first, second = bench.adapter.worst_pair()
    pair = _pair(bench, _others(bench, rng), first, second)
    extra = _unit(pair[0]["X"][-1:], _labels(pair[0], slice(-1, None)))
    made = _made(
        search,
        bench,
        begins=False,
        scorer=lambda model, X, y: float(_unit(X, y) == extra),
        score_range=(0.0, 1.0),
        held_out=0.9,
        score_noise=3.0,
    )
    once: Any = type("Once", (_Once, type(made.estimator)), {"kept": {}})
    made.estimator = once(**made.estimator.get_params(deep=False))
    n, sides = min(sizes.runs, _MOST_SEARCHES), []
    made.set_unsafe()
    for data in pair:
        scores = np.full(n, -math.inf)
        for number in range(n):
            with suppress(NoRunError):
                scores[number] = made.fit(**data).best_score_ * _scale(made)
        sides.append(scores)
    event, half = made.best_estimator_.ledger_.event(), n // 2
    grid, checks = [epsilon(event, at) for at in (0.5, 0.2, 0.1, 0.05)], []
    thresholds = np.unique(np.concatenate([side[:half] for side in sides]))
    for at in grid:
        t = max((delta_lower_bound(sides[0][:half], sides[1][:half], at, t, 0.3), t) for t in thresholds)[1]
        low = delta_lower_bound(sides[0][half:], sides[1][half:], at, t, CONFIDENCE_ERROR)
        checks.append((low - (claim := delta(event, at)), at, low, claim))
    _, at, low, claim = max(checks)
    said = f"Clopper-Pearson lower bound on {n - half} searches a side, the worst of {len(grid)} epsilons"
    check = Check(f"delta at epsilon = {rounded_up(at)}", low <= claim, low, claim, said, len(grid) * CONFIDENCE_ERROR)
    return LayerResult("E", f"profile of published scores, {n} searches a side", (check,))


def layer_g(search: PrivateSearch[Any], bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Repeat the choice from the runs' releases, and look for leaks."""
    records = bench.adapter.data([*_others(bench, rng), bench.adapter.worst_pair()[0]])
    made = _made(search, bench, begins=False, mean_runs=8.0, shape=None, n_steps=2)
    before = set(vars(made))
    _run_twice(made, records)
    best, runs = made.best_estimator_, made.released
    model, params, score = max(runs, key=lambda run: run[2])
    chosen = made.best_score_ == score and alike(dict(best._fitted().arrays), dict(model._fitted().arrays))
    chosen = chosen and all(params[name] == value for name, value in made.best_params_.items())
    with tempfile.TemporaryDirectory() as folder:
        best.save(Path(folder) / "model")
        loaded = type(best).load(Path(folder) / "model")
        files = b"".join(file.read_bytes() for file in (Path(folder) / "model").iterdir())
    held, own = pickle.dumps(vars(made)["_best"]), [name for name in vars(made) if name not in before]
    others = [other for other, _, _ in runs if other is not model]
    leaked = sum(
        array.nbytes >= 8 and array.tobytes() in held + files
        for other in others
        for name, array in other._fitted().arrays.items()
        if not alike(array, model._fitted().arrays[name])
    )
    said, stated = best.privacy_, STATED.match(str(best.privacy_))
    spent = epsilon(_event(made, bench), said.delta)
    least = min(float(stated[1]), said.epsilon) if stated else -1.0
    same = public_attributes(best) == public_attributes(loaded) and held_values(best) == held_values(loaded)
    checks = (
        Check("best of the noised scores", chosen, detail=f"of {len(runs)} runs, by what they released"),
        Check("read again", same, detail="the saved model has the same public attributes"),
        Check(
            "nothing of other runs",
            leaked == 0 and set(own) <= {"begun", "released"},
            detail=f"{len(others)} of them: no array in files or pickles, and no other attribute",
        ),
        Check("one release", _charged(made, _event(made, bench)), detail="the ledger holds the event of the search"),
        Check("statement", least >= spent, least, spent, "the printed epsilon, and the accountant's for the search"),
    )
    return LayerResult("G", "choice from the released scores", checks)
