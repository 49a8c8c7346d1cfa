"""Transcripts: the releases of a fit, kept so that its model can be made again.

A release is public, and a model is a function of its releases and of public numbers. So
whoever holds a transcript can rebuild the model without the data and compare it with
what was published. A transcript is a folder with a folder for each run, ``run-0000``, …,
which holds ``run.json`` (class, settings, public facts, plan), ``run.npz`` (settings
that are arrays, classes) and a file for each release, ``release-000000.npz``, ….
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.npz import read_npz, write_npz
from .durable import sync_folder, write_file
from .model import Release
from .result import FORMAT, Public, array_digest

_CLASSES, _SETTING = "classes", "setting."


@dataclass(frozen=True)
class Run:
    """One run of a transcript.

    Attributes
    ----------
    path : Path
    kind : str
    settings : mapping
    public : Public
    plan : dict
        What the ledger's plan record says.
    taints : tuple of str
    follows : str or None
        Head of the ledger that the run went on from.
    n_steps : int
        Steps done before the run.
    partial : bool
        Whether it was a call of ``partial_fit``.
    budget : dict or None
        What the ledger says of the budget that paid.
    """

    path: Path
    kind: str
    settings: Mapping[str, Any]
    public: Public
    plan: dict[str, Any]
    taints: tuple[str, ...]
    follows: str | None
    n_steps: int
    partial: bool
    budget: dict[str, str] | None = None

    def releases(self) -> Iterator[Release]:
        """The releases, in order; ValueError where one is missing or malformed."""
        for number in range(self.plan["n_steps"]):
            path = self.path / f"release-{number:06d}.npz"
            if not path.exists():
                raise ValueError(f"{path}: missing; the transcript is not complete")
            arrays = read_npz(path)
            try:
                units, law = arrays["units"], arrays["law"]
                if units.dtype != np.int64 or law.dtype != np.float64 or law.shape != (2,):
                    raise ValueError
                yield Release(self.n_steps + number, units, float(law[0]), float(law[1]))
            except (KeyError, ValueError):
                raise ValueError(f"{path}: not a release that this version wrote") from None


class TranscriptWriter:
    """Writes one run; an instance is what the loop calls with each release.

    Parameters
    ----------
    path : str or path
        Folder of the transcript; a first run needs it to be new or empty.
    first : bool
        False appends a run to what is there.

    Raises
    ------
    FileExistsError
        If a first run finds something there.
    """

    def __init__(self, path: str | Path, *, first: bool):
        self._root, self._first = Path(path), first
        if first and self._root.exists() and (not self._root.is_dir() or any(self._root.iterdir())):
            raise FileExistsError(f"transcript {self._root}: expected a new or an empty folder")
        #: Digest of each release so far.
        self.digests: list[str] = []

    def begin(self, kind: str, settings: Mapping[str, Any], public: Public, plan: dict[str, Any], **facts: Any) -> None:
        """Write what is known before the first release."""
        number = 0 if self._first else len(_run_folders(self._root))
        self._path = self._root / f"run-{number:04d}"
        self._path.mkdir(parents=True)
        arrays = {_SETTING + k: v for k, v in settings.items() if isinstance(v, np.ndarray)}
        if public.classes is not None:
            arrays[_CLASSES] = public.classes
        plain = {k: v for k, v in settings.items() if not isinstance(v, np.ndarray)}
        meta = {"format": FORMAT, "model": kind, "settings": plain, "public": public.to_dict(), "plan": plan, **facts}
        write_file(self._path / "run.npz", lambda file: write_npz(file, arrays))
        text = json.dumps(meta, indent=1, sort_keys=True, allow_nan=False, default=list)
        write_file(self._path / "run.json", lambda file: file.write(text.encode()))
        sync_folder(self._path)

    def __call__(self, release: Release) -> None:
        """Write one release."""
        arrays = {"units": release.units, "law": _law(release)}
        write_file(self._path / f"release-{len(self.digests):06d}.npz", lambda file: write_npz(file, arrays))
        self.digests.append(release_digest(release))


def _law(release: Release) -> np.ndarray:
    return np.array([release.scale, release.noise_sd])


def release_digest(release: Release) -> str:
    """Stands for a release in the ledger's closing record."""
    return array_digest(release.units) + array_digest(_law(release))[:16]


def read_transcript(path: str | Path) -> list[Run]:
    """The runs of a transcript, in order.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it holds no run, or one that is malformed.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder; expected a transcript that fit wrote")
    runs = [_read_run(folder) for folder in _run_folders(path)]
    if not runs:
        raise ValueError(f"{path}: holds no run; expected a transcript that fit wrote")
    return runs


def _run_folders(path: Path) -> list[Path]:
    return sorted(p for p in path.glob("run-*") if p.is_dir()) if path.is_dir() else []


def _read_run(folder: Path) -> Run:
    arrays = read_npz(folder / "run.npz")
    try:
        meta = json.loads((folder / "run.json").read_text("utf-8"))
        if meta["format"] != FORMAT:
            raise ValueError
        settings = dict(meta["settings"])
        settings.update({k[len(_SETTING) :]: v for k, v in arrays.items() if k.startswith(_SETTING)})
        public = Public(**meta["public"], classes=arrays.get(_CLASSES))
        if not isinstance(meta["plan"]["n_steps"], int):
            raise TypeError
        return Run(
            folder, meta["model"], settings, public, meta["plan"], tuple(meta["taints"]), meta["follows"],
            meta["n_steps"], meta["partial"], meta.get("budget"),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{folder / 'run.json'}: not a run that this version wrote") from None
