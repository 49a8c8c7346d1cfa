"""Text: completion perplexity of unseen persons, beside rivals, and whether the verdict is true.

    python -m bench.panel.text            # continues, and stores each row in bench/panel/text.json
    python -m bench.panel.text --table    # the tables of docs/panel.md, from the stored rows

A cell is a corpus, a number of persons, an epsilon (delta is 1e-6) and a seed. Half of an unseen person's words are
told, and the other half is predicted. The true gain is over the exact word frequencies of the persons of the fit.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from peers.topics import exact_frequencies, one_histogram

from vips_fast import LatentDirichletAllocation

from .corpora import NAMES, PanelCorpus, load

STORED = Path(__file__).with_name("text.json")
PERSONS, EPSILONS, SEEDS, DELTA = (300, 800, 3000, 10**9), (1.0, 2.0, 4.0), (0, 1), 1e-6
RIVALS = ("one_histogram", "public", "released_frequencies")


def halves(counts: scipy.sparse.csr_matrix, seed: int = 1) -> list[scipy.sparse.csr_matrix]:
    """Divide each person's words in two halves at random; persons with one half only are left out."""
    rng, whole = np.random.default_rng(seed), counts.data.astype(np.int64)
    first = rng.binomial(whole, 0.5)
    parts = [scipy.sparse.csr_matrix((n, counts.indices, counts.indptr), counts.shape) for n in (first, whole - first)]
    both = (parts[0].sum(axis=1).A1 > 0) & (parts[1].sum(axis=1).A1 > 0)
    parts = [scipy.sparse.csr_matrix(part[both]).astype(np.int32) for part in parts]
    for part in parts:
        part.eliminate_zeros()
        part.sort_indices()
    return parts


def completion(told: Any, asked: Any, topics: np.ndarray, alpha: np.ndarray) -> float:
    """Perplexity of the asked halves, by topics, (K, V), and proportions inferred from the told halves."""
    theta = proportions(told, topics, alpha)
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    total = 0.0
    for first in range(0, len(rows), 50_000):
        part = slice(first, first + 50_000)
        p = np.einsum("nk,nk->n", theta[rows[part]], topics.T[asked.indices[part]])
        total += float(asked.data[part] @ np.log(np.maximum(p, 1e-30)))
    return float(np.exp(-total / asked.sum()))


def proportions(told: Any, topics: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Variational means of the topic proportions, (n, K)."""
    from vips_fast.kernels.lda import scaled_table
    from vips_fast.models.lda.records import UnitWords
    from vips_fast.models.lda.score import _proportions

    units = UnitWords(told.indptr.astype(np.int64), told.indices.astype(np.int32), told.data.astype(np.float64))
    table = scaled_table(np.ascontiguousarray(topics), np.float32)
    return _proportions(table, len(topics), units, np.ascontiguousarray(np.maximum(alpha, 1e-3))).astype(np.float64)


def by_frequencies(asked: Any, masses: np.ndarray) -> float:
    """Perplexity of the asked halves, by word frequencies, (V,)."""
    return float(np.exp(-(asked @ np.log(masses)).sum() / asked.sum()))


def cell(corpus: PanelCorpus, n: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Measure one cell."""
    rng = np.random.default_rng([seed, n])
    chosen = np.sort(rng.permutation(corpus.train.shape[0])[:n])
    train, (told, asked) = corpus.train[chosen], halves(corpus.test[:3000])
    prior, began = corpus.prior, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentDirichletAllocation(prior.n_topics, epsilon=epsilon, delta=DELTA, public_prior=prior).fit(train)
    seconds = time.perf_counter() - began
    exact = by_frequencies(asked, exact_frequencies(train))
    topics, alpha, masses = one_histogram(train, prior, epsilon, DELTA, rng)
    theta = model.transform(told)
    components = model.components_ / model.components_.sum(axis=1, keepdims=True)
    ours = _by_theta(asked, theta, components)
    found = model.found_gain_
    row = {
        "ours": ours,
        "exact": exact,
        "one_histogram": completion(told, asked, topics, alpha),
        "public": completion(told, asked, prior.topics(), 4.0 * prior.weights),
        "released_frequencies": by_frequencies(asked, masses),
        "seconds": seconds,
        "true_gain": 1.0 - ours / exact,
        "found": None if found is None else list(found),
        "worth": model.verdict_.worth,
        "words": float(np.median(train.sum(axis=1).A1)),
    }
    if corpus.labels is not None:
        from sklearn.metrics import normalized_mutual_info_score

        whole = model.transform(corpus.test)
        row["agreement"] = float(normalized_mutual_info_score(corpus.labels, whole.argmax(axis=1)))
    return row


def _by_theta(asked: Any, theta: np.ndarray, topics: np.ndarray) -> float:
    rows = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    p = np.concatenate(
        [
            np.einsum("nk,nk->n", theta[rows[i : i + 50_000]], topics.T[asked.indices[i : i + 50_000]])
            for i in range(0, len(rows), 50_000)
        ]
    )
    return float(np.exp(-(asked.data @ np.log(np.maximum(p, 1e-30))) / asked.sum()))


def run(names: tuple[str, ...], stored: Path) -> None:
    """Measure the cells that are not stored yet."""
    rows = json.loads(stored.read_text()) if stored.exists() else {}
    for name in names:
        corpus = None
        for n in PERSONS:
            for epsilon in EPSILONS:
                for seed in SEEDS:
                    if corpus is None:
                        try:
                            corpus = load(name)
                        except FileNotFoundError as error:
                            print(f"{name}: skipped, {error}")
                            break
                    size = min(n, corpus.train.shape[0])
                    key = f"{name} {size} {epsilon:g} {seed}"
                    if key in rows or (n < 10**9 and n > corpus.train.shape[0]):
                        continue
                    rows[key] = cell(corpus, size, epsilon, seed)
                    stored.write_text(json.dumps(rows, indent=0, sort_keys=True))
                    print(key, {k: v if isinstance(v, str) else np.round(v, 3).tolist() for k, v in rows[key].items()})


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The figures that decide: how often ours is near the best rival, and how often the verdict is true."""
    best = {key: min(row[rival] for rival in RIVALS) for key, row in rows.items()}
    ratio = np.array([row["ours"] / best[key] for key, row in rows.items()])
    far = np.array(
        [int(key.split()[1]) >= 3000 and row["words"] >= 20 and float(key.split()[2]) >= 2 for key, row in rows.items()]
    )
    judged = [row for row in rows.values() if row["found"]]
    inside = [row["found"][1] <= row["true_gain"] <= row["found"][2] for row in judged]
    useful = [row for row in judged if row["worth"] == "useful"]
    few = [row for key, row in rows.items() if key.split()[1:3] == ["800", "2"]]
    return {
        "cells": len(rows),
        "within 2 % of the best rival": float((ratio <= 1.02).mean()),
        "worst against the best rival": float(ratio.max()),
        "ahead by 3 %, 3,000 persons of 20 words, epsilon >= 2": float((ratio[far] <= 0.97).mean()) if far.any() else 1,
        "interval holds the true gain": float(np.mean(inside)),
        "useful and truly no better": float(np.mean([row["true_gain"] <= 0 for row in useful])) if useful else 0.0,
        "cannot tell, 800 persons, epsilon 2": float(np.mean([row["worth"] == "unclear" for row in few])),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--rows", type=Path, default=STORED)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        run(tuple(asked.names), asked.rows)
    for name, figure in summary(json.loads(asked.rows.read_text())).items():
        print(f"{name}: {figure:.3f}")
