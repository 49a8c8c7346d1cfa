"""Public categories of words, which name topics.

They are more general than the words themselves.
"""

import importlib.util
import os
from pathlib import Path

from ..checks import missing_package
from ..store.limits import read_bytes

#: The package with categories of English (Fast, Chen & Bernstein 2016); none of its code is run.
PACKAGE = "empath"
_PUBLIC = "public:"


def load_categories(source: str | os.PathLike[str]) -> dict[str, frozenset[str]]:
    """Read categories and the words of each.

    ``source`` is a text file with a category on each line: its name and its words, separated by tabs. "public:en" are
    the 194 categories of the package `empath` (the extra "names"). Raises ValueError for another language or file,
    OSError if a file does not open, and ImportError without the package.
    """
    path = Path(source)
    if isinstance(source, str) and source.startswith(_PUBLIC):
        if source != f"{_PUBLIC}en":
            raise ValueError(f"{source}: expected public:en or a file of categories")
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise missing_package("names of public categories", PACKAGE, "names")
        path = Path(spec.submodule_search_locations[0]) / "data" / "categories.tsv"
    data = read_bytes(path)
    try:
        lines = [line.split("\t") for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{source}: is not UTF-8 text") from None
    named = {name.replace("_", " ").strip(): frozenset({name, *words}) for name, *words in lines if words}
    if not named or len(named) < len(lines) or not all(name.isprintable() and name for name in named):
        raise ValueError(f"{source}: expected a category on each line: its name and its words, separated by tabs")
    return named
