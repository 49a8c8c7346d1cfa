"""Signatures of whole folders, in the format of OpenSSF model signing 1.0.

A signature is a Sigstore bundle with a DSSE envelope. Its payload is an in-toto statement that lists the SHA-256 digest
of every file of the folder. Here the key is an elliptic-curve key of yours; no service is asked, and nothing leaves the
machine. ``model_signing verify key`` reads these bundles, and `check_signature` reads those that it signs
(https://github.com/ossf/model-signing-spec).
"""

import base64
import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from ..checks import missing_package
from ..store.folder import Folder
from ..store.limits import parse_json

SIGNATURE = "model.sig"
_BUNDLE, _PAYLOAD = "application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.in-toto+json"
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://model_signing/signature/v1.0"
#: Curves of the format, with the hash of each.
_HASHES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}
_CHUNK = 1 << 20


def folder_digests(path: str | os.PathLike[str]) -> dict[str, str]:
    """Compute the digest of each file below a folder, except its signature.

    Raises ValueError for links, pipes and devices, which have no content of their own.
    """
    found: dict[str, str] = {}
    places = [PurePosixPath()]
    while places:
        place = places.pop()
        with Folder(Path(path) / place, follow=place == PurePosixPath()) as folder:
            for name in folder.names():
                if (Path(path) / place / name).is_dir() and not (Path(path) / place / name).is_symlink():
                    places.append(place / name)
                elif (place / name) != PurePosixPath(SIGNATURE):
                    found[str(place / name)] = file_digest(folder, name)
    return {name: found[name] for name in sorted(found, key=PurePosixPath)}


def file_digest(folder: Folder, name: str) -> str:
    """Compute the digest of a file; errors as `Folder.open`."""
    with folder.open(name) as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sign_folder(path: str | os.PathLike[str], key: Any, name: str | None = None) -> bytes:
    """Sign every file of a folder; returns the text of ``model.sig``.

    ``key`` is a private key of `cryptography` on P-256, P-384 or P-521. ``name`` is the folder's name in the signature,
    by default its own. Raises TypeError for another key, and the errors of `folder_digests`.
    """
    curve, algorithm = _curve(key, "private")
    digests = folder_digests(path)
    root = hashlib.sha256(b"".join(map(bytes.fromhex, digests.values()))).hexdigest()
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": [SIGNATURE]}
    resources = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in digests.items()]
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": name or Path(os.path.abspath(path)).name, "digest": {"sha256": root}}],
        "predicateType": _PREDICATE,
        "predicate": {"serialization": serialization, "resources": resources},
    }
    payload = json.dumps(statement, sort_keys=True).encode()
    signature = key.sign(_to_sign(payload), curve.ECDSA(algorithm))
    bundle = {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": _hint(key.public_key())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(bundle).encode()


def check_key(key: Any, which: str) -> None:
    """Raise TypeError unless a "private" or "public" key is one of the format."""
    _curve(key, which)


def check_signature(path: str | os.PathLike[str], key: Any) -> list[tuple[str, str]]:
    """Compare a folder with its signature.

    Returns the differing files, each with a reason. The list is empty if exactly the signed files are there, unchanged.
    ``key`` is the public key; None compares the files with the signature's list, which anybody can have written. Raises
    ValueError if there is no signature, or it does not hold under the key; TypeError for a key of another kind.
    """
    if key is not None:
        check_key(key, "public")
    with Folder(path) as folder:
        if not folder.holds(SIGNATURE):
            raise ValueError(f"{path}: holds no signature; expected {SIGNATURE}, which vips-fast publish --key writes")
        bundle = folder.json(SIGNATURE)
    try:
        envelope = bundle["dsseEnvelope"]
        (one,) = envelope["signatures"]
        payload, signature = (base64.b64decode(text, validate=True) for text in (envelope["payload"], one["sig"]))
        if bundle["mediaType"] != _BUNDLE or envelope["payloadType"] != _PAYLOAD:
            raise ValueError("not a bundle of OpenSSF model signing")
        if key is not None and not _holds(key, signature, payload):
            raise ValueError("its signature does not hold under the given key")
        statement = parse_json(payload)
        if statement["_type"] != _STATEMENT or statement["predicateType"] != _PREDICATE:
            raise ValueError("a statement about something else than a model")
        listed = [one for one in statement["predicate"]["resources"] if one["algorithm"] == "sha256"]
        signed = {one["name"]: one["digest"] for one in listed}
        if not all(isinstance(text, str) for pair in signed.items() for text in pair):
            raise ValueError("its list of files is malformed")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"malformed ({type(error).__name__})"
        raise ValueError(f"{path}/{SIGNATURE}: {reason}") from None
    there = folder_digests(path)
    return [
        (name, "not signed" if name not in signed else "missing" if name not in there else "changed")
        for name in sorted(signed.keys() | there.keys())
        if signed.get(name) != there.get(name)
    ]


def _holds(key: Any, signature: bytes, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    curve, algorithm = _curve(key, "public")
    try:
        key.verify(signature, _to_sign(payload), curve.ECDSA(algorithm))
    except InvalidSignature:
        return False
    return True


def _to_sign(payload: bytes) -> bytes:
    """Encode a payload as DSSE signs it (pre-authentication encoding, version 1)."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _curve(key: Any, which: str) -> tuple[Any, Any]:
    """Find the module of elliptic curves and the hash for a key."""
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise missing_package("a signature", "cryptography", "sign") from None
    kind = ec.EllipticCurvePrivateKey if which == "private" else ec.EllipticCurvePublicKey
    if not isinstance(key, kind) or key.curve.name not in _HASHES:
        raise TypeError(f"key: {type(key).__name__}; expected an elliptic-curve {which} key on P-256, P-384 or P-521")
    return ec, getattr(hashes, _HASHES[key.curve.name])()


def _hint(key: Any) -> str:
    """Name a public key by the digest of its PEM form."""
    from cryptography.hazmat.primitives import serialization as s

    return hashlib.sha256(key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)).hexdigest()
