"""Publish a model and its tables in one folder with one page.

The folder has

- ``model`` and ``tables-1``, ``tables-2``, ...: the folders that the fits wrote, each with the one before it in its
  statement (`vips_fast.report.dossier`)
- ``report.html``: one page of all parts
- ``privacy.json``: the statement of the last part, which is about all of them
- ``names.txt``: names of topics or clusters, if given
- ``publication.json``: the digest of each of these files, the day, the head of the last part's ledger, and the name and
  time of the records, if given. By this file the folder is known for a publication, and may be replaced if it holds
  nothing else
- ``model.sig``, if somebody signed the folder afterwards (OpenSSF model signing); nothing here reads it

Page and statement are functions of the other files, and `check_publication` makes them again. The folder is made
whole before it takes its place.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ..models import rebuild
from ..models.estimator import PrivateEstimator
from ..models.family import family_of
from ..models.persistence import ARRAYS, META, MODEL_FILES
from ..models.privacy_file import PRIVACY_FILE, compare_record, privacy_json
from ..models.rebuild import VerifyCheck, VerifyReport
from ..report import html_report
from ..report.dossier import chain_models
from ..store.atomic import PUBLIC, replacing_folder, write_file
from ..store.folder import Folder
from ..store.owned import Own, below, named
from . import beside
from .places import PUBLICATION, check_place, copy_model, kind_in

MODEL, NAMES, MANIFEST, SIGNATURE = "model", "names.txt", PUBLICATION, "model.sig"
_TABLES = re.compile(r"tables-([1-9]\d{0,2})")
_KIND = "vips_fast publication 3"
#: Names of files beside the parts.
PUBLICATION_FILES = frozenset((NAMES, MANIFEST, SIGNATURE, beside.REPORT, PRIVACY_FILE))
_SHA256, _DAY = re.compile(r"[0-9a-f]{64}"), re.compile(r"\d{4}-\d\d-\d\d")


def is_publication(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder is to be read as a publication: it has a ``publication.json``."""
    return os.path.lexists(Path(path, MANIFEST))


def _read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read ``publication.json`` in a folder; ValueError if it is malformed."""
    with Folder(path) as folder:
        said = folder.json(MANIFEST)
    kinds = {"kind": str, "published": str, "head": str, "dataset": str, "date": str, "files": dict}
    if not isinstance(said, dict) or {key: type(value) for key, value in said.items()} != kinds:
        raise ValueError(f"{Path(path, MANIFEST)}: expected {', '.join(kinds)}, as vips-fast publish writes them")
    if said["kind"] != _KIND or not _DAY.fullmatch(said["published"]) or not _SHA256.fullmatch(said["head"]):
        what = "not what this version of vips-fast publish writes"
        raise ValueError(f"{Path(path, MANIFEST)}: {what}; publish its parts again")
    _check_facts(said["dataset"], said["date"])
    for name, digest in said["files"].items():
        if not _is_own(name) or not isinstance(digest, str):
            raise ValueError(f"{Path(path, MANIFEST)}: lists {name[:80]!r}, which vips-fast publish never writes")
    return said


def _manifest_text(said: dict[str, Any]) -> str:
    return json.dumps(said, indent=1, sort_keys=True) + "\n"


def _check_facts(dataset: str, date: str) -> None:
    for name, text in (("dataset", dataset), ("date", date)):
        if not text.isprintable() or len(text) > 200:
            raise ValueError(f"{name}={text[:80]!r}: expected a line of at most 200 characters")


def _is_own(name: str) -> bool:
    """Tell whether a name is one of a publication's files, relative to the folder."""
    part, _, rest = name.partition("/")
    return rest in MODEL_FILES if rest and (part == MODEL or _TABLES.fullmatch(part)) else name in PUBLICATION_FILES


def file_digests(path: str | os.PathLike[str], known: Collection[str] | None = None) -> dict[str, str]:
    """Compute the digest of each file below a folder, except manifest and signature.

    A file that is not ``known`` is not read, as it may be of any size; its digest is "". Raises ValueError for links,
    pipes and devices, which have no content of their own.
    """
    found = {}
    for name, plain in below(Path(path)):
        if not name.endswith("/") and name not in (MANIFEST, SIGNATURE):
            read = not plain or known is None or name in known
            found[name] = _digest(Path(path, name)) if read else ""
    return found


def _digest(path: Path) -> str:
    with Folder(path.parent) as folder, folder.open(path.name) as file:
        return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def own_files(path: Path) -> Own:
    """Read which files a publication holds; see `vips_fast.store.owned`.

    Raises ValueError or OSError if it is none, or a file is another than it was published with.
    """
    if not is_publication(path):
        raise ValueError(f"{path}: has no {MANIFEST}, so it holds no publication of vips-fast")
    files = _read_manifest(path)["files"]
    for name, digest in files.items():
        with suppress(FileNotFoundError):
            if _digest(path / name) != digest:
                raise ValueError(f"{path}: {name!r} is not what was published")
    return named({*files, MANIFEST, SIGNATURE})


def publish(
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *tables: str | os.PathLike[str],
    dataset: str = "",
    date: str = "",
    names: Sequence[str] = (),
    force: bool = False,
) -> None:
    """Publish a saved model and its saved tables in a folder.

    Nothing is spent: everything follows from released numbers and public facts.

    Parameters
    ----------
    out, model, tables : path
        A new folder; folders of a fit, and of its tables in their order.
    dataset, date : str
        Name and time of the records, public facts for the page; "" for none.
    names : sequence of str
        Names of the topics or clusters; () joins their words. No name may come from records.
    force : bool
        Whether to replace a publication. Its folder is replaced only if it holds nothing but what was published.

    Raises ValueError before anything is written if a part is not private, tables leave out a release, or an argument is
    unusable. Also raises the errors of `html_report`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation
    >>> from vips_fast.jobs import check_publication, publish
    >>> topics = LatentDirichletAllocation(2, epsilon=4.0, doc_length=10, n_steps=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     topics.fit(np.ones((500, 4), dtype=int)).save(f"{folder}/topics")
    ...     publish(f"{folder}/public", f"{folder}/topics", dataset="Notes of ward 3")
    ...     check_publication(f"{folder}/public").ok
    True
    """
    out = Path(os.path.abspath(out))
    check_place(out, force, (model, *tables), owner=own_files, what="a publication")
    _check_facts(dataset, date)
    for path in (model, *tables):
        kind_in(Path(path))  # refuses a folder that holds none
    with replacing_folder(out, own_files) as folder:
        for k, path in enumerate((model, *tables)):
            name = f"tables-{k}" if k else MODEL
            (folder / name).mkdir()
            copy_model(Path(path), folder / name, (beside.REPORT,))
        every = load_parts(folder)
        if listed := "".join(f"{name}\n" for name in names):
            _write(folder / NAMES, listed)
        _write(folder / beside.REPORT, _page(every, dataset, date, _names(listed)))
        _write(folder / PRIVACY_FILE, privacy_json(every[-1]._fitted()))
        facts = {"kind": _KIND, "published": _today(), "dataset": dataset, "date": date}
        said = {**facts, "head": every[-1].ledger_.head, "files": file_digests(folder)}
        _write(folder / MANIFEST, _manifest_text(said))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def verify(path: str | Path, transcript: str | Path, *, cls: type[PrivateEstimator] | None = None) -> VerifyReport:
    """Rebuild a saved model from its transcript; compare all public parts, and the texts beside it.

    ``path`` is the folder that `save` wrote, ``transcript`` the one that ``fit(..., transcript=...)`` wrote. ``cls`` is
    the estimator's class; None takes the class that the model's file names, which must be one of this package
    (`vips_fast.models.family`). Raises FileNotFoundError or ValueError if the model or the transcript cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation, verify
    >>> model = LatentDirichletAllocation(2, noise_multiplier=5.0, n_steps=2, doc_length=20)
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     model.fit(np.ones((50, 3), dtype=int), transcript=folder / "transcript").save(folder / "model")
    ...     report = verify(folder / "model", folder / "transcript")
    >>> report.ok, report.text().splitlines()[-1]
    (True, 'The model follows from its releases.')
    """
    model = (kind_in(Path(path)) if cls is None else cls).load(path)
    report = rebuild.compare(model, path, transcript)
    return replace(
        report, checks=(*report.checks, *check_texts(model, path)), about=(("ledger head", model.ledger_.head),)
    )


def check_publication(path: str | os.PathLike[str], transcripts: Sequence[str | os.PathLike[str]] = ()) -> VerifyReport:
    """Make the files of a publication again, and compare them.

    ``transcripts`` are folders of releases, of the model and then of its tables; these parts are made again from them.
    What is not given is not checked, and the report says so. Raises ValueError or OSError if a part cannot be read, or
    there are more transcripts than parts.
    """
    every, known, checks = load_parts(path), _part_names(path), list[VerifyCheck]()
    if len(transcripts) > len(known):
        raise ValueError(f"transcripts: {len(transcripts)}; expected at most {len(known)}, for {', '.join(known)}")
    manifest = _read_manifest(path)
    dataset, date = manifest["dataset"], manifest["date"]
    checks += [_signature(path), _check_manifest(path, manifest, every[-1])]
    given = dict(zip(known, map(Path, transcripts), strict=False))
    for name, part in zip(known, every, strict=True):
        place = Path(path, name)
        found = rebuild.compare(part, place, given[name]) if name in given else rebuild.compare_alone(part, place)
        own = (*found.checks, *check_texts(part, place))
        checks += [VerifyCheck(f"{name}: {one.name}", one.ok, one.detail) for one in own]
    with Folder(path) as folder:
        listed = folder.text(NAMES) if folder.holds(NAMES) else ""
        page = _page(every, dataset, date, _names(listed))
        there = folder.holds(beside.REPORT)
        same = there and folder.read(beside.REPORT) == page.encode()
        checks.append(VerifyCheck(beside.REPORT, same, "" if there else "missing"))
        checks.append(VerifyCheck(PRIVACY_FILE, *compare_record(folder, every[-1]._fitted())))
        if dataset or date:
            checks.append(VerifyCheck("dataset, date", None, "facts that the publisher states; no release shows them"))
        if listed:
            checks.append(VerifyCheck(NAMES, None, "names that the publisher gave; no release shows them"))
        known_names = {*known, *PUBLICATION_FILES}
        checks += [VerifyCheck(n, False, "not a file of a publication") for n in folder.names() if n not in known_names]
    identity = ("published", f"{manifest['published']}, as {MANIFEST} says"), ("ledger head", every[-1].ledger_.head)
    return VerifyReport(tuple(checks), _claim(known, given), "The publication DOES NOT FOLLOW.", identity)


def _claim(known: Sequence[str], given: Collection[str]) -> str:
    """Say what follows if all comparisons hold: no more than the transcripts show."""
    if len(given) == len(known):
        return "Every file follows from releases and public facts."
    said = "Page, statement and texts follow from the parts."
    if given:
        said += f" Made again from releases: {', '.join(given)}."
    left = ", ".join(name for name in known if name not in given)
    return f"{said} Not checked, as no transcript was given: whether releases gave {left}."


def _signature(path: str | os.PathLike[str]) -> VerifyCheck:
    """Say that a signature is not ours to check."""
    there = os.path.lexists(Path(path, SIGNATURE))
    what = "not read here: model_signing verify tells whose it is" if there else "there is none"
    return VerifyCheck(SIGNATURE, None, f"{what}; nothing else shows who published this")


def _check_manifest(path: str | os.PathLike[str], manifest: dict[str, Any], last: PrivateEstimator) -> VerifyCheck:
    known, there = manifest["files"], file_digests(path, manifest["files"])
    differing = [
        f"{name} is {'not listed' if name not in known else 'missing' if name not in there else 'changed'}"
        for name in sorted(known.keys() | there.keys())
        if known.get(name) != there.get(name)
    ]
    if manifest["head"] != last.ledger_.head:
        differing.append("another ledger's head")
    with Folder(path) as folder:
        if folder.read(MANIFEST) != _manifest_text(manifest).encode():
            differing.append("not in the form in which it is written")
    return VerifyCheck(MANIFEST, not differing, "; ".join(differing[:10]))


def check_texts(model: Any, path: str | os.PathLike[str]) -> list[VerifyCheck]:
    """Check the files beside a model: each follows from it. One that is missing makes no claim, and is named."""
    checks, compared = [], {ARRAYS, META, PRIVACY_FILE, *model.inputs_}
    with Folder(path) as folder:
        for name in folder.names():
            if name not in compared:
                detail = "" if name in MODEL_FILES else "not a file that fit writes"
                checks.append(VerifyCheck(name, not detail and beside.follows(model, folder, name), detail))
        missing = sorted({beside.PRIVACY, family_of(model).text} - {"", *folder.names()})
    return checks + [VerifyCheck(name, None, "missing; fit writes it, and save in Python does not") for name in missing]


def _page(every: Sequence[PrivateEstimator], dataset: str, date: str, names: Sequence[str] | None) -> str:
    model, *tables = every
    return html_report(model, tables=tables, titles=names, dataset=dataset or None, date=date or None)


def _write(path: Path, text: str) -> None:
    write_file(path, lambda file: file.write(text.encode()), PUBLIC)


def _part_names(path: str | os.PathLike[str]) -> list[str]:
    """Name the parts of a publication, in their order."""
    with Folder(path) as folder:
        found = sorted((name for name in folder.names() if _TABLES.fullmatch(name)), key=lambda name: int(name[7:]))
    if found != [f"tables-{k}" for k in range(1, len(found) + 1)]:
        raise ValueError(f"{path}: has {', '.join(found)}; expected tables-1 and on, without a gap")
    return [MODEL, *found]


def load_parts(path: str | os.PathLike[str]) -> tuple[PrivateEstimator, ...]:
    """Load the parts of a publication. Raises ValueError unless one statement is about all."""
    model, *tables = (kind_in(Path(path, name)).load(Path(path, name)) for name in _part_names(path))
    for one in (model, *tables):
        if not one.privacy_.private:
            raise ValueError(f"a part is NOT PRIVATE ({'; '.join(one.privacy_.taints)}); expected private fits only")
    return chain_models(model, tables)


def _names(text: str) -> tuple[str, ...] | None:
    """Read names, one on each line."""
    found = tuple(text.removesuffix("\n").split("\n"))
    if text and not all(name.strip() and name.isprintable() for name in found):
        raise ValueError("names: expected a line of text for each topic or cluster")
    return found if text else None
