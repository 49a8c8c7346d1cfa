"""The one result of a fit: arrays, ledger and statement, made together.

A fitted estimator holds one `FitResult` and reads everything from it, so that no array can stand beside a statement
about other numbers. The ledger's last record holds the digest of all that the result publishes.
"""

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..store.log import canonical_json, json_digest
from .ledger import Ledger
from .statement import Privacy

#: Version of what a digest covers and of the files that hold it.
FORMAT = 2


@dataclass(frozen=True)
class Public:
    """What a model may know of its data: public facts, and no others."""

    #: Columns of the data.
    n_features: int
    #: Public number of records.
    n_records: int
    #: Seeds what is public: a start, and without privacy everything.
    seed: int
    #: The labels of a classifier, which are taken as public.
    classes: np.ndarray | None = None
    #: The largest record. Only without privacy, where nothing is bounded beforehand.
    scale: float | None = None
    #: Columns of a record, where a record is not just a row of the data.
    n_columns: int | None = None
    #: Name of the part of the data set that the last call of ``partial_fit`` read; None for all of it.
    part: str | None = None
    #: Public number of records of that call, where it was said in the call.
    call_records: int | None = None
    #: What neighbours differ by: "record", or the name of what owns several rows.
    unit: str = "record"
    #: Names of the columns, where the data were a frame.
    feature_names: tuple[str, ...] | None = None
    #: Bins that shards were written in, which random allocation takes as the minibatches of every epoch; 0 for shards
    #: without any, None for data in memory.
    n_bins: int | None = None

    def __post_init__(self) -> None:
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(self.feature_names))

    def to_dict(self) -> dict[str, Any]:
        """All but the classes, JSON-ready."""
        call: dict[str, Any] = {"part": self.part, "call_records": self.call_records, "n_bins": self.n_bins}
        call["unit"] = None if self.unit == "record" else self.unit
        call["feature_names"] = None if self.feature_names is None else list(self.feature_names)
        return {
            "n_features": self.n_features,
            "n_records": self.n_records,
            "seed": self.seed,
            "scale": self.scale,
            "n_columns": self.n_columns,
            **{name: value for name, value in call.items() if value is not None},
        }


@dataclass(frozen=True)
class FitResult:
    """What a fit gives; made by `make` alone, never changed."""

    #: Name of the estimator's class.
    kind: str
    #: The constructor's arguments that the fit used: numbers, texts and arrays.
    settings: Mapping[str, Any]
    public: Public
    #: Steps done, with those of earlier runs.
    n_steps: int
    #: What is published, and what a further step would start from; mapping of str to read-only arrays.
    arrays: Mapping[str, np.ndarray]
    state: Mapping[str, np.ndarray]
    #: Frozen.
    ledger: Ledger
    #: Un-noised figures; in no file.
    diagnostics: tuple[dict[str, float], ...] | None = field(default=None, compare=False)
    #: A detached signature of `head`.
    signature: bytes | None = None
    #: What read-outs have computed of the above; in no file and in no pickle.
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
        """Take the arrays over, close the ledger over them and freeze everything.

        ``transcript`` holds the digests of the run's releases, where these are kept.

        Raises ValueError if a private result were to hold a figure that only other fits may know.
        """
        if public.scale is not None and ledger.private:
            raise ValueError("public.scale: expected None with privacy")
        arrays, state = _frozen(arrays), _frozen(state)
        ledger.close(digest(kind, settings, public, n_steps, arrays, state), transcript)
        figures = None if diagnostics is None else tuple(diagnostics)
        return cls(kind, settings, public, n_steps, arrays, state, ledger.freeze(), figures)

    @property
    def head(self) -> str:
        """Hash that stands for arrays, settings, ledger and so for the statement."""
        return self.ledger.head

    @cached_property
    def privacy(self) -> Privacy:
        """The guarantee, computed from the ledger."""
        return Privacy.of(self.ledger)

    def check(self) -> None:
        """Raise ValueError unless the ledger's closing record is about this result."""
        closing = self.ledger.closing
        if closing is None:
            raise ValueError("the ledger does not end with the record that closes a run")
        own = digest(self.kind, self.settings, self.public, self.n_steps, self.arrays, self.state)
        if closing != own:
            raise ValueError("arrays or settings are not those that the ledger's last record is about")


def digest(
    kind: str,
    settings: Mapping[str, Any],
    public: Public,
    n_steps: int,
    arrays: Mapping[str, np.ndarray],
    state: Mapping[str, np.ndarray],
) -> str:
    """SHA-256 over everything that a result publishes."""
    classes = None if public.classes is None else array_digest(public.classes)
    plain = {k: array_digest(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    meta = {
        "format": FORMAT,
        "kind": kind,
        "settings": plain,
        "public": dict(public.to_dict(), classes=classes),
        "n_steps": n_steps,
        "arrays": {k: array_digest(v) for k, v in arrays.items()},
        "state": {k: array_digest(v) for k, v in state.items()},
    }
    return json_digest(meta)


def array_digest(array: np.ndarray) -> str:
    """SHA-256 over dtype, shape and bytes of an array."""
    array = np.ascontiguousarray(array)
    hasher = hashlib.sha256(canonical_json([array.dtype.str, list(array.shape)]))
    hasher.update(array.reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _frozen(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Read-only arrays; those that own their memory are taken over, as the model is done with them."""
    out = {}
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array if array.flags.owndata else array.copy()
        array.flags.writeable = False
        out[name] = array
    return out
