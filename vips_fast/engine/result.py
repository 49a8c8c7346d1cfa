"""The one result of a fit: arrays, ledger and statement, made together.

A fitted estimator holds one `FitResult` and reads everything from it, so that no array can stand beside a statement
about other numbers. The ledger's last record contains the digest of everything that the result publishes.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from inspect import isroutine
from typing import Any

import numpy as np

from ..store.log import canonical_json, json_digest
from .ledger import Ledger
from .statement import Privacy

#: Version of a digest's contents and of the files that contain it.
FORMAT = 5
_SETTING, _CLASSES = "setting.", "public.classes"


@dataclass(frozen=True)
class Public:
    """Everything that a model may know of its data: public facts."""

    #: Columns of the data.
    n_features: int
    #: Public number of records.
    n_records: int
    #: Seeds public randomness: a start, and without privacy everything.
    seed: int
    #: The labels of a classifier, assumed to be public.
    classes: np.ndarray | None = None
    #: The largest record. Only without privacy, which needs no bound beforehand.
    scale: float | None = None
    #: Columns of a record, if a record is not just a row of the data.
    n_columns: int | None = None
    #: Name of the part of the data set that the last call of ``partial_fit`` read; None for all of it.
    part: str | None = None
    #: Public number of records of that call, if the call states it.
    call_records: int | None = None
    #: The privacy unit: "record", or the name of a unit with several rows, such as "patient".
    unit: str = "record"
    #: Names of the columns, if the data were a frame.
    feature_names: tuple[str, ...] | None = None
    #: Number of bins of the shards, the minibatches of every epoch under random allocation; 0 for shards without bins,
    #: None for data in memory.
    n_bins: int | None = None
    #: Texts that give the numbers their meaning, by file name: words, columns, how texts were read.
    inputs: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give everything, and of classes and inputs the digest, JSON-ready."""
        facts = dict(vars(self))
        facts["classes"] = None if self.classes is None else array_digest(self.classes)
        facts["feature_names"] = None if self.feature_names is None else list(self.feature_names)
        facts["inputs"] = {name: sha256(text.encode()).hexdigest() for name, text in self.inputs.items()} or None
        facts["unit"] = None if self.unit == "record" else self.unit
        for name in ("part", "call_records", "n_bins", "unit", "feature_names", "inputs"):
            if facts[name] is None:
                del facts[name]
        return facts


@dataclass(frozen=True)
class FitResult:
    """Result of a fit; only `make` makes it, and nothing changes it."""

    #: Name of the estimator's class.
    kind: str
    #: The constructor's arguments in the fit: numbers, texts and arrays.
    settings: Mapping[str, Any]
    public: Public
    #: Steps done, including earlier runs.
    n_steps: int
    #: The published arrays, and the state that a further step starts from; mapping of str to read-only arrays.
    arrays: Mapping[str, np.ndarray]
    state: Mapping[str, np.ndarray]
    #: Frozen.
    ledger: Ledger
    #: Un-noised diagnostics; in no file.
    diagnostics: tuple[dict[str, float], ...] | None = field(default=None, compare=False)
    #: Results of read-outs; in no file and in no pickle.
    derived: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "derived": {}}

    @classmethod
    def make(
        cls,
        kind: str,
        settings: Mapping[str, Any],
        public: Public,
        n_steps: int,
        arrays: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
        ledger: Ledger,
        diagnostics: list[dict[str, float]] | None = None,
        transcript: list[str] | None = None,
    ) -> "FitResult":
        """Take the arrays over, close the ledger over them; nothing changes them later.

        ``transcript`` contains the digests of the run's releases, if the run stores them.

        Raises ValueError if a private result contained a figure that is only for fits without privacy.
        """
        if public.scale is not None and ledger.private:
            raise ValueError("public.scale: expected None with privacy")
        of_steps = None if diagnostics is None else tuple(diagnostics)
        result = cls(kind, settings, public, n_steps, _frozen(arrays), _frozen(state), ledger, of_steps)
        ledger.close(result.digest(), transcript)
        return result

    @cached_property
    def privacy(self) -> Privacy:
        """The guarantee, computed from the ledger."""
        return Privacy.of(self.ledger)

    def check(self) -> None:
        """Raise ValueError unless the ledger's closing record is about this result."""
        closing = self.ledger.closing
        if closing is None:
            raise ValueError("the ledger does not end with the record that closes a run")
        if closing != self.digest():
            named = ", ".join(["arrays", "settings", *sorted(self.public.inputs)])
            raise ValueError(f"one of {named}: not as the fit wrote it, by the ledger's last record")

    def digest(self) -> str:
        """Hash everything that the result publishes, by SHA-256."""
        meta = {
            "format": FORMAT,
            "kind": self.kind,
            "settings": plain(self.settings),
            "public": self.public.to_dict(),
            "n_steps": self.n_steps,
            "arrays": plain(self.arrays),
            "state": plain(self.state),
        }
        return json_digest(meta)


def parted(settings: Mapping[str, Any], public: Public) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Part settings and classes for files: what JSON takes, and arrays by name; `joined` reads them."""
    arrays = {_SETTING + k: v for k, v in settings.items() if isinstance(v, np.ndarray)}
    if public.classes is not None:
        arrays[_CLASSES] = public.classes
    return {k: v for k, v in settings.items() if not isinstance(v, np.ndarray)}, arrays


def joined(
    settings: Mapping[str, Any], facts: Mapping[str, Any], inputs: Mapping[str, str], arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], Public]:
    """Join what `parted` gave, the facts of `Public.to_dict` and the inputs, unchecked."""
    own = {k.removeprefix(_SETTING): v for k, v in arrays.items() if k.startswith(_SETTING)}
    names = facts.get("feature_names")
    known = {"inputs": dict(inputs), "classes": arrays.get(_CLASSES), "feature_names": names and tuple(names)}
    return {**settings, **own}, Public(**{**facts, **known})


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings with arrays as digests, and functions by name, as another process knows them too."""
    out = dict(settings)
    for name, value in out.items():
        if isinstance(value, np.ndarray):
            out[name] = array_digest(value)
        elif isroutine(value):
            out[name] = f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    return out


def array_digest(array: np.ndarray) -> str:
    """Hash dtype, shape and bytes of an array, by SHA-256."""
    array = np.ascontiguousarray(array)
    hasher = sha256(canonical_json([array.dtype.str, list(array.shape)]))
    hasher.update(array.reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _frozen(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Freeze arrays; take over those that own their memory. The model no longer needs them."""
    out = {}
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array if array.flags.owndata else array.copy()
        array.flags.writeable = False
        out[name] = array
    return out
