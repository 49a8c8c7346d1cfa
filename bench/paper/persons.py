"""Persons as the unit of privacy, beside the two ways around it, at the same person-level epsilon.

    python bench/paper/persons.py people       # 15,351 posts of 6,652 authors
    python bench/paper/persons.py sections     # 97,750 sections of 12,201 articles
    python bench/paper/persons.py simulated    # 400,000 documents of 100,000 persons with 1 to 10 documents each

Rows of the table, for each epsilon:

- persons: ``fit(X, groups=...)``, sampling persons, one joint clip of a person's documents of these lengths;
- rows: documents are sampled, at most k of a person are kept, and the noise is what the mixture of Gaussians asks for a
  person of k (`vips_fast.accounting.group_event`), for the best of a few k, which flatters it;
- merged: each person's documents made one document, of the same, twice or five times the length;
- documents: the unit is a document, at the same epsilon: what persons cost.

Perplexities are the bound of Eq. 32 on public test documents. Writes bench/results/persons_NAME.csv.
"""

import argparse
import collections
import gzip
import json
import re
import time

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, K, Table, load, unigram_perplexity

from vips_fast import LatentDirichletAllocation
from vips_fast.accounting import SelfComposedEvent, calibrate_noise_multiplier, group_event
from vips_fast.engine.sampling import make_sampler
from vips_fast.models.lda.planning import default_batch_size

N_STEPS = 20


def people(n_words=3000):
    """Posts as counts of the words that the most test posts have, which are taken as public."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def posts(name):
        with gzip.open(DATA.parent / "people" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                post = json.loads(line)
                words = re.findall("[a-z]{3,}", post["text"].lower())
                yield post["person"], collections.Counter(word for word in words if word not in ENGLISH_STOP_WORDS)

    train, test = list(posts("train")), list(posts("test"))
    documents = collections.Counter(word for _, counts in test for word in counts)
    column = {word: i for i, word in enumerate(sorted(documents, key=lambda w: (-documents[w], w))[:n_words])}

    def matrix(posts):
        cells = [(i, column[w], c) for i, (_, counts) in enumerate(posts) for w, c in counts.items() if w in column]
        rows, columns, counts = np.array(cells).T
        return sp.csr_array((counts.astype(np.int32), (rows, columns)), shape=(len(posts), n_words))

    persons = np.unique([person for person, _ in train], return_inverse=True)[1]
    return matrix(train), persons, matrix(test), dict(doc_length=60, n_components=10, target_delta=1e-6), (2, 5, 10)


def sections():
    """Sections of articles, whose article is the person."""
    X, Y = (sp.csr_array(sp.load_npz(DATA / f"{name}_sections.npz")) for name in ("train", "test"))
    persons = np.load(DATA / "train_sections_article.npy")
    return X, persons, Y[:2000], dict(doc_length=100, n_components=K, target_delta=1e-6), (4, 10, 20)


def simulated(n_records=400_000, n_persons=100_000, seed=0):
    """The paper's corpus, whose documents are shared out: a geometric number, cut off at 10, of mean 4."""
    X, Y, _ = load(n_records, seed=seed)
    generator = np.random.default_rng(seed)
    sizes = np.zeros(0, dtype=int)
    while sizes.sum() < n_records:
        drawn = generator.geometric(0.17545667, 2 * n_persons)
        sizes = np.concatenate([sizes, drawn[drawn <= 10]])
    persons = np.repeat(np.arange(len(sizes)), sizes)[:n_records]
    return X, persons, Y, dict(doc_length=500, n_components=K, target_delta=1e-4), (10,)


def kept(persons, most, seed=0):
    """Numbers of the rows that remain where each person keeps at most so many, at random."""
    order = np.random.default_rng(seed).permutation(len(persons))
    by_person = order[np.argsort(persons[order], kind="stable")]
    _, starts, sizes = np.unique(persons[by_person], return_index=True, return_counts=True)
    return np.sort(by_person[np.arange(len(persons)) - np.repeat(starts, sizes) < most])


def noise_for_persons(n_rows, epsilon, delta, most):
    """Noise multiplier under which row sampling promises epsilon to a person of so many rows."""
    sampler = make_sampler("poisson", None, n_rows, default_batch_size(n_rows))
    return calibrate_noise_multiplier(
        lambda z: group_event(SelfComposedEvent(sampler.event(z), N_STEPS), most), epsilon, delta
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=("people", "sections", "simulated"))
    parser.add_argument("--epsilon", type=float, nargs="*")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    X, persons, Y, settings, limits = {"people": people, "sections": sections, "simulated": simulated}[
        arguments.corpus
    ]()
    X.data, delta = X.data.astype(np.int32), settings["target_delta"]
    merged = sp.csr_array((np.ones(len(persons), np.int32), (persons, np.arange(len(persons))))) @ X
    merged = sp.csr_array(merged[np.diff(merged.indptr) > 0])
    sizes = np.unique(persons, return_counts=True)[1]
    print(f"{X.shape[0]} documents of {len(sizes)} persons, at most {sizes.max()}, over {X.shape[1]} words", flush=True)
    table = Table(f"persons_{arguments.corpus}", ["setting", "epsilon", "perplexity", "sd", "noise", "seconds"])
    table.add("word frequencies", float("inf"), unigram_perplexity(X, Y), 0.0, 0.0, 0.0)

    def row(name, epsilon, X, groups=None, **options):
        figures, start = [], time.perf_counter()
        for seed in range(arguments.runs):
            model = LatentDirichletAllocation(
                **{**settings, "n_steps": N_STEPS, "n_jobs": arguments.jobs, "random_state": seed, **options}
            ).fit(X, groups=groups)
            figures.append(model.perplexity(Y))
        noise = model.privacy_.noise_multiplier * model.ledger_.plan["clip_norm"] if model.private else 0.0
        seconds = (time.perf_counter() - start) / arguments.runs
        table.add(name, epsilon, float(np.mean(figures)), float(np.std(figures)), noise, seconds)
        return figures

    lengths = [settings["doc_length"] * times for times in (1, 2, 5)]
    row("not private", float("inf"), X, private=False)
    if arguments.corpus == "simulated":
        lengths = lengths[:1]
    for epsilon in arguments.epsilon or ([1.0, 2.0] if arguments.corpus == "simulated" else [2.0, 4.0, 8.0]):
        for length in lengths:
            row(f"persons, length {length}", epsilon, X, persons, target_epsilon=epsilon, doc_length=length)
        for most in limits:
            few = X[kept(persons, most)]
            noise = noise_for_persons(few.shape[0], epsilon, delta, most)
            row(f"rows, at most {most}", epsilon, few, noise_multiplier=noise)
        for length in lengths:
            row(f"merged, length {length}", epsilon, merged, target_epsilon=epsilon, doc_length=length)
        row("documents", epsilon, X, target_epsilon=epsilon)


if __name__ == "__main__":
    main()
