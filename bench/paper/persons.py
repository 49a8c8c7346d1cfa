"""Persons as the privacy unit, beside the ways around it.

At the same person-level epsilon.

    python bench/paper/persons.py people       # topics of 15,351 posts of 6,652 authors
    python bench/paper/persons.py sections     # topics of 97,750 sections of 12,201 articles
    python bench/paper/persons.py simulated    # topics of 400,000 documents of 100,000 persons with 1 to 10 each
    python bench/paper/persons.py adult        # logistic regression on Adult, 4 rows a household, drawn by chance
    python bench/paper/persons.py mnist        # belief network of 60,000 images, 10 a writer by their order

Rows of the table, for each epsilon:

- persons: ``fit(X, groups=...)``, sampling persons, one joint clip of all that a person has;
- merged (topics): each person's documents made one document, of the same, twice or five times the length;
- alone: each row as a record of its own, at the same epsilon: the cost of persons.

Topics: the plan's number, for persons or for documents; perplexities, the bound of Eq. 32, of public
test documents. Adult: area under the ROC curve, means over splits. MNIST: share of the test images' pixels that the
reconstruction has right. Writes bench/results/persons_NAME.csv.
"""

import argparse
import collections
import re
import time
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from common import newsgroup_posts
from lda_common import DATA, Table, load, unigram_perplexity
from peers.mnist import load_mnist

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork, plan

N_STEPS = 20


@lru_cache(1)
def posts():
    """Load persons and the words of their training and test posts."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def read(name):
        for post in newsgroup_posts(name):
            words = re.findall("[a-z]{3,}", post["text"].lower())
            yield post["person"], collections.Counter(word for word in words if word not in ENGLISH_STOP_WORDS)

    return list(read("train")), list(read("test"))


def people_words(n_words=3000):
    """List the words that the most test posts have.

    They are taken as public.
    """
    documents = collections.Counter(word for _, counts in posts()[1] for word in counts)
    return sorted(documents, key=lambda w: (-documents[w], w))[:n_words]


def people():
    """Posts as counts of the words of `people_words`."""
    train, test = posts()
    column = {word: i for i, word in enumerate(people_words())}

    def matrix(posts):
        cells = [(i, column[w], c) for i, (_, counts) in enumerate(posts) for w, c in counts.items() if w in column]
        rows, columns, counts = np.array(cells).T
        return sp.csr_array((counts.astype(np.int32), (rows, columns)), shape=(len(posts), len(column)))

    persons = np.unique([person for person, _ in train], return_inverse=True)[1]
    return matrix(train), persons, matrix(test), dict(doc_length=60, delta=1e-6), (2, 5, 10)


def sections():
    """Sections of articles, whose article is the person."""
    X, Y = (sp.csr_array(sp.load_npz(DATA / f"{name}_sections.npz")) for name in ("train", "test"))
    persons = np.load(DATA / "train_sections_article.npy")
    return X, persons, Y[:2000], dict(doc_length=100, delta=1e-6), (4, 10, 20)


def simulated(n_records=400_000, n_persons=100_000, seed=0):
    """Load the paper's corpus, with its documents shared out to persons.

    A geometric number each, cut off at 10, of mean 4.
    """
    X, Y, _ = load(n_records, seed=seed)
    generator = np.random.default_rng(seed)
    sizes = np.zeros(0, dtype=int)
    while sizes.sum() < n_records:
        drawn = generator.geometric(0.17545667, 2 * n_persons)
        sizes = np.concatenate([sizes, drawn[drawn <= 10]])
    persons = np.repeat(np.arange(len(sizes)), sizes)[:n_records]
    return X, persons, Y, dict(doc_length=500, delta=1e-4), (10,)


class Comparison:
    """Fits and their figures, one row of the table after the other."""

    def __init__(self, arguments, measure, epsilons):
        self.runs, self.jobs, self.epsilons = arguments.runs, arguments.jobs, arguments.epsilon or epsilons
        self.table = Table(f"persons_{arguments.corpus}", ["setting", "epsilon", measure, "sd", "noise", "seconds"])

    def row(self, name, epsilon, make, data, score):
        """``make(**options)`` an estimator, ``data(run)`` the arguments of its fit, ``score(model, run)`` a figure."""
        figures, start = [], time.perf_counter()
        for run in range(self.runs):
            private = {"private": False} if epsilon is None else {"epsilon": epsilon}
            model = make(n_jobs=self.jobs, random_state=run, **private)
            given = data(run)
            model.fit(*given[:-1], groups=given[-1])
            assert epsilon is None or model.privacy_.epsilon <= epsilon
            figures.append(score(model, run))
        noise = model.privacy_.noise_multiplier * model.ledger_.plan["sensitivity"] if model.private else 0.0
        seconds = (time.perf_counter() - start) / self.runs
        self.table.add(name, epsilon or float("inf"), float(np.mean(figures)), float(np.std(figures)), noise, seconds)


def topics(arguments, corpus):
    """Return the tables of topic models."""
    X, persons, Y, settings, limits = corpus()
    X.data = X.data.astype(np.int32)
    merged = sp.csr_array((np.ones(len(persons), np.int32), (persons, np.arange(len(persons))))) @ X
    merged = sp.csr_array(merged[np.diff(merged.indptr) > 0])
    sizes = np.unique(persons, return_counts=True)[1]
    print(f"{X.shape[0]} documents of {len(sizes)} persons, at most {sizes.max()}, over {X.shape[1]} words", flush=True)
    large = arguments.corpus == "simulated"
    compared = Comparison(arguments, "perplexity", [1.0, 2.0] if large else [2.0, 4.0, 8.0])
    compared.table.add("word frequencies", float("inf"), unigram_perplexity(X, Y), 0.0, 0.0, 0.0)

    def row(name, epsilon, X, topics, groups=None, **options):
        def make(**common):
            private = {} if epsilon is None else {**settings, "n_steps": N_STEPS}
            return LatentDirichletAllocation(topics, **{**private, **common, **options})

        compared.row(name, epsilon, make, lambda run: (X, groups), lambda model, run: model.perplexity(Y))

    def worth_while(epsilon, units, rows):
        how = {"epsilon": epsilon, "unit": "person", "options": {"rows_per_group": rows}, **settings}
        return plan(units, X.shape[1], None, **how).n_components

    for topics in (50,) if large else (10, 20, 50):
        row(f"not private, {topics} topics", None, X, topics)
    for epsilon in compared.epsilons:
        topics = worth_while(epsilon, len(sizes), None)
        row(f"persons, {topics} topics", epsilon, X, topics, persons)
        for times in (1,) if large else (1, 2, 5):
            length = settings["doc_length"] * times
            row(f"merged, length {length}", epsilon, merged, topics, doc_length=length)
        topics = worth_while(epsilon, X.shape[0], 1)
        row(f"alone, {topics} topics", epsilon, X, topics)


def ways(compared, kind, settings, data, score, most, n_rows):
    """Make the rows of the table for a model.

    Its rows are all drawn, unless they are drawn one by one.
    """

    def row(name, epsilon, grouped=False, **options):
        compared.row(
            name,
            epsilon,
            lambda **common: kind(**{**settings, **common, **options}),
            lambda run: data(run) if grouped else (*data(run)[:-1], None),
            score,
        )

    row("not private", None)
    for epsilon in compared.epsilons:
        row("persons", epsilon, True)
        row("alone", epsilon)


def adult(arguments, most=4, delta=1e-3):
    """Logistic regression over several splits, households shared out by chance in each."""
    from blr_table import load, split
    from sklearn.metrics import roc_auc_score

    X, y = load("adult")

    def data(run):
        train, _ = split(len(y), run)
        homes = np.random.default_rng(run).permutation(len(train)) // most
        return X[train], y[train], homes

    def score(model, run):
        _, test = split(len(y), run)
        return roc_auc_score(y[test], model.decision_function(X[test]))

    n_rows = len(split(len(y), 0)[0])
    print(f"{n_rows} rows, {most} a household, seeds 0 to {arguments.runs - 1}, delta = {delta:g}", flush=True)
    compared = Comparison(arguments, "AUC", [0.2, 1.0])
    ways(compared, BayesianLogisticRegression, dict(delta=delta), data, score, most, n_rows)


def mnist(arguments, most=10, delta=1e-4):
    """Belief networks of binarized images."""
    train, test, _, _ = load_mnist(DATA.parent / "mnist")
    writers = np.arange(len(train)) // most
    print(f"{len(train)} images, {most} a writer, delta = {delta:g}", flush=True)
    compared = Comparison(arguments, "accuracy", [1.0])
    settings = dict(n_components=50, delta=delta, sampling="full")
    ways(
        compared,
        SigmoidBeliefNetwork,
        settings,
        lambda run: (train, writers),
        lambda model, run: model.pixel_accuracy(test),
        most,
        len(train),
    )


def main():
    tables = {
        "people": lambda a: topics(a, people),
        "sections": lambda a: topics(a, sections),
        "simulated": lambda a: topics(a, simulated),
        "adult": adult,
        "mnist": mnist,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=tables)
    parser.add_argument("--epsilon", type=float, nargs="*")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    tables[arguments.corpus](arguments)


if __name__ == "__main__":
    main()
