"""Time whole private fits here and in another checkout, with their perplexity.

    python bench/fits.py ../other/.venv/bin/python
    python bench/fits.py ../other/.venv/bin/python --corpora kos newswires --pairs 3 --table bench/fits.json

Both interpreters fit in turn with the same seeds and the same noise, each in its own process. A ratio is their
processor seconds over ours, the median of the pairs. A perplexity is a mean: it is of held-out words, each predicted
from the other half of its test document. Settings are public numbers, and the plan decides the rest.
"""

import argparse
import inspect
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import short

#: Topics, and the settings of each corpus's fits.
CORPORA = {
    "articles": dict(n_components=50, doc_length=500, epsilon=1.0, n_steps=60),
    "sections": dict(n_components=50, doc_length=100, epsilon=1.0),
    "posts": dict(n_components=20, doc_length=60, epsilon=4.0),
    "kos": dict(n_components=20, doc_length=150, epsilon=4.0),
    "newswires": dict(n_components=20, doc_length=70, epsilon=2.0),
}
PAIRS = 5
#: Documents that articles are resampled to.
N_ARTICLES = 40_000


def corpus(name):
    """Training documents, the person of each or None, and test documents."""
    import numpy as np
    import scipy.sparse as sp
    from common import DATA
    from test_bench_lda import resample

    from vips_fast.data.readers import read_docword

    if name == "posts":
        from persons import people

        train, persons, test, *_ = people()
        return train, persons, test
    if name in ("newswires", "kos"):
        folder, part = ("reuters", "reuters") if name == "newswires" else ("kos_uci", "kos")
        counts = sp.csr_array(read_docword(DATA / "text" / folder / f"docword.{part}.txt.gz").counts)
        test, train = np.split(np.random.default_rng(0).permutation(counts.shape[0]), [counts.shape[0] // 10])
        train, test = counts[train], counts[test]
    else:
        suffix = "" if name == "articles" else "_sections"
        train, test = (sp.csr_array(sp.load_npz(DATA / "wiki" / f"{one}{suffix}.npz")) for one in ("train", "test"))
    if name == "articles":
        train = resample(train, N_ARTICLES, np.random.default_rng(0))
    return train, None, test


def serve(folder: str) -> None:
    """Answer each input line with a fit's processor seconds.

    Documents are read from `folder`, and the topics are written there, so that an older checkout needs no more than its
    estimator. Its names of epsilon and delta may be the older ones.
    """
    import numpy as np
    from scipy import sparse

    from vips_fast import LatentDirichletAllocation

    known = inspect.signature(LatentDirichletAllocation).parameters
    older = {} if "epsilon" in known else {"epsilon": "target_epsilon", "delta": "target_delta"}
    for line in sys.stdin:
        name, seed = json.loads(line)
        train, given = (sparse.load_npz(f"{folder}/{name}_{part}.npz") for part in ("train", "given"))
        persons = np.load(f"{folder}/{name}_persons.npy")
        settings = dict(CORPORA[name], delta=1e-6, random_state=seed, n_jobs=1)
        model = LatentDirichletAllocation(**{older.get(key, key): value for key, value in settings.items()})
        model.set_unsafe(test_key=bytes([seed]) * 32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model.fit(train, groups=persons if len(persons) else None)
            seconds = time.process_time() - start
        np.savez(f"{folder}/fit.npz", proportions=model.transform(given), topics=model.components_)
        print(seconds, flush=True)


def perplexity(folder, asked) -> float:
    """Perplexity of the last fit, by this checkout's function."""
    import numpy as np

    from vips_fast.report import predictive_perplexity

    with np.load(f"{folder}/fit.npz") as fit:
        return predictive_perplexity(fit["proportions"], fit["topics"], asked)


def compare(name, other, n_pairs, folder):
    """Processor seconds and perplexity of ours and of theirs, for each pair."""
    import numpy as np
    from scipy import sparse

    from vips_fast.report import split_words

    train, persons, test = corpus(name)
    given, asked = split_words(test, 0)
    for part, counts in (("train", train), ("given", given)):
        sparse.save_npz(f"{folder}/{name}_{part}.npz", sparse.csr_array(getattr(counts, "counts", counts)))
    np.save(f"{folder}/{name}_persons.npy", [] if persons is None else persons)
    both = [short.Served(python, __file__, folder) for python in (sys.executable, other)]
    pairs = [[(one.ask([name, seed]), perplexity(folder, asked)) for one in both] for seed in range(n_pairs)]
    for one in both:
        one.end()
    return pairs


def table(rows):
    """Print rows as Markdown."""
    lines = ["| fit | pairs | processor seconds, before, now | ratio | perplexity, before, now |", "|" + " --- |" * 5]
    for row in rows:
        seconds, perplexities = ([row[who][place] for who in ("other", "ours")] for place in (0, 1))
        lines.append(
            f"| {row['fit']} | {row['pairs']} | {seconds[0]:.2f}, {seconds[1]:.2f} | {row['ratio']:.2f} × "
            f"| {perplexities[0]:,.0f}, {perplexities[1]:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the other checkout's interpreter")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--table", type=Path, help="JSON file of rows, which the rows replace or join")
    args = parser.parse_args()
    for name in args.corpora:
        with tempfile.TemporaryDirectory() as folder:
            pairs = compare(name, args.other, args.pairs, folder)
        row = {"fit": name, "pairs": args.pairs}
        for place, who in enumerate(("ours", "other")):
            seconds, perplexities = zip(*(pair[place] for pair in pairs))
            row[who] = [round(statistics.median(seconds), 3), round(statistics.mean(perplexities), 1)]
        row["ratio"] = round(statistics.median(theirs[0] / ours[0] for ours, theirs in pairs), 3)
        print(table([row]), flush=True)
        if args.table is not None:
            import one_line  # not for the other checkout

            one_line.store(args.table, [row], ("fit",))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
