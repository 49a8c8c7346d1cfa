"""Folders of models: where a fit writes, and what the other commands read."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .texts import COEFFICIENTS, PRIVACY, TOPICS, VOCABULARY

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator


def model_files() -> set[str]:
    """Names of all files that the folder of a model may hold."""
    from ..models import persistence

    return {
        persistence.ARRAYS, persistence.META, persistence.SIGNATURE, TOPICS, PRIVACY, VOCABULARY, COEFFICIENTS
    }


@contextlib.contextmanager
def output_folder(path: Path, force: bool) -> Iterator[Path]:
    """A folder beside ``path`` that takes its place, in one step, when all is written.

    It is made before any work is done, so that a folder that cannot be written costs neither time nor privacy budget.

    Raises
    ------
    ValueError
        If there is something at ``path`` that is not an empty folder; with ``force``, neither that nor a model.
    """
    from ..engine.durable import new_folder, put_in_place

    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ValueError(f"{path} exists and is not a folder")
    if path.is_dir() and any(path.iterdir()):
        if not force:
            raise ValueError(f"{path} is not empty; --force replaces a model in it")
        if not _holds_only_a_model(path):
            raise ValueError(f"{path} holds no model of vips-fast, or more than a model; --force does not apply")
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = new_folder(path)
    try:
        yield folder
        put_in_place(folder, path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _holds_only_a_model(path: Path) -> bool:
    from ..models import persistence

    try:
        persistence.kind_of(path)
    except (OSError, ValueError):
        return False
    return {entry.name for entry in path.iterdir()} <= model_files()


def load_model(
    folder: str, expected: type[PrivateEstimator], written_by: str, verify_key: str | None = None
) -> Any:
    """The fitted model in a folder.

    Parameters
    ----------
    folder : str
    expected : estimator class
        Also the class's own variants are accepted.
    written_by : str
        The command that writes such a model, for messages.
    verify_key : str or None
        File of a public key that must have signed the model.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such model, its files are not as they were saved, or the signature does not hold.
    """
    if not Path(folder).is_dir():
        raise ValueError(f"{folder}: no such folder; expected one written by {written_by}")
    key = None if verify_key is None else read_key("--verify-key", verify_key)
    kind = kind_in(folder)
    if not issubclass(kind, expected):
        raise ValueError(f"{folder} holds a {kind.__name__}; expected a model written by {written_by}")
    return kind.load(folder, verify=key)


def kind_in(folder: str | Path) -> type[PrivateEstimator]:
    """The class of the model in a folder."""
    from ..models import persistence
    from ..models.rebuild import class_of

    return class_of(persistence.kind_of(folder))


def read_key(option: str, name: str) -> Any:
    """A private key for ``--key`` or a public one for ``--verify-key``, from a PEM file."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError("signatures need the package cryptography: pip install 'vips_fast[sign]'") from None
    data = Path(name).read_bytes()
    key: Any = None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = (
            serialization.load_pem_private_key(data, None) if option == "--key"
            else serialization.load_pem_public_key(data)
        )
    if not isinstance(key, (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey)):
        kind = "private key without a password" if option == "--key" else "public key"
        raise ValueError(f"{option} {name}: expected an Ed25519 {kind}, in PEM form")
    return key
