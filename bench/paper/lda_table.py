"""Private topics beside non-private ones: perplexity, coherence and overlap.

    python bench/paper/lda_table.py                 # simulated 400,000 documents, mean of 3 runs
    python bench/paper/lda_table.py --grid          # and a grid of settings around the plan
    python bench/paper/lda_table.py --sections      # the real 97,750 sections at epsilon = 2

Accounting: adding or removing one document, Poisson sampling, PLD, delta = 10^-4.
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp
from lda_common import DATA, K, Table, load, npmi, overlap, top_words, unigram_perplexity

from vips_fast import LatentDirichletAllocation

DELTA = 1e-4


def fit(X, jobs, seed, **options):
    """One fit and its seconds."""
    start = time.perf_counter()
    model = LatentDirichletAllocation(options.pop("K", K), n_jobs=jobs, random_state=seed, target_delta=DELTA, **options).fit(X)
    return model, time.perf_counter() - start


def row(table, name, X, Y, reference, jobs, runs, **options):
    """Mean over runs of one setting; returns the last model."""
    figures = []
    for seed in range(runs):
        model, seconds = fit(X, jobs, seed, **options)
        base = model.components_ if reference is None else reference
        figures.append(
            (model.perplexity(Y), npmi(top_words(model.components_), Y), overlap(model.components_, base), seconds)
        )
    mean = np.mean(figures, axis=0)
    spread = np.std(figures, axis=0)[0]
    table.add(name, options.get("target_epsilon", float("inf")), *map(float, (mean[0], spread, *mean[1:])))
    return model, float(mean[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[2.38, 1.0, 0.3])
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--sections", action="store_true")
    arguments = parser.parse_args()
    columns = ["setting", "epsilon", "perplexity", "sd", "NPMI", "overlap", "seconds"]
    if arguments.sections:
        X, Y = (sp.csr_array(sp.load_npz(DATA / f"{name}_sections.npz")) for name in ("train", "test"))
        Y = Y[:2000]
        epsilons, extra, name = [2.0], dict(doc_length=100), "lda_sections"
    else:
        X, Y, _ = load(arguments.records)
        epsilons, extra, name = arguments.epsilon, {}, "lda_table"
    table = Table(name, columns)
    table.add("unigram", float("inf"), unigram_perplexity(X, Y), 0.0, float("nan"), float("nan"), 0.0)
    size = dict(batch_size=min(100_000, X.shape[0]), n_steps=20, learning_decay=0.5)
    reference, best = None, np.inf
    for name, options in (
        ("non-private", size),
        ("  same, 40 steps", {**size, "n_steps": 40}),
    ):
        model, figure = row(table, name, X, Y, reference, arguments.jobs, 1 if "40" in name else arguments.runs, private=False, **extra, **options)
        if figure < best:
            best, reference = figure, model.components_
    for epsilon in epsilons:
        _, ours = row(table, "plan", X, Y, reference, arguments.jobs, arguments.runs, target_epsilon=epsilon, **extra)
        print(f"    {ours / best:.3f} x the best non-private perplexity", flush=True)
        row(table, "threshold", X, Y, reference, arguments.jobs, 1, target_epsilon=epsilon, readout="threshold", length_method="resample", clip=0.1, **extra)
        row(
            table, "paper's update", X, Y, reference, arguments.jobs, 1, target_epsilon=epsilon, update="paper",
            batch_size=X.shape[0] * 0.05, n_steps=20, **extra,
        )
        if arguments.grid:
            for share in (0.1, 0.25, 0.5):
                for clip in (0.03, 0.043, 0.06):
                    for decay in (0.5, 0.7):
                        row(
                            table, f"{share:g} {clip:g} {decay:g}", X, Y, reference, arguments.jobs, 1, target_epsilon=epsilon,
                            batch_size=share * X.shape[0], clip=clip, learning_decay=decay, **extra,
                        )


if __name__ == "__main__":
    main()
