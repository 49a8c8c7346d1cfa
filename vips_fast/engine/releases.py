"""The one form in which a release is stored: ``release-000000.npz``, with the record of the ledger that it has.

The folder of a run keeps such files to resume from (`vips_fast.engine.checkpoint`), and a transcript keeps them for
anyone to make the model again (`vips_fast.engine.transcript`). A run that has both stores each release once: the
transcript's files are links to those of the folder.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..store.limits import parse_json
from ..store.log import canonical_json, json_digest
from ..store.npz import read_npz, write_npz
from .ledger import Ledger
from .model import Release
from .result import array_digest, plain

#: Name of a release's file, also in the making.
RELEASE = re.compile(r"release-\d{6,}\.npz|\.release-\d{6,}\.npz\.part")
#: Bytes of a file beside the noised sums: heads of arrays, the record's hash, the archive's directory.
MORE = 4096
_FORMAT, _META = 1, "meta"


def sealed(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add facts, and a digest of all, to arrays: without it damaged numbers would look like any others."""
    meta = {"format": _FORMAT, **meta}
    text = canonical_json({**meta, "digest": _digest(meta, arrays)})
    return {**arrays, _META: np.frombuffer(text, dtype=np.uint8)}


def opened(path: Path, advice: str, *, whole: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the facts and arrays of a file that was `sealed`, or the facts only, unchecked. Errors as `unsealed`."""
    try:
        arrays = read_npz(path, names=None if whole else (_META,))
    except ValueError:
        raise ValueError(f"{path}: damaged; {advice}") from None
    return unsealed(arrays, path, advice, whole=whole), arrays


def unsealed(arrays: dict[str, np.ndarray], path: Path, advice: str, *, whole: bool = True) -> dict[str, Any]:
    """Take the facts out of arrays that were `sealed`: step, length and hash of the ledger, and the run.

    Raises ValueError, with the advice, if the file is damaged.
    """
    try:
        meta = parse_json(arrays.pop(_META).tobytes())
        digest = meta.pop("digest")
        if meta["format"] != _FORMAT or (whole and digest != _digest(meta, arrays)):
            raise ValueError
        if not all(type(meta[name]) is int for name in ("step", "n_records")):
            raise ValueError
        return {name: meta[name] for name in ("step", "n_records", "head", "run")}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ValueError(f"{path}: damaged; {advice}") from None


def _digest(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    return json_digest([dict(meta), plain(arrays)])


def release_name(number: int) -> str:
    """Name the file of a run's release."""
    return f"release-{number:06d}.npz"


def release_writer(release: Release, ledger: Ledger, run: str) -> Callable[[IO[bytes]], None]:
    """Return what writes a release, whose record is the ledger's last, into an open file."""
    meta = {"step": release.step, "n_records": len(ledger.records), "head": ledger.head, "run": run}
    arrays = sealed(meta, {"units": release.units, "law": _law(release)})
    return lambda file: write_npz(file, arrays)


def release_of(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: Path, advice: str) -> Release:
    """Make the release of a file's facts and arrays; ValueError, with the advice, if it is none."""
    units, law = arrays.get("units"), arrays.get("law")
    if units is None or law is None or units.dtype != np.int64 or law.dtype != np.float64 or law.shape != (2,):
        raise ValueError(f"{path}: damaged; {advice}")
    if not (np.isfinite(law).all() and law[0] > 0.0 and law[1] >= 0.0):
        raise ValueError(f"{path}: damaged; {advice}")
    return Release(meta["step"], units, float(law[0]), float(law[1]))


def _law(release: Release) -> np.ndarray:
    return np.array([release.scale, release.noise_sd])


def release_digest(release: Release) -> str:
    """Compute the digest of a release in the ledger's closing record."""
    return array_digest(release.units) + array_digest(_law(release))[:16]
