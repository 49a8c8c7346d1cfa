"""Files of fitted models.

A model is a folder with ``model.npz`` (arrays), ``model.json`` (class, settings, public facts, ledger) and the texts of
its inputs (`vips_fast.models.inputs`). It also has ``privacy.json`` with the guarantee (`privacy_file`), which is
written and never read. Nothing in them is trusted. `vips_fast.store.folder` opens them, the statement is computed from
the ledger. The ledger's last record holds the digest of all else, and shapes and ranges are checked. That catches
accidents, damage and careless edits. It does not stop somebody who computes every hash anew; the
signature of a publication does (docs/howto/publish.md), as far as its key is trusted.
"""

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..engine.gain import released_score
from ..engine.ledger import Ledger
from ..engine.result import FORMAT, FitResult, joined, parted
from ..store.atomic import PUBLIC, replacing_folder, write_file
from ..store.folder import Folder
from ..store.npz import write_npz
from ..store.owned import Own, check_apart, check_owned, is_empty, named
from .family import ASKED, FAMILIES, PURCHASE, family_of, files_beside
from .inputs import column_names
from .privacy_file import PRIVACY_FILE, privacy_json

if TYPE_CHECKING:
    from .estimator import PrivateEstimator

E = TypeVar("E", bound="PrivateEstimator")

ARRAYS, META = "model.npz", "model.json"
#: Texts that fit writes beside any model.
PRIVACY, REPORT = "privacy.txt", "report.html"
#: All that the folder of a model may hold.
MODEL_FILES = files_beside() | {ARRAYS, META, PRIVACY_FILE, PRIVACY, REPORT}
_ARRAY, _STATE = "array.", "state."


def save(result: FitResult, path: str | Path) -> None:
    """Write a result; see `PrivateEstimator.save`."""
    path = Path(os.path.abspath(path))
    try:
        check_apart(path, ())
        if os.path.lexists(path) and not is_empty(path):
            check_owned(path, own_files)
    except ValueError as error:
        raise FileExistsError(str(error)) from None
    with replacing_folder(path, own_files) as folder:
        write_into(result, folder)


def own_files(path: Path) -> Own:
    """Read which files a saved model's folder may hold, by its ``model.json``.

    These are its inputs, if they are what it was saved with, and what `fit` writes beside it. Raises ValueError or
    OSError without such a file.
    """
    with Folder(path, follow=False) as folder:
        if not folder.holds(META):
            raise ValueError(f"{path}: has no {META}, so it holds no model of vips-fast")
        meta = _meta(folder)
        with _as_saved(path):
            inputs = dict(meta["public"].get("inputs") or {})
            if not inputs.keys() <= MODEL_FILES:
                raise ValueError("inputs are malformed")
            changed = [name for name, digest in inputs.items() if sha256(folder.read(name)).hexdigest() != digest]
    if changed:
        raise ValueError(f"{path}: {changed[0]!r} is not what the model was saved with")
    texts = {family.text for family in FAMILIES if meta["model"] in family.names} or {one.text for one in FAMILIES}
    return named({ARRAYS, META, PRIVACY_FILE, PRIVACY, REPORT, *inputs, *texts} - {""})


def write_into(result: FitResult, folder: Path) -> None:
    """Write a result's files into a folder. The bytes depend only on the result."""
    arrays = {_ARRAY + k: v for k, v in result.arrays.items()} | {_STATE + k: v for k, v in result.state.items()}
    settings, more = parted(result.settings, result.public)
    meta = {
        "format": FORMAT,
        "model": result.kind,
        "n_steps": result.n_steps,
        "public": result.public.to_dict(),
        "settings": settings,
        "ledger": result.ledger.to_dict(),
    }
    try:
        text = json.dumps(meta, indent=1, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings: an argument of {result.kind} cannot be written as JSON ({error})") from None
    write_file(folder / ARRAYS, lambda file: write_npz(file, {**arrays, **more}), PUBLIC)
    write_file(folder / META, lambda file: file.write(text.encode()), PUBLIC)
    for name, said in {**result.public.inputs, PRIVACY_FILE: privacy_json(result)}.items():
        write_file(folder / name, lambda file, said=said: file.write(said.encode()), PUBLIC)


def kind_of(path: str | Path) -> str:
    """Name of the class of the model in a folder. Raises FileNotFoundError or ValueError as `load`."""
    with Folder(path) as folder:
        return str(_meta(folder)["model"])


def _meta(folder: Folder) -> dict[str, Any]:
    meta = folder.json(META)
    if not isinstance(meta, dict) or meta.get("format") != FORMAT or not isinstance(meta.get("model"), str):
        found = meta.get("format") if isinstance(meta, dict) else None
        what = f"saved in format {found}" if isinstance(found, int) and found != FORMAT else "not a saved model"
        remedy = f"expected format {FORMAT}; another is read by the version of vips_fast in its {PRIVACY_FILE}"
        raise ValueError(f"{folder.path}: {what}; {remedy}")
    return meta


def load(cls: type[E], path: str | Path) -> E:
    """Read a model as `PrivateEstimator.load`; retry if it is exchanged meanwhile."""
    path = Path(path)
    while True:
        seen = _identity(path)
        try:
            return _load(cls, path)
        except (OSError, ValueError):
            if seen == _identity(path):
                raise


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_ctime_ns
    return None


def _load(cls: type[E], path: Path) -> E:
    with Folder(path) as folder:
        meta = _meta(folder)
        if meta["model"] != cls.__name__:
            raise ValueError(f"{path} holds a {meta['model']}: expected a {cls.__name__}")
        with _as_saved(path):
            ledger = Ledger.from_dict(meta["ledger"])
        stored = folder.arrays(ARRAYS)
        with _as_saved(path):
            known = (*family_of(cls).inputs, PURCHASE, ASKED)
            inputs = _inputs(folder, known, meta["public"].get("inputs", {}))
    with _as_saved(path):
        result = _result(meta, stored, inputs, ledger)
        estimator = cls._from_settings(result.settings)
        result.check()
        if result.privacy.n_records < 1:
            raise ValueError("ledger: a plan without records")
        _check_arrays(estimator, result)
        column_names(result.public)
    estimator._result = result
    return estimator


@contextmanager
def _as_saved(path: Path) -> Iterator[None]:
    """Give errors of malformed files one form."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"malformed ({type(error).__name__})"
        raise ValueError(f"{path}: not a model as it was saved: {reason}") from None


def _inputs(folder: Folder, known: Collection[str], named: Any) -> dict[str, str]:
    """Read the inputs that a model names, unchecked."""
    for name in known:
        if folder.holds(name) and name not in named:
            raise ValueError(f"{name} is not an input of this model; expected the folder as it was saved")
    if extra := named.keys() - set(known):
        raise ValueError(f"{sorted(extra)[0]!r}: expected inputs of {', '.join(known) or 'no name'}")
    return {name: folder.text(name) for name in sorted(named)}


def _result(meta: dict[str, Any], stored: dict[str, np.ndarray], inputs: dict[str, str], ledger: Ledger) -> FitResult:
    """Make the result in the files, unchecked."""

    def group(prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix) :]: array for name, array in stored.items() if name.startswith(prefix)}

    if not isinstance(meta["settings"], dict) or not isinstance(meta["n_steps"], int):
        raise ValueError("settings or steps are malformed")
    settings, public = joined(meta["settings"], meta["public"], inputs, stored)
    if not all(isinstance(v, int) for v in (public.n_features, public.n_records, public.seed)):
        raise ValueError("public facts are malformed")
    for array in stored.values():
        array.flags.writeable = False
    return FitResult(meta["model"], settings, public, meta["n_steps"], group(_ARRAY), group(_STATE), ledger)


def _check_arrays(estimator: "PrivateEstimator", result: FitResult) -> None:
    """Check shapes, ranges and finiteness of published arrays and state."""
    specs = estimator._array_specs(result.public)
    if set(specs) != set(result.arrays):
        raise ValueError(f"expected the arrays {sorted(specs)}")
    for name, spec in specs.items():
        array = result.arrays[name]
        pairs = zip(array.shape, spec.shape, strict=False)
        fits = array.ndim == len(spec.shape) and all(want in (-1, n) for n, want in pairs)
        if array.dtype != spec.dtype or not fits:
            raise ValueError(
                f"array {name!r} is {array.dtype} of shape {array.shape}, expected {spec.dtype} {spec.shape}"
            )
        if not (np.isfinite(array).all() and (array >= spec.low).all() and (array <= spec.high).all()):
            raise ValueError(f"array {name!r}: expected finite numbers in [{spec.low:g}, {spec.high:g}]")
    if result.public.scale is not None and result.ledger.private:
        raise ValueError("public facts hold what only fits without privacy know")
    model = estimator._model(result.public)
    model.restore(result.state)
    if not result.state.keys().isdisjoint(("score", "shares")):
        released_score(model, result.state)
