"""Folders of models, which a fit writes and the other commands read."""

import contextlib
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..jobs.places import kind_in
from ..models.estimator import PrivateEstimator
from ..models.family import FAMILIES, family_of, resolve
from .output import warn_of_taints


def load_new(args: Namespace, verb: str) -> tuple[Any, Any]:
    """Load the model in ``args.model``, and the new records in ``args.input`` as its family reads them.

    Raises ValueError if new records of this model are not for the command ``verb``, "transform" or "predict".
    """
    kind = kind_in(args.model)
    if (family := family_of(kind)).verb != verb:
        commands = dict.fromkeys(f"fit {one.command}" for one in FAMILIES if one.verb == verb)
        raise ValueError(
            f"{args.model} holds a {kind.__name__}; expected a model written by vips-fast {' or '.join(commands)}"
        )
    model = load_model(args.model, kind, f"fit {family.command}", args.verify_key)
    records = resolve(family.shell).read_new(args, model)
    warn_of_taints(model)
    return model, records


def refuse(args: Namespace, *options: str) -> None:
    """Refuse options that mean nothing to the model in ``args.model``, with a ValueError."""
    for option in options:
        if getattr(args, option) is not None:
            title = family_of(kind_in(args.model)).title.lower()
            raise ValueError(f"--{option}: not for a {title}, as in {args.model}")


def load_model(folder: str, expected: type[PrivateEstimator], name: str, verify_key: str | None = None) -> Any:
    """Load the fitted model in a folder, of the expected class or a variant of it, whose command is ``name``.

    With the file of a public key, a signature must hold. Raises FileNotFoundError or ValueError if there is no such
    model or its files differ from the saved ones.
    """
    key = None if verify_key is None else read_key("--verify-key", verify_key)
    kind = kind_in(folder)
    if not issubclass(kind, expected):
        raise ValueError(f"{folder} holds a {kind.__name__}; expected a model written by vips-fast {name}")
    return kind.load(folder, verify=key)


def read_key(option: str, name: str) -> Any:
    """Read a private key for ``--key`` or a public one for ``--verify-key``, from a PEM file."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ImportError:
        from ..checks import missing_package

        raise missing_package("a signature", "cryptography", "sign") from None
    data, private, key = Path(name).read_bytes(), option == "--key", None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = serialization.load_pem_private_key(data, None) if private else serialization.load_pem_public_key(data)
    if not isinstance(key, Ed25519PrivateKey if private else Ed25519PublicKey):
        what = "private key without a password" if private else "public key"
        raise ValueError(f"{option} {name}: expected an Ed25519 {what}, in PEM form")
    return key
