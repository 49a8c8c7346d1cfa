"""Corpora of the panel, as counts by person of public words, for fitting and for unseen persons."""

import gzip
import hashlib
import json
import os
import re
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import numpy as np
import scipy.sparse

from vips_fast.data import load_corpus
from vips_fast.data.vocabulary import count_matrix
from vips_fast.demo import PACKAGES, STOP_WORDS, docstrings_by_file
from vips_fast.jobs.text import TextFile
from vips_fast.models.lda import PublicPrior, load_prior

DATA = Path(os.environ.get("VIPS_FAST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
#: Texts by person, in files; counts of documents, with their words; docstrings by source file; draws of our own.
TEXTS = ("snippets", "bbc", "alexa", "disaster", "germeval", "posts")
COUNTS = ("sections", "newswires")
MADE = ("docstrings", "planted-short", "planted-long")
NAMES = (*TEXTS, *COUNTS, *MADE)
_WORD, _MOST_DOCSTRINGS = re.compile(r"[a-z]{3,}"), 30_000


class PanelCorpus(NamedTuple):
    """Counts of the fit and of unseen persons, (n, V) int32 CSR; the public prior; labels of the unseen, or None."""

    train: scipy.sparse.csr_matrix
    test: scipy.sparse.csr_matrix
    prior: PublicPrior
    labels: np.ndarray | None


def load(name: str) -> PanelCorpus:
    """Load a corpus; FileNotFoundError without its files."""
    if name in TEXTS:
        return _texts(name)
    if name in COUNTS:
        return _sections() if name == "sections" else _newswires()
    return _docstrings() if name == "docstrings" else _planted(8.0 if name == "planted-short" else 60.0)


def by_person(counts: scipy.sparse.csr_matrix, person: np.ndarray) -> scipy.sparse.csr_matrix:
    size = int(person.max()) + 1
    sums = (
        scipy.sparse.csr_matrix((np.ones(len(person)), (person, np.arange(len(person)))), (size, len(person))) @ counts
    )
    out = scipy.sparse.csr_matrix(sums).astype(np.int32)
    out.sort_indices()
    return out


def _texts(name: str) -> PanelCorpus:
    start = DATA / "people" / "" if name == "posts" else DATA / "panel" / f"{name}."
    files = {part: f"{start}{'/' if name == 'posts' else ''}{part}.jsonl.gz" for part in ("train", "test")}
    prior = load_prior("public:en")
    source = TextFile(files["train"], ("text",), "person", public_prior=prior)
    words, analyzer, found, labels = source.public_words(), source.words_analyzer, {}, np.zeros(0)
    assert words is not None
    for part, file in files.items():
        corpus = load_corpus(file, words, None, text=("text",), person="person", analyzer=analyzer)
        _, first, person = np.unique(np.asarray(corpus.groups), return_index=True, return_inverse=True)
        found[part] = by_person(scipy.sparse.csr_matrix(corpus.counts), person)
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            labels = np.array([str(json.loads(line)["label"]) for line in lines])[first]
    return PanelCorpus(found["train"], found["test"], prior.restricted_to(words), labels)


def _sections() -> PanelCorpus:
    folder = DATA / "wiki"
    parts = [scipy.sparse.load_npz(folder / f"{part}_sections.npz").tocsr() for part in ("train", "test")]
    words = (folder / "vocab.txt").read_text("utf-8").split()
    return PanelCorpus(*parts, load_prior("public:en").restricted_to(words), None)


def _newswires() -> PanelCorpus:
    folder = DATA / "text" / "reuters"
    with gzip.open(folder / "docword.reuters.txt.gz", "rt") as lines:
        n_rows, n_words, _ = (int(next(lines)) for _ in range(3))
        row, column, count = np.loadtxt(lines, dtype=np.int32).T
    counts = scipy.sparse.csr_matrix((count, (row - 1, column - 1)), (n_rows, n_words))
    counts.sort_indices()
    order = np.random.default_rng(0).permutation(n_rows)
    words = (folder / "vocab.reuters.txt").read_text("utf-8").split()
    prior = load_prior("public:en").restricted_to(words)
    return PanelCorpus(counts[order[1500:]], counts[order[:1500]], prior, None)


def _docstrings() -> PanelCorpus:
    """Docstrings of a source file over the words of Python's language reference."""
    words = set[str]()
    for text in topics.values():
        words.update(_WORD.findall(text.lower()))
    words -= STOP_WORDS
    found: dict[str, tuple[str, str]] = {}
    for packages in ((), *((name,) for name in PACKAGES)):
        if len(found) >= _MOST_DOCSTRINGS:
            break
        for path, texts in docstrings_by_file(packages).items():
            for text in texts:
                said = _WORD.findall(text.lower())
                if sum(word in words for word in said) >= 10:
                    found.setdefault(text, (path, " ".join(said)))
    by_hash = sorted(found, key=lambda text: hashlib.sha256(text.encode("utf-8", "replace")).digest())
    kept = set(by_hash[:_MOST_DOCSTRINGS])
    files, texts = zip(*(found[text] for text in found if text in kept), strict=True)
    counts = count_matrix([texts], tuple(sorted(words)), str.split)
    numbers = {path: number for number, path in enumerate(dict.fromkeys(files))}
    person = np.array([numbers[path] for path in files])
    counted = by_person(scipy.sparse.csr_matrix(counts), person)
    order = np.random.default_rng(0).permutation(counted.shape[0])
    cut = len(order) // 5
    prior = load_prior("public:en").restricted_to(tuple(sorted(words)))
    return PanelCorpus(counted[order[cut:]], counted[order[:cut]], prior, None)


def _planted(length: float) -> PanelCorpus:
    """Persons who write Poisson(length) words about few of 15 topics, which no public topic is."""
    rng, full = np.random.default_rng(7), load_prior("public:en")
    words = [full.words[v] for v in np.argsort(-full.frequencies)[:5000]]
    prior = full.restricted_to(words)
    mixed = rng.dirichlet(np.full(prior.n_topics, 0.05), 15) @ prior.topics()
    topics = mixed * np.exp(rng.normal(0.0, 1.0, (1, len(words))) + rng.normal(0.0, 0.7, mixed.shape))
    topics /= topics.sum(axis=1, keepdims=True)
    shares, lengths = rng.dirichlet(np.full(15, 0.15), 5000) @ topics, rng.poisson(length, 5000)
    rows = [rng.multinomial(n, share / share.sum()) for n, share in zip(lengths, shares, strict=True)]
    counts = scipy.sparse.csr_matrix(np.array(rows, dtype=np.int32))
    return PanelCorpus(counts[:4000], counts[4000:], prior, None)
