"""Compare one fit with a search, at the same total epsilon.

The tables are in docs/private_search.md, and show where a private search pays.

    python bench/search.py topics reuters --epsilon 1 2 4 --runs 4 [--topics 5]
    python bench/search.py rows abalone --epsilon 1 2 4 --runs 12

*topics*: gain over word frequencies, as in bench/forecast.py, of a fit with a number of topics that somebody took, and
of a search among `TOPICS`. *rows*: logistic regression on Abalone or Adult, area under the curve of the test part of
random 80/20 splits, of the defaults and of a search among `ROW_NORMS`.

Prints Markdown: the means, and the mean difference with its standard error, over runs with noise, splits and candidates
of their own. delta = 10^-5; a logarithmic number of runs, 5 on average; a fifth is held out for the private score.
"""

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parent / "paper"))

from blr_table import load, split
from common import markdown
from forecast import LENGTHS, corpus

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, PrivateSearch
from vips_fast.models.lda import LdaOptions
from vips_fast.report import predictive_perplexity, split_words, unigram_perplexity

DELTA, MEAN_RUNS = 1e-5, 5
TOPICS, ROW_NORMS = (5, 10, 20, 50), (0.25, 0.5, 1.0, 2.0)


def best_of(estimator, candidates, *data):
    return PrivateSearch(estimator, candidates, mean_runs=MEAN_RUNS, shape=0).fit(*data).best_estimator_


def rows(options, epsilon, run):
    """Areas under the curve of the defaults and of a search."""
    from sklearn.metrics import roc_auc_score

    X, y = load(options.data)
    train, test = split(len(y), run)
    base = BayesianLogisticRegression(epsilon=epsilon, delta=DELTA, classes=[0, 1], n_jobs=1)
    found = best_of(base, {"row_norm": ROW_NORMS}, X[train], y[train])
    base.fit(X[train], y[train])
    return [float(roc_auc_score(y[test], model.decision_function(X[test]))) for model in (base, found)]


def topics(options, epsilon, run):
    """Compare the chosen number of topics and a search: gains.

    The documents are the same in all runs.
    """
    train, test = corpus(options.data)
    given, asked = split_words(test, run)
    base = LatentDirichletAllocation(
        options.topics,
        doc_length=LENGTHS[options.data],
        epsilon=epsilon,
        delta=DELTA,
        options=LdaOptions(distinct_words=float(np.median(np.diff(train.indptr)))),
    )
    found, plain = best_of(base, {"n_components": TOPICS}, train), unigram_perplexity(train, asked)
    base.fit(train)
    return [
        1 - predictive_perplexity(model.transform(given), model.components_, asked) / plain for model in (base, found)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rows", "topics"))
    parser.add_argument("data")
    parser.add_argument("--epsilon", type=float, nargs="+", default=(1.0, 2.0, 4.0))
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--topics", type=int, default=5)
    options = parser.parse_args()
    # The bench measures hopeless fits, and sums of epsilons of fits to the same data.
    warnings.simplefilter("ignore")
    table = []
    for epsilon in options.epsilon:
        found = []
        for run in range(options.runs):
            found.append({"rows": rows, "topics": topics}[options.what](options, epsilon, run))
            print(options.data, epsilon, run, *found[-1], file=sys.stderr, flush=True)
        means, gains = np.mean(found, axis=0), np.diff(found)[:, 0]
        error = gains.std(ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
        one_fit, searched = (f"{mean:.3f}" for mean in means)
        table.append([options.data, f"{epsilon:g}", one_fit, searched, f"{gains.mean():+.3f} ± {error:.3f}"])
    print(markdown(["data", "ε", "one fit", "search", "gain"], table))


if __name__ == "__main__":
    main()
