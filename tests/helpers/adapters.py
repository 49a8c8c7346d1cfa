"""Adapters of the audit for models that only the tests attack: tables, vocabularies."""

import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import numpy as np

from vips_fast.accounting import SelfComposedEvent, delta, epsilon
from vips_fast.accounting.printing import rounded_up
from vips_fast.audit import Adapter
from vips_fast.audit.bench import CONFIDENCE_ERROR, N_RECORDS, Bench, Data, Sizes
from vips_fast.audit.rebuild import STATED, public_attributes
from vips_fast.audit.report import Check, LayerResult
from vips_fast.audit.statistics import delta_lower_bound
from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.fit import Fit
from vips_fast.models.tables import TopicTables
from vips_fast.models.vocabulary import PrivateVocabulary
from vips_fast.models.vocabulary.model import VocabularyModel
from vips_fast.models.vocabulary.records import TokenSets
from vips_fast.store.limits import parse_json


class TablesAdapter(Adapter):
    """Tables of topics. A record is (topic proportions, the places of its values among the public ones)."""

    estimator_type = TopicTables
    bad = (-1.0, math.inf, math.nan, 2.0)
    small, wide, many = 4, 4, 20_000

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        if not self.settings.get("by"):
            self.settings["by"] = {"ward": ["north", "south", "west"], "month": [1, 2, 3, 4]}
        self._lists = [list(values) for values in self.settings["by"].values()]

    def data(self, records: Sequence[Any]) -> Data:
        values = np.empty((len(records), len(self._lists)), dtype=object)
        for row, (_, places) in zip(values, records, strict=True):
            row[:] = [known[place % len(known)] for known, place in zip(self._lists, places, strict=True)]
        return {"X": np.array([x for x, _ in records]), "y": values}

    def _record(self, topic: int, number: int) -> tuple[np.ndarray, list[int]]:
        return np.eye(self.small)[topic % self.small], [number] * len(self._lists)

    def worst_pair(self) -> tuple[Any, Any]:
        return self._record(0, 0), self._record(1, 0)

    def base(self, n: int) -> list[Any]:
        return [self._record(2 + i % 2, 1 + i % 2) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        places = [int(rng.integers(len(known))) for known in self._lists]
        return rng.dirichlet(np.full(columns, rng.choice([0.05, 1.0]))) * rng.choice([0.5, 1.0]), places

    def canaries(self, n: int, relation: str) -> Data | None:
        own = 2 * n if relation == "replace_one" else n
        return self.data([(row, [0] * len(self._lists)) for row in np.tile(np.eye(own), (2 * n // own, 1))])

    def width(self, entries: int) -> int:
        return max(2, -(-entries // int(self.estimator()._model(Public(2, 1, 0)).shape[0])))


#: Layer E: rounds, their noise, and the delta of the threshold, large enough to be measured.
_ROUNDS, _MULTIPLIER, _DELTA, _GRID = 4, 2.0, 0.04, 7
#: Tokens of only the audited person in layer E.
_OWN = 3


class _Listed(PrivateVocabulary):
    """A vocabulary over a public list: ``t3/8`` is token 3 of 8."""

    def _check_parameters(self) -> None:
        # Parameters stay as they are in layer D, so that it may have any number of rounds.
        rounds, self.n_rounds = self.n_rounds, min(self.n_rounds, 100)
        try:
            super()._check_parameters()
        finally:
            self.n_rounds = rounds

    def prepare(self, X: Any, *data: Any, **how: Any) -> Fit:
        """Plan as the vocabulary does, and number the tokens by the list."""
        stage = super().prepare(X, *data, **how)
        sets: Any = stage.records
        number = int(sets.names[1].partition("/")[2])
        place = {token(i, number): i + 1 for i in range(number)}
        own = np.array([0, *(place[name] for name in sets.names[1:])], dtype=np.int32)
        listed = TokenSets(own[sets._ids], sets._ends, ["", *place])
        cast(VocabularyModel, stage.model).learn(listed)
        return replace(stage, records=listed)


def token(i: int, number: int) -> str:
    """Name a token of a list."""
    return f"t{i}/{number}"


def _text(tokens: Any, number: int) -> str:
    return " ".join(token(int(i), number) for i in tokens)


class VocabularyAdapter(Adapter):
    """Private vocabularies, with layers E and G of their own.

    A record is the text of a person. Layers A to D and H compare sums of tokens, so every data set needs the same
    tokens. They take a public list of tokens, and a token without a holder has a sum of 0. Layers E and G take the
    vocabulary as it is. E also attacks tokens of only one person: the threshold lets one through with a probability of
    at most its delta. G makes the vocabulary again from its published text, as sums below the threshold never leave.

    No layer looks at the choice of a person's tokens, as all records hold less than ``max_tokens``. Replay and mutants
    of it are in the tests of the models.
    """

    estimator_type = PrivateVocabulary
    small, wide, many, disjoint, samples = 16, 64, 3000, True, False

    def __init__(self, settings: dict[str, Any], kind: Any = None):
        super().__init__({"n_rounds": 8, **settings, "sampling": "full"}, kind)
        self.layers = {"E": layer_e, "G": layer_g}

    def estimator(self, **overrides: Any) -> Any:
        """Make a vocabulary over a public list of tokens; a number of steps becomes one of rounds."""
        if (rounds := overrides.pop("n_steps", None)) is not None:
            overrides["n_rounds"] = rounds
        made = type(self.kind.__name__, (_Listed, self.kind), {})(**self.settings)
        return made.set_params(**{**overrides, "analyzer": str.split, "options__relation": None})

    def data(self, records: Sequence[Any]) -> Data:
        return {"X": np.array([*records, ""], dtype=object)[:-1]}

    def worst_pair(self) -> tuple[Any, Any]:
        return _text(range(self.small // 2), self.small), ""

    def base(self, n: int) -> list[Any]:
        half = self.small // 2
        return [_text([half + i % half, half + (i + 1) % half], self.small) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        held = rng.permutation(columns)[: int(rng.choice([0, 1, 2, columns // 2, columns]))]
        return _text([*held, *held[:2]], columns)

    def invalid(self) -> list[Any]:
        return []

    def canaries(self, n: int, relation: str) -> Data | None:
        return self.data([_text([i % n], n) for i in range(2 * n)])

    def blank(self, columns: int) -> list[Any]:
        return [_text([columns - 1], columns)] * 2


class _Attack:
    """Scores of whole runs: likelihood ratios, and infinity. It is infinity for an own token that is released."""

    def __init__(self, bench: Bench, holds: bool):
        self.bench, adapter = bench, bench.adapter
        shared = [f"s{i}" for i in range(4)]
        self.others = [" ".join(shared[i % 3 : i % 3 + 2]) for i in range(N_RECORDS - 1)]
        self.one = " ".join([*shared[:2], *(f"own{i}" for i in range(_OWN))])
        self.holds, self.n_shared = holds, 1 + len(shared)
        chosen = adapter.settings | {"n_rounds": _ROUNDS, "noise_multiplier": _MULTIPLIER, "n_records": N_RECORDS}
        chosen |= {"threshold_delta": _DELTA, "delta": 0.5, "max_tokens": 10, "max_features": None}
        self.settings = chosen

    def prepare(self, records: list[str]) -> Fit:
        """Plan a run over the given vocabulary."""
        return self.bench.prepare(self.bench.adapter.kind(**self.settings), records)

    def score(self) -> float:
        """Run once."""
        stage = self.prepare([*self.others, self.one] if self.holds else self.others)
        known = self.prepare([*self.others, self.one])  # whose records the attacker has
        variance, ratios = (stage.plan.mechanism.noise_sd / stage.plan.mechanism.spacing) ** 2, []
        word = np.zeros(N_RECORDS, dtype=np.uint64)

        def on_release(release: Release) -> None:
            sums = [self.bench.sums(known, rows, word[: len(rows)]) for rows in (range(N_RECORDS - 1), [N_RECORDS - 1])]
            rest, own = (one[: self.n_shared].astype(np.float64) for one in sums)
            seen = release.units[: self.n_shared] - rest
            ratios.append(float(seen @ own - 0.5 * own @ own) / variance)
            # The attacker's model learns as the other one; of own tokens it knows nothing.
            units = np.zeros(known.model.shape, dtype=np.int64)
            units[: self.n_shared] = release.units[: self.n_shared]
            known.model.update(Release(release.step, units, release.scale, release.noise_sd))

        self.bench.run(stage, on_release)
        lengths, data = (stage.model.result()[name] for name in ("lengths", "bytes"))
        return math.inf if len(lengths) and b"own" in data.tobytes() else math.fsum(ratios)


def layer_e(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """delta(epsilon) of whole purchases, with tokens of only one person."""
    sides = []
    for holds in (True, False):
        attack = _Attack(bench, holds)
        sides.append(np.array([attack.score() for _ in range(sizes.runs)]))
    plan = attack.prepare(attack.others).plan
    event = SelfComposedEvent(plan.sampler.event(_MULTIPLIER), _ROUNDS)
    half, (one, other) = sizes.runs // 2, sides
    grid = [0.0, *np.linspace(0.2, epsilon(event, 1.5 * _DELTA), _GRID - 1).tolist()]
    thresholds = np.quantile(np.concatenate((one[:half], other[:half])), np.linspace(0.02, 0.99, 60), method="lower")
    thresholds = np.append(np.unique(thresholds[np.isfinite(thresholds)]), 1e300)
    checks = []
    for e in grid:
        tries = [(delta_lower_bound(one[:half], other[:half], e, t, CONFIDENCE_ERROR), t) for t in thresholds]
        t = max(tries)[1]
        low, claim = delta_lower_bound(one[half:], other[half:], e, t, CONFIDENCE_ERROR), delta(event, e)
        checks.append((low - claim, e, low, claim))
    _, e, low, claim = max(checks)
    leaked, number = int(np.isinf(one).sum()), sizes.runs
    lone = delta_lower_bound(one, other, 0.0, 1e300, CONFIDENCE_ERROR)
    said = f"Clopper-Pearson lower bound on {sizes.runs - half} runs a side, epsilon and threshold chosen on the others"
    return LayerResult(
        "E",
        f"profile of whole purchases, {sizes.runs} a side",
        (
            Check(f"delta at epsilon = {rounded_up(e)}", low <= claim, low, claim, said, CONFIDENCE_ERROR),
            Check(
                "tokens of one person",
                lone <= _DELTA and not np.isinf(other).any(),
                leaked / number,
                _DELTA,
                f"{leaked} of {number} purchases released one of {_OWN}: a probability of at least {lone:.4f}",
                CONFIDENCE_ERROR,
            ),
        ),
    )


_READ = """
import json, sys
from pathlib import Path
from vips_fast.audit.rebuild import public_attributes
from vips_fast.models.vocabulary.estimator import read_purchase
for path in sys.argv[1:]:
    print(json.dumps(public_attributes(read_purchase(Path(path).read_text()))))
"""


def layer_g(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Make a vocabulary again from its published text, without the texts."""
    common = ["fever cough rash", "fever sleep", "cough work rent"]
    texts = [common[i % 3] for i in range(300)] + [f"lone{i} fever" for i in range(15)]
    checks, made, paths = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        # Two data sets that differ in tokens that are not released.
        for number, records in enumerate((texts, [*texts, "once"]), 1):
            settings = {**bench.adapter.settings, "analyzer": "unicode", "noise_multiplier": 3.0, "n_records": 320}
            estimator = bench.adapter.kind(**settings)
            stage = bench.prepare(estimator, records)
            stage.run()
            checks.append(_statement(estimator, stage, f"statement, data set {number}"))
            text = estimator.purchase_text()
            lone = [word for i in range(15) if (word := f"lone{i}") in text]
            checks.append(Check(f"tokens of one person, data set {number}", not lone, detail="none is in the text"))
            made.append(public_attributes(estimator))
            paths.append(Path(folder) / f"{number}.json")
            paths[-1].write_text(text)
        done = subprocess.run([sys.executable, "-c", _READ, *paths], capture_output=True, text=True, check=False)
    for number, (mine, line) in enumerate(zip_longest(made, done.stdout.splitlines(), fillvalue="{}"), 1):
        again = parse_json(line)
        differ = sorted(name for name in {*mine, *again} if mine.get(name) != again.get(name))
        said = ", ".join(differ) or f"{len(mine)} public attributes, in a process without the texts"
        checks.append(Check(f"rebuilt bit for bit, data set {number}", not differ, detail=f"{said} {done.stderr}"))
    return LayerResult("G", "rebuild from the released sums", tuple(checks))


def _statement(estimator: Any, stage: Fit, name: str) -> Check:
    """Compare the printed epsilon with the accountant's for all planned rounds."""
    privacy = estimator.privacy_
    spent = epsilon(SelfComposedEvent(stage.plan.sampler.event(3.0), stage.plan.n_steps), privacy.delta)
    words = STATED.match(str(privacy))
    stated = min(float(words[1]), privacy.epsilon) if words else -1.0
    return Check(name, stated >= spent, stated, spent, "the printed epsilon, and the accountant's for all rounds")
