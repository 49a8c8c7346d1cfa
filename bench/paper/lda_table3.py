"""VIPS article, Table 3: top words of matched topics. Private beside non-private; runs as in lda_fig3."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from common import listed, markdown, order
from lda_common import K, load, matched, npmi, overlap, top_words
from lda_fig2 import DELTA, MA, NO_CLIP, PAPER, STRONG, N, event, paper_options, planned_options
from peers.wang import WANG

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import epsilon

TITLE = "VIPS article, Table 3: top words of the topics, ε = 2.38"
NEEDS = ("wiki",)
SIZE, SIGMA, TOPICS = 20_000, 1.24, 3
#: Words of a topic that the page shows; the stored rows have ten.
WORDS = 5
#: The share of a topic that its ten printed words have, mean of the three topics printed.
PRINTED = {"non-private": 0.293, MA: 0.0568, **dict.fromkeys(STRONG, 0.0134), NO_CLIP: 0.0128}


@lru_cache(1)
def reference(scale):
    """Fit the reference topics: the article's schedule without privacy. The others are matched to them."""
    options = paper_options("non-private", SIZE, 0.0, scale)
    return LatentDirichletAllocation.paper(**options).fit(load(N // scale)[0]).components_


def cells(scale: int) -> list[dict]:
    return [dict(method=method, scale=scale) for method in ("non-private", *PAPER, "ours")]


def run(cell: dict) -> dict:
    method, scale = cell["method"], cell["scale"]
    X, Y, vocabulary = load(N // scale)
    plain = reference(scale)
    spent = epsilon(event(SIZE, SIGMA), DELTA, WANG)
    if method == "non-private":
        components = plain
    elif method == "ours":
        components = LatentDirichletAllocation(**planned_options(X.shape[1], spent, scale)).fit(X).components_
    else:
        components = LatentDirichletAllocation.paper(**paper_options(method, SIZE, SIGMA, scale)).fit(X).components_
    # The topics whose first word is heaviest are those that a reader recognizes first.
    share = plain / plain.sum(axis=1, keepdims=True)
    chosen = (-share[range(K), top_words(share, 1)[:, 0]]).argsort()[:TOPICS]
    order, top = matched(components, plain), top_words(components)
    share = components / components.sum(axis=1, keepdims=True)
    topics = [[[vocabulary[v], float(share[order[topic], v])] for v in top[order[topic]]] for topic in chosen]
    mass = sum(p for words in topics for _, p in words) / TOPICS
    figures = dict(mass=mass, largest=float(np.take_along_axis(share, top, 1).sum(axis=1).max()), topics=topics)
    return dict(epsilon=spent, npmi=npmi(top, Y), overlap=overlap(components, plain), **figures)


def report(rows: list[dict]) -> str:
    columns = ("method", "ten words' share, printed", "here", "largest of any topic", "NPMI", "overlap", "topics")
    shown = [
        (
            r["method"],
            PRINTED.get(r["method"]),
            *(f"{r[name]:.4f}" for name in ("mass", "largest")),
            f"{r['npmi']:.3f}",
            f"{r['overlap']:.2f}",
            "; ".join(" ".join(word for word, _ in topic[:WORDS]) for topic in r["topics"]),
        )
        for r in rows
    ]
    return f"""As in Figure 2, the paper's methods, at ε = {rows[0]["epsilon"]:.3f}, are NOT PRIVATE, and *ours* is
proven. Shown are {WORDS} words of the three topics whose first word is heaviest without privacy, each with its closest
match. All rows replace one document. The paper does not say how its three were chosen: the largest share of any topic
is the most that a choice could show.
NPMI is coherence over held-out documents, overlap the share of ten words in common with non-private topics.

{listed(orders(rows))}

{markdown(columns, shown)}"""


def orders(rows: list[dict]) -> list:
    """Check the printed order of the ten words' share."""
    share = {r["method"]: r["mass"] for r in rows}
    pairs = [("non-private", MA), *((MA, name) for name in STRONG), *((name, NO_CLIP) for name in STRONG)]
    return [
        order(f"ten words' share: {a} above {b}", {"S = 20,000": share[a] > share[b]})
        for a, b in pairs
        if a in share and b in share
    ]


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
