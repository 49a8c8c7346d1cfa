"""Compare topic models without privacy: fit seconds against perplexity.

The seconds are the processor's, and the perplexity is of held-out words. Other people's tools stand beside.

    make front
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python bench/front.py --tools ours scikit-learn --seconds 30
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python bench/front.py --panel --seconds 12 --tools ours tomotopy
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python bench/front.py --eta

The corpus is the first 4,000 training articles of VIPS_FAST_DATA/wiki, K = 50. Each tool has its own defaults but for
the number of topics, one thread, and the schedules below. The table shows the processor time of its fit. All topics are
judged alike: the words of 800 test articles are halved by chance, a document's topic proportions come from one half
(`fold_in`), and the other half gives the perplexity. gensim, scikit-learn and tomotopy are left out if they are not
installed. Writes bench/results/front.{csv,md,png}; a tool ends at the perplexity 1,650 or after --seconds.

With --panel the corpora are those of the panel, at most 8,000 persons of each, K = 20, 50 and 200; it prints the best
perplexity of each tool within some seconds, and of counting words, and writes it to bench/results/front_panel.md. There
proportions have a prior of K^-1/2 a topic: with 1/K every tool is behind counting words on short texts. WARPLDA names
the folder of WarpLDA's two programs, built from github.com/thu-ml/warplda; without it that tool is left out. With --eta
it prints how far the default prior of a topic's words, 1/K, and 0.5 are behind the best of eight after 320 steps.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parent / "paper"))

from common import DATA, ROOT, STYLES, markdown, save, subplots

RESULTS = ROOT / "bench" / "results"
LEVELS = (2000, 1900, 1800, 1700)
#: The panel: seconds within which a tool is judged, and numbers of topics.
WITHIN, TOPICS = (0.1, 0.3, 1.0, 3.0, 12.0), (20, 50, 200)
ENOUGH = 1650
#: Priors of a topic's words that --eta compares with 1/K.
ETAS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: A point of a tool's way: processor seconds of its fit so far, and the topics, (K, V) rows that sum to 1.
Way = Iterator[tuple[float, np.ndarray]]


def halves(X: sp.csr_array, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the words of each document, dealt to two halves by coins."""
    first = np.random.default_rng(seed).binomial(X.data, 0.5).astype(X.data.dtype)
    parts = [sp.csr_array((part, X.indices, X.indptr), shape=X.shape).copy() for part in (first, X.data - first)]
    for part in parts:
        part.eliminate_zeros()
    return parts[0], parts[1]


def fold_in(topics: np.ndarray, X: sp.csr_array, prior: np.ndarray | None = None, rounds: int = 50) -> np.ndarray:
    """Compute documents' topic proportions by EM on fixed topics.

    The law is p(w) = sum_k theta_k beta_kw, with a ``prior``, (K,), added to each topic's count; None is 1/K. Depends
    only on the topics' probabilities, so no tool's own inference or prior is in the measure. Returns (D, K).
    """
    n_topics, (n, _) = len(topics), X.shape
    more = np.full(n_topics, 1 / n_topics) if prior is None else prior
    rows = np.repeat(np.arange(n), np.diff(X.indptr))
    table = np.ascontiguousarray(topics.T)[X.indices]
    theta = np.tile(more / more.sum(), (n, 1))
    for _ in range(rounds):
        ratio = X.data / np.maximum(np.einsum("ik,ik->i", theta[rows], table), 1e-300)
        theta = theta * (sp.csr_array((ratio, np.arange(len(rows)), X.indptr), shape=(n, len(rows))) @ table)
        theta += more
        theta /= theta.sum(axis=1, keepdims=True)
    return theta


def perplexity(topics: np.ndarray, seen: sp.csr_array, unseen: sp.csr_array, prior: np.ndarray | None = None) -> float:
    """Perplexity of the unseen halves of documents, given the seen ones."""
    theta = fold_in(topics, seen, prior)
    rows = np.repeat(np.arange(unseen.shape[0]), np.diff(unseen.indptr))
    p = np.einsum("ik,ki->i", theta[rows], topics[:, unseen.indices])
    return float(np.exp(-(unseen.data @ np.log(np.maximum(p, 1e-300))) / unseen.data.sum()))


def shares(weights: np.ndarray) -> np.ndarray:
    """Rows scaled to a sum of 1."""
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def ours(X: sp.csr_array, n_topics: int) -> Way:
    """Fit ours for each number of steps. The default is 48 for 4,000 documents."""
    from vips_fast import LatentDirichletAllocation

    LatentDirichletAllocation(n_topics, private=False, n_steps=1, random_state=0).fit(X[:2])  # its late imports
    for n_steps in (4, 6, 8, 12, 16, 24, 32, None, 64, 96, 160, 320, 640, 1280, 2560):
        start = time.process_time()
        model = LatentDirichletAllocation(n_topics, private=False, n_steps=n_steps, random_state=0).fit(X)
        yield time.process_time() - start, shares(model.components_)


def scikit_learn(X: sp.csr_array, n_topics: int) -> Way:
    """Its online algorithm, minibatches of 256 in epochs in random order."""
    from sklearn.decomposition import LatentDirichletAllocation

    X = sp.csr_matrix(X)
    model = LatentDirichletAllocation(n_topics, total_samples=X.shape[0], random_state=0)
    spent, rng, number = 0.0, np.random.default_rng(0), 0
    while True:
        order = rng.permutation(X.shape[0])
        for first in range(0, len(order), 256):
            batch = X[order[first : first + 256]]
            start = time.process_time()
            model.partial_fit(batch)
            spent, number = spent + time.process_time() - start, number + 1
            if number in (2, 4, 8, 12) or number % 16 == 0:
                yield spent, shares(model.components_)


def gensim(X: sp.csr_array, n_topics: int) -> Way:
    """Minibatches of 256, as many passes as there is time for."""
    from gensim.models import LdaModel

    X = sp.csr_matrix(X)
    documents = [list(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in X]
    words = {v: str(v) for v in range(X.shape[1])}
    model = LdaModel(id2word=words, num_topics=n_topics, chunksize=256, eval_every=None, random_state=0)
    spent = 0.0
    while True:
        start = time.process_time()
        model.update(documents, passes=1, update_every=1)
        spent += time.process_time() - start
        yield spent, shares(model.get_topics())


def tomotopy(X: sp.csr_array, n_topics: int) -> Way:
    """Collapsed Gibbs sampling, 10, 20, 50, 100, 150, … sweeps."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, seed=0)
    X = sp.csr_matrix(X)
    for row in X:
        model.add_doc([str(v) for v in np.repeat(row.indices, row.data)])
    model.train(0)
    place = np.array([int(v) for v in model.used_vocabs])
    spent = 0.0
    for sweeps in chain((10, 10, 30), repeat(50)):
        start = time.process_time()
        model.train(sweeps, workers=1)
        spent += time.process_time() - start
        topics = np.full((n_topics, X.shape[1]), 1e-12)
        topics[:, place] = [model.get_topic_word_dist(k) for k in range(n_topics)]
        yield spent, shares(topics)


def warplda(X: sp.csr_array, n_topics: int) -> Way:
    """Metropolis-Hastings steps of O(1) a word, 20 to 20,000 sweeps, each number from the start.

    The total of alpha is 1 as ours: its own 50 is up to 20 % behind on short texts.

    The seconds are those that it prints.
    """
    if "WARPLDA" not in os.environ:
        raise ImportError("WARPLDA is not set")
    tools, X = Path(os.environ["WARPLDA"]), sp.csr_matrix(X)
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"--prefix={folder}/a"
        with open(f"{folder}/a.txt", "w") as file:
            for k, row in enumerate(X):
                print(k, "-", *np.repeat(row.indices, row.data), file=file)
        subprocess.run([tools / "format", prefix], check=True, capture_output=True)
        place = np.array(Path(f"{folder}/a.vocab").read_text().split(), dtype=int)
        for sweeps in (20, 60, 200, 600, 2000, 6000, 20000):
            command = [
                *(tools / "warplda", prefix, f"--k={n_topics}", f"--niter={sweeps}"),
                *("--alpha=1", "--writeinfo=false"),
            ]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            topics = np.full((n_topics, X.shape[1]), 0.01)
            for v, line in zip(place, Path(f"{folder}/a.model").read_text().splitlines()[1:], strict=False):
                for k, count in (pair.split(":") for pair in line.split("\t")[1].split()):
                    topics[int(k), v] += float(count)
            yield sum(map(float, re.findall(r"Iteration \d+, ([\d.]+) s", said))), shares(topics)


TOOLS = {"ours": ours, "scikit-learn": scikit_learn, "gensim": gensim, "tomotopy": tomotopy, "warplda": warplda}


def times_to(way: list[tuple[float, float]], levels: tuple[int, ...] = LEVELS) -> list[float | None]:
    """Find when each perplexity is first reached, in seconds, or None."""
    return [min((seconds for seconds, reached in way if reached <= level), default=None) for level in levels]


def measured(
    X, seen, unseen, n_topics: int, tools: list[str], limit: float, enough: float = ENOUGH, prior=None
) -> dict[str, list[tuple[float, float]]]:
    """Seconds and perplexity of each tool's points; for ``prior`` see `fold_in`."""
    ways: dict[str, list[tuple[float, float]]] = {}
    for name in tools:
        try:
            for seconds, topics in TOOLS[name](X, n_topics):
                ways.setdefault(name, []).append((seconds, perplexity(topics, seen, unseen, prior)))
                print(f"{name:>14} {seconds:8.2f} s  {ways[name][-1][1]:7.0f}", flush=True)
                if seconds > limit or ways[name][-1][1] <= enough:
                    break
        except ImportError as error:
            print(f"{name:>14} left out: {error}", flush=True)
    return ways


def table(ways: dict[str, list[tuple[float, float]]]) -> str:
    """Tabulate processor seconds to each perplexity, and the best one.

    The best perplexity has its seconds. The table is Markdown.
    """
    rows = []
    for name, way in ways.items():
        seconds, best = min(way, key=lambda point: point[1])
        rows.append([name, *(f"{t:.2f}" if t else "–" for t in times_to(way)), f"{best:.0f} after {seconds:.1f} s"])
    return markdown(["tool", *(f"{level:,}" for level in LEVELS), "best"], rows)


def panel(tools: list[str], limit: float) -> str:
    """Tabulate the best perplexity of each tool within some seconds, by corpus and number of topics."""
    from panel.corpora import NAMES, load

    rows = []
    for name in NAMES:
        corpus = load(name)
        X, (seen, unseen) = sp.csr_array(corpus.train[:8000]), halves(sp.csr_array(corpus.test[:800]))
        counted = perplexity(shares(X.sum(axis=0)[None] + 0.1), seen, unseen)
        rows.append([name, 1, "counting words", *(f"{counted:,.0f}" for _ in WITHIN)])
        for n_topics in TOPICS:
            prior = np.full(n_topics, n_topics**-0.5)
            for tool, way in measured(X, seen, unseen, n_topics, tools, limit, 0.0, prior).items():
                best = [min((found for spent, found in way if spent <= most), default=None) for most in WITHIN]
                rows.append([name, n_topics, tool, *(f"{one:,.0f}" if one else "–" for one in best)])
    return markdown(["corpus", "topics", "tool", *(f"{most:g} s" for most in WITHIN)], rows)


def etas() -> str:
    """Tabulate how far priors of a topic's words are behind the best of eight, in % of perplexity, by corpus and K.

    Proportions have a prior by the topics' weights with a total of the root of K, as `transform` has without privacy.
    """
    from panel.corpora import NAMES, load

    from vips_fast import LatentDirichletAllocation

    rows = []
    for name in NAMES:
        corpus = load(name)
        X, (seen, unseen) = sp.csr_array(corpus.train[:8000]), halves(sp.csr_array(corpus.test[:800]))
        for n_topics in TOPICS:
            found = {}
            for eta in (1 / n_topics, *(e for e in ETAS if e != 1 / n_topics)):
                options = {"topic_word_prior": eta}
                model = LatentDirichletAllocation(
                    n_topics, private=False, n_steps=320, options=options, random_state=0
                ).fit(X)
                weights = model.components_.sum(axis=1)
                found[eta] = perplexity(
                    shares(model.components_), seen, unseen, n_topics**0.5 * weights / weights.sum()
                )
            best = min(found, key=lambda eta: found[eta])
            behind = (f"{100 * (found[eta] / found[best] - 1):.1f}" for eta in (1 / n_topics, 0.5))
            rows.append([name, n_topics, f"{found[best]:,.0f}", f"{best:g}", *behind])
            print(*rows[-1], flush=True)
    return markdown(["corpus", "topics", "best", "with", "1/K behind, %", "0.5 behind, %"], rows)


def draw(ways: dict[str, list[tuple[float, float]]], folder: Path) -> None:
    """Perplexity over seconds, both on logarithmic axes."""
    figure, axes = subplots(figsize=(6.4, 4.2))
    for style, (name, way) in zip(STYLES, ways.items(), strict=False):
        axes.plot(*zip(*way, strict=True), label=name, markersize=4, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=3000)
    ticks = (1600, 1700, 1800, 1900, 2000, 2500, 3000)
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("processor seconds of the fit")
    axes.set_ylabel("held-out perplexity")
    axes.legend()
    save(figure, folder, "front")


def main(argv: list[str] | None = None) -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0, help="most processor seconds of a tool, default 120")
    parser.add_argument("--panel", action="store_true", help="the panel's corpora")
    parser.add_argument("--eta", action="store_true", help="priors of a topic's words, on the panel's corpora")
    args = parser.parse_args(argv)
    if not (DATA / "wiki").is_dir():
        sys.exit("real data not found: set VIPS_FAST_DATA to the folder that holds wiki/")
    RESULTS.mkdir(parents=True, exist_ok=True)
    if args.eta:
        print("\n" + etas())
        return 0
    if args.panel:
        found = panel(args.tools, args.seconds)
        (RESULTS / "front_panel.md").write_text(found + "\n", encoding="utf-8")
        print("\n" + found)
        return 0
    train, test = (sp.csr_array(sp.load_npz(DATA / "wiki" / f"{name}.npz")) for name in ("train", "test"))
    ways = measured(train[: args.records], *halves(test[:800]), args.topics, args.tools, args.seconds)
    with (RESULTS / "front.csv").open("w", newline="") as file:
        points = [[name, *point] for name, way in ways.items() for point in way]
        csv.writer(file).writerows([["tool", "seconds", "perplexity"], *points])
    (RESULTS / "front.md").write_text(table(ways) + "\n", encoding="utf-8")
    draw(ways, RESULTS)
    print("\n" + table(ways))
    return 0


if __name__ == "__main__":
    sys.exit(main())
