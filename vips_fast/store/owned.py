"""Which folders may be replaced or removed: the one rule.

A folder is ours if a file of ours in it names what it holds, and it holds nothing else. Anything else in it (a file in
a subfolder, a link under one of our names, an empty folder) is somebody's, and the folder stays. Whoever replaces a
folder passes an `Owner`, which reads that file; `remove` deletes what is ours, name by name, and never a whole tree.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: Tells whether a relative name is ours; names of folders end in "/".
Own = Callable[[str], bool]
#: Reads the file of ours in a folder; raises ValueError or FileNotFoundError if there is none.
Owner = Callable[[Path], Own]


def named(files: Collection[str]) -> Own:
    """Make the test for a list of files, and the folders that they are in."""
    return lambda name: name in files or (name.endswith("/") and any(file.startswith(name) for file in files))


def below(path: Path) -> Iterator[tuple[str, bool]]:
    """Give all names below a folder, parents first; tell whether it is a folder or a regular file. Follow no link."""
    places = [""]
    while places:
        place = places.pop()
        with os.scandir(path / place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    places.append(f"{place}{entry.name}/")
                    yield places[-1], True
                else:
                    yield f"{place}{entry.name}", entry.is_file(follow_symlinks=False)


def foreign(path: Path, own: Own) -> str:
    """Find the first name below a folder that is not ours; "" without one."""
    return next((name for name, plain in below(path) if not (plain and own(name))), "")


def remove(path: Path, own: Own) -> None:
    """Remove what is ours below a folder, and the folder if nothing else is in it."""
    for name, plain in sorted(below(path), reverse=True):
        if plain and own(name):
            if name.endswith("/"):
                with suppress(OSError):  # something of somebody else is in it
                    os.rmdir(path / name)
            else:
                os.unlink(path / name)
    with suppress(OSError):
        os.rmdir(path)


#: Names of all files that this package writes into folders. By these a folder in the making is known, which has no file
#: yet that names what it holds. `tests/jobs/test_replacing.py` compares them with the lists of the writers.
MADE = frozenset(
    "asked.json coefficients.csv columns.txt components.csv indices.npy indptr.npy job.json labels.npy ledger.jsonl "
    "lock model model.json model.npz model.sig names.txt persons.npy privacy.json privacy.txt publication.json "
    "releases report.html run.json run.jsonl run.npz schema.toml shards.json start.npz tables.csv text.json "
    "topics.txt usable.npy values.npy vocab.txt words words.json".split()
)
_FOLDERS = re.compile(r"model|words|releases|spool|tables-[1-9]\d{0,2}|\..+\.part")
_FILES = re.compile(r"\..+\.part|\.?release-\d{6,}\.npz(\.part)?")


def _made(name: str) -> bool:
    """Tell whether a process of this package gives a name to something in a part."""
    leaf = name.rstrip("/").rpartition("/")[2]
    if name.endswith("/"):
        return _FOLDERS.fullmatch(leaf) is not None
    return leaf in MADE or _FILES.fullmatch(leaf) is not None


def remove_part(part: Path) -> str:
    """Remove what a killed process left in the making.

    Returns the name of something in it that is not ours and stays, "" without one.
    """
    if part.is_symlink() or not (part.is_file() or part.is_dir()):
        return part.name
    if part.is_file():
        part.unlink(missing_ok=True)
        return ""
    remove(part, _made)
    return (foreign(part, lambda name: False) or part.name) if part.exists() else ""


def is_empty(path: Path) -> bool:
    """Tell whether a path is a folder without anything in it, and not a link."""
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def check_owned(path: Path, owner: Owner) -> Own:
    """Raise ValueError unless a folder is ours and holds nothing else; return what is ours.

    Raises OSError if the system fails.
    """
    if path.is_symlink() or not path.is_dir():
        raise ValueError(f"{path} exists and is not a folder, or is a link to one; expected another place")
    try:
        own = owner(path)
    except (FileNotFoundError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else f"{error.filename}: missing"
        first = foreign(path, lambda name: False)
        raise ValueError(f"{why}; {first!r} in it would be lost: move it away, or take another place") from None
    if name := foreign(path, own):
        raise ValueError(f"{path}: holds {name!r}, which would be lost; move it away, or take another place")
    return own


def check_apart(path: Path, others: Iterable[str | os.PathLike[str]], *, inside: bool = True) -> None:
    """Raise ValueError if a folder to write is, or holds, something in use.

    That is the folder where the process works, and each of ``others``. With ``inside`` the folder may not lie in one of
    these folders either.
    """
    place, here = _real(path), _real(os.curdir)
    if here.is_relative_to(place):
        which = "is" if here == place else "holds"
        raise ValueError(f"{path}: {which} the folder in which you work; expected another place")
    for other in others:
        real = _real(other)
        if real == place:
            raise ValueError(f"{path}: is read or written for something else too; expected another place")
        if real.is_relative_to(place):
            raise ValueError(f"{path}: holds {os.fspath(other)}, which is in use; expected another place")
        if inside and place.is_relative_to(real) and real.is_dir():
            raise ValueError(f"{path}: is inside {os.fspath(other)}, which is in use; expected another place")


def _real(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(path))
