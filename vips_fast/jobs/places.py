"""Folders of models: places to write to, and model classes."""

import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from ..models.estimator import PrivateEstimator
from ..models.family import class_named
from ..models.persistence import MODEL_FILES, kind_of, own_files
from ..store.atomic import PUBLIC, write_file
from ..store.folder import Folder
from ..store.owned import Owner, check_apart, check_owned, is_empty

#: By this file a folder is known for a publication.
PUBLICATION = "publication.json"


def check_place(
    path: Path,
    force: bool,
    others: Iterable[str | os.PathLike[str]] = (),
    *,
    owner: Owner = own_files,
    what: str = "a model",
) -> None:
    """Raise ValueError unless a model may be written there.

    The place must be free or empty or, with ``force``, hold a model (``what`` the ``owner`` knows) and nothing else. It
    may not be the folder in which the process works, nor hold that folder or one of ``others``, nor lie in one of them.
    """
    check_apart(path, others)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ValueError(f"{path} exists and is not a folder, or is a link to one; expected another place")
    if path.exists() and not is_empty(path):
        if not force:
            raise ValueError(f"{path} is not empty; force=True replaces {what} in it")
        check_owned(path, owner)


def kind_in(folder: str | Path) -> type[PrivateEstimator]:
    """Find the class of a saved model; FileNotFoundError if there is none, ValueError for foreign ones."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; expected one written by vips-fast fit")
    if Path(folder, PUBLICATION).exists():
        raise ValueError(f"{folder}: holds a publication; expected one of its parts, such as {Path(folder, 'model')}")
    kind: type[PrivateEstimator] = class_named(kind_of(folder))
    return kind


def copy_model(path: Path, place: Path, leave_out: Collection[str] = ()) -> None:
    """Copy the files of a saved model to a folder, on the disk."""
    with Folder(path) as folder:
        for name in folder.names():
            if name not in MODEL_FILES:
                raise ValueError(f"{path / name}: not a file that fit writes; expected the folder as fit wrote it")
            if name not in leave_out:
                with folder.open(name) as file:
                    write_file(place / name, lambda out, file=file: shutil.copyfileobj(file, out), PUBLIC)
