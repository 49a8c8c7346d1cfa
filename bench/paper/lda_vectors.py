"""Private topics with word neighbors as a prior (the tables of docs/topics_measured.md).

Accounting: adding or removing one document, Poisson sampling, PLD, delta = 10^-4; the plan's settings, and its number
of topics but for the 400,000 documents. *Vectors*: neighbors by a public model's vectors (the file VIPS_FAST_VECTORS,
which `word_vectors.py` writes); *others' vectors*: each word has another word's, a control; *articles*: neighbors by
`vips_fast.word_vectors` of whole articles that no section comes from, taken as public.
"""

import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import crossed, full_run, markdown
from lda_common import DATA as WIKI
from lda_common import K, load
from lda_fig2 import DELTA, N
from lda_table import SMALL, sections, small
from word_vectors import neighbors

from vips_fast import LatentDirichletAllocation, nearest_words, plan, word_vectors

TITLE = "Word neighbors, by public vectors of words, as a prior of private topics"
NEEDS = ("wiki", "text")
EPSILONS = {"sections": (0.3, 1.0, 2.0), "reuters": (1.0, 2.0, 4.0), "simulated": (0.3, 1.0)}
ARTICLES = {"8,000 articles": 8000, "1,000 articles": 1000}
SETTINGS = ("plan", "vectors", "others' vectors", *ARTICLES)


def cells(scale: int) -> list[dict]:
    runs = 3 if scale == 1 else 1
    wanted = [
        (part, epsilon, setting, seed)
        for part, epsilons in EPSILONS.items()
        for epsilon in (epsilons if scale == 1 else epsilons[1:2])
        # A public model's vectors take a file that no package brings.
        for setting in (SETTINGS if scale == 1 else ("plan", *ARTICLES))
        for seed in range(runs)
        # The 400,000 are made of the articles; the plan's own rows of these are in `lda_table`.
        if part == "sections" or (setting == "vectors" or part == "reuters" and setting not in ARTICLES) and scale == 1
    ]
    names = ("part", "epsilon", "setting", "seed")
    return [dict(zip(names, cell, strict=True), scale=scale) for cell in wanted]


@lru_cache(1)
def neighbors_of_articles(n):
    train = sp.csr_array(sp.load_npz(WIKI / "train.npz"))
    others = np.setdiff1d(np.arange(train.shape[0]), np.load(WIKI / "train_sections_article.npy"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of words that no article has
        return nearest_words(word_vectors(train[others[:n]]))


def run(cell: dict) -> dict:
    part, setting = cell["part"], cell["setting"]
    if part == "simulated":
        (X, Y), length = load(N // cell["scale"])[:2], 500
    elif part == "sections":
        (X, Y), length = sections(), 100
    else:
        (X, Y), length = small(part), SMALL[part][1]
    private = dict(doc_length=length, epsilon=cell["epsilon"], delta=DELTA)
    topics = K if part == "simulated" else plan(*X.shape, None, **private).n_components
    name = "reuters" if part == "reuters" else "wiki"
    if setting in ARTICLES:
        near = neighbors_of_articles(ARTICLES[setting])
    else:
        near = None if setting == "plan" else neighbors(name, setting != "vectors")
    model = LatentDirichletAllocation(topics, word_neighbors=near, n_jobs=1, random_state=cell["seed"], **private).fit(
        X
    )
    return dict(perplexity=model.perplexity(Y[:2000]), topics=topics)


def report(rows: list[dict]) -> str:
    groups: dict = {}
    for row in rows:
        groups.setdefault((row["part"], row["epsilon"]), {}).setdefault(row["setting"], []).append(row["perplexity"])
    whole = {(part, epsilon): values for part, epsilon, *values in full_run("lda_vectors_full")["rows"]}

    def here(place, setting):
        values = groups[place].get(setting)
        return None if values is None else f"{np.mean(values):.0f}"

    lines = {place: f"{place[0]}, ε = {place[1]:g}" for place in groups}
    columns = {s: s for s in SETTINGS if any(s in own for own in groups.values())}
    kept = [(f"{part}, ε = {epsilon:g}", *values) for (part, epsilon), values in whole.items()]
    return f"""Perplexity of unseen documents; δ = 10⁻⁴ for adding or removing a document. Neither article has this.
*Articles* are neighbors by `word_vectors` of whole articles that no section comes from, taken as public. *Vectors*
are neighbors by a public model's vectors, whose file no package brings; its control, *others' vectors*, gives each
word the vector of another word. So the quick form has neither.

{crossed("documents", lines, columns, here)}

A full run, transcribed, means of three runs:

{markdown(("documents", *SETTINGS), kept)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
