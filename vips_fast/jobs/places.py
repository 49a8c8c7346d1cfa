"""Folders of models: places to write to, and model classes."""

import contextlib
from pathlib import Path

from ..models.estimator import PrivateEstimator
from ..models.family import class_named, files_beside
from ..models.persistence import ARRAYS, META, SIGNATURE, kind_of
from ..models.privacy_file import PRIVACY_FILE
from .beside import PRIVACY, REPORT

#: All that the folder of a model may hold.
MODEL_FILES = files_beside() | {ARRAYS, META, SIGNATURE, PRIVACY_FILE, PRIVACY, REPORT}


def check_place(path: Path, force: bool) -> None:
    """Raise ValueError unless a model may be written there.

    The place must be free or empty or, with ``force``, hold a model.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ValueError(f"{path} exists and is not a folder")
    if path.is_dir() and any(path.iterdir()):
        if not force:
            raise ValueError(f"{path} is not empty; force=True replaces a model in it")
        replaceable = False
        with contextlib.suppress(OSError, ValueError):
            replaceable = bool(kind_in(path)) and {entry.name for entry in path.iterdir()} <= MODEL_FILES
        if not replaceable:
            raise ValueError(f"{path} holds no model of vips-fast, or other files too; expected another place")


def kind_in(folder: str | Path) -> type[PrivateEstimator]:
    """Find the class of a saved model; ValueError for foreign ones."""
    if not Path(folder).is_dir():
        raise ValueError(f"{folder}: no such folder; expected one written by vips-fast fit")
    kind: type[PrivateEstimator] = class_named(kind_of(folder))
    return kind
