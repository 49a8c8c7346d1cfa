"""Verification: rebuild a published model without data, and compare all bits.

A model is a function of its releases and of public numbers. With its transcript, anyone can run the same
post-processing in a process that never saw a record. If every array and every file comes out the same, nothing
that depends on the data left except by the releases. The ledger accounts for these.

Expect equal bits on the same instruction set with the same versions of numpy and SciPy. Elsewhere the last bits of the
post-processing may differ.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting import epsilon, rounded_up
from ..engine.releases import release_digest
from ..engine.result import FitResult
from ..engine.transcript import Run, files_of, read_transcript
from ..store.folder import Folder
from ..store.owned import foreign
from ..store.words import counted
from . import persistence
from .estimator import PrivateEstimator
from .fit import rebuild
from .inputs import column_names
from .privacy_file import PRIVACY_FILE, compare_record
from .vocabulary.estimator import check_purchase


@dataclass(frozen=True)
class VerifyCheck:
    """One comparison: name, result, and place of the first difference.

    ``ok`` is None for what was not checked; the detail then says why.
    """

    name: str
    ok: bool | None
    detail: str = ""


@dataclass(frozen=True)
class VerifyReport:
    """All comparisons of one verification."""

    checks: tuple[VerifyCheck, ...]
    #: What the comparisons show if they hold, and if not. Nothing that was not checked is in it.
    claim: str = "The model follows from its releases."
    otherwise: str = "The model DOES NOT FOLLOW from its releases."
    #: Which one this is: facts by which a reader can tell an older one, such as the head of the ledger.
    about: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every comparison that was made holds, and there was one."""
        made = [check.ok for check in self.checks if check.ok is not None]
        return bool(made) and all(made)

    @property
    def closing(self) -> str:
        """The last line of `text`."""
        return self.claim if self.ok else self.otherwise

    def text(self) -> str:
        """Return lines for a terminal."""
        words = {True: "equal  ", False: "DIFFERS", None: "not checked"}
        lines = [f"{name}: {value}" for name, value in self.about]
        lines += [f"{words[c.ok]} {_one_line(c.name)}: {_one_line(c.detail)}".removesuffix(": ") for c in self.checks]
        return "\n".join([*lines, self.closing])

    __str__ = text


def _one_line(text: str) -> str:
    """Keep a stranger's name of a file or a key from looking like a line of its own."""
    return " ".join(text.split())[:2000]


def compare(published: PrivateEstimator, path: str | Path, transcript: str | Path) -> VerifyReport:
    """Compare a loaded model and its folder with a rebuilt one; the texts beside it are not read."""
    have, runs, kind = published._fitted(), read_transcript(transcript), type(published)
    checks = [_statement(published)]
    found = check_purchase(published, column_names(have.public), _statement)
    checks += [VerifyCheck(*one) for one in found]
    for name in ("kind", "settings", "public"):
        checks.append(VerifyCheck(name, alike(getattr(have, name), getattr(runs[-1], name))))
    # A run of another shape may need any memory.
    checks += [VerifyCheck(f"columns of {run.path.name}", False) for run in runs if not _same_shape(run, have)]
    if not all(check.ok for check in checks[1 + len(found) :]):
        return VerifyReport(tuple(checks))
    try:
        checks += _releases(have, runs)
        with np.errstate(all="ignore"):
            again = rebuild(kind, runs)
    except Exception as error:  # releases may be anybody's, and lead a model anywhere
        reason = str(error) if isinstance(error, ValueError) else f"malformed ({type(error).__name__})"
        return VerifyReport((*checks, VerifyCheck("rebuild", False, reason)))
    want = again._fitted()
    if stray := foreign(Path(transcript), files_of(runs)):
        checks.append(VerifyCheck(stray, False, "not a file of the model's runs; take it out of the transcript"))
    checks.append(VerifyCheck("n_steps", have.n_steps == want.n_steps))
    for group in ("arrays", "state"):
        checks += _arrays(group, getattr(have, group), getattr(want, group))
    for name in _attributes(kind):
        checks.append(VerifyCheck(name, alike(getattr(published, name, None), getattr(again, name, None))))
    said = str(want.privacy)
    checks.append(VerifyCheck("statement", str(published.privacy_) == str(again.privacy_) == said, said))
    return VerifyReport((*checks, *_files(path, want)))


def compare_alone(published: PrivateEstimator, path: str | Path) -> VerifyReport:
    """Compare a loaded model and its folder without a transcript.

    Statement and purchased words are computed again. Arrays, settings and inputs come from the folder itself, so
    nothing shows whether they follow from releases; those that agree with each other are not in the report.
    """
    have = published._fitted()
    words = check_purchase(published, column_names(have.public), _statement)
    files = (check for check in _files(path, have) if not check.ok or check.name == PRIVACY_FILE)
    return VerifyReport((_statement(published), *(VerifyCheck(*one) for one in words), *files))


def _same_shape(run: Run, have: FitResult) -> bool:
    a, b = run.public, have.public
    return a.n_features == b.n_features and alike(a.classes, b.classes) and a.inputs == b.inputs


def _attributes(cls: type) -> list[str]:
    """List the public fitted attributes: properties that end with an underscore."""
    names = {name for kind in cls.__mro__ for name, value in vars(kind).items() if isinstance(value, property)}
    names -= {"ledger_", "diagnostics_"}
    return sorted(name for name in names if name.endswith("_") and not name.startswith("_"))


def alike(a: Any, b: Any) -> bool:
    """Test equality down to the bits of arrays, also in containers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(alike, a, b))
    if type(a) is type(b) and hasattr(a, "__dataclass_fields__"):
        return all(alike(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    return bool(a == b)


def _arrays(group: str, have: Any, want: Any) -> list[VerifyCheck]:
    checks = []
    for name in sorted({*have, *want}):
        if name not in have or name not in want:
            checks.append(VerifyCheck(f"{group} {name}", False, "in one of the two only"))
            continue
        a, b = have[name], want[name]
        if alike(a, b):
            checks.append(VerifyCheck(f"{group} {name}", True, f"{a.dtype} {a.shape}"))
        elif a.shape != b.shape or a.dtype != b.dtype:
            checks.append(VerifyCheck(f"{group} {name}", False, f"{a.dtype} {a.shape} against {b.dtype} {b.shape}"))
        else:
            other = np.argwhere(a != b)
            first = tuple(int(i) for i in other[0]) if len(other) else ()
            detail = f"{len(other)} of {a.size} entries, first at {first}, by at most {np.abs(a - b).max():.3g}"
            checks.append(VerifyCheck(f"{group} {name}", False, detail))
    return checks


def _releases(have: FitResult, runs: list[Run]) -> list[VerifyCheck]:
    """Compare the transcript's releases with the digests in the ledger."""
    closed: list[Any] = [record for record in have.ledger.records if record["kind"] == "close"]
    if len(closed) != len(runs):
        said = f"{counted(len(closed), 'run')} in the ledger, {len(runs)} in the transcript"
        return [VerifyCheck("releases", False, said)]
    checks = []
    for record, run in zip(closed, runs, strict=True):
        named, kept = record.get("transcript"), [release_digest(release) for release in run.releases()]
        name = f"releases of {run.path.name}"
        if named is None or len(named) != len(kept):
            checks.append(VerifyCheck(name, False, "the ledger does not name as many"))
            continue
        other = [f"release-{i:06d}" for i, (a, b) in enumerate(zip(named, kept, strict=True)) if a != b]
        detail = f"{', '.join(other[:10])} differ from what the model was made from" if other else f"{len(kept)}"
        checks.append(VerifyCheck(name, not other, detail))
    return checks


def _statement(published: PrivateEstimator) -> VerifyCheck:
    """Compare the stated epsilon with a new one of the accountant."""
    result = published._fitted()
    if not result.ledger.private:
        said = str(published.privacy_).startswith("NOT PRIVATE")
        return VerifyCheck("epsilon", said, "tainted: the statement has to say NOT PRIVATE")
    ledger, plan = result.ledger, result.ledger.plan
    events = [event for part in ledger.parts or (None,) if (event := ledger.event(part)) is not None]
    if not events or plan is None:
        return VerifyCheck("epsilon", False, "the ledger has no release")
    spent = max(epsilon(event, float(plan["delta"])) for event in events)
    words = re.match(r"\(([^,]+), ([^)]+)\)-differential privacy", str(published.privacy_))
    if words is None:
        return VerifyCheck("epsilon", False, "the statement names none")
    stated, delta = float(words[1]), float(words[2])
    fine = min(stated, published.privacy_.epsilon) >= spent and delta == plan["delta"]
    return VerifyCheck("epsilon", fine, f"stated {rounded_up(stated)}, spent {rounded_up(spent)} at delta = {delta:g}")


def _files(path: str | Path, want: FitResult) -> list[VerifyCheck]:
    """Compare the files with a fresh save of the rebuilt result."""
    checks = []
    with tempfile.TemporaryDirectory() as name, Folder(path) as folder:
        again = Path(name)
        persistence.write_into(want, again)
        for file in (persistence.ARRAYS, persistence.META, *sorted(want.public.inputs)):
            expected = (again / file).read_bytes()
            with folder.open(file) as there:
                checks.append(VerifyCheck(file, there.read(len(expected) + 1) == expected))
        return [*checks, VerifyCheck(PRIVACY_FILE, *compare_record(folder, want))]
