"""Time whole private fits here and in another checkout, with their perplexity.

    python bench/fits.py ../other/.venv/bin/python
    python bench/fits.py ../other/.venv/bin/python --corpora kos newswires --pairs 3

Both interpreters fit in turn with the same seeds and the same noise, each in its own process. A ratio is their
processor seconds over ours, the median of the pairs. A perplexity is a mean: it is of held-out words, each predicted
from the other half of its test document. Settings are public numbers, and the plan decides the rest.
"""

import argparse
import json
import statistics
import sys
import time
import warnings

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
    from forecast import corpus as documents
    from test_bench_lda import resample

    if name == "posts":
        from persons import people

        train, persons, test, *_ = people()
        return train, persons, test
    train, _, test, _ = documents("blog entries" if name == "kos" else name)
    if name == "articles":
        train = resample(train, N_ARTICLES, np.random.default_rng(0))
    return train, None, test


def serve() -> None:
    """Answer each input line with a fit's processor seconds and perplexity."""
    from vips_fast import LatentDirichletAllocation
    from vips_fast.report import predictive_perplexity, split_words

    read = {}
    for line in sys.stdin:
        name, seed = json.loads(line)
        train, persons, test = read[name] if name in read else read.setdefault(name, corpus(name))
        given, asked = split_words(test, 0)
        model = LatentDirichletAllocation(**CORPORA[name], delta=1e-6, random_state=seed, n_jobs=1)
        model.set_unsafe(test_key=bytes([seed]) * 32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            model.fit(train, groups=persons)
            seconds = time.process_time() - start
        print(
            json.dumps([seconds, predictive_perplexity(model.transform(given), model.components_, asked)]), flush=True
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the other checkout's interpreter")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    args = parser.parse_args()
    print("| fit | ours, s | other, s | other / ours | perplexity | other's | change |\n" + "| --- " * 7 + "|")
    for name in args.corpora:
        both = [short.Served(python, __file__) for python in (sys.executable, args.other)]
        pairs = [[one.ask([name, seed]) for one in both] for seed in range(args.pairs)]
        for one in both:
            one.end()
        ours, theirs = (statistics.median(pair[i][0] for pair in pairs) for i in (0, 1))
        ratio = statistics.median(b[0] / a[0] for a, b in pairs)
        mine, other = (statistics.mean(pair[i][1] for pair in pairs) for i in (0, 1))
        print(
            f"| {name} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} | {mine:,.1f} | {other:,.1f} "
            f"| {100 * (mine / other - 1):+.2f} % |",
            flush=True,
        )


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
