"""Adapter of running tables, with five layers of its own.

The other tables' layers look at one release of one set of records. Here a unit has an effect on the releases of several
nights. So each layer runs all nights, as `NightlyTables.add_night` does, and persons come as the layer says. A looks at
the mixed sums before their noise, C at the noise of each night. D attacks a person of the first night, which has the
largest effect, and E persons who come every night. G makes the tables again from their releases. Layer B is the common
one, of a single night.
"""

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..accounting import epsilon
from ..accounting.running_sum import BITS, coefficients
from ..engine.nights import NightsFolder
from ..engine.transcript import TranscriptWriter
from ..models.stage import Stage
from ..models.tables import NightlyTables
from .adapters import TablesAdapter
from .bench import Bench, Part
from .noise import law, uncorrelated
from .rebuild import STATED
from .report import Check, LayerResult
from .sizes import CONFIDENCE_ERROR, Sizes
from .statistics import mu_interval

_CELLS, _OTHERS, _MULTIPLIER = 40, 40, 2.0
#: Topics and most canaries of layers D and E: a canary has a cell and a topic of its own.
_TOPICS = 40
_CANARIES = _CELLS * _TOPICS


class _OneNight(NightlyTables):
    """Running tables that need no folder to plan."""

    def prepare(self, X: Any, y: Any = None, **how: Any) -> Stage:
        """Plan a night."""
        if "folder" in how:
            return super().prepare(X, y, **how)
        with tempfile.TemporaryDirectory() as place, NightsFolder(place) as folder:
            return super().prepare(X, y, folder=folder, night="night", groups=list(range(len(X))), **how)


class NightsAdapter(TablesAdapter):
    """Running tables. A record is one of `TablesAdapter`."""

    estimator_type = NightlyTables
    samples = False

    def __init__(self, settings: dict[str, Any], kind: Any = None):
        super().__init__({"nights": 7, **settings}, kind)
        self.layers = {"A": layer_a, "C": layer_c, "D": layer_d, "E": layer_e, "G": layer_g}

    def estimator(self, **overrides: Any) -> Any:
        """Make running tables; each night is one release of all its records."""
        settings = {**self.settings, **overrides, "sampling": "full", "relation": None}
        return type(self.kind.__name__, (_OneNight, self.kind), {})(**settings | {"batch_size": None, "n_steps": None})

    def canaries(self, n: int, relation: str, persons: bool = False) -> None:
        """Give none: layers D and E have canaries of their own."""


class _Person(NamedTuple):
    """A person: the nights of a document, its cell and its topic."""

    nights: frozenset[int]
    cell: int
    topic: int


class _Noted(Part):
    """A mechanism that notes sums before their noise, and the noise."""

    def __init__(self, inner: Any, seen: list[tuple[np.ndarray, np.ndarray, float]]):
        super().__init__(inner)
        self.seen = seen

    def add_noise(self, sums: np.ndarray, *rest: Any) -> None:
        """Add noise, and note it."""
        before = sums.copy()
        self.inner.add_noise(sums, *rest)
        self.seen.append((before, sums - before, self.inner.noise_sd / self.inner.spacing))


class _Nights:
    """All nights of a bench, with some persons.

    ``exact`` and ``noise`` are (nights, groups, topics), in lattice units. ``sd`` is the noise's standard deviation.
    """

    def __init__(
        self, bench: Bench, persons: Mapping[str, _Person], n_topics: int = 2, transcript: Path | None = None
    ) -> None:
        cells = {"by": {"cell": list(range(_CELLS))}}
        self.tables = bench.estimator(**cells, noise_multiplier=_MULTIPLIER, n_records=100)
        seen: list[tuple[np.ndarray, np.ndarray, float]] = []
        with tempfile.TemporaryDirectory() as place:
            for number in range(self.tables.nights):
                here = {label: one for label, one in persons.items() if number in one.nights}
                X = np.eye(n_topics)[[one.topic for one in here.values()]].reshape(-1, n_topics)
                y = {"cell": np.array([one.cell for one in here.values()], int)}
                writer = None if transcript is None else TranscriptWriter(transcript, first=not number, resume=True)
                with NightsFolder(place) as folder:
                    data = {"X": X, "y": y, "groups": list(here)}
                    stage = bench.prepare_data(self.tables, data, folder=folder, night=f"night {number}")
                    mechanism: Any = _Noted(stage.plan.mechanism, seen)
                    self.tables.run(replace(stage, plan=replace(stage.plan, mechanism=mechanism)), writer, folder)
        self.exact, self.noise = (np.array([one[place] for one in seen]) for place in (0, 1))
        self.sd, self.event = seen[0][2], self.tables.ledger_.event()

    @property
    def claimed(self) -> float:
        """The claimed mu of all releases together."""
        return 1.0 / float(self.event.equivalent().noise_multiplier)


def _visits(bench: Bench) -> tuple[int, list[frozenset[int]]]:
    """Count the nights, and list sets of nights of a person."""
    number = int(bench.adapter.estimator().nights)
    sets = [frozenset(nights) for nights in ({0}, {number // 2}, range(0, number, 3), range(number))]
    return number, sets


def layer_a(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Measure how far a person moves the mixed sums."""
    number, sets = _visits(bench)
    nights = [frozenset(rng.choice(number, min(3, number), replace=False).tolist()) for _ in range(_OTHERS)]
    others = {f"other {i}": _Person(nights[i], i % _CELLS, i % 2) for i in range(_OTHERS)}
    without, found, alone = _Nights(bench, others), [], True
    for come in sets:
        mine = _Nights(bench, {"me": _Person(come, 0, 0)} | others)
        moved = (mine.exact - without.exact).astype(np.float64)
        found.append(float(np.linalg.norm(moved)) / mine.sd / mine.claimed)
        alone &= np.count_nonzero(moved.any(axis=(0, 2))) == 1
    said = f"{len(sets)} ways to come on {number} nights; the distance over the claimed one"
    checks = (
        Check("distance", max(found) <= 1.0 + 1e-9, max(found), 1.0, said),
        Check("the claim is reached", max(found) > 0.999, max(found), 1.0, said),
        Check("others contribute as before", alone, detail="only the group of the person moves"),
    )
    return LayerResult("A", "a person in all nights, before the noise", checks)


def layer_c(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Test the law of each night's noise, and their independence."""
    run = _Nights(bench, {"me": _Person(frozenset({0}), 0, 0)}, _TOPICS)
    noise = run.noise.reshape(len(run.noise), -1)
    pairs = {f"nights {i + 1} and {j + 1}": (i, j) for i, j in itertools.combinations(range(len(noise)), 2)}
    checks = law(noise, run.sd) + uncorrelated({name: (noise[i], noise[j]) for name, (i, j) in pairs.items()}, run.sd)
    return LayerResult("C", "noise of the nights", tuple(checks))


def _scores(bench: Bench, come: Sequence[int]) -> tuple[np.ndarray, np.ndarray, _Nights]:
    """Score canaries that come on these nights, and absent ones."""
    estimator = bench.adapter.estimator()
    there = np.random.default_rng(0).random(_CANARIES) < 0.5
    persons = {f"canary {c}": _Person(frozenset(come), c // _TOPICS, c % _TOPICS) for c in range(_CANARIES) if there[c]}
    run = _Nights(bench, persons, _TOPICS)
    values, column = run.tables._fitted().state["night_values"], coefficients(int(estimator.nights)) / 2.0**BITS
    counted = list(come)[:: estimator.separation][: estimator.participations]
    direction = np.zeros(len(values))
    for first in counted:
        direction[first:] += column[: len(values) - first]
    scores = np.tensordot(direction, values, axes=1).reshape(-1)
    return scores[there], scores[~there], run


def _mu(bench: Bench, come: Sequence[int], layer: str, title: str) -> LayerResult:
    """Measure mu of persons who come on these nights."""
    with_, without, run = _scores(bench, come)
    mu, low, _ = mu_interval(with_, without, CONFIDENCE_ERROR)
    said = f"{_CANARIES} canaries, the releases of all nights; at least {low:.4f}"
    return LayerResult(layer, title, (Check("mu", low <= run.claimed, mu, run.claimed, said, CONFIDENCE_ERROR),))


def layer_d(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Attack persons of the first night."""
    return _mu(bench, [0], "D", "mu of a person of the first night")


def layer_e(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Attack persons who come every night, also too often."""
    return _mu(bench, range(_visits(bench)[0]), "E", "mu of a person of all nights")


def layer_g(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Make the tables again, without records and private folder."""
    persons = {f"p{i}": _Person(frozenset({i % 3, 4 + i % 2}), i % _CELLS, i % 2) for i in range(_OTHERS)}
    with tempfile.TemporaryDirectory() as place:
        releases, out = Path(place) / "releases", Path(place) / "tables"
        run = _Nights(bench, persons, transcript=releases)
        run.tables.save(out)
        command = [sys.executable, "-m", "vips_fast", "verify", str(out), "--transcript", str(releases)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    privacy, known = run.tables.privacy_, run.tables
    spent = epsilon(run.event, privacy.delta)
    words = STATED.match(privacy.statement())
    stated = min(float(words[1]), privacy.epsilon) if words else -1.0
    declared = (_MULTIPLIER, known.nights, known.participations, known.separation)
    held = tuple(getattr(run.event, name) for name in ("noise_multiplier", "n_steps", "participations", "separation"))
    checks = (
        Check("rebuilt bit for bit", done.returncode == 0, detail=done.stderr.strip()[-200:] or "by vips-fast verify"),
        Check("one event for all nights", held == declared, detail="the ledger holds what was declared, once"),
        Check("statement", stated >= spent, stated, spent, "the printed epsilon, and the accountant's"),
    )
    return LayerResult("G", "rebuild from the releases", checks)
