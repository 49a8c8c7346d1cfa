"""Private topics beside non-private ones: perplexity, coherence and overlap.

The tables of docs/topics.md.

Accounting: adding or removing one document, Poisson sampling, PLD, delta = 10^-4. Parts: *simulated*, 400,000
documents as in Figure 2; *sections*, the real 97,750 sections of articles; *kos* and *reuters*, few real
documents; *grid*, settings around the plan, the rest as planned, for a tenth of the documents with a tenth of the
noise.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import crossed
from lda_common import DATA, LENGTH, K, load, npmi, overlap, top_words, unigram_perplexity, without_noise
from lda_fig2 import DELTA, N
from peers.uci import bag_of_words

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.models.lda import LdaOptions

TITLE = "VIPS article's algorithm beside ours: perplexity, coherence and overlap of topics"
NEEDS = ("wiki", "text")
#: File, words a document and test documents of the small corpora.
SMALL = {"kos": ("kos_uci/docword.kos.txt.gz", 150, 500), "reuters": ("reuters/docword.reuters.txt.gz", 70, 2000)}
GRID = {
    **{
        f"q = {q:g}, decay {decay:g}": dict(batch_size=q * N, learning_decay=decay)
        for q in (0.1, 0.25, 0.5)
        for decay in (0.5, 0.7)
    },
    **{f"clip {clip:g}": dict(clip=clip) for clip in (0.025, 0.075)},
    **{f"{steps} steps": dict(n_steps=steps) for steps in (10, 20, 40)},
}


def cells(scale: int) -> list[dict]:
    """List all parts, or in the quick form one run without the sections and the grid."""
    runs, levels, grids = (3, (0.3, 1.0, 2.0), (0.3, 1.0, 3.0)) if scale == 1 else (1, (), ())
    out = [("simulated", "words' own frequencies", None, 0)]
    out += [("simulated", "non-private", None, seed) for seed in range(runs)]
    out += [
        ("simulated", setting, epsilon, seed)
        for epsilon in (2.38, 1.0, 0.3)[: 3 if scale == 1 else 2]
        for setting in ("plan", "paper's update")
        for seed in range(runs)
    ]
    if levels:
        out += [("sections", "words' own frequencies", None, 0), ("sections", "non-private", None, 0)]
    out += [
        ("sections", setting, epsilon, seed)
        for epsilon in levels
        for setting in ("plan", "plan's topics", "paper's update")
        for seed in range(runs)
    ]
    for corpus in SMALL:
        out += [(corpus, "words' own frequencies", None, 0), (corpus, "non-private", None, 0)]
        out += [
            (corpus, setting, epsilon, seed)
            for epsilon in (1.0, 2.0, 4.0)
            for setting in ("plan's topics", "paper's update")
            for seed in range(runs)
        ]
    grid = [("grid", setting, epsilon, 0) for epsilon in grids for setting in ("plan", *GRID)]
    names = ("part", "setting", "epsilon", "seed")
    return [
        # The grid is a tenth of the documents in the full form too: it compares, and whole it takes an hour.
        *(dict(zip(names, cell, strict=True), scale=scale) for cell in out),
        *(dict(zip(names, cell, strict=True), scale=10) for cell in grid),
    ]


@lru_cache(1)
def sections():
    return tuple(sp.csr_array(sp.load_npz(DATA / f"{name}_sections.npz")) for name in ("train", "test"))


@lru_cache(1)
def small(name):
    """(training counts, test counts) of a small corpus, parted by chance."""
    file, _, n_test = SMALL[name]
    X = bag_of_words(DATA.parent / "text" / file)
    rows = np.random.default_rng(0).permutation(X.shape[0])
    return X[rows[n_test:]], X[rows[:n_test]]


def run_small(cell: dict) -> dict:
    """Run a cell of a small corpus.

    As many topics as the plan asks for; without privacy 20, and none to compare with.
    """
    setting, epsilon, seed = cell["setting"], cell["epsilon"], cell["seed"]
    X, Y = small(cell["part"])
    if setting == "words' own frequencies":
        return dict(perplexity=unigram_perplexity(X, Y), npmi=None, overlap=None)
    length = SMALL[cell["part"]][1]
    if setting == "non-private":
        model = LatentDirichletAllocation(20, private=False, n_jobs=1, random_state=seed).fit(X)
    else:
        settings = dict(doc_length=length, epsilon=epsilon, delta=DELTA)
        n_topics = plan(*X.shape, None, **settings).n_components
        settings |= dict(n_jobs=1, random_state=seed)
        if setting == "paper's update":
            model = LatentDirichletAllocation.paper(
                n_topics, sensitivity="proven", sampling="poisson", batch_size=0.05 * X.shape[0], **settings
            ).fit(X)
        else:
            model = LatentDirichletAllocation(n_topics, **settings).fit(X)
    return dict(perplexity=model.perplexity(Y), npmi=npmi(top_words(model.components_), Y), overlap=None)


@lru_cache(1)
def reference(scale):
    """Fit the simulated documents' topics without privacy. A quarter of them a step."""
    plain = dict(batch_size=N // scale // 4, n_steps=20, **without_noise(0.5))
    return LatentDirichletAllocation(K, n_jobs=1, random_state=0, **plain).fit(load(N // scale)[0]).components_


@lru_cache(1)
def sections_reference():
    X = sections()[0]
    plain = {**without_noise(0.5), "batch_size": X.shape[0], "n_steps": 20, "doc_length": 100}
    return LatentDirichletAllocation(K, n_jobs=1, random_state=0, **plain).fit(X).components_


def options_of(epsilon, n_features, scale, fixed):
    """Give parameters of the planned fit with some settings fixed. For the whole corpus or 1/scale of it."""
    fixed = dict(fixed)
    decay = fixed.pop("learning_decay", None)
    if scale == 1:
        options = {} if decay is None else dict(options=LdaOptions(learning_decay=decay))
        return dict(epsilon=epsilon, **fixed, **options)
    ours = plan(N, n_features, K, epsilon=epsilon, delta=DELTA, doc_length=LENGTH, **fixed)
    return dict(
        batch_size=ours.batch_size / scale,
        n_steps=ours.n_steps,
        clip=ours.clip,
        options=LdaOptions(learning_decay=decay or ours.learning_decay),
        noise_multiplier=ours.noise_multiplier / scale,
    )


def run(cell: dict) -> dict:
    setting, epsilon, scale = cell["setting"], cell["epsilon"], cell["scale"]
    if cell["part"] in SMALL:
        return run_small(cell)
    real = cell["part"] == "sections"
    X, Y = sections() if real else load(N // scale)[:2]
    n, share, Y = (X.shape[0], 1, Y[:2000]) if real else (N, scale, Y)
    if setting == "words' own frequencies":
        return dict(perplexity=unigram_perplexity(X, Y), npmi=None, overlap=None)
    common = dict(n_jobs=1, random_state=cell["seed"], delta=DELTA, doc_length=100 if real else LENGTH)
    base = sections_reference() if real else reference(scale)
    if setting == "non-private":
        plain = dict(batch_size=min(N // scale // 4, X.shape[0]), n_steps=20)
        model = LatentDirichletAllocation(K, **{**without_noise(0.5), **plain, **common}).fit(X)
    elif setting == "paper's update":
        fixed = options_of(epsilon, X.shape[1], share, dict(batch_size=0.05 * n, n_steps=20, clip=0.1))
        fixed.pop("options", None)
        model = LatentDirichletAllocation.paper(K, sensitivity="proven", sampling="poisson", **fixed, **common).fit(X)
    else:
        fixed = options_of(epsilon, X.shape[1], share, GRID.get(setting, {}))
        topics = K
        if setting == "plan's topics":
            sizes = dict(doc_length=common["doc_length"], epsilon=epsilon, delta=DELTA)
            topics = plan(*X.shape, None, **sizes).n_components
        model = LatentDirichletAllocation(topics, **fixed, **common).fit(X)
    top = top_words(model.components_)
    alike = overlap(model.components_, base) if len(model.components_) == len(base) else None
    return dict(perplexity=model.perplexity(Y), npmi=npmi(top, Y), overlap=alike)


def report(rows: list[dict]) -> str:
    groups: dict = {}
    for row in rows:
        groups.setdefault((row["part"], row["setting"], row["epsilon"]), []).append(row)

    def shown(line, epsilon):
        group = groups.get((*line, epsilon))
        if not group:
            return None
        means = (np.mean([r[name] for r in group]) for name in ("npmi", "overlap") if group[0][name] is not None)
        return "; ".join([f"{np.mean([r['perplexity'] for r in group]):.0f}", *(f"{x:.2f}" for x in means)])

    lines = {key[:2]: " ".join(key[:2]) for key in groups}
    columns = {
        e: "no privacy" if e is None else f"ε = {e:g}" for e in sorted({k[2] for k in groups}, key=lambda e: e or 9)
    }
    return f"""The article prints no such table. All private rows are proven for adding or removing a document, δ =
10⁻⁴, by the tight accountant. *Paper's update* is Algorithm 3 with its S = 20,000, 20 steps and clip of .1 under that
accounting; *plan's topics* has the number of topics that the plan takes, else 50. *Grid* has settings around the
plan, for a tenth of the documents with a tenth of the noise. The quick form has a tenth of the simulated documents,
one run, no sections and no grid.

Perplexity; NPMI; overlap with topics without privacy, means over runs:

{crossed("corpus and setting", lines, columns, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
