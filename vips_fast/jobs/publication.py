"""Publish a model and its tables with one page and one signature.

The folder has

- ``model`` and ``tables-1``, ``tables-2``, ...: the folders that the fits wrote, each with the one before it in its
  statement (`vips_fast.report.whole`)
- ``report.html``: one page of all parts
- ``privacy.json``: the statement of the last part, which is about all of them
- ``registry.yaml``: an entry for the registry of deployments (`vips_fast.models.registry`), if its facts are given
- ``about.toml`` and ``names.txt``: public facts about the data, and names of topics or clusters, if given
- ``model.sig``: the signature of all other files, after `vips_fast.jobs.signing.sign_folder`

Page, statement and entry are functions of the other files, and `check_publication` makes them again.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..models import rebuild
from ..models.estimator import PrivateEstimator
from ..models.persistence import ARRAYS, META
from ..models.persistence import SIGNATURE as OWN_SIGNATURE
from ..models.privacy_file import PRIVACY_FILE, compare_record, privacy_json
from ..models.rebuild import VerifyCheck, VerifyReport
from ..models.registry import REGISTRY_FILE, About, registry_entry, registry_yaml
from ..report import Namer, html_report, make_dossier, part_of
from ..report.whole import chain_models
from ..store.atomic import PUBLIC, new_folder, put_in_place, write_file
from ..store.folder import Folder
from . import beside
from .places import MODEL_FILES, kind_in
from .signing import SIGNATURE

MODEL, ABOUT, NAMES = "model", "about.toml", "names.txt"
_TABLES = re.compile(r"tables-([1-9]\d{0,2})")


def is_publication(path: str | os.PathLike[str]) -> bool:
    """Tell whether a folder is a publication."""
    return Path(path, MODEL).is_dir() and Path(path, beside.REPORT).is_file() and not Path(path, META).exists()


def publish(
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *tables: str | os.PathLike[str],
    about: str = "",
    names: Sequence[str] = (),
    namer: Namer | None = None,
    force: bool = False,
) -> tuple[str, ...]:
    """Publish a saved model and its saved tables in a folder.

    Nothing is spent: everything follows from released numbers and public facts.

    Parameters
    ----------
    out, model, tables : path
        A new folder; folders of a fit, and of its tables in their order.
    about : str
        Public facts about the data, as the TOML text of an `About`.
    names, namer : sequence of str, callable
        Names of the topics or clusters, or a function that gives them from lists of released words; without both,
        words are joined. No name may come from records.
    force : bool
        Whether to replace a publication.

    Returns the facts that the entry for the registry lacks; () if ``registry.yaml`` is written. Raises ValueError
    before anything is written if a part is not private, tables leave out a release, or an argument is unusable. Also
    raises the errors of `html_report`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation
    >>> from vips_fast.jobs import check_publication, publish
    >>> topics = LatentDirichletAllocation(2, epsilon=4.0, doc_length=10, n_steps=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     topics.fit(np.ones((500, 4), dtype=int)).save(f"{folder}/topics")
    ...     missing = publish(f"{folder}/public", f"{folder}/topics")
    ...     check_publication(f"{folder}/public").ok, missing[:2]
    (True, ('name', 'curators'))
    """
    out = Path(os.path.abspath(out))
    if out.is_symlink() or (out.exists() and not (out.is_dir() and (not any(out.iterdir()) or is_publication(out)))):
        raise ValueError(f"out={out}: holds something else; expected a new folder or a publication")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise ValueError(f"out={out}: is not empty; force=True replaces a publication")
    facts = _about(about)
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = new_folder(out)
    try:
        for name, path in _named(model, tables):
            _copy(Path(path), folder / name)
        every = _parts(folder)
        if namer is not None and not names:
            names = part_of(every[0]).names(every[0], namer)
        inputs = {ABOUT: about, NAMES: "".join(f"{name}\n" for name in names)}
        for name, text in inputs.items():
            if text:
                _write(folder / name, text)
        for name, text in _write_derived(every, facts, _names(inputs[NAMES])).items():
            _write(folder / name, text)
        put_in_place(folder, out)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return facts.missing


def check_publication(path: str | os.PathLike[str], transcripts: Sequence[str | os.PathLike[str]] = ()) -> VerifyReport:
    """Make the files of a publication again, and compare them.

    ``transcripts`` are folders of releases, of the model and then of its tables; these parts are made again from them.
    Checks no signature (`vips_fast.jobs.signing.check_signature`). Raises ValueError or OSError if a part cannot be
    read, or there are more transcripts than parts.
    """
    every, known, checks = _parts(path), _part_names(path), list[VerifyCheck]()
    if len(transcripts) > len(known):
        raise ValueError(f"transcripts: {len(transcripts)}; expected at most {len(known)}, for {', '.join(known)}")
    for name, part, given in zip(known, every, transcripts, strict=False):
        checks += [_of(name, one) for one in rebuild.compare(part, Path(path, name), Path(given)).checks]
    for name, part in zip(known, every, strict=True):
        with Folder(Path(path, name)) as folder:
            record = VerifyCheck(PRIVACY_FILE, *compare_record(folder, part._fitted()))
        checks += [_of(name, one) for one in (record, *check_texts(part, Path(path, name)))]
    with Folder(path) as folder:
        texts = {name: folder.text(name) if folder.holds(name) else "" for name in (ABOUT, NAMES)}
        want = _write_derived(every, _about(texts[ABOUT]), _names(texts[NAMES]))
        checks += [_compare_file(folder, name, want.get(name)) for name in (beside.REPORT, REGISTRY_FILE)]
        checks.append(VerifyCheck(PRIVACY_FILE, *compare_record(folder, every[-1]._fitted())))
        known_names = {*known, *texts, *want, SIGNATURE}
        checks += [VerifyCheck(n, False, "not a file of a publication") for n in folder.names() if n not in known_names]
    return VerifyReport(tuple(checks), "Every file {} from releases and public facts.")


def check_texts(model: Any, path: str | os.PathLike[str]) -> list[VerifyCheck]:
    """Check the files beside a model: each follows from it."""
    checks, compared = [], {ARRAYS, META, OWN_SIGNATURE, PRIVACY_FILE, *model.inputs_}
    with Folder(path) as folder:
        for name in folder.names():
            if name not in compared:
                detail = "" if name in MODEL_FILES else "not a file that fit writes"
                checks.append(VerifyCheck(name, not detail and beside.follows(model, folder, name), detail))
    return checks


def _of(part: str, check: VerifyCheck) -> VerifyCheck:
    return VerifyCheck(f"{part}: {check.name}", check.ok, check.detail)


def _compare_file(folder: Folder, name: str, want: str | None) -> VerifyCheck:
    """Compare a derived file with the text that follows from the rest."""
    if want is None or not folder.holds(name):
        return VerifyCheck(name, want is None and not folder.holds(name), "missing" if want is not None else "")
    return VerifyCheck(name, folder.read(name) == want.encode())


def _write_derived(every: Sequence[PrivateEstimator], about: About, names: Sequence[str] | None) -> dict[str, str]:
    """Write the files that follow from parts, facts and names."""
    model, *tables = every
    known: dict[str, Any] = {"tables": tables, "titles": names}
    known |= {"dataset": about.dataset or None, "date": about.date or None}
    last = every[-1]._fitted()
    found = {beside.REPORT: html_report(model, **known), PRIVACY_FILE: privacy_json(last)}
    if not about.missing:
        entry = registry_entry(last, make_dossier(model, **known).released, about)
        found[REGISTRY_FILE] = registry_yaml(entry)
    return found


def _named(model: Any, tables: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(MODEL, model), *((f"tables-{k}", path) for k, path in enumerate(tables, 1))]


def _copy(path: Path, place: Path) -> None:
    """Copy the files of a saved model, without its own page."""
    place.mkdir()
    with Folder(path) as folder:
        for name in folder.names():
            if name not in MODEL_FILES:
                raise ValueError(f"{path / name}: not a file that fit writes; expected the folder as fit wrote it")
            if name != beside.REPORT:
                write_file(place / name, _from(folder, name), PUBLIC)


def _from(folder: Folder, name: str) -> Callable[[Any], Any]:
    def write(out: Any) -> None:
        with folder.open(name) as file:
            shutil.copyfileobj(file, out)

    return write


def _write(path: Path, text: str) -> None:
    write_file(path, lambda file: file.write(text.encode()), PUBLIC)


def _part_names(path: str | os.PathLike[str]) -> list[str]:
    """Name the parts of a publication, in their order."""
    with Folder(path) as folder:
        found = sorted((name for name in folder.names() if _TABLES.fullmatch(name)), key=lambda name: int(name[7:]))
    if found != [f"tables-{k}" for k in range(1, len(found) + 1)]:
        raise ValueError(f"{path}: has {', '.join(found)}; expected tables-1 and on, without a gap")
    return [MODEL, *found]


def _parts(path: str | os.PathLike[str]) -> tuple[PrivateEstimator, ...]:
    """Load the parts of a publication.

    Raises ValueError unless one statement is about all.
    """
    model, *tables = (kind_in(Path(path, name)).load(Path(path, name)) for name in _part_names(path))
    for one in (model, *tables):
        if not one.privacy_.private:
            raise ValueError(f"a part is NOT PRIVATE ({'; '.join(one.privacy_.taints)}); expected private fits only")
    return chain_models(model, tables)


def _about(text: str) -> About:
    try:
        return About.parse(text)
    except ValueError as error:
        raise ValueError(f"about: {error}") from None


def _names(text: str) -> tuple[str, ...] | None:
    """Read names, one on each line."""
    found = tuple(text.removesuffix("\n").split("\n"))
    if text and not all(name.strip() and name.isprintable() for name in found):
        raise ValueError("names: expected a line of text for each topic or cluster")
    return found if text else None
