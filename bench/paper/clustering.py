"""Private clusters beside diffprivlib's k-means and fits without privacy: the tables of docs/mixtures.md.

    python bench/paper/clustering.py run           # every cell that is not there yet, then the tables
    python bench/paper/clustering.py keywords      # clusters of the posts with bought words, at epsilon = 4 in all

Data: seven questions of Adult as 60 binary columns; 20,000 images of MNIST, halved to 14 x 14 and binarised; the same
images as unit vectors of 784 numbers, projected to 32; and the newsgroup posts as vectors that are made publicly: the
words' coordinates on 64 principal directions of 4,000 Wikipedia articles, weighted by inverse frequency there, summed
over a post and scaled to norm 1, projected to 32. Each row, image or post is a record; epsilon is for adding or
removing one, delta = 1e-6, and diffprivlib's is pure (delta = 0), which is stronger. Of k-means by diffprivlib, bounds
are those of binary columns, or three standard deviations of a coordinate of a vector that points anywhere.

Test scores: mean log-probability (binary models), mutual information and adjusted Rand index with the labels, and the
mean squared distance to the nearest center, as a share of that to the test mean. Without diffprivlib its cells are left
out. Writes bench/results/clustering.jsonl.
"""

import argparse
import gzip
import importlib.util
import json
from functools import cache

import numpy as np
import scipy.sparse as sp
from common import DATA, ROOT, markdown, spread

from vips_fast import BernoulliMixture, PrivateVocabulary, VectorMixture
from vips_fast.data import Analyzer, stop_words
from vips_fast.data.vocabulary import count_matrix

DELTA, RUNS, EPSILONS, DIMENSIONS = 1e-6, 3, (0.5, 1.0, 2.0, 4.0), 32
STORE = ROOT / "bench" / "results" / "clustering.jsonl"
QUESTIONS = (1, 3, 5, 6, 7, 8, 9)
#: Data: (components, methods).
TASKS = {
    "adult": (8, ("ours", "ours, center 0", "diffprivlib")),
    "mnist, vectors": (10, ("ours", "diffprivlib")),
    "posts, vectors": (20, ("ours", "diffprivlib")),
    "mnist, binary": (10, ("ours", "diffprivlib")),
}


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
    lines = _gunzip(f"people/{split}.jsonl.gz").decode().splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], np.array([row["label"] for row in rows])


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


def projected(rows):
    return VectorMixture(projection=DIMENSIONS).records(rows)


def fitted(task, method, epsilon, run):
    """Test rows as the model sees them, centers, the component of each row or None, and the log-probability or None."""
    k, (train, test, _) = TASKS[task][0], data(task)
    vectors = task.endswith("vectors")
    if not method.startswith("ours"):
        rows = (projected(train), projected(test)) if vectors else (train.astype(float), test.astype(float))
        if method == "diffprivlib":
            from diffprivlib.models import KMeans

            reach = 3 / np.sqrt(DIMENSIONS)
            bounds = (-reach, reach) if vectors else (0.0, 1.0)
            model = KMeans(k, epsilon=epsilon, bounds=bounds, random_state=run).fit(np.clip(rows[0], *bounds))
        else:
            from sklearn.cluster import KMeans as Public

            model = Public(k, n_init=1, random_state=run).fit(rows[0])
        return rows[1], np.asarray(model.cluster_centers_), None, None
    spent = dict(private=False, n_steps=30) if epsilon is None else dict(target_epsilon=epsilon, n_steps=20)
    spent |= dict(target_delta=DELTA, sampling="full", random_state=run)
    if vectors:
        model = VectorMixture(k, projection=DIMENSIONS, **spent).fit(train)
        return projected(test), model.means_, model.predict_proba(test).argmax(axis=1), None
    given = dict(center=0.0, radius=len(QUESTIONS) ** 0.5) if method == "ours, center 0" else {}
    model = BernoulliMixture(k, **given, **spent).fit(train)
    return test, model.probabilities_, model.predict_proba(test).argmax(axis=1), model.score(test)


def cell(task, method, epsilon, run):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels = data(task)[2]
    rows, centers, found, score = fitted(task, method, epsilon, run)
    rows = rows.astype(float)
    squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centers.T + (centers**2).sum(axis=1)
    out = {"distance": float(squares.min(axis=1).mean() / rows.var(axis=0).sum())}
    if score is not None:
        out["score"] = score
    if labels is not None:
        found = squares.argmin(axis=1) if found is None else found
        out |= {"nmi": normalized_mutual_info_score(labels, found), "ari": adjusted_rand_score(labels, found)}
    return out


def cells():
    for task, (_, methods) in TASKS.items():
        for run in range(RUNS):
            for method in ("ours", "k-means"):
                yield task, method, None, run
            for method in methods:
                if method != "diffprivlib" or importlib.util.find_spec("diffprivlib"):
                    yield from ((task, method, epsilon, run) for epsilon in EPSILONS)


def stored():
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {tuple(line["cell"]): line["result"] for line in map(json.loads, lines)}


def tables():
    done, parts = stored(), []
    for task, (_, methods) in TASKS.items():
        rows = []
        for method, epsilon in [(m, e) for m in methods for e in EPSILONS] + [("ours", None), ("k-means", None)]:
            results = [r for c, r in done.items() if c[:3] == (task, method, epsilon)]
            if results:
                shown = [
                    spread((r[n] for r in results), digits) if n in results[0] else None
                    for n, digits in (("score", 2), ("nmi", 3), ("ari", 3), ("distance", 3))
                ]
                rows.append((method, "none" if epsilon is None else epsilon, *shown))
        columns = ("method", "ε", "log-probability", "NMI", "ARI", "squared distance")
        parts.append(f"{task}\n\n{markdown(columns, rows)}\n")
    return "\n".join(parts)


def keywords():
    """Clusters of the posts and their words; the words take 1.5 of epsilon = 4."""
    texts, _ = _posts("train")
    analyzer = Analyzer(stop_words=stop_words("public:en"))
    bought = PrivateVocabulary(
        target_epsilon=1.5, target_delta=DELTA / 2, analyzer=analyzer, max_features=300, max_tokens=300
    ).fit(texts)
    words = list(bought.get_feature_names_out())
    held = count_matrix([texts], words, analyzer)
    model = VectorMixture(
        20, projection=DIMENSIONS, vocabulary=words, max_words=30, target_epsilon=4.0, target_delta=DELTA, n_steps=20,
        sampling="full", random_state=0,
    ).fit(data("posts, vectors")[0], held, after=bought)
    print(len(words), "words;", model.privacy_.statement())
    for weight, found in sorted(zip(model.weights_, model.keywords(8), strict=True), reverse=True):
        print(f"{weight:.3f}", " ".join(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "keywords", "tables"))
    what = parser.parse_args().what
    if what == "keywords":
        return keywords()
    STORE.parent.mkdir(parents=True, exist_ok=True)
    done = stored()
    for one in cells() if what == "run" else ():
        if one not in done:
            line = json.dumps({"cell": one, "result": cell(*one)})
            with STORE.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    print(tables())


if __name__ == "__main__":
    main()
