"""Topics that know the documents' labels (docs/topics.md).

Supervised topic models from the existing sums.

A document's label counts as a word of it, of a column of its own. The topics that use the column show the subject of
the label, and predict the label of a document without one. Nothing else is released: the label is as private as the
words. Beside it, both steps private at half of epsilon and delta. Topics of only the words, then a logistic regression
of the labels on the documents' proportions of topics (composed by adding).

Posts of newsgroups, whose 20 groups are the labels, and the words of `persons`; a post is a record. Accuracy of
posts by other persons; the share is the label's among a document's words.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
import persons
import scipy.sparse as sp
from common import crossed, newsgroup_posts, spread

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, plan

TITLE = "Topics that know the labels of documents"
NEEDS = ("people",)
EPSILONS, SHARES = (2.0, 4.0, 8.0), (0.1, 0.3)
TWO_STEPS = "topics, then a regression"


def cells(scale: int) -> list[dict]:
    runs = 3 if scale == 1 else 1
    settings = [(f"labels as words, {share:g}", epsilon) for share in SHARES for epsilon in (None, *EPSILONS)]
    settings += [(TWO_STEPS, epsilon) for epsilon in (None, *EPSILONS)]
    return [dict(setting=setting, epsilon=epsilon, seed=seed) for setting, epsilon in settings for seed in range(runs)]


@lru_cache(1)
def posts():
    """Load counts and labels of training and test, with settings.

    Also the settings of a private fit, and the number of labels.
    """
    train, _, test, settings, _ = persons.people()
    labels = [post["label"] for part in ("train", "test") for post in newsgroup_posts(part)]
    names, numbers = np.unique(labels, return_inverse=True)
    known, asked = np.split(numbers, [train.shape[0]])
    return train, known, test, asked, settings, len(names)


def topics_of(X, epsilon, delta, seed, settings):
    """Fit the plan's number of topics, 50 without privacy."""
    if epsilon is None:
        return LatentDirichletAllocation(50, private=False, n_jobs=1, random_state=seed).fit(X)
    private = {**settings, "epsilon": epsilon, "delta": delta}
    n_topics = plan(*X.shape, None, **private).n_components
    return LatentDirichletAllocation(n_topics, n_jobs=1, random_state=seed, **private).fit(X)


def run(cell: dict) -> dict:
    X, known, Y, asked, settings, n_labels = posts()
    epsilon, seed, delta = cell["epsilon"], cell["seed"], settings["delta"]
    if cell["setting"] == TWO_STEPS:
        half = None if epsilon is None else epsilon / 2
        model = topics_of(X, half, delta / 2, seed, settings)
        budget = dict(private=False) if half is None else dict(epsilon=half, delta=delta / 2)
        # Proportions are at most 1 in length.
        regression = BayesianLogisticRegression(classes=range(n_labels), row_norm=1.0, n_jobs=1, **budget)
        found = regression.fit(model.transform(X), known).predict(model.transform(Y))
    else:
        share = float(cell["setting"].rpartition(" ")[2])
        words = np.maximum(np.asarray(X.sum(axis=1)).ravel(), 1)
        weight = np.maximum(np.rint(share / (1 - share) * words), 1).astype(np.int32)
        columns = sp.csr_array((weight, (np.arange(len(known)), known)), shape=(len(known), n_labels))
        model = topics_of(sp.csr_array(sp.hstack([X, columns])), epsilon, delta, seed, settings)
        unlabeled = sp.csr_array((Y.shape[0], n_labels), dtype=Y.dtype)
        proportions = model.transform(sp.csr_array(sp.hstack([Y, unlabeled])))
        topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
        found = (proportions @ topics[:, X.shape[1] :]).argmax(axis=1)
    return dict(accuracy=float((found == asked).mean()), topics=len(model.components_))


def report(rows: list[dict]) -> str:
    groups: dict = {}
    for row in rows:
        groups.setdefault((row["setting"], row["epsilon"]), []).append(row["accuracy"])

    def shown(setting, epsilon):
        return spread(groups[setting, epsilon], 3) if (setting, epsilon) in groups else None

    columns = {e: f"ε = {e:g}" for e in EPSILONS} | {None: "∞"}
    return f"""Accuracy over the newsgroups' 20 labels, for posts by other persons; δ = 10⁻⁶, adding or removing a
post. *Labels as words* counts a label as a word of its own, of the given share of a document's words. *Topics, then a
regression* spends half on either. Neither article has this.

{crossed("setting", {setting: setting for setting, _ in groups}, columns, shown)}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    return []
