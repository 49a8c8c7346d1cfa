"""Keep the exact sums of earlier nights in a private folder.

Running sums with correlated noise need them.

Each night brings new records. Its release is a mixed sum of all nights so far. Its noise partly cancels in running
sums (`vips_fast.accounting.running_sum` has the mechanism and its proof). So each night needs the exact sums of
earlier nights. They are in a private folder, which only its user can read:

    lock           note of the process that uses the folder now (`vips_fast.store.lock`)
    nights.npz     sums of all nights without noise, which persons came when, the last release, the ledger then

*Private.* A reader of this folder knows the sums of each night without noise. With the label of a person, the reader
can find out when the person came. Never publish the folder, and protect it as you protect the notes.
Everything else that a night writes is public, as ever.

*A night is released once.* The draw of a night's noise leaves this process only after ``nights.npz`` holds it, with
fsync. A process that is killed before has released nothing: the draw is lost with its memory, or is in a part of this
private folder. So the night may be added again, from the records. The event was charged with the first night, before
its draw. If that very draw is lost, adding the first night again charges the event again, which is more than is spent.
A process that is killed afterwards left the release in the folder. Adding the night again gives that release, bit for
bit, and the records are of no effect.

*Persons.* With labels, a person's visits are counted by a keyed hash of the label, under a key that is in this folder
only. A person who came too often, or too soon, contributes nothing that night, without a word. That depends only on the
person's own nights, so all others contribute as they would without this person.

*Cap.* Entries of a night's sum are limited to a bound, below which mixed sums stay in 62 bits. That moves no two sums
apart. A plan whose public number of records could reach the bound is refused.

*Assumed.* The folder is not set back to an older state, nor continued in two copies: a night would then be released
twice. A folder that is older than the model is refused.
"""

import hashlib
import json
import secrets
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from ..accounting import PrivacyEvent
from ..accounting.calibration import Target
from ..accounting.running_sum import coefficients
from ..checks import check_name
from ..store.atomic import delete, make_folder, replace_file
from ..store.limits import parse_json
from ..store.log import canonical_json, json_digest
from ..store.npz import read_npz, write_npz
from .checkpoint import LOCK, RunFolder, lock_folder
from .ledger import Ledger
from .model import Model, Release
from .plan import RunPlan
from .result import FitResult, Public, array_digest
from .sampling import NightsSampler

#: Mixed sums stay below it.
_LIMIT = 2**61
_FILE, _META, _FORMAT = "nights.npz", "nights", 1
#: Settings that may change from night to night.
_FREE = ("callback", "invalid", "n_jobs", "n_records", "random_state")
#: Settings that a budget decides if they are None.
_DECIDED = ("delta", "noise_multiplier")


#: Folder of a run, or of the nights of a running sum.
AnyFolder: TypeAlias = "RunFolder | NightsFolder"


def most_units(n_nights: int) -> int:
    """Find the bound of an entry of a night's sum."""
    return int(_LIMIT // int(coefficients(n_nights).sum()))


class NightsFolder:
    """The private folder of a running sum.

    It is locked while this object is open.

    It takes the place of a `vips_fast.engine.checkpoint.RunFolder` in a night's run.

    Raises BlockingIOError if another process is using it; ValueError if it is damaged.
    """

    OWN: ClassVar[frozenset[str]] = frozenset((_FILE, LOCK))

    def __init__(self, path: str | Path):
        self.path = Path(path)
        make_folder(self.path.absolute(), 0o700)
        if others := sorted({one.name for one in self.path.iterdir() if not one.name.endswith(".part")} - self.OWN):
            raise FileExistsError(f"nights {self.path}: holds {others[0]!r}; expected a new or an empty folder")
        self._lock = lock_folder(self.path)
        try:
            delete(self.path / f".{_FILE}.part")
            self._read()
        except BaseException:
            self.close()
            raise
        self._night, self._before, self._ledger = "", Ledger(), Ledger()
        self._visitors = np.zeros((0, 16), np.uint8)
        #: Whether the night of this run is recorded here already.
        self.begun = False

    def _read(self) -> None:
        path = self.path / _FILE
        self._arrays: dict[str, np.ndarray] = {"key": np.frombuffer(secrets.token_bytes(32), np.uint8)}
        self._facts: dict[str, Any] = {"names": []}
        if not path.exists():
            return
        arrays = read_npz(path)
        try:
            facts = parse_json(arrays.pop(_META).tobytes())
            if facts.pop("digest") != _digest(facts, arrays) or facts.pop("format") != _FORMAT:
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise ValueError(f"{path}: damaged; expected nights as they were written") from None
        self._arrays, self._facts = arrays, facts

    def close(self) -> None:
        """Free the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------ before a run

    @property
    def names(self) -> list[str]:
        """The names of the nights here, in order."""
        return list(self._facts["names"])

    def admit(self, night: str, before: FitResult | None, settings: Mapping[str, Any]) -> int:
        """Find the number of a night; compare folder and model.

        Raises ValueError if the night is in the model already, or the ``settings`` differ from earlier nights'. Raises
        ValueError if folder and model do not belong together, or one of them is older.
        """
        check_name("night", night)
        names, heads = self.names, [] if before is None else before.ledger.heads
        done = 0 if before is None else before.n_steps
        self._compare(settings)
        self._night, self._before = night, Ledger() if before is None else before.ledger.copy()
        self.begun = done == len(names) - 1 and self._facts["follows"] == (heads or [""])[-1]
        if self.begun and night == names[-1]:
            return done
        if self.begun or done < len(names) - 1:
            raise ValueError(
                f"nights {self.path}: hold {len(names)} nights, this model {done}; load the newest model, or add "
                f"night={names[done]!r} again, which releases nothing new"
            )
        if done > len(names):
            raise ValueError(
                f"nights {self.path}: hold {len(names)} nights, this model {done}; an older copy was put back, and "
                "continuing it could release a night twice; expected the newest folder"
            )
        if names and self._facts["head"] not in heads:
            raise ValueError(f"nights {self.path}: are of another model; expected the folder of this one")
        if night in names:
            raise ValueError(f"night={night!r}: is counted already; expected the name of a new night")
        return done

    def _compare(self, settings: Mapping[str, Any]) -> None:
        known, given = self._facts.get("settings", {}), _plain(settings)
        for name in sorted(known.keys() - set(_FREE)):
            undecided = name in _DECIDED and given.get(name) is None
            if given.get(name) != known[name] and not undecided:
                raise ValueError(
                    f"nights {self.path}: have {name}={known[name]!r}, this night {given.get(name)!r}; expected the "
                    "same settings for every night"
                )

    def absent(self, labels: Sequence[Hashable] | None, participations: int, separation: int) -> np.ndarray | None:
        """Find persons who contribute nothing tonight.

        The result is bool, for each label; None if each record is a unit of its own. ``labels`` are canonical
        (`vips_fast.data.groups`).
        """
        if labels is None:
            return None
        number = len(self.names)
        key = self._arrays["key"].tobytes()
        digests = [hashlib.blake2b(repr(label).encode(), key=key, digest_size=16).digest() for label in labels]
        counts: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        if number:
            for one, when in zip(self._arrays["persons"], self._arrays["visits"].tolist(), strict=True):
                name = one.tobytes()
                counts[name], last[name] = counts.get(name, 0) + 1, when
        out = np.array(
            [
                counts.get(one, 0) >= participations or (one in last and number - last[one] < separation)
                for one in digests
            ],
            bool,
        )
        came = [one for one, gone in zip(digests, out, strict=True) if not gone]
        self._visitors = np.frombuffer(b"".join(came), np.uint8).reshape(-1, 16)
        return out

    # ------------------------------------------------- as the folder of a run

    @property
    def noise_multiplier(self) -> float | None:
        """Noise multiplier of the nights here; None before the first."""
        return float(self._facts["noise_multiplier"]) if self.names else None

    def progress(self, event: PrivacyEvent, target: Target | None) -> tuple[int, int]:
        """Say that the night that is recorded here is done and paid."""
        return 1, 0

    def public(self, public: Public, seeded: bool) -> Public:
        """Return the public facts, with the seed of a recorded night."""
        return replace(public, seed=self._facts["seed"]) if self.begun and not seeded else public

    def begin(
        self,
        kind: str,
        settings: Mapping[str, Any],
        public: Public,
        model: Model,
        plan: RunPlan,
        target: Target | None,
        paid: int | None = None,
    ) -> tuple[Ledger, range, Mapping[str, Any]]:
        """Start the night, or take its ledger from here; see `RunFolder.begin`."""
        if self.begun:
            return Ledger.from_dict(self._facts["ledger"]), range(1), settings
        ledger = self._before.copy()
        self._facts["settings"] = self._facts.get("settings", _plain(settings))
        self._facts |= {"follows": ledger.head if len(ledger.records) else "", "seed": public.seed}
        assert isinstance(plan.sampler, NightsSampler)
        self._facts |= {"noise_multiplier": plan.mechanism.noise_multiplier, "n_nights": plan.sampler.n_nights}
        ledger.open(plan.public())
        for reason in plan.taints:
            ledger.taint(reason)
        self._ledger = ledger
        return ledger, range(1), settings

    @property
    def drawn(self) -> bool:
        """Whether this object has, or took over, a night's release."""
        taken = self.begun and self.names[-1] == self._night
        return taken or len(self._ledger) > len(self._before)

    @property
    def known(self) -> Release | None:
        """The release of this night if it is recorded here."""
        if not self.begun:
            return None
        scale, noise_sd = self._arrays["law"].tolist()
        return Release(len(self.names) - 1, self._arrays["release"].copy(), scale, noise_sd)

    def mix(self, sums: np.ndarray) -> np.ndarray:
        """Mix the earlier nights' sums with this night's; int64 in finer units."""
        n_nights = int(self._facts["n_nights"])
        bound = most_units(n_nights)
        tonight = np.clip(sums, -bound, bound)[None]
        earlier = self._arrays.get("sums", np.zeros((0, *sums.shape), np.int64))
        self._arrays["sums"] = np.concatenate([earlier, tonight])
        column = coefficients(n_nights)[: len(earlier) + 1]
        return np.asarray(np.tensordot(column[::-1], self._arrays["sums"], axes=1), np.int64)

    def record(self, release: Release) -> None:
        """Write the night, before its release leaves the process."""
        self._arrays |= {"release": release.units, "law": np.array([release.scale, release.noise_sd])}
        number, facts, arrays = len(self.names), self._facts, self._arrays
        for name, new in (("persons", self._visitors), ("visits", np.full(len(self._visitors), number, np.int32))):
            arrays[name] = np.concatenate([arrays[name], new]) if name in arrays else new
        facts |= {"names": [*self.names, self._night], "head": self._ledger.head, "ledger": self._ledger.to_dict()}
        whole = {"format": _FORMAT, **facts}
        text = canonical_json({**whole, "digest": _digest(whole, arrays)})
        written = {**arrays, _META: np.frombuffer(text, np.uint8)}
        replace_file(self.path / _FILE, lambda file: write_npz(file, written))

    def after(self, step: int) -> None:
        """Do nothing: the night is recorded already."""

    def finish(self) -> Ledger:
        """Return a copy of the ledger, to be closed over the result."""
        return (Ledger.from_dict(self._facts["ledger"]) if self.begun else self._ledger).copy()

    def keep(self, *, whole: bool = False) -> None:
        """Do nothing: a night that ended early is added again."""


@contextmanager
def open_nights(state: str | Path | NightsFolder) -> Iterator[NightsFolder]:
    """Open a folder of nights while a night runs.

    A folder that is open stays open.
    """
    if isinstance(state, NightsFolder):
        yield state
    else:
        with NightsFolder(state) as folder:
            yield folder


def _digest(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    return json_digest([dict(facts), {name: array_digest(array) for name, array in arrays.items()}])


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    plain = {k: array_digest(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    return dict(parse_json(json.dumps(plain, sort_keys=True, default=str)))
