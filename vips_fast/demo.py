"""Texts of persons, and public knowledge, on every machine: the docstrings that every Python has.

A source file of an installed package stands for a person, and its docstrings for what this person wrote. The docstrings
of Python's own library and its language reference are public: everybody has them. Topics of these, fitted without
privacy, are the public topics of the demo. So no package with word vectors is needed, and no other text.
"""

import ast
import importlib.util
import os
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from .data import Analyzer
from .data.vocabulary import count_matrix
from .models.lda import PublicPrior, prior_from_documents

#: Packages are read in this order until there are enough documents; absent ones are passed over. The list is fixed, so
#: that other packages of an environment do not change the corpus. It begins with packages that every environment of
#: this package has.
PACKAGES = tuple(
    """
    numpy scipy matplotlib numba llvmlite autodp tqdm PIL fontTools pip setuptools Cython sklearn pandas sympy
    statsmodels networkx skimage gensim mpmath joblib dask xarray h5py tables astropy nltk IPython seaborn hypothesis
    torch jax tensorflow
    """.split()
)

#: Words of English and of docstrings that say nothing about a topic.
STOP_WORDS = frozenset(
    """
    about above after again against all already also although always and another any are around because been before
    being below between both but can cannot could did does doing done down during each either etc even ever every few
    for from further get gets give given gives had has have having hence her here hers him his how however into its
    itself just least less let like likely made make makes many may might more most much must near need needed needs
    neither never nor not now off often once one only onto onwards other others otherwise our out over own per perhaps
    quite rather same see several shall she should since some such than that the their them themselves then there
    therefore these they this those though through thus too two under unless until upon use used useful user uses using
    usual usually very via was way well were what when where whether which while who whole whose why will with within
    without would yet you your
    """.split()
)

_SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "pydoc_data"}
#: Packages whose topics a reader knows come first; each is read if it is installed.
_FIRST = "numpy scipy pandas sklearn matplotlib".split()
#: Most files: as many are read in a few seconds.
_FILES = 1_500
#: Words of the layout of docstrings, of addresses, and of types.
_LAYOUT = frozenset(
    """
    arg args bool boolean com doc docs docstring docstrings example examples false float gt http https html import int
    kwargs lt none note notes null optional org param parameter parameters raises ref refs return returns see str true
    type types www
    """.split()
)
#: Words of a public vocabulary; a word that more than this share of the public texts use says nothing of a topic.
_WORDS, _SHARE = 2_000, 0.02
#: The fewest counted words of a public text.
_LEAST = 3
_NAME = "docstrings of Python's library and its reference"


def source_files() -> tuple[list[str], np.ndarray, list[str]]:
    """Read docstrings of installed packages.

    Gives the texts, the number of the source file of each, and the packages that were found.
    """
    order = [*_FIRST, *(name for name in PACKAGES if name not in _FIRST)]
    texts: list[str] = []
    files: list[int] = []
    found: list[str] = []
    for name in order:
        if files and files[-1] + 1 >= _FILES:
            break
        first = files[-1] + 1 if files else 0
        for number, docstrings in enumerate(docstrings_by_file((name,), _FILES - first).values(), first):
            texts += docstrings
            files += [number] * len(docstrings)
        if files and files[-1] + 1 > first:
            found.append(name)
    return texts, np.array(files, np.int64), found


def public_texts() -> list[str]:
    """Read the docstrings of Python's library and the paragraphs of its reference."""
    texts = [text for found in docstrings_by_file().values() for text in found]
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems leave it out
        return texts
    return texts + [paragraph for text in topics.values() for paragraph in text.split("\n\n")]


def public_topics(texts: Sequence[str], n_topics: int = 100, random_state: int = 0) -> PublicPrior:
    """Fit public topics to public texts, without privacy.

    The words are the commonest of the texts, in letters only, without those of `STOP_WORDS` and of docstrings' layout.
    """
    analyzer = Analyzer(min_length=3, stop_words=tuple(sorted(STOP_WORDS | _LAYOUT)))
    occurs: Counter[str] = Counter()
    for text in texts:
        occurs.update(set(analyzer(text)))
    most = _SHARE * len(texts)
    kept = [word for word, number in occurs.items() if number <= most and word.isascii() and word.isalpha()]
    words = sorted(sorted(kept, key=lambda word: (-occurs[word], word))[:_WORDS])
    counts = count_matrix([texts], words, analyzer)
    counts = counts[np.flatnonzero(counts.sum(axis=1) >= _LEAST)]
    return prior_from_documents(counts, words, n_topics, language="", name=_NAME, random_state=random_state)


def docstrings_by_file(packages: Sequence[str] = (), most: int | None = None) -> dict[str, list[str]]:
    """Read the docstrings of each source file of packages, or of the standard library if there are none.

    Sources are parsed, never imported; test folders are left out. At most ``most`` files are read. A docstring belongs
    to the first file that has it.
    """
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for folder in _folders(packages) if packages else (sysconfig.get_path("stdlib"),):
        for path in _sources(folder):
            if most is not None and len(found) >= most:
                return found
            new = [text for text in dict.fromkeys(_docstrings(path)) if text not in seen]
            seen.update(new)
            if new:
                found[path] = new
    return found


def _folders(packages: Sequence[str]) -> Iterator[str]:
    """Find the folders of installed packages; absent ones have none."""
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        if spec is not None:
            yield from spec.submodule_search_locations or ()


def _sources(root: str) -> Iterator[str]:
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - _SKIPPED_FOLDERS)
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("test_") and name != "conftest.py":
                yield os.path.join(folder, name)


def _docstrings(path: str) -> Iterator[str]:
    """Read a source file's docstrings, outermost first, or none."""
    try:
        with open(path, "rb") as file:
            source = file.read()
        if b'"""' not in source and b"'''" not in source:
            # Parsing takes time, and a docstring of ten words without triple quotes is rare. The rule is the same
            # everywhere, so the corpus is too.
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        # Python's parser says MemoryError of brackets that are nested too deeply.
        return
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring
        pending.extend(reversed(list(_blocks(node))))


def _blocks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield classes and functions right below a node, through if and try."""
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, field, ()):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield child
            elif hasattr(child, "body"):
                yield from _blocks(child)
