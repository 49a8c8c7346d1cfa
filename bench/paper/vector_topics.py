"""Topics of words and sentence vectors, beside topics of words.

Accounting: adding or removing one person, delta = 10^-6; the plan's settings. Posts, words, vectors and groups come
from `public_clusters`, and the public prior from `public_prior`, made from packages only. *Words* are topics of words
(`LatentDirichletAllocation`), *both* have a quarter of the squared clip for vectors (`VectorTopics`); without a prior
they have as many topics as the plan asks for.

Perplexity is about half of a document's words given the other half, so vectors do not help. Agreement is between
the groups of unseen posts and their topics: a post's topic is the largest of its words, or follows from both.
"""

from functools import lru_cache

import numpy as np
import public_clusters
import public_prior
from common import markdown

from vips_fast import LatentDirichletAllocation, VectorTopics, plan

TITLE = "Topics of words and sentence vectors in one model"
NEEDS = public_clusters.NEEDS
POSTS, EPSILONS, SETTINGS = (1500, 4000, 15351), (1.0, 2.0, 4.0), ("words", "both")
PRIORS, LENGTH = ("packages", ""), 500


def cells(scale: int) -> list[dict]:
    seeds = range(3 if scale == 1 else 1)
    wanted = [("packages", n, eps, s, seed) for n in POSTS for eps in EPSILONS for s in SETTINGS for seed in seeds]
    wanted += [("", POSTS[-1], eps, s, seed) for eps in EPSILONS for s in SETTINGS for seed in seeds]
    names = ("prior", "posts", "epsilon", "setting", "seed")
    return [dict(zip(names, one, strict=True), scale=scale) for one in wanted]


@lru_cache(1)
def persons() -> np.ndarray:
    return np.unique([post["person"] for post in public_clusters.posts("train")], return_inverse=True)[1]


def run(cell: dict) -> dict:
    from sklearn.metrics import normalized_mutual_info_score

    n, seed = cell["posts"], cell["seed"]
    X, _, Y, listed = public_prior.corpus("posts")
    units = persons()[:n]
    prior = public_prior.prior("packages", listed) if cell["prior"] else None
    private = dict(doc_length=LENGTH, epsilon=cell["epsilon"], delta=public_prior.DELTA)
    n_units = len(set(units))
    topics = public_prior.K if prior else plan(n_units, X.shape[1], None, **private).n_components
    common = dict(public_prior=prior, n_jobs=1, random_state=seed, relation="add_remove", **private)
    if cell["setting"] == "words":
        model = LatentDirichletAllocation(topics, **common).fit(X[:n], groups=units)
        found = model.transform(Y).argmax(axis=1)
    else:
        model = VectorTopics(topics, public=public_clusters.knowledge("packages"), **common)
        model.fit(X[:n], public_clusters.embedded("train")[:n], groups=units)
        found = model.predict(Y, public_clusters.embedded("test"))
    groups = [post["label"] for post in public_clusters.posts("test")]
    return dict(
        perplexity=public_prior.perplexity(model.components_, model, public_prior.split(Y, seed)),
        nmi=float(normalized_mutual_info_score(groups, found)),
        topics=len(model.components_),
        persons=n_units,
    )


def report(rows: list[dict]) -> str:
    groups: dict = {}
    for row in rows:
        place = row["prior"] or "none", row["posts"], row["persons"]
        groups.setdefault(place, {}).setdefault((row["setting"], row["epsilon"]), []).append(row)
    lines = [
        (place[0], place[2], setting, *(_shown(own.get((setting, epsilon), [])) for epsilon in EPSILONS))
        for place, own in sorted(groups.items(), key=lambda item: (item[0][0] == "none", item[0][1]))
        for setting in SETTINGS
    ]
    columns = ("prior", "persons", "topics of", *(f"ε = {e:g}" for e in EPSILONS))
    return f"""{markdown(columns, lines)}

Agreement with the groups (NMI); completion perplexity. Means of the runs."""


def _shown(rows: list[dict]) -> str:
    if not rows:
        return ""
    nmi, perplexity = (sum(r[name] for r in rows) / len(rows) for name in ("nmi", "perplexity"))
    return f"{nmi:.3f}; {perplexity:.0f}"


def draw(rows: list[dict], folder) -> list:
    return []
