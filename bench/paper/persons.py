"""Persons as the privacy unit, beside the ways around it at the same person-level epsilon (docs/persons.md).

    python bench/paper/persons.py     # topics of 15,351 posts of 6,652 authors

Rows of the table, for each epsilon:

- persons: ``fit(X, groups=...)``, sampling persons, one joint clip of all that a person has;
- merged: each person's documents made one document, of the same, twice or five times the length;
- alone: each document as a record of its own, at the same epsilon: the cost of persons.

Topics: the plan's number, for persons or for documents; perplexities, the bound of Eq. 32, of public test documents.
Writes bench/results/persons.csv.
"""

import argparse
import collections
import re
import time

import numpy as np
import scipy.sparse as sp
from common import newsgroup_posts
from lda_common import Table, unigram_perplexity

from vips_fast import LatentDirichletAllocation, plan

SETTINGS = dict(doc_length=60, delta=1e-6)


def people(n_words=3000):
    """Load posts as counts of the words that the most test posts have, which are taken as public, and their persons."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def read(name):
        for post in newsgroup_posts(name):
            words = re.findall("[a-z]{3,}", post["text"].lower())
            yield post["person"], collections.Counter(word for word in words if word not in ENGLISH_STOP_WORDS)

    train, test = list(read("train")), list(read("test"))
    documents = collections.Counter(word for _, counts in test for word in counts)
    column = {w: i for i, w in enumerate(sorted(documents, key=lambda w: (-documents[w], w))[:n_words])}

    def matrix(posts):
        cells = [(i, column[w], c) for i, (_, counts) in enumerate(posts) for w, c in counts.items() if w in column]
        rows, columns, counts = np.array(cells).T
        return sp.csr_array((counts.astype(np.int32), (rows, columns)), shape=(len(posts), len(column)))

    return matrix(train), np.unique([person for person, _ in train], return_inverse=True)[1], matrix(test)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[2.0, 4.0, 8.0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    X, persons, Y = people()
    merged = sp.csr_array((np.ones(len(persons), np.int32), (persons, np.arange(len(persons))))) @ X
    merged = sp.csr_array(merged[np.diff(merged.indptr) > 0])
    n_persons = len(np.unique(persons))
    table = Table("persons", ["setting", "epsilon", "perplexity", "sd", "noise", "seconds"])
    table.add("word frequencies", float("inf"), unigram_perplexity(X, Y), 0.0, 0.0, 0.0)

    def row(name, epsilon, X, topics, groups=None, **options):
        found, start = [], time.perf_counter()
        private = {"private": False} if epsilon is None else {**SETTINGS, "epsilon": epsilon, "n_steps": 20}
        for run in range(arguments.runs):
            how = {**private, "n_jobs": arguments.jobs, "random_state": run, **options}
            model = LatentDirichletAllocation(topics, **how).fit(X, groups=groups)
            found.append(model.perplexity(Y))
        noise = model.privacy_.noise_multiplier * model.ledger_.plan["sensitivity"] if model.private else 0.0
        seconds = (time.perf_counter() - start) / arguments.runs
        table.add(name, epsilon or float("inf"), float(np.mean(found)), float(np.std(found)), noise, seconds)

    def worth_while(epsilon, units, rows):
        how = {"epsilon": epsilon, "unit": "person", "options": {"rows_per_group": rows}, **SETTINGS}
        return plan(units, X.shape[1], None, **how).n_components

    for topics in (10, 20, 50):
        row(f"not private, {topics} topics", None, X, topics)
    for epsilon in arguments.epsilon:
        topics = worth_while(epsilon, n_persons, None)
        row(f"persons, {topics} topics", epsilon, X, topics, persons)
        for length in (60, 120, 300):
            row(f"merged, length {length}", epsilon, merged, topics, doc_length=length)
        topics = worth_while(epsilon, X.shape[0], 1)
        row(f"alone, {topics} topics", epsilon, X, topics)


if __name__ == "__main__":
    main()
