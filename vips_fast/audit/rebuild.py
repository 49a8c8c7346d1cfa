"""Layer G, rebuild: everything public follows from the releases.

A model is fitted to invented data with a transcript and saved. Another process, which never had a record, loads the
saved model, makes it again from the transcript and compares (`vips_fast.models.rebuild.compare`). It also has the
loaded model's public attributes. The fitted estimator itself, which the other process never sees, must have the same
ones and hold nothing more.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting import ComposedEvent, GaussianEvent, Relation, SelfComposedEvent, epsilon
from ..engine.result import array_digest
from ..engine.sampling import n_events
from ..engine.transcript import TranscriptWriter
from ..models.estimator import PrivateEstimator
from ..models.rebuild import compare
from ..store.limits import parse_json
from .bench import Bench, Sizes
from .report import Check, LayerResult

_RECORDS, _STEPS, _MULTIPLIER = 40, 4, 2.0
#: What the calls of ``partial_fit`` after the run are about.
_CALLS = ("a", "b", "a", None)
STATED = re.compile(r"\(([^,]+), ([^)]+)\)-differential privacy")


def fingerprint(value: Any) -> Any:
    """Describe a value, down to its arrays' bits, as JSON."""
    if isinstance(value, np.ndarray):
        return array_digest(value)
    if isinstance(value, (np.generic, float, int, str, bytes, bool, type(None))):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, (tuple, list)):
        return [fingerprint(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): fingerprint(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: fingerprint(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "to_dict"):
        return fingerprint(value.to_dict())
    return f"{type(value).__module__}.{type(value).__qualname__}"


def public_attributes(estimator: PrivateEstimator) -> dict[str, Any]:
    """Fingerprint all that a fitted estimator shows: attributes with underscore, words."""
    names = {n for n in [*dir(type(estimator)), *vars(estimator)] if n.endswith("_") and not n.startswith("_")}
    out = {name: fingerprint(getattr(estimator, name)) for name in sorted(names) if hasattr(estimator, name)}
    return {**out, "statement": str(estimator.privacy_), "repr": repr(estimator)}


def held_values(estimator: PrivateEstimator) -> dict[str, Any]:
    """Fingerprint all that a pickle would hold, without random state."""
    state = {**estimator.__getstate__(), "options": estimator._options}
    return {name: fingerprint(value) for name, value in state.items() if name != "random_state"}


def rebuild_elsewhere(jobs: Iterable[tuple[type, Path, Path]]) -> list[dict[str, Any]]:
    """Verify saved models in another process, from class, model folder and transcript.

    For each job a dict with the ``checks`` of `compare` as (name, passed, detail), and the loaded model's
    ``attributes`` and ``held``. Raises RuntimeError if the other process fails.
    """
    lines = [
        json.dumps({"module": c.__module__, "class": c.__qualname__, "model": str(model), "transcript": str(kept)})
        for c, model, kept in jobs
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "vips_fast.audit.rebuild"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    answers = [parse_json(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(lines):
        raise RuntimeError(f"layer G: the other process failed: {done.stderr.strip()[-2000:]}")
    return answers


def answer(job: dict[str, str]) -> dict[str, Any]:
    """Return the other process's answer to one job."""
    nothing: dict[str, Any] = {"attributes": {}, "held": {}}
    try:
        cls: Any = import_module(job["module"])
        for name in job["class"].split("."):
            cls = getattr(cls, name)
    except (ImportError, AttributeError) as error:
        return {"checks": [("class", False, f"cannot be imported in another process: {error}")], **nothing}
    try:
        loaded = cls.load(job["model"])
        report = compare(loaded, job["model"], job["transcript"])
        checks = [(check.name, check.ok, check.detail) for check in report.checks]
        return {"checks": checks, "attributes": public_attributes(loaded), "held": held_values(loaded)}
    except Exception as error:  # of the class that is audited: without the data it may fail anywhere
        return {"checks": [("rebuild", False, f"{type(error).__name__}: {error}")], **nothing}


class Fitted:
    """A saved model with its transcript, to be rebuilt elsewhere.

    It was fitted on the bench, with further calls about parts. ``folder`` is empty, and takes model and transcript;
    ``rng`` draws the invented records.
    """

    def __init__(self, bench: Bench, folder: Path, rng: np.random.Generator):
        adapter = bench.adapter
        records = adapter.base(_RECORDS // 2) + [adapter.generated(rng, adapter.small) for _ in range(_RECORDS // 2)]
        settings = dict(adapter.settings, n_steps=_STEPS, noise_multiplier=_MULTIPLIER)
        # The number of rows is public where a record is replaced, and private elsewhere.
        settings["n_records"] = _RECORDS if bench.relation == Relation.REPLACE_ONE else _RECORDS + 3
        settings["batch_size"] = None if adapter.estimator().sampling == "full" else 10
        if getattr(adapter.estimator()._options, "measure_gain", False) is None:
            settings["options__measure_gain"] = True  # however few the steps are
        self.estimator = bench.estimator(**settings)
        self.model, self.transcript = folder / "model", folder / "transcript"
        before = fingerprint(self.estimator.get_params())
        stage = bench.prepare(self.estimator, records)
        run = stage.plan.sampler.event(_MULTIPLIER)
        whole = GaussianEvent(_MULTIPLIER, relation=bench.relation)
        number = n_events(stage.plan.sampler, range(_STEPS))
        self.spent = Counter({(None, run): number}) + Counter((part, whole) for part in _CALLS)
        # A record of part "a" was in the run, in both calls about "a" and in the one about all.
        calls = sum(part in ("a", None) for part in _CALLS)
        self.event = ComposedEvent((SelfComposedEvent(run, number), SelfComposedEvent(whole, calls)))
        # What `fit` does, and then `partial_fit`.
        with np.errstate(all="ignore"):
            stage.run(TranscriptWriter(self.transcript, first=True))
            for part in _CALLS:
                how: dict[str, Any] = {"partial": True, "part": part, "n_records": settings["n_records"]}
                stage = bench.prepare(self.estimator, records, **how)
                stage.run(TranscriptWriter(self.transcript, first=False))
        self.settings_kept = fingerprint(self.estimator.get_params()) == before
        self.estimator.save(self.model)

    @property
    def job(self) -> tuple[type, Path, Path]:
        """For `rebuild_elsewhere`."""
        return type(self.estimator), self.model, self.transcript

    def checks(self, answer: dict[str, Any]) -> list[Check]:
        """Compare the other process's model with the fitted estimator."""
        bad = [f"{name} ({detail})" if detail else name for name, passed, detail in answer["checks"] if not passed]
        said = f"{len(answer['checks'])} comparisons in a process without the data" if not bad else "; ".join(bad)
        checks = [Check("rebuilt bit for bit", bool(answer["checks"]) and not bad, detail=said)]
        for name, own, other in (
            ("public attributes", public_attributes(self.estimator), answer["attributes"]),
            ("nothing else is held", held_values(self.estimator), answer["held"]),
        ):
            differ = sorted(n for n in {*own, *other} if own.get(n) != other.get(n))
            said = ", ".join(differ) or f"{len(own)} of the fitted estimator and of the model made from its releases"
            checks.append(Check(name, not differ, detail=said))
        kept = Check("settings", self.settings_kept, detail="fit leaves the constructor's arguments as they are")
        return [*checks, kept, self._statement()]

    def _statement(self) -> Check:
        """Compare printed numbers with the accountant's, composed anew from the plan."""
        privacy, ledger = self.estimator.privacy_, self.estimator.ledger_
        text = privacy.statement()
        if not ledger.private:
            told = text.startswith("NOT PRIVATE") and privacy.epsilon == math.inf
            return Check("statement", told, detail="a tainted model says that it is not private")
        numbers = STATED.match(text)
        bounds = {ledger.bound(privacy.delta, part) for part in ledger.parts or (None,)}
        # The steps that were planned, and the bound of calls that may depend on results.
        spent = max(
            epsilon(self.event, privacy.delta),
            *(epsilon(event, share * privacy.delta) for event, share in bounds if event is not None),
        )
        stated = float(numbers[1]) if numbers else -1.0
        honest = numbers is not None and float(numbers[2]) == privacy.delta and min(stated, privacy.epsilon) >= spent
        claims = "in only one of the 2 parts; the program does not check this" in text
        return Check(
            "statement",
            honest and claims and ledger.spent == self.spent,
            stated,
            spent,
            "the printed epsilon, and the accountant's for the steps that were planned and a record of the worst part; "
            "the ledger holds these steps and parts, and what is assumed of parts is said",
        )


def layer_g(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Return a model and its files, made again without the data."""
    with tempfile.TemporaryDirectory() as folder:
        fitted = Fitted(bench, Path(folder), rng)
        (said,) = rebuild_elsewhere([fitted.job])
        return LayerResult("G", "rebuild from the releases", tuple(fitted.checks(said)))


def main() -> int:
    """Read jobs from standard input, a JSON object a line, and answer."""
    for line in sys.stdin:
        print(json.dumps(answer(parse_json(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
